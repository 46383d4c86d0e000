"""A single-shot detector as files for small devices have it: pixels in, detections out."""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, Mapping, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.export import deployable as interface
from estimator_lib.export.deployable import Ops
from estimator_lib.task import Arrays, Features, Tensors
from model_fns.detection import detector, fields
from model_fns.detection.boxes import axis_aligned, box_coders, overlaps
from model_fns.detection.detections import device_suppression, post_processing, suppression
from model_fns.structures import label_map as label_maps

_SCORES = 'class_predictions'  # raw, after the score converter
_MEANINGS = {
    fields.DETECTION_BOXES: (
        'ymin, xmin, ymax, xmax as shares of the input, by falling score; they may reach out of it'
    ),
    fields.DETECTION_CLASSES: 'counted from 0, as in labels.txt',
    fields.DETECTION_SCORES: 'from 0 to 1',
    fields.NUM_DETECTIONS: 'how many rows of the others are detections',
}
_IN_ORDER = 'scores in order'
_FOUND = 0.3  # the score from which on a detection is expected to be found again
_SAME_BOX = 0.9  # the IoU with it that the other box then has; where numbers differ:
_NEAR_BOX = 0.6
_NEAR_SCORE = 0.1
_EXACT_SCORE = 1e-3


class SingleShotDeployable(interface.Deployable):
    """See `Deployable`.

    Args:
        model: the detector.
        converter: from logits to scores.
        rules: of the file's suppression.
        changes_frame: whether boxes are those of the image, not of the padded input.
        drops_empty: whether boxes without area inside the image are no detections.
    """

    def __init__(
        self,
        model: detector.Detector,
        converter: post_processing.ScoreConverter,
        rules: device_suppression.Rules,
        changes_frame: bool,
        drops_empty: bool,
    ):
        self.input_shape = (*model.resizer.static_size, 3)  # the network's graph makes colors gray
        self.meanings = _MEANINGS
        self._model = model
        self._converter = converter
        self._rules = rules
        self._changes_frame = changes_frame
        self._drops_empty = drops_empty

    def pixels(self, features: Features) -> tf.Tensor:
        """See `Deployable`; padding has the color that the network makes its padding of."""
        images = tf.ensure_shape(features[fields.IMAGE], [None, *self.input_shape])
        if self._model.resizer.pads:
            color = self._padding_pixel()
            images = detector.fill_padding(images, features[fields.TRUE_IMAGE_SHAPE], color)
        return tf.clip_by_value(images, 0.0, 255.0)

    def network(self, pixels: tf.Tensor) -> Tensors:
        """See `Deployable`: codes [1, A, 4], scores [1, A, C'] and anchors [A, 4]."""
        images = self._model.preprocess(pixels, None)
        predictions = self._model.predict(images, None, None, False)
        return {
            fields.BOX_ENCODINGS: predictions[fields.BOX_ENCODINGS],
            _SCORES: self._converter(predictions[fields.CLASS_LOGITS]),
            fields.ANCHORS: predictions[fields.ANCHORS],
        }

    def finish(self, raw: Tensors, ops: Ops) -> Tensors:
        """See `Deployable`: the detections that suppression leaves."""
        suppress = {
            Ops.CORE: device_suppression.suppress_in_one_op,
            Ops.TFLITE: device_suppression.suppress_in_tflite,
        }[ops]
        found = suppress(raw[fields.BOX_ENCODINGS], raw[_SCORES], raw[fields.ANCHORS], self._rules)
        return {
            fields.DETECTION_BOXES: found.boxes,
            fields.DETECTION_CLASSES: found.classes,
            fields.DETECTION_SCORES: found.scores,
            fields.NUM_DETECTIONS: found.count,
        }

    def custom_ops(self, ops: Ops) -> FrozenSet[str]:
        """See `Deployable`."""
        return frozenset({device_suppression.TFLITE_OP} if ops is Ops.TFLITE else ())

    def outputs(self, found: Tensors, features: Features) -> Tensors:
        """See `Deployable`: what task and detector make of detections, without raw ones."""
        boxes = found[fields.DETECTION_BOXES]
        if self._model.resizer.pads:
            true_shapes = features[fields.TRUE_IMAGE_SHAPE]
            far = detector.content_shares(true_shapes, features[fields.IMAGE])
            windows = tf.concat([tf.zeros_like(far), far], axis=1)[:, tf.newaxis]
            boxes = axis_aligned.clip_to_window(boxes, windows)
            if self._changes_frame:
                boxes = axis_aligned.change_frame(boxes, windows)
        else:
            boxes = tf.clip_by_value(boxes, 0.0, 1.0)
        scores = found[fields.DETECTION_SCORES]
        counts = tf.cast(found[fields.NUM_DETECTIONS], tf.int32)
        valid = tf.sequence_mask(counts, tf.shape(scores)[1])
        if self._drops_empty:
            valid = tf.logical_and(valid, axis_aligned.area(boxes) > 0)
        # What stays moves up, in order.
        rows = tf.argsort(tf.cast(tf.logical_not(valid), tf.int32), stable=True)
        boxes, scores, classes, valid = (
            tf.gather(one, rows, batch_dims=1)
            for one in (boxes, scores, found[fields.DETECTION_CLASSES], valid)
        )
        return {
            fields.DETECTION_BOXES: tf.where(valid[..., tf.newaxis], boxes, 0.0),
            fields.DETECTION_CLASSES: label_maps.to_id(tf.where(valid, classes, 0.0)),
            fields.DETECTION_SCORES: tf.where(valid, scores, 0.0),
            fields.NUM_DETECTIONS: tf.reduce_sum(tf.cast(valid, tf.float32), axis=1),
        }

    def agreement(
        self, expected: Sequence[Arrays], found: Sequence[Arrays], exact: bool
    ) -> Dict[str, float]:
        """The detections that are found again, and the scores in order.

        Rows cannot be held against each other: two of almost the same score change places.
        """
        again = [
            one for want, got in zip(expected, found) for one in _found_again(want, got, exact)
        ]
        tolerance = _EXACT_SCORE if exact else _NEAR_SCORE
        scores = [
            np.abs(_scores(want) - _scores(got)) <= tolerance for want, got in zip(expected, found)
        ]
        parts = {_IN_ORDER: float(np.mean(scores))}
        # Of a network that finds nothing yet, none.
        return {f'detections from {_FOUND} on': float(np.mean(again)), **parts} if again else parts

    def largest_differences(
        self, expected: Sequence[Arrays], found: Sequence[Arrays]
    ) -> Dict[str, float]:
        """See `Deployable`: of the scores in order alone, for the same reason."""
        differences = [np.abs(_scores(want) - _scores(got)) for want, got in zip(expected, found)]
        return {_IN_ORDER: float(np.max(differences))}

    def _padding_pixel(self) -> tf.Tensor:
        """Returns what the normalization, which is affine, makes the padding of.

        float32 [3], or [1] of a network that takes gray images.
        """
        black = tf.zeros([1, 1, 1, self.input_shape[-1]])
        lowest, next_one = (self._model.preprocess(one, None) for one in (black, black + 1.0))
        # Of an image without content there is padding alone.
        padding = self._model.preprocess(black, tf.zeros([1, 3], tf.int32))
        return ((padding - lowest) / (next_one - lowest))[0, 0, 0]


