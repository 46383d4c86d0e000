"""Averages against TensorFlow's own, and what evaluation restores."""

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.optimization import moving_averages
from estimator_lib.optimization.moving_averages import MovingAverages
from protos import optimizer_pb2


def test_average_by_hand():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variable = tf.compat.v1.get_variable('a', initializer=1.0)
        with tf.control_dependencies([variable.assign_add(4.0)]):
            update = moving_averages.update([variable], 0.75)
        average = tf.compat.v1.global_variables()[-1]
        session.run(tf.compat.v1.global_variables_initializer())
        assert session.run(average) == 1.0
        session.run(update)  # The variable is 5: 1 + (5 - 1) / 4.
        assert session.run(average) == 2.0
        session.run(update)  # 9: 2 + (9 - 2) / 4.
        assert session.run(average) == 3.75


def test_the_average_of_a_statistic_is_of_the_replica_whose_value_is_saved():
    tf1 = tf.compat.v1
    with tf.Graph().as_default():
        strategy = tf.distribute.MirroredStrategy(['/device:CPU:0', '/device:CPU:1'])

        def replica():
            statistic = tf1.get_variable(
                'statistic',
                initializer=0.0,
                trainable=False,
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
            )
            index = tf.distribute.get_replica_context().replica_id_in_sync_group
            value = 2.0 + 10.0 * tf.cast(index, tf.float32)
            with tf.control_dependencies([statistic.assign(value)]):
                update = moving_averages.update([statistic], 0.75)
            # The same in both: the second replica gets the values of the first.
            return update, next(one for one in tf1.global_variables() if 'Average' in one.name)

        with strategy.scope():
            updates, averages = strategy.extended.call_for_each_replica(replica)
            updates = strategy.experimental_local_results(updates)
            averages = averages.values
            with tf1.Session(config=tf1.ConfigProto(device_count={'CPU': 2})) as session:
                session.run(tf1.global_variables_initializer())
                session.run(updates)
                assert session.run(list(averages)) == [0.5, 0.5]


def test_equals_tensorflow_in_values_and_names():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        with tf.compat.v1.variable_scope('net'):
            ours = tf.compat.v1.get_variable('ours', [5], initializer=tf.zeros_initializer())
            theirs = tf.compat.v1.get_variable('theirs', [5], initializer=tf.zeros_initializer())
        noise = tf.random.stateless_normal([5], tf.random.uniform([2], 0, 9999, tf.int32))
        moved = tf.group(ours.assign_add(noise), theirs.assign_add(noise))
        reference = tf.train.ExponentialMovingAverage(0.9)
        with tf.control_dependencies([moved]), tf.name_scope('step'):
            update = tf.group(moving_averages.update([ours], 0.9), reference.apply([theirs]))
        session.run(tf.compat.v1.global_variables_initializer())
        for _ in range(5):
            session.run(update)
        names = {v.op.name: v for v in tf.compat.v1.global_variables()}
        assert set(names) == {
            'net/ours',
            'net/ours/ExponentialMovingAverage',
            'net/theirs',
            'net/theirs/ExponentialMovingAverage',
        }
        assert moving_averages.average_name(theirs) == reference.average_name(theirs)
        np.testing.assert_allclose(
            session.run(names['net/ours/ExponentialMovingAverage']),
            session.run(reference.average(theirs)),
            rtol=1e-6,
            atol=1e-6,  # of a sum of values of about 1
        )


def test_average_is_not_trainable_and_stays_beside_its_variable():
    with tf.Graph().as_default():
        with tf.device('/job:ps/task:3'):
            variable = tf.compat.v1.get_variable('a', [1])
        moving_averages.update([variable], 0.9)
        assert tf.compat.v1.trainable_variables() == [variable]
        assert tf.compat.v1.global_variables()[-1].device == variable.device


def test_average_begins_at_restored_values(tmp_path):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.get_variable('a', initializer=[7.0, 8.0])
        session.run(tf.compat.v1.global_variables_initializer())
        path = tf.compat.v1.train.Saver().save(session, str(tmp_path / 'model.ckpt'))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variable = tf.compat.v1.get_variable('a', [2])
        tf.compat.v1.train.init_from_checkpoint(path, {'a': variable})
        moving_averages.update([variable], 0.9)
        session.run(tf.compat.v1.global_variables_initializer())
        assert session.run(tf.compat.v1.global_variables()[-1]).tolist() == [7.0, 8.0]


def test_random_start_is_the_variables_own():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variable = tf.compat.v1.get_variable('a', [100])
        moving_averages.update([variable], 0.9)
        session.run(tf.compat.v1.global_variables_initializer())
        values, average = session.run([variable, tf.compat.v1.global_variables()[-1]])
        assert np.ptp(values) > 0
        np.testing.assert_array_equal(values, average)


