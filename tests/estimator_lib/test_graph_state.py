"""What layers and the engine share of a graph: marks, replicas, collections."""

import pathlib
import subprocess
import sys

import pytest
import tensorflow as tf

from estimator_lib import graph_state
from tests.estimator_lib.two_replicas import run_replicas

tf1 = tf.compat.v1
ROOT = pathlib.Path(__file__).resolve().parents[2]
ENGINE = ('checkpoints', 'distribution', 'function_loop', 'optimization')


def test_a_backbone_loads_no_middle_of_the_engine():
    code = 'import sys, model_fns.backbones.lenet; print(*sys.modules)'
    run = subprocess.run(
        [sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    modules = run.stdout.split()
    assert 'estimator_lib.graph_state' in modules
    forbidden = tuple(f'estimator_lib.{room}' for room in ENGINE)
    assert not [module for module in modules if module.startswith(forbidden)]


def test_a_graph_is_one_of_steps_where_it_is_marked():
    with tf.Graph().as_default():
        assert not graph_state.is_step_graph()
        graph_state.mark_step_graph()
        assert graph_state.is_step_graph()
    assert not graph_state.is_step_graph()


def test_a_graph_knows_the_worker_that_builds_it():
    with tf.Graph().as_default():
        assert graph_state.index_in_step() == 0
        graph_state.remember_worker(3)
        graph_state.remember_worker(2)
        assert graph_state.index_in_step() == 2
    with tf.Graph().as_default():
        assert graph_state.index_in_step() == 0


def test_replicas_are_counted_and_numbered():
    assert (graph_state.num_replicas(), graph_state.replica_index()) == (1, 0)

    def replica():
        graph_state.remember_worker(7)  # A strategy counts its own replicas.
        numbers = graph_state.num_replicas(), graph_state.replica_index()
        return {'numbers': tf.constant([*numbers, graph_state.index_in_step()])}

    first, second = run_replicas(replica)['numbers']
    assert first.tolist() == [2, 0, 0] and second.tolist() == [2, 1, 1]


def test_sums_over_replicas_have_the_gradients_of_all():
    def replica():
        index = tf.cast(graph_state.replica_index(), tf.float32)
        value = 1.0 + 2.0 * index  # 1 and 3
        total = graph_state.sum_over_replicas(value)
        mean = graph_state.reduce_over_replicas(value, tf.distribute.ReduceOp.MEAN)
        # Replica i adds (i + 1) * total to the loss, so each value counts 1 + 2 times.
        (gradient,) = tf.gradients((index + 1.0) * total, value)
        # One tensor that all replicas return would come back once.
        return {
            name: tf.identity(tensor)
            for name, tensor in {'total': total, 'mean': mean, 'gradient': gradient}.items()
        }

    assert run_replicas(replica) == {
        'total': (4.0, 4.0),
        'mean': (2.0, 2.0),
        'gradient': (3.0, 3.0),
    }


def test_a_regularization_loss_is_added_once_by_name():
    with tf.Graph().as_default(), tf1.Session() as session:
        for name, value in (('a', 1.0), ('b', 2.0), ('a', 5.0)):
            graph_state.add_regularization_loss(name, lambda value=value: tf.constant(value))
        losses = session.run(tf1.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES))
    assert losses == pytest.approx([1.0, 2.0])


def test_companions_are_known_by_kind_and_saved_with_the_graph():
    with tf.Graph().as_default() as graph:
        tf1.get_variable('x/min', [])
        assert graph_state.companions_by_kind(graph) == {}
        assert graph_state.companion_names(graph) == frozenset()
        graph_state.add_companion('x/min', 'ranges')
        graph_state.add_companion('x/min', 'ranges')  # By a second use of a layer.
        graph_state.add_companion('y', 'counts')
        assert graph_state.companions_by_kind(graph) == {'ranges': {'x/min'}, 'counts': {'y'}}
        assert graph_state.companion_names(graph) == {'x/min', 'y'}
        assert 'companions/ranges' in tf1.train.export_meta_graph().collection_def
