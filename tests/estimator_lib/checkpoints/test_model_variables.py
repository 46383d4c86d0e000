"""Which variables of a graph are the model's."""

import pytest
import tensorflow as tf

from estimator_lib import graph_state
from estimator_lib.checkpoints import model_variables

tf1 = tf.compat.v1


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def names(variables):
    return [one.op.name for one in variables]


def test_what_a_forward_pass_creates_is_the_model(graph):
    tf1.get_variable('before', [])
    with model_variables.collected():
        tf1.get_variable('plain', [])
        known = [tf1.GraphKeys.GLOBAL_VARIABLES, tf1.GraphKeys.MODEL_VARIABLES]
        tf1.get_variable('known', [], collections=known)
        tf1.get_variable('count', [], collections=[tf1.GraphKeys.LOCAL_VARIABLES])
        tf1.train.create_global_step()
        tf1.get_variable('range', [])
        graph_state.add_companion('range', 'ranges')
    tf1.get_variable('after', [])
    found = names(graph.get_collection(tf1.GraphKeys.MODEL_VARIABLES))
    assert sorted(found) == ['known', 'plain']
    assert names(model_variables.restorable(graph)) == [
        'before',
        'plain',
        'known',
        'range',
        'after',
    ]


def test_companions_come_after_the_model(graph):
    own = [tf1.GraphKeys.GLOBAL_VARIABLES, tf1.GraphKeys.MODEL_VARIABLES]
    beside = tf1.get_variable('x/min', [])
    model = tf1.get_variable('weights', [2], collections=own)
    tf1.get_variable('slot', [])
    assert model_variables.with_companions(graph) == [model]
    graph_state.add_companion('x/min', 'ranges')
    assert model_variables.with_companions(graph) == [model, beside]


def test_a_checkpoint_tells_the_model_by_the_graph_beside_it(graph, tmp_path):
    with model_variables.collected():
        tf1.get_variable('w', [2])
        tf1.get_variable('parts', [4], partitioner=tf1.fixed_size_partitioner(2))
    tf1.get_variable('counter', [])
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        saver = tf1.train.Saver()
        prefix = saver.save(session, str(tmp_path / 'a'))
        bare = saver.save(session, str(tmp_path / 'b'), write_meta_graph=False)
    assert model_variables.saved_names(prefix, frozenset()) == {'w', 'parts'}
    assert model_variables.saved_names(bare, frozenset({'x'})) == {'x'}


def test_a_graph_without_the_collection_tells_nothing(graph, tmp_path):
    tf1.get_variable('w', [2])
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        prefix = tf1.train.Saver().save(session, str(tmp_path / 'a'))
    assert model_variables.saved_names(prefix, frozenset({'w'})) == {'w'}
