"""TF-Slim's helpers for variables and gradients."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.slim_compat import variables as slim

tf1 = tf.compat.v1


@pytest.fixture(name='graph')
def _graph():
    with tf.Graph().as_default() as graph:
        for name in ('Net/conv/w', 'Net/Logits/w', 'Other/w', 'global_step'):
            tf1.get_variable(name, initializer=[1.0, 2.0])
        yield graph


@pytest.fixture(name='path')
def _path(tmp_path):
    """A checkpoint of [5, 6] as `Net/conv/w` and [[7, 8]] as `Old/w`."""
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.get_variable('Net/conv/w', initializer=[5.0, 6.0])
        tf1.get_variable('Old/w', initializer=[[7.0, 8.0]])
        session.run(tf1.global_variables_initializer())
        return tf1.train.Saver().save(session, str(tmp_path / 'model'))


def names(variables):
    return [one.op.name for one in variables]


def test_variables_of_scopes(graph):
    everything = ['Net/conv/w', 'Net/Logits/w', 'Other/w', 'global_step']
    assert names(slim.get_variables_to_restore()) == everything
    assert names(slim.get_variables_to_restore(['Net', 'Other'], ['Net/Log'])) == [
        'Net/conv/w',
        'Other/w',
    ]
    assert slim.get_variables_to_restore(['et/']) == []
    with pytest.raises(TypeError, match="include is 'Net'"):
        slim.get_variables_to_restore('Net')


def test_variables_by_scope_and_end_of_name(graph):
    conv, logits, other, _ = tf1.global_variables()
    assert slim.get_variables('Net') == [conv, logits]
    assert slim.get_variables(conv) == [conv]
    assert slim.get_variables(suffix='w') == [conv, logits, other]
    assert slim.get_variables('Net/L', 'w') == [logits]
    assert slim.get_variables(suffix='step', collection='EMPTY') == []
    assert slim.get_model_variables() == []
    tf1.add_to_collection(tf1.GraphKeys.MODEL_VARIABLES, logits)
    assert slim.get_model_variables('Net', 'w') == [logits]
    assert slim.get_unique_variable('Net/conv/w') is conv
    with pytest.raises(ValueError, match="did you mean 'Net/conv/w'"):
        slim.get_unique_variable('Net/con/w')


def test_values_of_a_program_are_assigned(graph):
    update, feeds = slim.assign_from_values({'Net/conv/w': np.array([[3.0], [4.0]], np.float32)})
    begin = slim.assign_from_values_fn({'Other/w': np.array([7.0, 8.0], np.float32)})
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        session.run(update, feeds)
        begin(session)
        values = session.run(tf1.global_variables()[:3])
    assert [each.tolist() for each in values] == [[3, 4], [1, 2], [7, 8]]
    with pytest.raises(ValueError, match=r'Net/conv/w has the shape \[2\].* have \[3\]'):
        slim.assign_from_values({'Net/conv/w': np.zeros(3)})


def test_values_of_a_checkpoint_are_fed(graph, path):
    """The two parts of `Old/w`, [[7, 8]], are its columns."""
    conv, logits, _, _ = tf1.global_variables()
    with tf1.variable_scope('', partitioner=tf1.fixed_size_partitioner(2, axis=1)):
        parts = list(tf1.get_variable('Old/w', [1, 2]))
    assigned = [
        slim.assign_from_checkpoint(path, [conv, logits], ignore_missing_vars=True),
        slim.assign_from_checkpoint(path, parts),
        slim.assign_from_checkpoint(path, {'Net/conv/w': logits}),
    ]
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        for update, feeds in assigned:
            session.run(update, feeds)
        assert [each.tolist() for each in session.run([conv, logits, *parts])] == [
            [5, 6],
            [5, 6],
            [[7]],
            [[8]],
        ]
    with pytest.raises(errors.CheckpointError, match='lacks .*Net/Logits/w'):
        slim.assign_from_checkpoint(path, [logits])


def test_values_are_assigned(graph, path):
    conv, _, other, _ = tf1.global_variables()
    one = slim.assign_from_checkpoint_fn(path, [conv])
    two = slim.assign_from_checkpoint_fn(path, {'Old/w': other}, reshape_variables=True)
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        one(session)
        two(session)
        assert session.run([conv, other])[0].tolist() == [5, 6]
        assert session.run(other).tolist() == [7, 8]


def test_what_is_missing(graph, path):
    conv, logits, *_ = tf1.global_variables()
    with pytest.raises(errors.CheckpointError, match='lacks .*Net/Logits/w.* expected all 2'):
        slim.assign_from_checkpoint_fn(path, [conv, logits])
    function = slim.assign_from_checkpoint_fn(path, [conv, logits], ignore_missing_vars=True)
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        function(session)
        assert [one.tolist() for one in session.run([conv, logits])] == [[5, 6], [1, 2]]
    assert slim.assign_from_checkpoint_fn(path, [logits], ignore_missing_vars=True) is None
    with pytest.raises(ValueError, match='var_list is empty'):
        slim.assign_from_checkpoint_fn(path, [])


def test_summaries_of_gradients(graph):
    conv, logits, other, _ = tf1.global_variables()
    rows = tf.IndexedSlices(tf.constant([[3.0, 4.0]]), tf.constant([0]))
    summaries = slim.add_gradients_summaries(
        [(tf.constant([6.0, 8.0]), conv), (None, logits), (rows, other)]
    )
    found = {}
    with tf1.Session() as session:
        for text in session.run(summaries):
            (value,) = tf1.Summary.FromString(text).value
            is_scalar = value.HasField('simple_value')
            found[value.tag] = value.simple_value if is_scalar else [value.histo.max]
    assert found == {
        'Net/conv/w/gradient': [8.0],
        'Net/conv/w/gradient_norm': 10.0,
        'Other/w/gradient': [4.0],
        'Other/w/gradient_norm': 5.0,
    }
