"""Names of the tensors of examples, batches and outputs; published names where they exist.

Tensors of an example have no batch dimension; features, labels and outputs have one.
B is the batch, H x W the crop in training and else the size of the padded images, C the number of
classes.
"""

from __future__ import annotations

import tensorflow as tf

from estimator_lib.task import IMAGE, SOURCE_ID
from estimator_lib.task_interfaces.batch_specs import (
    ALWAYS,
    EVALUATION,
    LEARNING,
    BatchSpec,
    BatchTensor,
)
from protos import segmentation_pb2

# Examples and features; `BATCH` has their types. Decoded images are uint8.
IMAGE = IMAGE
SOURCE_ID = SOURCE_ID
TRUE_IMAGE_SHAPE = 'true_image_shape'
# Features of served images, equal for all images of a request.
ORIGINAL_SIZE = 'original_size'
RESIZED_SIZE = 'resized_size'

# Examples and labels.
SEMANTIC = 'semantic_labels'
INSTANCES = 'instance_labels'
CENTER = 'center_heatmap'
OFFSET = 'center_offsets'
OFFSET_WEIGHTS = 'offset_weights'
EDGE = 'edge_labels'

_WITH_INSTANCES = 'with `instance_center` and `offset`'
_WITH_CENTERS = 'with `instance_center`'
_WITH_OFFSETS = 'with `offset`'
_WITH_EDGES = 'with `edge`'

_CHANNELS = 'channels'
_PIXELS = ('batch', 'height', 'width')

BATCH = BatchSpec(
    (
        BatchTensor(IMAGE, tf.float32, (*_PIXELS, _CHANNELS), 'values in [0, 255]', ALWAYS),
        BatchTensor(SOURCE_ID, tf.string, ('batch',), 'name of the example in messages'),
        BatchTensor(
            TRUE_IMAGE_SHAPE,
            tf.int32,
            ('batch', 3),
            'height and width without padding, and channels',
            EVALUATION,
        ),
        BatchTensor(
            ORIGINAL_SIZE, tf.int32, ('batch', 2), 'of served images: height and width as sent'
        ),
        BatchTensor(
            RESIZED_SIZE,
            tf.int32,
            ('batch', 2),
            'of served images: height and width after the resize range',
        ),
    ),
    (
        BatchTensor(
            SEMANTIC,
            tf.int32,
            _PIXELS,
            'class, or the ignore label (as in the padding)',
            LEARNING,
        ),
        BatchTensor(
            INSTANCES,
            tf.int32,
            _PIXELS,
            'instance, 0 where there is none',
            EVALUATION,
            _WITH_INSTANCES,
        ),
        BatchTensor(CENTER, tf.float32, _PIXELS, '1 at centers', LEARNING, _WITH_CENTERS),
        BatchTensor(
            OFFSET,
            tf.float32,
            (*_PIXELS, 2),
            'rows and columns to the center, in pixels',
            LEARNING,
            _WITH_OFFSETS,
        ),
        BatchTensor(
            OFFSET_WEIGHTS,
            tf.float32,
            _PIXELS,
            '1 where there is an instance',
            LEARNING,
            _WITH_OFFSETS,
        ),
        BatchTensor(
            EDGE,
            tf.int32,
            _PIXELS,
            'class of the edge, 0 for none, -1 where it is not known',
            LEARNING,
            _WITH_EDGES,
        ),
    ),
)

# Outputs.
SEMANTIC_PREDICTIONS = 'SemanticPredictions'  # int64 [B, H, W]
SEMANTIC_PROBABILITIES = 'SemanticProbabilities'  # float32 [B, H, W, C]
INSTANCE_CENTERS = 'InstanceCenters'  # float32 [B, H, W]
CENTER_OFFSETS = 'CenterOffsets'  # float32 [B, H, W, 2]
EDGE_PREDICTIONS = 'EdgePredictions'  # int64 [B, H, W]
INSTANCE_PREDICTIONS = 'InstancePredictions'  # int32 [B, H, W]: 0 none, from 1 instances
PANOPTIC_PREDICTIONS = 'PanopticPredictions'  # int32 [B, H, W]: 1000 * class + instance, or -1

# Heads: their variables are under `logits/<head>`.
SEMANTIC_HEAD = 'semantic'
INSTANCE_CENTER_HEAD = 'instance_center'
OFFSET_HEAD = 'offset'
EDGE_HEAD = 'edge'

# All outputs of heads, in the order in which they are listed.
OUTPUTS = (
    SEMANTIC_PREDICTIONS,
    SEMANTIC_PROBABILITIES,
    INSTANCE_CENTERS,
    CENTER_OFFSETS,
    EDGE_PREDICTIONS,
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
