"""Features of a task from the requests of a server."""

from __future__ import annotations

import copy
import functools
from typing import Any, Callable, Dict, Mapping, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors, tf_estimator
from estimator_lib.data.image_decoding import ADDITIONAL_CHANNELS, decode_channels
from estimator_lib.drawing import visualization
from estimator_lib.task import IMAGE, Example, Features, Labels, Task, Tensors
from protos import export_pb2

tf1 = tf.compat.v1

# The key in signatures of the Object Detection API's exporter.
INPUT_KEY = 'inputs'

# Signatures: clients of the published detectors' Estimators ask for the second.
DEFAULT_SIGNATURE = tf1.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
PREDICT_SIGNATURE = tf1.saved_model.signature_constants.PREDICT_METHOD_NAME

REQUEST = 'request'  # the feature of `with_requests`
ENCODED_IMAGE = 'image/encoded'  # the key of the image in a `tf.train.Example`

# The names of the placeholders, which tell the kinds of an exported model's input apart.
# They are those of the Object Detection API's exporter.
IMAGE_TENSOR = 'image_tensor'
ENCODED_IMAGE_STRING_TENSOR = 'encoded_image_string_tensor'
TF_EXAMPLE = 'tf_example'
SERVING_INPUTS: Mapping[str, int] = {
    IMAGE_TENSOR: export_pb2.IMAGE_TENSOR,
    ENCODED_IMAGE_STRING_TENSOR: export_pb2.ENCODED_IMAGE_STRING_TENSOR,
    TF_EXAMPLE: export_pb2.SERIALIZED_TF_EXAMPLE,
}


def serving_input_receiver_fn(
    task: Task, serving_input: int
) -> Callable[[], tf_estimator.export.ServingInputReceiver]:
    """Return the function that an Estimator's export calls for the graph's inputs.

    Args:
        task: prepares images as its evaluation does.
        serving_input: an `export_pb2.ServingInput`.

    Returns:
        A function that adds the inputs to the current graph. Its receiver tensor is named `inputs`:
        for `IMAGE_TENSOR` [batch, height, width, channels] of the task's image format; for
        `ENCODED_IMAGE_STRING_TENSOR` string [batch], JPEG, PNG, GIF or BMP files, which may differ
        in size where the task resizes all images to one size; for `SERIALIZED_TF_EXAMPLE` string
        [batch], each with such a file as `image/encoded`, and further channels as training has
        them. Beside it are those of `Task.serving_side_inputs`.

    Raises:
        errors.UserError: image files are asked for, and the model takes more channels than they
            have.
    """
    if serving_input == export_pb2.ENCODED_IMAGE_STRING_TENSOR and task.image_format.additional:
        raise errors.UserError(
            f'--input_type={ENCODED_IMAGE_STRING_TENSOR}: a file has three colors, and the model '
            f'takes {task.image_format.channels} channels; expected {IMAGE_TENSOR} or {TF_EXAMPLE}.'
        )
    build = {
        export_pb2.IMAGE_TENSOR: _images,
        export_pb2.ENCODED_IMAGE_STRING_TENSOR: _encoded_images,
        export_pb2.SERIALIZED_TF_EXAMPLE: _examples,
    }[serving_input]

    def receive() -> tf_estimator.export.ServingInputReceiver:
        received, features = build(task)
        examples = received if serving_input == export_pb2.SERIALIZED_TF_EXAMPLE else None
        beside, placeholders = task.serving_side_inputs(tf.shape(received)[0], examples)
        return tf_estimator.export.ServingInputReceiver(
            {**features, **beside}, {INPUT_KEY: received, **placeholders}
        )

    return receive


def as_requests(images: np.ndarray, kind: str) -> Any:
    """Convert images to the input form of a model.

    Args:
        images: [batch, height, width, channels], from 0 to 255; encoded ones have 8 bits.
        kind: the name of the placeholder that they are for.
    """
    if kind == IMAGE_TENSOR:
        return images
    images = np.rint(np.clip(images, 0, 255)).astype(np.uint8)
    if kind == TF_EXAMPLE:
        return [_example(image) for image in images]
    return [visualization.encode_png(image) for image in images]


def with_requests(task: Task) -> Task:
    """Return a task whose features have the image that a server would receive, as `REQUEST`.

    It is a serialized tensor, a string scalar, since images of a batch differ in size.
    """
    prepare = task.prepare

    def prepare_with_request(example: Example, mode: str) -> Tuple[Features, Labels]:
        features, labels = prepare(example, mode)
        return {**features, REQUEST: tf.io.serialize_tensor(example[IMAGE])}, labels

    # A copy: the caller's task continues without the feature.
    changed = copy.copy(task)
    changed.prepare = prepare_with_request  # type: ignore[method-assign]
    return changed


def read_request(request: bytes, dtype: tf.DType = tf.uint8) -> np.ndarray:
    """Return the image of a `REQUEST`, [height, width, channels]; uint8 is rounded."""
    from tensorflow.core.framework import tensor_pb2

    image = tf.make_ndarray(tensor_pb2.TensorProto.FromString(request))
    if dtype == tf.uint8:
        image = np.clip(np.round(image), 0, 255)
    return image.astype(dtype.as_numpy_dtype)


