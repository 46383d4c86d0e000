from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from estimator_lib import errors
from estimator_lib.export import freezing, saved_model_file

tf1 = tf.compat.v1


def frozen_sum():
    """y = x + [a, b, c] with 40,000 numbers of a row: lengths of one to three bytes."""
    with tf.Graph().as_default(), tf1.Session() as session:
        inputs = tf1.placeholder(tf.float32, [None, 40_000], 'x')
        values = np.arange(40_000, dtype=np.float32)
        weights = tf1.get_variable('weights', initializer=values)
        outputs = tf.identity(inputs + weights, 'y')
        session.run(tf1.global_variables_initializer())
        signature = tf1.saved_model.predict_signature_def({'x': inputs}, {'y': outputs})
        return freezing.freeze(session, [outputs]), signature, values


def test_the_bytes_are_those_that_protocol_buffers_write(tmp_path):
    frozen, signature, _ = frozen_sum()
    path = tmp_path / 'saved_model.pb'
    saved_model_file.write(str(path), frozen, {'serving_default': signature, 'again': signature})
    content = path.read_bytes()
    read = saved_model_pb2.SavedModel.FromString(content)
    assert content == read.SerializeToString(deterministic=True)
    assert read.saved_model_schema_version == 1
    (meta_graph,) = read.meta_graphs
    assert meta_graph.graph_def == frozen.to_graph_def()
    assert [list(meta_graph.meta_info_def.tags), sorted(meta_graph.signature_def)] == [
        ['serve'],
        ['again', 'serving_default'],
    ]
    assert meta_graph.meta_info_def.tensorflow_version == tf.__version__
    ops = {one.name for one in meta_graph.meta_info_def.stripped_op_list.op}
    assert ops == {'Placeholder', 'Const', 'Identity', 'AddV2'}


def test_both_loaders_of_tensorflow_read_it(tmp_path):
    frozen, signature, values = frozen_sum()
    path = str(tmp_path / 'saved_model.pb')
    saved_model_file.write(path, frozen, {'serving_default': signature})
    inputs = np.ones([2, 40_000], np.float32)
    function = tf.saved_model.load(str(tmp_path)).signatures['serving_default']
    np.testing.assert_array_equal(function(x=tf.constant(inputs))['y'], inputs + values)
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.saved_model.load(session, ['serve'], str(tmp_path))
        np.testing.assert_array_equal(session.run('y:0', {'x:0': inputs}), inputs + values)


def test_what_no_file_can_hold_is_refused_before_it_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(saved_model_file, 'MAX_BYTES', 160_000)
    frozen, signature, _ = frozen_sum()
    path = tmp_path / 'saved_model.pb'
    with pytest.raises(errors.UserError, match=r'takes 16\d{4} bytes.* at most 160000'):
        saved_model_file.write(str(path), frozen, {'serving_default': signature})
    assert not path.exists()