def build(
    model: detector.Detector,
    coder: box_coders.BoxCoder,
    post_processor: post_processing.PostProcessor,
    ops: Ops,
    options: Mapping[str, Any],
) -> SingleShotDeployable:
    """The detector for a format.

    Args:
        model: `model.ssd`.
        coder: of its boxes.
        post_processor: from raw predictions to detections.
        ops: what the format computes with.
        options: `max_detections` (those of the config, unless it is given) and `fast_nms`.

    Raises:
        errors.UserError: an option that there is not, or a part of the model has no place in a
            file; the message names the field.
    """
    unknown = {name: one for name, one in options.items() if name not in _OPTIONS}
    interface.refuse_options(unknown, 'detection does not know it')
    _refuse(model, coder, post_processor.rules)
    kept = post_processor.rules
    most = options.get('max_detections') or kept.max_total
    rules = device_suppression.Rules(
        num_classes=model.num_classes,
        max_detections=most,
        max_per_class=kept.max_per_class,
        score_threshold=kept.score_threshold,
        iou_threshold=kept.iou_threshold,
        fast=kept.class_agnostic or bool(options.get('fast_nms')),
        scales=coder.scales,
    )
    return SingleShotDeployable(
        model, post_processor.converter, rules, kept.change_frame, kept.drop_empty
    )


