"""Artifacts of each kind, and files that are none."""

import zipfile

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from tests.vision_extras.recover.artifacts import test_graphs, tiny_tflite
from vision_extras.recover.artifacts import reading

tf1 = tf.compat.v1


def write(path, content):
    path.write_bytes(content)
    return str(path)


def test_frozen_graph_without_the_prefix_of_its_scopes(tmp_path):
    path = write(tmp_path / 'a.pb', test_graphs.build('import').SerializeToString())
    artifact = reading.read(path, ['net'])
    assert artifact.kind == reading.FROZEN_GRAPH
    assert artifact.arrays['net/weights'].shape == (3, 3, 3, 2)


def test_checkpoint_without_the_variables_of_training(tmp_path):
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.get_variable('net/weights', initializer=np.ones([2, 3], np.float32))
        tf1.get_variable('net/weights/Momentum', initializer=np.ones([2, 3], np.float32))
        tf1.train.create_global_step()
        session.run(tf1.global_variables_initializer())
        prefix = tf1.train.Saver().save(session, str(tmp_path / 'model.ckpt'), 7)
    for path in (prefix, str(tmp_path), f'{prefix}.index'):
        artifact = reading.read(path)
        assert artifact.kind == reading.CHECKPOINT
        assert list(artifact.arrays) == ['net/weights']


def test_saved_model_has_constants_and_outputs(tmp_path):
    folder = str(tmp_path / 'saved')
    with tf.Graph().as_default(), tf1.Session() as session:
        images = tf1.placeholder(tf.uint8, [None, 4, 4, 3], name='images')
        weights = tf1.get_variable('net/weights', initializer=np.ones([3, 2], np.float32))
        logits = tf.tensordot(tf.reduce_mean(tf.cast(images, tf.float32), [1, 2]), weights, 1)
        session.run(tf1.global_variables_initializer())
        tf1.saved_model.simple_save(session, folder, {'inputs': images}, {'logits': logits})
    artifact = reading.read(folder)
    assert artifact.kind == reading.SAVED_MODEL
    assert artifact.arrays['net/weights'].shape == (3, 2)
    assert set(artifact.outputs) == {'logits'}


@pytest.mark.parametrize('name', ['saved', 'saved[1]'])
def test_saved_model_of_a_function_has_constants(tmp_path, name):
    module = tf.Module()
    module.weights = tf.Variable(np.full([3, 2], 2.0, np.float32))

    @tf.function(input_signature=[tf.TensorSpec([None, 4, 4, 3], tf.uint8)])
    def serve(images):
        pixels = tf.reduce_mean(tf.cast(images, tf.float32), [1, 2])
        return {'logits': tf.matmul(pixels, module.weights)}

    tf.saved_model.save(module, str(tmp_path / 'saved'), signatures=serve)
    (tmp_path / 'saved').rename(tmp_path / name)
    artifact = reading.read(str(tmp_path / name / 'saved_model.pb'))
    assert any(value.shape == (3, 2) for value in artifact.arrays.values())
    assert set(artifact.outputs) == {'logits'}


def test_tflite_file_has_the_names_of_its_layers(tmp_path):
    path = write(tmp_path / 'a.tflite', tiny_tflite.convert())
    artifact = reading.read(path, ['one'])
    assert artifact.kind == reading.TFLITE_FILE
    (layer,) = artifact.graph.layers()
    assert layer.name == 'one/Conv2D'  # without the prefix of the scope
    np.testing.assert_array_equal(layer.weights, tiny_tflite.KERNEL)


def test_labels_of_a_tflite_file_are_lines_of_an_associated_file(tmp_path):
    path = write(tmp_path / 'a.tflite', tiny_tflite.convert())
    assert reading.read(path).labels == []
    with zipfile.ZipFile(path, 'a') as archive:
        archive.writestr('labels.txt', 'cat\n\n dog\n')
    assert reading.read(path).labels == ['cat', 'dog']


@pytest.mark.parametrize(
    'name, content, message',
    [
        ('a.tflite', b'\x1c\x00\x00\x00TFL3', 'is a truncated or corrupt TFLite file'),
        ('a.tflite', b'no network at all', 'is no TFLite file, in spite of its name'),
        ('a.pb', b'', 'is empty'),
        ('a.pb', b'version https://git-lfs.github.com/spec/v1\n', 'pointer of Git LFS'),
        ('a.pb', b'no graph at all', 'is no graph of TensorFlow'),
        ('a.onnx', b'x', 'is an ONNX file'),
    ],
)
def test_other_files_are_refused_in_one_sentence(tmp_path, name, content, message):
    path = write(tmp_path / name, content)
    with pytest.raises(errors.UserError, match=message) as caught:
        reading.read(path)
    assert '\n' not in str(caught.value)


def test_graph_with_variables_is_refused(tmp_path):
    with tf.Graph().as_default() as graph:
        tf1.get_variable('net/weights', [2])
    path = write(tmp_path / 'a.pb', graph.as_graph_def().SerializeToString())
    with pytest.raises(errors.UserError, match='is not frozen: net/weights have no values'):
        reading.read(path)


def test_missing_files_are_refused(tmp_path):
    with pytest.raises(errors.UserError):
        reading.read(str(tmp_path / 'missing.pb'))
    with pytest.raises(errors.UserError, match='holds neither'):
        reading.read(str(tmp_path))