def _example(image: np.ndarray) -> bytes:
    """Return a serialized `tf.train.Example` with an image [height, width, channels]."""
    parts = [image[..., :3], *np.moveaxis(image[..., 3:], 2, 0)]
    encoded = [visualization.encode_png(np.ascontiguousarray(part)) for part in parts]
    files = {ENCODED_IMAGE: encoded[:1], ADDITIONAL_CHANNELS: encoded[1:]}
    values = {key: tf.train.BytesList(value=own) for key, own in files.items() if own}
    features = {key: tf.train.Feature(bytes_list=own) for key, own in values.items()}
    feature_map = tf.train.Features(feature=features)
    return tf.train.Example(features=feature_map).SerializeToString()


def _images(task: Task) -> Tuple[tf.Tensor, Features]:
    images = image_placeholder(task)
    return images, task.serving_features(images)


def image_placeholder(task: Task) -> tf.Tensor:
    """Return a placeholder for images: [batch, height, width, channels] of the task's format."""
    image_format = task.image_format
    shape = [None, None, None, image_format.channels]
    return tf1.placeholder(image_format.dtype, shape, IMAGE_TENSOR)


def _encoded_images(task: Task) -> Tuple[tf.Tensor, Features]:
    encoded = tf1.placeholder(tf.string, [None], ENCODED_IMAGE_STRING_TENSOR)
    decode = functools.partial(decode_channels, task.image_format)
    return encoded, _features_of_encoded(task, encoded, decode)


def _examples(task: Task) -> Tuple[tf.Tensor, Features]:
    serialized = tf1.placeholder(tf.string, [None], TF_EXAMPLE)
    further = task.image_format.additional
    keys = {ENCODED_IMAGE: tf.io.FixedLenFeature([], tf.string)}
    if not further:
        parsed = tf.io.parse_example(serialized, keys)[ENCODED_IMAGE]
        decode = functools.partial(decode_channels, task.image_format)
        return serialized, _features_of_encoded(task, parsed, decode)
    keys[ADDITIONAL_CHANNELS] = tf.io.FixedLenFeature([further], tf.string)
    parts = tf.io.parse_example(serialized, keys)
    files = tf.concat([parts[ENCODED_IMAGE][:, tf.newaxis], parts[ADDITIONAL_CHANNELS]], 1)
    return serialized, _features_of_encoded(
        task, files, lambda one: decode_channels(task.image_format, one[0], one[1:])
    )


def _features_of_encoded(
    task: Task, encoded: tf.Tensor, decode: Callable[[tf.Tensor], tf.Tensor]
) -> Features:
    """Build features of encoded images: each is prepared by itself, since their sizes differ.

    Args:
        task: prepares.
        encoded: string [batch] or [batch, files of an image].
        decode: decodes the files of an image.
    """

    def features_of_one(one: tf.Tensor) -> Features:
        image = decode(one)
        return {
            name: tf.squeeze(value, 0)
            for name, value in task.serving_features(image[tf.newaxis]).items()
        }

    signature = _signature(features_of_one, encoded.shape[1:])
    if all(spec.shape.is_fully_defined() for spec in signature.values()):
        return tf.map_fn(features_of_one, encoded, fn_output_signature=signature)
    return _features_of_one_size(features_of_one, encoded, signature)


def _features_of_one_size(
    features_of_one: Callable[[tf.Tensor], Features],
    encoded: tf.Tensor,
    signature: Dict[str, tf.TensorSpec],
) -> Features:
    """Map images like `tf.map_fn`, but refuse images of different sizes with a clear error."""
    count = tf.shape(encoded)[0]
    arrays = {
        name: tf.TensorArray(spec.dtype, count, infer_shape=False, element_shape=spec.shape)
        for name, spec in signature.items()
    }

    def add_one(index: tf.Tensor, before: tf.Tensor, arrays: Dict[str, tf.TensorArray]):
        features = features_of_one(encoded[index])
        shapes = _shapes(features)
        same = tf.logical_or(tf.equal(index, 0), tf.reduce_all(tf.equal(shapes, before)))
        parts = ['image ', tf.strings.as_string(index), ' of the request differs in size from the '
                 'one before it; expected images of one size, or one image']  # fmt: skip
        check = tf.raw_ops.Assert(condition=same, data=[tf.strings.join(parts)])
        with tf.control_dependencies([check]):
            arrays = {name: arrays[name].write(index, one) for name, one in features.items()}
        return index + 1, shapes, arrays

    num_sides = sum(spec.shape.rank for spec in signature.values())
    _, _, arrays = tf.while_loop(
        lambda index, *_: index < count, add_one, [0, tf.zeros([num_sides], tf.int32), arrays]
    )
    return {name: array.stack() for name, array in arrays.items()}


def _shapes(features: Tensors) -> tf.Tensor:
    """Return the sides of all features, an int32 vector."""
    return tf.concat([tf.shape(features[name]) for name in sorted(features)], 0)


def _signature(
    features_of_one: Callable[[tf.Tensor], Features], shape: tf.TensorShape
) -> Dict[str, tf.TensorSpec]:
    """Return shapes and types of what a function of strings of a shape returns."""
    with tf.Graph().as_default():
        features = features_of_one(tf1.placeholder(tf.string, shape))
        return {name: tf.TensorSpec(one.shape, one.dtype) for name, one in features.items()}