_OPTIONS = ('max_detections', 'fast_nms')


def _refuse(model: detector.Detector, coder: box_coders.BoxCoder, rules: suppression.Rules) -> None:
    """Refuses what the one op of a file does not know."""
    where = model.where
    suppresses = f'{where}.post_processing.batch_non_max_suppression'
    refused = (
        (
            model.resizer.static_size is None,
            f'{where}.image_resizer: inputs differ in size, and a file for small devices has one; '
            'expected fixed_shape_resizer, or keep_aspect_ratio_resizer with '
            'pad_to_max_dimension: true',
        ),
        (
            model.family is not axis_aligned,
            f'{where}.box_type: ROTATED boxes have no place in a file for small devices; expected '
            'UPRIGHT',
        ),
        (
            type(coder) is not box_coders.FasterRcnnBoxCoder,
            f'{where}.box_coder: {_NAMES.get(type(coder), type(coder).__name__)} (keypoints and '
            'other codes) has no place in a file for small devices; expected faster_rcnn_box_coder',
        ),
        (
            rules.soft_sigma > 0,
            f'{suppresses}.soft_nms_sigma: {rules.soft_sigma:g}: files for small devices have no '
            'soft NMS; expected 0',
        ),
        (
            rules.max_classes_per_box > 1,
            f'{suppresses}.max_classes_per_detection: {rules.max_classes_per_box}: in files for '
            'small devices a box has one class; expected 1',
        ),
    )
    for is_refused, message in refused:
        if is_refused:
            raise errors.ConfigError(f'{message}, or --format=saved_model.')


_NAMES: Mapping[type, str] = {
    box_coders.KeypointBoxCoder: 'keypoint_box_coder',
    box_coders.MeanStddevBoxCoder: 'mean_stddev_box_coder',
    box_coders.SquareBoxCoder: 'square_box_coder',
}


def _scores(outputs: Arrays) -> np.ndarray:
    """Scores [N], zeros behind the last detection."""
    scores = outputs[fields.DETECTION_SCORES][0]
    return np.where(np.arange(len(scores)) < outputs[fields.NUM_DETECTIONS][0], scores, 0.0)


def _found_again(expected: Arrays, found: Arrays, exact: bool) -> Sequence[bool]:
    """Whether each detection with a good score is among those of another run.

    Where that has no room left, and none of a lower score, others of the same score may have taken
    its place: all anchors of a network that has learned nothing yet are alike.
    """
    boxes, others = (one[fields.DETECTION_BOXES][0] for one in (expected, found))
    classes, other_classes = (one[fields.DETECTION_CLASSES][0] for one in (expected, found))
    scores, other_scores = _scores(expected), _scores(found)
    is_other = np.arange(len(others)) < found[fields.NUM_DETECTIONS][0]
    least = _SAME_BOX if exact else _NEAR_BOX
    similarity = overlaps.iou(boxes, others)
    lost_from = other_scores.min() if is_other.all() else 0.0
    tolerance = _EXACT_SCORE if exact else _NEAR_SCORE
    return [
        scores[row] <= lost_from + tolerance
        or bool(np.any(is_other & (other_classes == classes[row]) & (similarity[row] > least)))
        for row in np.flatnonzero(scores >= _FOUND)
    ]
