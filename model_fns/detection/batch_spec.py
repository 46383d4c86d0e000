"""Features and labels in the batches of detection."""

from __future__ import annotations

import tensorflow as tf

from estimator_lib.task_interfaces.batch_specs import (
    ALWAYS,
    EVALUATION,
    LEARNING,
    BatchSpec,
    BatchTensor,
)
from model_fns.detection import detector, fields, metrics
from model_fns.detection.data import inputs

# Conditions of features and labels.
_IF_PADDED = 'if the resizer pads images'
_IF_CONTEXT = 'with `context_config`'
_IF_MASKS = 'if the model learns masks'
_IF_MASK_METRICS = 'if metrics compare masks'
_IF_KEYPOINTS = 'if the model learns keypoints'

_CHANNELS, _CLASSES, _BOX_VALUES = 'channels', 'C', 'K'
_PER_BOX = ('batch', 'M')
_PER_CLASS = ('batch', _CLASSES)

BATCH = BatchSpec(
    (
        BatchTensor(
            fields.IMAGE,
            tf.float32,
            ('batch', 'height', 'width', _CHANNELS),
            'values in [0, 255]',
            ALWAYS,
            converted=(tf.uint8,),
        ),
        BatchTensor(fields.SOURCE_ID, tf.string, ('batch',), 'name of the example in messages'),
        BatchTensor(fields.HASH, tf.int32, ('batch',), 'a number for the source id, for sampling'),
        BatchTensor(
            fields.TRUE_IMAGE_SHAPE,
            tf.int32,
            ('batch', 3),
            'height and width without padding, after resizing, and channels',
            ALWAYS,
            _IF_PADDED,
        ),
        BatchTensor(
            fields.ORIGINAL_SHAPE,
            tf.int32,
            ('batch', 2),
            'height and width as decoded; outputs of rotated boxes are in these pixels',
            EVALUATION,
        ),
        BatchTensor(
            fields.CONTEXT_FEATURES,
            tf.float32,
            ('batch', 'm', 'length'),
            'features of other images',
            ALWAYS,
            _IF_CONTEXT,
        ),
        BatchTensor(
            fields.NUM_CONTEXT_FEATURES,
            tf.int32,
            ('batch',),
            'number of context features that are no padding',
            ALWAYS,
            _IF_CONTEXT,
        ),
        BatchTensor(
            fields.SERVED_SHAPE,
            tf.int32,
            ('batch', 2),
            'of served images: height and width as sent',
        ),
    ),
    (
        BatchTensor(
            fields.BOXES,
            tf.float32,
            (*_PER_BOX, _BOX_VALUES),
            'y and x, normalized to the image without padding: two corners, or the four of a '
            'rotated box',
            LEARNING,
        ),
        BatchTensor(fields.CLASSES, tf.float32, (*_PER_BOX, _CLASSES), 'one-hot', LEARNING),
        BatchTensor(fields.WEIGHTS, tf.float32, _PER_BOX, 'weights in the losses', LEARNING),
        BatchTensor(fields.NUM_BOXES, tf.int32, ('batch',), 'number of valid rows', LEARNING),
        BatchTensor(
            fields.DIFFICULT, tf.bool, _PER_BOX, 'objects that metrics may ignore', EVALUATION
        ),
        BatchTensor(fields.IS_CROWD, tf.bool, _PER_BOX, 'regions of many objects', EVALUATION),
        BatchTensor(fields.GROUP_OF, tf.bool, _PER_BOX, 'boxes around several objects', EVALUATION),
        BatchTensor(
            fields.AREA, tf.float32, _PER_BOX, 'in pixels of the original image', EVALUATION
        ),
        BatchTensor(
            fields.MASKS,
            tf.uint8,
            ('batch', 'masks', 'height', 'width'),
            '0 or 1; as many as the fullest image has boxes, at least one',
            LEARNING,
            _IF_MASKS,
        ),
        BatchTensor(
            fields.MASK_WEIGHTS,
            tf.float32,
            _PER_BOX,
            '0: ignore a mask',
            EVALUATION,
            _IF_MASK_METRICS,
        ),
        BatchTensor(
            fields.KEYPOINTS,
            tf.float32,
            (*_PER_BOX, 'k', 2),
            'y and x, normalized as boxes; NaN where not labeled',
            LEARNING,
            _IF_KEYPOINTS,
        ),
        BatchTensor(fields.KEYPOINT_VISIBILITIES, tf.bool, (*_PER_BOX, 'k'), 'True where visible'),
        BatchTensor(fields.NUM_LEFT_OUT, tf.int32, ('batch',), 'number of boxes beyond M'),
        BatchTensor(fields.IMAGE_CLASSES, tf.float32, _PER_CLASS, '1 for verified classes'),
        BatchTensor(
            fields.LABELED_CLASSES, tf.float32, _PER_CLASS, '1 for classes that were looked for'
        ),
        BatchTensor(
            fields.ABSENT_CLASSES, tf.float32, _PER_CLASS, '1 for classes verified as absent'
        ),
        BatchTensor(
            fields.INCOMPLETE_CLASSES, tf.float32, _PER_CLASS, '1 for classes that lack objects'
        ),
    ),
)


def batch_spec(
    model: detector.Detector, reader: inputs.Reader, evaluator: metrics.Metrics
) -> BatchSpec:
    """Return the batches of a model.

    Args:
        model: has the sizes of its inputs and groundtruth.
        reader: knows what records have.
        evaluator: knows what metrics compare.
    """
    has_masks = fields.DETECTION_MASKS in model.outputs
    has_keypoints = fields.DETECTION_KEYPOINTS in model.outputs
    holds = {
        _IF_PADDED: model.resizer.pads,
        _IF_CONTEXT: reader.context is not None,
        _IF_MASKS: reader.mask_type is not None and has_masks,
        _IF_MASK_METRICS: fields.MASKS in evaluator.needs,
        _IF_KEYPOINTS: reader.keypoints is not None and has_keypoints,
    }
    sizes = {
        _CHANNELS: model.channels.total,
        _CLASSES: model.num_classes,
        _BOX_VALUES: model.family.SIZE,
    }
    return BATCH.of_model(sizes, [condition for condition, is_so in holds.items() if is_so])
