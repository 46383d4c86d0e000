"""Suppression at the end of a file: in one op, of boxes that all classes share.

`suppress_in_one_op` uses TensorFlow's own op, which other formats support too. `suppress_in_tflite`
uses the op `TFLite_Detection_PostProcess` of TFLite's interpreter, which also decodes boxes.
TensorFlow has no such op. A function that declares to implement it takes its place until the
converter inserts the op. The function itself returns constants. The op sorts all boxes for each
class, so it is given those of the best anchors only.

B is the batch size, 1 in TFLite, A the number of anchors, C that of classes, and N the largest
number of detections. Both return tensors by the names of `fields`: boxes float32 [B, N, 4],
normalized to the input and not clipped to it; classes float32 [B, N], from 0; scores float32 [B,
N], in descending order; the number of detections float32 [B]. The rows after the last detection are
undefined.
"""

from __future__ import annotations

import dataclasses
from typing import Tuple

import numpy as np
import tensorflow as tf

from estimator_lib.task import Tensors
from model_fns.detection import fields
from model_fns.detection.boxes import axis_aligned, box_coders
from model_fns.detection.detections import suppression

TFLITE_OP = 'TFLite_Detection_PostProcess'
# Ten times the detections of published configs.
TFLITE_CANDIDATES = 1000
# The outputs of both ops, in the order of TFLite's.
_OUTPUTS = (
    fields.DETECTION_BOXES,
    fields.DETECTION_CLASSES,
    fields.DETECTION_SCORES,
    fields.NUM_DETECTIONS,
)


def suppress_in_one_op(boxes: tf.Tensor, scores: tf.Tensor, rules: suppression.Rules) -> Tensors:
    """Suppress boxes by TensorFlow's op.

    Args:
        boxes: float32 [B, A, 4], normalized to the input.
        scores: float32 [B, A, C].
        rules: portable rules of suppression; with `drop_empty`, boxes without area inside the input
            are not chosen.
    """
    if rules.drop_empty:
        # Dropped afterwards, they had taken the places of others: 99 of 100 detections were left
        # (480f2f8e).
        scores = _drop_empty(boxes, scores)
    boxes, room = boxes[:, :, tf.newaxis], rules.max_total
    if rules.class_agnostic:
        kept = suppression.suppress(boxes, scores, dataclasses.replace(rules, change_frame=False))
        classes, counts = (tf.cast(value, tf.float32) for value in (kept.classes, kept.counts))
        return dict(zip(_OUTPUTS, (kept.boxes, classes, kept.scores, counts)))
    found = tf.raw_ops.CombinedNonMaxSuppression(
        boxes=boxes,
        scores=scores,
        max_output_size_per_class=rules.max_per_class,
        max_total_size=room,
        iou_threshold=rules.iou_threshold,
        score_threshold=rules.score_threshold,
        clip_boxes=False,
    )
    shape = [boxes.shape[0], room]
    values = (
        tf.ensure_shape(found.nmsed_boxes, [*shape, axis_aligned.SIZE]),
        tf.ensure_shape(found.nmsed_classes, shape),
        tf.ensure_shape(found.nmsed_scores, shape),
        tf.cast(found.valid_detections, tf.float32),
    )
    return dict(zip(_OUTPUTS, values))


def suppress_in_tflite(
    codes: tf.Tensor,
    scores: tf.Tensor,
    anchors: tf.Tensor,
    coder: box_coders.FasterRcnnBoxCoder,
    num_classes: int,
    rules: suppression.Rules,
    candidates: int = TFLITE_CANDIDATES,
) -> Tensors:
    """Suppress the boxes of one image by TFLite's op; anchors must be a constant of the graph.

    Args:
        codes: float32 [1, A, 4].
        scores: float32 [1, A, C] or, with a first column of background, [1, A, C + 1].
        anchors: float32 [A, 4], corners.
        coder: coder of the boxes.
        num_classes: C.
        rules: rules of suppression; with `drop_empty`, boxes without area inside the input are not
            chosen.
        candidates: number of anchors, those with the highest score of a class, that are suppressed
            by class. A detection changes only if its score is below that of all of them. The
            class-agnostic suppression, which sorts once, takes all anchors.
    """
    low, high = np.split(tf.get_static_value(anchors), 2, axis=-1)
    # The op decodes boxes itself, from anchors as center and size.
    centered = tf.constant(np.concatenate([(low + high) / 2, high - low], -1))
    if not rules.class_agnostic and len(low) > candidates:
        # With the 1,917 anchors and 90 classes of a published SSD, sorting all of them was half of
        # the time of an image (5e400fb9).
        best = tf.reduce_max(scores[0, :, scores.shape[-1] - num_classes :], axis=-1)
        rows = tf.math.top_k(best, candidates).indices
        codes, scores = tf.gather(codes, rows, axis=1), tf.gather(scores, rows, axis=1)
        centered, anchors = tf.gather(centered, rows), tf.gather(anchors, rows)
    if rules.drop_empty:
        # The op decodes boxes again: it has no other input for what is not to be chosen.
        scores = _drop_empty(coder.decode(codes, anchors), scores)

    @tf.function(experimental_implements=_describe_op(coder, num_classes, rules), autograph=False)
    def post_process(
        codes: tf.Tensor, scores: tf.Tensor, anchors: tf.Tensor
    ) -> Tuple[tf.Tensor, ...]:
        del codes, scores, anchors
        room = [1, rules.max_total]
        return tuple(tf.zeros(shape) for shape in ([*room, axis_aligned.SIZE], room, room, [1]))

    return dict(zip(_OUTPUTS, post_process(codes, scores, centered)))


def _drop_empty(boxes: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """Give boxes without area inside the input scores below any threshold.

    Args:
        boxes: float32 [B, A, 4], normalized to the input.
        scores: float32 [B, A, columns].

    Returns:
        float32 [B, A, columns].
    """
    has_area = axis_aligned.has_area(tf.clip_by_value(boxes, 0.0, 1.0))
    return tf.where(has_area[..., tf.newaxis], scores, -1.0)


def _describe_op(
    coder: box_coders.FasterRcnnBoxCoder, num_classes: int, rules: suppression.Rules
) -> str:
    """Describe TFLite's op with its attributes in the converter's syntax."""
    values = {
        'max_detections': f'i: {rules.max_total}',
        'max_classes_per_detection': 'i: 1',
        # TensorFlow's converter drops this attribute: the op then keeps 100 (167d54db).
        'detections_per_class': f'i: {rules.max_per_class}',
        'use_regular_nms': f'b: {str(not rules.class_agnostic).lower()}',
        'nms_score_threshold': f'f: {rules.score_threshold!r}',
        'nms_iou_threshold': f'f: {rules.iou_threshold!r}',
        'num_classes': f'i: {num_classes}',
        **{f'{side}_scale': f'f: {scale!r}' for side, scale in zip('yxhw', coder.scales)},
    }
    attributes = [f'attr {{ key: "{name}" value {{ {text} }} }}' for name, text in values.items()]
    return ' '.join([f'name: "{TFLITE_OP}"', *attributes])
