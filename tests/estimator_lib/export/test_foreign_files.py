"""Frozen graphs of any program: their inputs, sizes and ranges."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.export import exported_file
from estimator_lib.export.foreign import foreign_file, foreign_graph

tf1 = tf.compat.v1

IMAGES = np.arange(24, dtype=np.uint8).reshape([1, 2, 4, 3]) * 10


def write(path, build):
    with tf.Graph().as_default() as graph:
        build()
        path.write_bytes(graph.as_graph_def().SerializeToString())
    return str(path)


def mean_of(name, dtype, shape):
    images = tf1.placeholder(dtype, shape, name)
    tf.reduce_mean(tf.cast(images, tf.float32), [1, 2], name='mean')


def predicted(path):
    predictor = foreign_file.ForeignPredictor(
        foreign_graph.GraphFile(path), lambda outputs, images: outputs
    )
    return predictor.predict(IMAGES)['mean'], predictor.max_batch_size


@pytest.mark.parametrize(
    'name, dtype, shape, scale, shift, batch',
    [
        ('image_tensor', tf.uint8, [None, None, None, 3], 1.0, 0.0, None),
        ('image_tensor', tf.float32, [1, None, None, 3], 1.0, 0.0, 1),
        ('input', tf.float32, [1, 2, 4, 3], 1 / 127.5, -1.0, 1),
        ('ImageTensor', tf.uint8, [1, 1, 2, 3], None, None, 1),
    ],
)
def test_pixels_as_the_input_has_them(tmp_path, name, dtype, shape, scale, shift, batch):
    path = write(tmp_path / 'a.pb', lambda: mean_of(name, dtype, shape))
    found, largest = predicted(path)
    if scale is None:  # every second pixel of the first row
        expected = (IMAGES[0, 0, 0] + IMAGES[0, 0, 2].astype(float)) / 2
    else:
        expected = IMAGES[0].mean((0, 1)) * scale + shift
    np.testing.assert_allclose(found, [expected], rtol=1e-5, atol=1e-5)
    assert largest == batch


def test_gray_inputs(tmp_path):
    path = write(tmp_path / 'a.pb', lambda: mean_of('image_tensor', tf.uint8, [1, 2, 4, 1]))
    gray = np.rint(IMAGES[0] @ [0.2989, 0.587, 0.114]).mean()
    np.testing.assert_allclose(predicted(path)[0], [[gray]], atol=0.6)


@pytest.mark.parametrize('name', ['encoded_image_string_tensor', 'tf_example'])
def test_encoded_images_and_examples(tmp_path, name):
    def build():
        received = tf1.placeholder(tf.string, [None], name)
        encoded = received
        if name == 'tf_example':
            keys = {'image/encoded': tf.io.FixedLenFeature([], tf.string)}
            encoded = tf.io.parse_example(received, keys)['image/encoded']
        image = tf.io.decode_png(encoded[0], channels=3)
        tf.reduce_mean(tf.cast(image, tf.float32), [0, 1], name='mean')

    path = write(tmp_path / 'a.pb', build)
    np.testing.assert_allclose(predicted(path)[0], IMAGES[0].mean((0, 1)), rtol=1e-5)


def test_the_size_of_an_input_without_one(tmp_path):
    def build():
        images = tf1.placeholder(tf.float32, None, 'input')
        pooled = tf1.nn.avg_pool(images, [1, 160, 160, 1], [1, 1, 1, 1], 'VALID')
        tf.squeeze(pooled, [1, 2], name='mean')

    assert foreign_graph.GraphFile(write(tmp_path / 'a.pb', build)).image.shape == [1, 160, 160, 3]


@pytest.mark.parametrize('size, expected', [(None, [224]), (128, [224, 96, 128])])
def test_the_usual_size_is_tried_first(tmp_path, monkeypatch, size, expected):
    def build():
        images = tf1.placeholder(tf.float32, None, 'input')
        if size is not None:
            images = tf.ensure_shape(images, [1, size, size, 3])
        tf.reduce_mean(tf.ensure_shape(images, [1, None, None, 3]), [1, 2], name='mean')

    tried = []
    compute = foreign_graph.GraphFile.compute
    monkeypatch.setattr(
        foreign_graph.GraphFile,
        'compute',
        lambda self, images: tried.append(images.shape[1]) or compute(self, images),
    )
    file = foreign_graph.GraphFile(write(tmp_path / 'a.pb', build))
    assert tried == expected and file.image.shape[1] == expected[-1]


def variable():
    tf1.placeholder(tf.float32, [1, 2, 2, 3], 'input')
    tf1.get_variable('weights', [3])


def two_inputs():
    mean_of('input', tf.float32, [1, 2, 2, 3])
    tf1.placeholder(tf.bool, [], 'is_training')


@pytest.mark.parametrize(
    'build, reason',
    [
        (variable, r'it has variables \(weights\)'),
        (two_inputs, r'its inputs are input \(float32\), is_training \(bool\); expected one'),
        (lambda: tf.constant(1), 'its inputs are none'),
        (lambda: tf1.placeholder(tf.uint8, [1, 2, 2, 3], 'input'), 'the graph has no output'),
    ],
)
def test_graphs_that_are_refused(tmp_path, build, reason):
    path = write(tmp_path / 'a.pb', build)
    with pytest.raises(errors.UserError, match=reason):
        foreign_graph.GraphFile(path)


def test_other_files(tmp_path):
    path = tmp_path / 'a.pb'
    path.write_bytes(b'\x0a\xff\xff')
    with pytest.raises(errors.UserError, match='no frozen graph, or is truncated or corrupt'):
        foreign_graph.GraphFile(str(path))
    path.write_bytes(b'')
    with pytest.raises(errors.UserError, match='has no graph; expected a frozen graph'):
        foreign_graph.GraphFile(str(path))
    saved = tmp_path / 'saved_model.pb'
    saved.write_bytes(b'')
    with pytest.raises(errors.UserError, match=f'expected --saved_model_dir={tmp_path}'):
        exported_file.check(str(saved))
