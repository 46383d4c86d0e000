from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib.checkpoints import initial_values

tf1 = tf.compat.v1


def variable(name, shape, value=0.0, **kwargs):
    return tf1.get_variable(name, shape, initializer=tf1.constant_initializer(value), **kwargs)


def save(path, values):
    """Writes arrays as a checkpoint, by name."""
    with tf.Graph().as_default(), tf1.Session() as session:
        variables = {
            name: tf1.Variable(value, name=f'v{index}')
            for index, (name, value) in enumerate(values.items())
        }
        session.run(tf1.global_variables_initializer())
        return tf1.train.Saver(variables).save(session, str(path))


def array(*shape, start=1.0):
    return np.arange(start, start + np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


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
