from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.checkpoints import initial_values
from tests.estimator_lib.checkpoints.small_variables import array, variable
from tests.estimator_lib.tiny_task import save

tf1 = tf.compat.v1


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def test_values_are_fed_in_portions(graph, tmp_path):
    values = {f'v{index}': array(100, start=index) for index in range(7)}
    prefix = save(tmp_path / 'model.ckpt', values)
    variables = {name: variable(name, [100]) for name in values}
    with tf1.Session() as session:
        initial_values.load_values(session, prefix, variables, max_bytes=900)
        for name, value in values.items():
            np.testing.assert_array_equal(session.run(variables[name]), value)


def test_strings_in_place_of_numbers_are_refused(graph, tmp_path):
    prefix = save(tmp_path / 'model.ckpt', {'a': np.array([b'x', b'y']), 'b': np.array([3, 4])})
    a, b = variable('a', [2]), variable('b', [2])
    with tf1.Session() as session:
        with pytest.raises(errors.CheckpointError) as caught:
            initial_values.load_values(session, prefix, {'a': a})
        expected = f'{prefix} holds a as string; expected float32, the type of the variable.'
        assert str(caught.value) == expected
        initial_values.load_values(session, prefix, {'b': b})  # whole numbers become others
        np.testing.assert_array_equal(session.run(b), [3, 4])


def test_variables_that_share_an_initial_value(graph, tmp_path):
    prefix = save(tmp_path / 'model.ckpt', {'a': array(2), 'b': array(2, start=5)})
    start = tf.zeros([2])
    a, b = tf1.Variable(start, name='a'), tf1.Variable(start, name='b')
    with tf1.Session() as session:
        initial_values.load_values(session, prefix, {'a': a, 'b': b})
        np.testing.assert_array_equal(session.run(a), [1, 2])
        np.testing.assert_array_equal(session.run(b), [5, 6])


def test_variables_without_resources(graph, tmp_path):
    prefix = save(tmp_path / 'model.ckpt', {'a': array(2)})
    a = variable('a', [2], use_resource=False)
    with tf1.Session() as session:
        initial_values.load_values(session, prefix, {'a': a})
        np.testing.assert_array_equal(session.run(a), [1, 2])


def test_moving_averages_are_set_when_asked(graph, tmp_path):
    prefix = save(tmp_path / 'model.ckpt', {'a': array(2)})
    a = variable('a', [2])
    average = tf.train.ExponentialMovingAverage(0.9)
    average.apply([a])
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        initial_values.load_values(session, prefix, {'a': a})
        np.testing.assert_array_equal(session.run(average.average(a)), [0, 0])
        initial_values.load_values(session, prefix, {'a': a}, with_moving_averages=True)
        np.testing.assert_array_equal(session.run(average.average(a)), [1, 2])


def test_what_the_init_op_is_fed(graph, tmp_path):
    prefix = save(tmp_path / 'model.ckpt', {'a': array(2), 'b': array(3)})
    a, b = variable('a', [2]), variable('b', [3])
    variable('c', [1], 4)
    feed = initial_values.init_feed_dict(prefix, {'a': a, 'b': b})
    assert len(feed) == 2
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer(), feed)
        for value, expected in zip(session.run(tf1.global_variables()), ([1, 2], [1, 2, 3], [4])):
            np.testing.assert_array_equal(value, expected)


def test_the_init_op_is_fed_nothing_that_another_variable_starts_from(graph, tmp_path):
    prefix = save(tmp_path / 'model.ckpt', {'a': array(2)})
    start = tf.zeros([2])
    a, _ = tf1.Variable(start, name='a'), tf1.Variable(start, name='b')
    assert initial_values.init_feed_dict(prefix, {'a': a}) == {}


