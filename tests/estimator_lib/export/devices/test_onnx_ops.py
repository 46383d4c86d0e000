"""Conversions of single ops to ONNX, in onnxruntime, beside TensorFlow."""

import importlib.util

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.export.devices import onnx_files, onnx_ops, static_graph

PACKAGES = ('tf2onnx', 'onnx', 'onnxruntime')
MISSING = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f'{MISSING} are not installed: [onnx]')

tf1 = tf.compat.v1


def both(compute, value, shape=None):
    """What TensorFlow and onnxruntime compute from a value; and the `ModelProto`."""
    import onnxruntime

    with tf.Graph().as_default() as graph, tf1.Session() as session:
        given = tf1.placeholder(value.dtype, value.shape if shape is None else shape, 'given')
        result = tf.identity(compute(given), 'result')
        expected = session.run(result, {given: value})
    model = onnx_files._converted(graph.as_graph_def(), given, {'result': result})
    run = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=['CPUExecutionProvider']
    )
    (found,) = run.run(None, {static_graph.INPUT: value})
    return found, expected, model


# Inside, across the borders, inverted, without area, beyond; and on the very edge.
BOXES = np.float32(
    [
        [0.1, 0.2, 0.7, 0.9],
        [-0.3, 0.4, 0.5, 1.4],
        [0.9, 0.8, 0.2, 0.1],
        [0.5, 0.5, 0.5, 0.5],
        [1.2, 1.2, 1.5, 1.5],
        [0.0, 0.0, 1.0, 1.0],
    ]
)
ROWS = np.int32([0, 1, 0, 1, 0, 1])


@pytest.mark.parametrize('size', [(3, 4), (1, 1)])
def test_crops_are_sampled_where_tensorflow_samples(size):
    images = np.random.RandomState(0).rand(2, 7, 9, 5).astype(np.float32)
    found, expected, model = both(
        lambda given: tf.image.crop_and_resize(given, BOXES, ROWS, size),
        images,
        [None, None, None, 5],
    )
    assert found.shape == (6, *size, 5)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert not found[4].any() and (size == (1, 1) or not found[1, 0].any())
    assert [node.op_type for node in model.graph.node].count('RoiAlign') == 1
    assert model.opset_import[0].version == 16


@pytest.mark.parametrize('count', [1, 14])
def test_samples_on_the_border_are_inside_where_they_are_in_tensorflow(count):
    """Rounding decides for about 3 % of the boxes that end with the image."""
    tops = np.random.RandomState(0).rand(2000).astype(np.float32)
    boxes = np.stack([tops, np.zeros_like(tops), np.ones_like(tops), np.ones_like(tops)], 1)
    found, expected, _ = both(
        lambda given: tf.image.crop_and_resize(given, boxes, np.zeros(2000, np.int32), (count, 2)),
        np.ones([1, 7, 7, 1], np.float32),
    )
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert count == 1 or 0.9 < expected[:, -1].mean() < 1.0


def test_crops_of_another_kind_are_refused():
    image = np.zeros([1, 4, 4, 1], np.float32)
    box, row = BOXES[:1], ROWS[:1]
    for options in ({'method': 'nearest'}, {'extrapolation_value': 1.0}):

        def crop(given, options=options):
            return tf.image.crop_and_resize(given, box, row, (2, 2), **options)

        with pytest.raises(errors.UserError, match='opset 16 has no CropAndResize'):
            both(crop, image)


def test_integers_are_divided_downwards():
    values = np.int32([-50, -32, -1, 0, 1, 50])
    found, expected, _ = both(lambda given: tf.stack([given // 32, given % 32]), values)
    np.testing.assert_array_equal(expected, [[-2, -1, -1, 0, 0, 1], [14, 0, 31, 0, 1, 18]])
    np.testing.assert_array_equal(found, expected)
    # Fractions that are exact in float32.
    values = np.float32([-2.5, 2.5, -1.0])
    found, expected, _ = both(lambda given: tf.stack([given // 1.5, given % 1.5]), values)
    np.testing.assert_array_equal(expected, [[-2.0, 1.0, -1.0], [0.5, 1.0, 0.5]])
    np.testing.assert_array_equal(found, expected)


def test_what_is_not_chosen_may_be_infinite():
    values = np.float32([-np.inf, 1.0, np.inf])
    found, _, _ = both(lambda given: tf.where(tf.abs(given) < 2.0, given, 0.0), values)
    np.testing.assert_array_equal(found, [0.0, 1.0, 0.0])


@pytest.mark.parametrize('shape', [[1, 7, 5, 2], [None, None, None, 2]])
def test_resizes_have_the_size_that_is_asked_for(shape):
    image = np.random.RandomState(1).rand(1, 7, 5, 2).astype(np.float32)

    def resize(given):
        size = tf.shape(given)[1:3] * 2 - 1 if shape[0] is None else [13, 9]
        return tf.image.resize(given, size)

    found, expected, _ = both(resize, image, shape)
    assert found.shape == (1, 13, 9, 2)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_loop_in_a_loop_has_names_of_its_own():
    def inner(value):
        """Halve what is above 1."""
        return tf.while_loop(lambda one: one > 1.0, lambda one: one / 2.0, [value])[0]

    def compute(given):
        steps = tf.while_loop(
            lambda count, one: one < 10.0,
            lambda count, one: (count + 1, inner(one) * 15.0),
            [tf.constant(0), given],
        )
        return tf.stack([tf.cast(steps[0], tf.float32), steps[1]])

    found, expected, model = both(compute, np.array(8.0, np.float32))
    # 8 -> 1 * 15.
    np.testing.assert_array_equal(expected, [1.0, 15.0])
    np.testing.assert_array_equal(found, expected)
    loops = [node for node in onnx_ops.all_nodes(model.graph) if node.op_type == 'Loop']
    assert len(loops) == 2
