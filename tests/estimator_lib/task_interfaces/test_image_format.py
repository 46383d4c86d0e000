"""Formats of images: their channels and types."""

import tensorflow as tf

from estimator_lib.task_interfaces.image_format import COLOR, ImageFormat


def test_channels_and_types():
    assert (COLOR.channels, COLOR.dtype) == (3, tf.uint8)
    assert (ImageFormat(2).channels, ImageFormat(2).dtype) == (5, tf.uint8)
    assert (ImageFormat(bits=12).channels, ImageFormat(bits=12).dtype) == (3, tf.float32)
