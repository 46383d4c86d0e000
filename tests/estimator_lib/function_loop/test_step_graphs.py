"""Graphs of steps as functions: counters whose every value is known."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import graph_state
from estimator_lib.function_loop import step_graphs

tf1 = tf.compat.v1


@pytest.fixture(scope='module')
def counting():
    """A step that adds 2 to a counter; its function, the counter and tensors of the graph."""

    def build():
        counter = tf1.get_variable('scope/counter', [], initializer=tf1.zeros_initializer())
        before = counter.read_value()
        with tf.control_dependencies([before]):
            train_op = counter.assign_add(2.0).op
        ragged = tf.fill([tf.cast(before, tf.int32)], 'x')
        # What nobody asks for does not run.
        counter.assign_add(1000.0)
        return {
            'counter': counter,
            'before': before,
            'ragged': ragged,
            'square': before * before,
            'train_op': train_op,
            'is_step_graph': graph_state.is_step_graph(),
            'seed': tf1.get_default_graph().seed,
            'variables': tf1.global_variables(),
        }

    return step_graphs.trace(build, seed=5)


def test_a_graph_has_collections_and_seed_and_eager_variables(counting):
    _, made = counting
    assert made['is_step_graph'] and not graph_state.is_step_graph()
    assert made['seed'] == 5
    assert made['variables'] == [made['counter']]
    assert made['counter'].name == 'scope/counter:0'
    assert made['counter'].numpy() >= 0.0
    assert not tf1.global_variables()


def test_steps_run_one_after_the_other(counting):
    function, made = counting
    made['counter'].assign(0.0)
    each, last = [made['before'], made['ragged']], [made['square']]
    steps = step_graphs.Steps(function, made['train_op'], each, last)
    (before, ragged), (square,) = steps(3)
    np.testing.assert_array_equal(before, [0.0, 2.0, 4.0])
    assert [list(one) for one in ragged] == [[], [b'x'] * 2, [b'x'] * 4]
    assert square == 16.0
    (before, _), (square,) = steps(1)
    np.testing.assert_array_equal(before, [6.0])
    assert square == 36.0
    assert made['counter'].numpy() == 8.0


def test_steps_need_not_be_watched(counting):
    function, made = counting
    made['counter'].assign(0.0)
    assert step_graphs.Steps(function, made['train_op'], [], [])(4) == ([], [])
    assert made['counter'].numpy() == 8.0


def test_the_variables_of_a_strategy_are_in_their_collections_once():
    keys = tf1.GraphKeys
    found = {}

    def build():
        weight = tf1.get_variable('once/weight', [2])
        tf1.get_variable('once/counter', [], trainable=False, collections=[keys.LOCAL_VARIABLES])
        with tf.init_scope():  # where optimizers create their slots
            tf1.get_variable('once/slot', [2], trainable=False)
        for key in (keys.GLOBAL_VARIABLES, keys.TRAINABLE_VARIABLES, keys.LOCAL_VARIABLES):
            found[key] = tf1.get_collection(key)
        return weight

    strategy = tf.distribute.MirroredStrategy(['/device:CPU:0'])
    _, weight = step_graphs.trace(build, 0, strategy)
    assert isinstance(weight, tf.distribute.DistributedValues)
    names = {key: [variable.name for variable in variables] for key, variables in found.items()}
    assert names == {
        keys.GLOBAL_VARIABLES: ['once/weight:0', 'once/slot:0'],
        keys.TRAINABLE_VARIABLES: ['once/weight:0'],
        keys.LOCAL_VARIABLES: ['once/counter:0'],
    }
    assert found[keys.TRAINABLE_VARIABLES][0] is weight
