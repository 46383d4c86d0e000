"""Features and labels in the batches of segmentation."""

from __future__ import annotations

import tensorflow as tf

from estimator_lib.task_interfaces.batch_specs import (
    ALWAYS,
    EVALUATION,
    LEARNING,
    BatchSpec,
    BatchTensor,
)
from model_fns.segmentation import fields
from protos import segmentation_pb2

# Conditions of labels.
_WITH_INSTANCES = 'with `instance_center` and `offset`'
_WITH_CENTERS = 'with `instance_center`'
_WITH_OFFSETS = 'with `offset`'
_WITH_EDGES = 'with `edge`'

_CHANNELS = 'channels'
_PIXELS = ('batch', 'height', 'width')

BATCH = BatchSpec(
    (
        BatchTensor(fields.IMAGE, tf.float32, (*_PIXELS, _CHANNELS), 'values in [0, 255]', ALWAYS),
        BatchTensor(fields.SOURCE_ID, tf.string, ('batch',), 'name of the example in messages'),
        BatchTensor(
            fields.TRUE_IMAGE_SHAPE,
            tf.int32,
            ('batch', 3),
            'height and width without padding, and channels',
            EVALUATION,
        ),
        BatchTensor(
            fields.ORIGINAL_SIZE,
            tf.int32,
            ('batch', 2),
            'of served images: height and width as sent',
        ),
        BatchTensor(
            fields.RESIZED_SIZE,
            tf.int32,
            ('batch', 2),
            'of served images: height and width after the resize range',
        ),
    ),
    (
        BatchTensor(
            fields.SEMANTIC,
            tf.int32,
            _PIXELS,
            'class, or the ignore label (as in the padding)',
            LEARNING,
        ),
        BatchTensor(
            fields.INSTANCES,
            tf.int32,
            _PIXELS,
            'instance, 0 where there is none',
            EVALUATION,
            _WITH_INSTANCES,
        ),
        BatchTensor(fields.CENTER, tf.float32, _PIXELS, '1 at centers', LEARNING, _WITH_CENTERS),
        BatchTensor(
            fields.OFFSET,
            tf.float32,
            (*_PIXELS, 2),
            'rows and columns to the center, in pixels',
            LEARNING,
            _WITH_OFFSETS,
        ),
        BatchTensor(
            fields.OFFSET_WEIGHTS,
            tf.float32,
            _PIXELS,
            '1 where there is an instance',
            LEARNING,
            _WITH_OFFSETS,
        ),
        BatchTensor(
            fields.EDGE,
            tf.int32,
            _PIXELS,
            'class of the edge, 0 for none, -1 where it is not known',
            LEARNING,
            _WITH_EDGES,
        ),
    ),
)


def batch_spec(model: segmentation_pb2.Segmentation, channels: int) -> BatchSpec:
    """Return the batches of a model.

    Args:
        model: has the heads.
        channels: number of channels of an image.
    """
    heads = [field.name for field, _ in model.ListFields()]
    conditions = [f'with `{name}`' for name in heads]
    if 'instance_center' in heads and 'offset' in heads:
        conditions.append(_WITH_INSTANCES)
    return BATCH.of_model({_CHANNELS: channels}, conditions)
