"""Variables on parameter servers: balanced by bytes, large ones in parts."""

import math

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator_lib.checkpoints import restore_report
from estimator_lib.distribution import Cluster, Mode, Plan, placement
from estimator_lib.optimization import gradients, partitioned, trained_variables
from model_fns.layers import weights

tf1 = tf.compat.v1

ADDRESSES = {
    'chief': ('a:1',),
    'worker': ('b:1', 'c:1'),
    'ps': ('d:1', 'e:1'),
    'evaluator': ('f:1',),
}


def task(role='worker', index=1):
    return Cluster(ADDRESSES, role, index)


def servers_of(variables):
    return [tf.DeviceSpec.from_string(variable.device).task for variable in variables]


def variable(name, size):
    return tf1.get_variable(name, [size], initializer=tf1.zeros_initializer(), use_resource=True)


def test_the_server_with_the_fewest_bytes_is_next():
    device_fn = placement.device_fn(task())
    for _ in range(2):  # each graph has its own count
        with tf.Graph().as_default(), tf1.device(device_fn):
            made = [variable(f'v{index}', size) for index, size in enumerate([10, 3, 4, 2, 1])]
            product = made[0] * 2.0
            assert servers_of(made) == [0, 1, 1, 1, 1]
            assert {tf.DeviceSpec.from_string(one.device).job for one in made} == {'ps'}
            assert product.device == '/job:worker/task:1'


def test_slots_are_beside_their_variables_and_count():
    with tf.Graph().as_default(), tf1.device(placement.device_fn(task('chief', 0))):
        first, second = variable('a', 4), variable('b', 3)
        optimizer = tf1.train.MomentumOptimizer(0.1, 0.9)
        optimizer.minimize(tf.reduce_sum(first))
        assert servers_of([first, second, optimizer.get_slot(first, 'momentum')]) == [0, 1, 0]
        third = variable('c', 100)
        assert servers_of([third]) == [1]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 1000), min_size=1, max_size=30))
def test_no_server_has_more_than_its_share_and_one_variable(sizes):
    with tf.Graph().as_default(), tf1.device(placement.device_fn(task())):
        made = [variable(f'v{index}', size) for index, size in enumerate(sizes)]
        loads = [0, 0]
        for server, size in zip(servers_of(made), sizes):
            loads[server] += size
    assert max(loads) <= sum(sizes) / 2 + max(sizes)


@pytest.mark.parametrize(
    ('role', 'index', 'expected'),
    [
        ('chief', 0, ['/job:ps', '/job:chief']),
        ('worker', 1, ['/job:ps', '/job:worker/task:1']),
    ],
)
def test_a_worker_sees_the_servers_and_itself(role, index, expected):
    assert placement.device_filters(task(role, index)) == expected


@pytest.mark.parametrize(
    ('shape', 'over', 'expected'),
    [
        ([3, 3, 8, 64], 0, [1, 1, 1, 2]),
        ([3, 3, 8, 64], 3 * 3 * 8 * 64 * 4, [1, 1, 1, 2]),
        ([3, 3, 8, 64], 3 * 3 * 8 * 64 * 4 + 1, [1, 1, 1, 1]),
        ([100, 4], 1, [2, 1]),
        ([1], 1, [1]),
        ([], 1, []),
    ],
)
def test_parts(shape, over, expected):
    assert placement.count_parts(shape, 4, servers=2, over_bytes=over) == expected


@pytest.fixture(scope='module')
def in_parts():
    """Initial values and a checkpoint of a variable in parts, and of the same one whole."""

    def build():
        with tf1.variable_scope('layer'):
            initializer = weights.Initializer('normal', 1.0, fan='in')
            large = weights.variable('weights', [3, 10], initializer, weights.l2(1.0))
            weights.variable('biases', [10], weights.ONES)
            return tf.convert_to_tensor(large)

    plan = Plan(
        Mode.ASYNC_PARAMETER_SERVERS, Cluster(ADDRESSES, 'chief', 0), partition_over_bytes=100
    )
    return build, plan


@pytest.fixture(scope='module')
def target():
    """The address of the task that the plan is of."""
    spec = tf.train.ClusterSpec({'chief': ['localhost:0']})
    return tf.distribute.Server(spec, job_name='chief', task_index=0).target


def test_a_variable_in_parts_begins_as_the_whole_one(in_parts, target):
    build, plan = in_parts
    found = []
    for partition in (False, True):
        with tf.Graph().as_default() as graph, tf1.Session(target) as session:
            graph.seed = 5
            with placement.variable_scope(plan if partition else Plan(Mode.ONE_DEVICE)):
                value = build()
            penalties = tf1.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)
            names = [variable.op.name for variable in tf1.global_variables()]
            session.run(tf1.global_variables_initializer())
            found.append((session.run([value, *penalties]), names))
    (whole, penalty), names = found[0]
    (parts, penalty_of_parts), names_of_parts = found[1]
    assert (whole == parts).all() and penalty == pytest.approx(penalty_of_parts)
    assert names == ['layer/weights', 'layer/biases']
    assert names_of_parts == ['layer/weights/part_0', 'layer/weights/part_1', 'layer/biases']


def test_checkpoints_know_parts_as_one(in_parts, target, tmp_path):
    build, plan = in_parts
    with tf.Graph().as_default(), tf1.Session(target) as session, placement.variable_scope(plan):
        build()
        session.run(tf1.global_variables_initializer())
        path = tf1.train.Saver().save(session, str(tmp_path / 'model'))
        variables = partitioned.whole(tf1.global_variables())
        first, second = variables[0].parts
        value = session.run(second)
    assert [variable.op.name for variable in variables] == ['layer/weights', 'layer/biases']
    shapes = tf.train.load_checkpoint(path).get_variable_to_shape_map()
    assert shapes == {'layer/weights': [3, 10], 'layer/biases': [10]}
    report = restore_report.match(shapes, {one.op.name: one for one in variables})
    assert report.is_complete and math.prod(variables[0].shape) == 30
    assert variables[0].dtype.base_dtype == tf.float32
    saved = tf.train.load_checkpoint(path).get_tensor('layer/weights')
    assert (partitioned.take_slice(saved, second) == value).all()
    assert partitioned.take_slice(saved, first).shape == (3, 5)


def test_patterns_match_the_name_of_the_whole(in_parts, target):
    build, plan = in_parts
    with tf.Graph().as_default(), tf1.Session(target) as session, placement.variable_scope(plan):
        loss = tf.reduce_sum(build())
        trained = trained_variables.select(
            tf1.trainable_variables(), update_patterns=['weights$'], freeze_patterns=['biases$']
        )
        factors = gradients.multipliers(trained, pattern_multipliers=[('weights$', 3.0)])
        pairs = gradients.compute(loss, trained, tf1.train.GradientDescentOptimizer(1.0))
        session.run(tf1.global_variables_initializer())
        first, second = session.run([one for one, _ in gradients.multiply(pairs, factors)])
    assert [one.op.name for one in trained] == ['layer/weights/part_0', 'layer/weights/part_1']
    assert (first == 3.0).all() and (second == 3.0).all()
    assert factors == {'layer/weights': 3.0}
