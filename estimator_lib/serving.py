"""What a server sends, as a task's features."""

from __future__ import annotations

from typing import Callable, Dict, Tuple

import tensorflow as tf

from estimator_lib.image_decoding import decode_image
from estimator_lib.task import Features, Task
from protos import export_pb2

tf1 = tf.compat.v1

INPUT_KEY = 'inputs'
ENCODED_IMAGE = 'image/encoded'  # the key of the image in a `tf.train.Example`

# The names of the placeholders, which tell the kinds of an exported model's input apart.
IMAGE_TENSOR = 'image_tensor'
ENCODED_IMAGE_STRING_TENSOR = 'encoded_image_string_tensor'
TF_EXAMPLE = 'tf_example'


def serving_input_receiver_fn(
    task: Task, serving_input: int
) -> Callable[[], tf.estimator.export.ServingInputReceiver]:
    """The function that an Estimator's export calls for the graph's inputs.

    Args:
        task: prepares images as its evaluation does.
        serving_input: an `export_pb2.ServingInput`.

    Returns:
        A function that adds the inputs to the current graph. Its receiver tensor is named `inputs`:
        for `IMAGE_TENSOR` uint8 [batch, height, width, 3]; for `ENCODED_IMAGE_STRING_TENSOR` string
        [batch], JPEG, PNG, GIF or BMP files, which may differ in size; for
        `SERIALIZED_TF_EXAMPLE` string [batch], each with such a file as `image/encoded`.
    """
    build = {
        export_pb2.IMAGE_TENSOR: _images,
        export_pb2.ENCODED_IMAGE_STRING_TENSOR: _encoded_images,
        export_pb2.SERIALIZED_TF_EXAMPLE: _examples,
    }[serving_input]

    def receive() -> tf.estimator.export.ServingInputReceiver:
        received, features = build(task)
        return tf.estimator.export.ServingInputReceiver(features, {INPUT_KEY: received})

    return receive


def _images(task: Task) -> Tuple[tf.Tensor, Features]:
    images = tf1.placeholder(tf.uint8, [None, None, None, 3], IMAGE_TENSOR)
    return images, task.serving_features(images)


def _encoded_images(task: Task) -> Tuple[tf.Tensor, Features]:
    encoded = tf1.placeholder(tf.string, [None], ENCODED_IMAGE_STRING_TENSOR)
    return encoded, _features_of_encoded(task, encoded)


def _examples(task: Task) -> Tuple[tf.Tensor, Features]:
    serialized = tf1.placeholder(tf.string, [None], TF_EXAMPLE)
    parsed = tf.io.parse_example(serialized, {ENCODED_IMAGE: tf.io.FixedLenFeature([], tf.string)})
    return serialized, _features_of_encoded(task, parsed[ENCODED_IMAGE])


def _features_of_encoded(task: Task, encoded: tf.Tensor) -> Features:
    """Features of encoded images: each is prepared by itself, since their sizes differ.

    Args:
        task: prepares.
        encoded: string [batch].
    """

    def features_of_one(one: tf.Tensor) -> Features:
        image = decode_image(one)
        return {
            name: tf.squeeze(value, 0)
            for name, value in task.serving_features(image[tf.newaxis]).items()
        }

    return tf.map_fn(features_of_one, encoded, fn_output_signature=_signature(features_of_one))


def _signature(features_of_one: Callable[[tf.Tensor], Features]) -> Dict[str, tf.TensorSpec]:
    """Shapes and types of what a function of a string returns."""
    with tf.Graph().as_default():
        features = features_of_one(tf1.placeholder(tf.string, []))
        return {name: tf.TensorSpec(one.shape, one.dtype) for name, one in features.items()}