def test_an_average_that_starts_from_the_same_tensor_is_no_other_variable(graph, tmp_path):
    prefix = save(tmp_path / 'model.ckpt', {'a': array(2)})
    start = tf.zeros([2])
    a = tf1.Variable(start, name='a')
    average = tf1.Variable(start, name='a/ExponentialMovingAverage')
    feed = initial_values.init_feed_dict(prefix, {'a': a})
    assert len(feed) == 1
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer(), feed)
        np.testing.assert_array_equal(session.run([a, average]), [[1, 2], [1, 2]])


def test_the_init_op_is_fed_no_more_than_one_run_takes(graph, tmp_path, monkeypatch):
    prefix = save(tmp_path / 'model.ckpt', {'a': array(2)})
    monkeypatch.setattr(initial_values, 'MAX_FED_BYTES', 4)
    assert initial_values.init_feed_dict(prefix, {'a': variable('a', [2])}) == {}


def test_no_variable_is_no_run(graph, tmp_path):
    prefix = save(tmp_path / 'model.ckpt', {'a': array(2)})
    with tf1.Session() as session:
        initial_values.load_values(session, prefix, {})


def largest_constant(feed):
    """Return the size of the largest constant in the init op's graph that a session keeps."""
    metadata = tf1.RunMetadata()
    with tf1.Session() as session:
        options = tf1.RunOptions(output_partition_graphs=True)
        session.run(tf1.global_variables_initializer(), feed, options, metadata)
        values = session.run(tf1.global_variables())
    nodes = [node for part in metadata.partition_graphs for node in part.node]
    constants = [node.attr['value'].tensor for node in nodes if node.op == 'Const']
    shapes = [[side.size for side in one.tensor_shape.dim] for one in constants]
    names = [variable.op.name for variable in tf1.global_variables()]
    return max(int(np.prod(shape)) for shape in shapes), dict(zip(names, values))


def test_tensors_of_one_number_are_fed_and_not_held(graph):
    weights = tf1.get_variable('weights', [50, 60], initializer=tf1.glorot_uniform_initializer())
    optimizer = tf1.train.RMSPropOptimizer(0.5, decay=0.9, momentum=0.8)
    optimizer.apply_gradients([(tf.ones([50, 60]), weights)])
    variable('small', [3])
    variable('a', [4], [1.0, 2.0, 3.0, 4.0])
    fed = initial_values.unfolded_feed_dict()
    assert {tensor.op.name: float(value) for tensor, value in fed.items()} == {
        'weights/RMSProp/Initializer/ones/Const': 1.0,
        'weights/RMSProp_1/Initializer/zeros/Const': 0.0,
    }
    assert largest_constant({})[0] == 3000
    largest, values = largest_constant(fed)
    assert largest == 4
    np.testing.assert_array_equal(values['weights/RMSProp'], np.ones([50, 60]))
    np.testing.assert_array_equal(values['weights/RMSProp_1'], np.zeros([50, 60]))
    assert values['weights'].std() > 0
    np.testing.assert_array_equal(values['small'], [0, 0, 0])
    np.testing.assert_array_equal(values['a'], [1, 2, 3, 4])


def test_numbers_drawn_by_a_constant_seed_are_the_same_and_not_held(graph):
    def drawn(seed):
        normal = tf.raw_ops.StatelessTruncatedNormal(shape=[50, 60], seed=seed)
        return normal * 0.5 + 1.0

    tf1.get_variable('first', initializer=drawn([1, 2]))
    tf1.get_variable('second', initializer=lambda: drawn([3, 4]))
    tf1.get_variable('seedless', [5], initializer=tf1.glorot_uniform_initializer())
    fed = initial_values.unfolded_feed_dict()
    assert sorted(list(value) for value in fed.values()) == [[1, 2], [3, 4]]
    held, expected = largest_constant({})
    assert held == 3000
    largest, values = largest_constant(fed)
    assert largest == 2  # a shape, or a seed
    for name in ('first', 'second'):
        np.testing.assert_array_equal(values[name], expected[name])
    assert (values['first'] != values['second']).any()