def save_averages(path, partitioner=None):
    """A checkpoint in which a's average is 2 and a is 5; b has no average."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.get_variable(
            'a', [4], initializer=tf.ones_initializer(), partitioner=partitioner
        )
        parts = tf.compat.v1.trainable_variables()
        tf.compat.v1.get_variable('b', initializer=3.0, trainable=False)
        with tf.control_dependencies([part.assign_add(tf.fill(part.shape, 4.0)) for part in parts]):
            update = moving_averages.update(parts, 0.75)
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(update)
        return tf.compat.v1.train.Saver().save(session, str(path / 'model.ckpt'))


@pytest.mark.parametrize(
    'partitioner', [None, tf.compat.v1.fixed_size_partitioner(2)], ids=['whole', 'parts']
)
def test_evaluation_restores_averages_and_the_rest_by_name(tmp_path, partitioner):
    path = save_averages(tmp_path, partitioner)
    names = [name for name, _ in tf.train.list_variables(path)]
    assert sorted(names) == ['a', 'a/ExponentialMovingAverage', 'b']
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        a = tf.compat.v1.get_variable('a', [4])
        b = tf.compat.v1.get_variable('b', [])
        restore = moving_averages.variables_to_restore([a, b], names)
        assert sorted(restore) == ['a/ExponentialMovingAverage', 'b']
        tf.compat.v1.train.Saver(restore).restore(session, path)
        assert session.run(a).tolist() == [2.0] * 4
        assert session.run(b) == 3.0


def test_a_checkpoint_without_averages_is_read_by_the_plain_names(caplog):
    with tf.Graph().as_default():
        a = tf.compat.v1.get_variable('a', [4])
        restore = moving_averages.variables_to_restore([a], ['a', 'b/ExponentialMovingAverage'])
    assert restore == {'a': a}
    assert 'no moving averages' in caplog.text


def test_few_ops_a_variable():
    def ops(number):
        with tf.Graph().as_default() as graph:
            variables = [tf.compat.v1.get_variable(f'v{i}', [2]) for i in range(number)]
            before = len(graph.get_operations())
            moving_averages.update(variables, 0.9)
            return len(graph.get_operations()) - before

    assert ops(20) - ops(10) <= 10 * 12


@pytest.mark.parametrize(
    'decay, expected',
    [
        # The decays are 2/11, 3/12 and 4/13, ...
        (0.9999, [18.0, 21.0, 21.0 + 9.0 / 13.0]),
        # ... and at most 0.25.
        (0.25, [18.0, 21.0, 21.75]),
    ],
)
def test_a_decay_that_grows_by_hand(decay, expected):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        step = tf.compat.v1.train.create_global_step()
        variable = tf.compat.v1.get_variable('a', initializer=0.0)
        with tf.control_dependencies([variable.assign(22.0), step.assign_add(1)]):
            update = moving_averages.update([variable], decay, step)
        average = tf.compat.v1.global_variables()[-1]
        session.run(tf.compat.v1.global_variables_initializer())
        for value in expected:
            session.run(update)
            assert session.run(average) == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize('of_model, moved', [(False, 1 - 0.9999**100), (True, 1.0)])
def test_how_far_100_steps_move_an_average(of_model, moved):
    """0.00995; and 1 less the product of (1 + n) / (10 + n), which is 2e-12."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        step = tf.compat.v1.train.create_global_step()
        variable = tf.compat.v1.get_variable('a', initializer=0.0)
        with tf.control_dependencies([variable.assign(1.0), step.assign_add(1)]):
            update = MovingAverages(0.9999, of_model).update([variable], step)
        session.run(tf.compat.v1.global_variables_initializer())
        for _ in range(100):
            session.run(update)
        assert session.run(tf.compat.v1.global_variables()[-1]) == pytest.approx(moved, rel=1e-3)


def test_what_a_config_asks_for():
    def averages(text, of_model=False):
        config = text_format.Parse(text, optimizer_pb2.Optimizer())
        return MovingAverages.from_config(config, of_model)

    assert averages('') == MovingAverages(pytest.approx(0.9999), of_model=False)
    assert averages('', of_model=True).of_model
    assert averages('moving_averages: MODEL_VARIABLES').of_model
    assert not averages('moving_averages: TRAINED_VARIABLES', of_model=True).of_model
    assert averages('use_moving_average: false') is None
    with pytest.raises(errors.ConfigError, match='moving_average_decay: 1; expected'):
        averages('moving_average_decay: 1')
