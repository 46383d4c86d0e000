"""Suppression in exports for small devices: for one image, in one op.

`suppress_in_one_op` uses TensorFlow's own op, which other formats support too. `suppress_in_tflite`
uses the op `TFLite_Detection_PostProcess` of TFLite's interpreter, which also decodes boxes.
TensorFlow has no such op. A function that declares to implement it takes its place until the
converter inserts the op. The function itself returns constants. The op sorts all boxes for each
class, so it is given those of the best anchors only.

The boxes of both are not clipped to the image, and their classes start at 0. The number of rows is
fixed. The rows after the last detection are undefined.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, Tuple

import numpy as np
import tensorflow as tf

from model_fns.detection.boxes import axis_aligned, box_coders
from model_fns.detection.detections import suppression

TFLITE_OP = 'TFLite_Detection_PostProcess'
# Ten times the detections of published configs.
TFLITE_CANDIDATES = 1000


@dataclasses.dataclass(frozen=True)
class Rules:
    """Rules of suppression.

    Attributes:
        num_classes: number of classes without background.
        max_detections: number of rows of the outputs.
        max_per_class: largest number of survivors of a class; not used if `fast`.
        score_threshold: only scores above it count.
        iou_threshold: a box that overlaps a better one by more than this is dropped.
        fast: True: an anchor only has its best class, and classes suppress each other.
        scales: scales of the box code, see `box_coders.FasterRcnnBoxCoder`.
        drops_empty: True: boxes without area inside the input are not chosen.
        tflite_candidates: number of anchors, those with the highest score of a class, that TFLite's
            op suppresses by class. A detection changes only if its score is below that of all of
            them. The fast suppression, which sorts once, takes all anchors.
    """

    num_classes: int
    max_detections: int
    max_per_class: int
    score_threshold: float
    iou_threshold: float
    fast: bool
    scales: Tuple[float, float, float, float]
    drops_empty: bool = False
    tflite_candidates: int = TFLITE_CANDIDATES


class Detections(NamedTuple):
    """Detections. B is the batch size, 1 in TFLite, and N the number of rows.

    Attributes:
        boxes: float32 [B, N, 4], normalized to the input.
        classes: float32 [B, N], from 0.
        scores: float32 [B, N], in descending order.
        count: float32 [B]: number of rows that are detections.
    """

    boxes: tf.Tensor
    classes: tf.Tensor
    scores: tf.Tensor
    count: tf.Tensor


def suppress_in_one_op(
    codes: tf.Tensor, scores: tf.Tensor, anchors: tf.Tensor, rules: Rules
) -> Detections:
    """Suppress boxes by TensorFlow's op.

    Args:
        codes: float32 [B, A, 4].
        scores: float32 [B, A, C] or, with a first column of background, [B, A, C + 1].
        anchors: float32 [A, 4], corners.
        rules: rules of suppression.
    """
    boxes = box_coders.FasterRcnnBoxCoder(rules.scales).decode(codes, anchors)
    scores = scores[..., scores.shape[-1] - rules.num_classes :]
    if rules.drops_empty:
        # Dropped afterwards, they had taken the places of others: 99 of 100 detections were left
        # (480f2f8e).
        scores = _drop_empty(boxes, scores)
    if rules.fast:
        return _suppress_across_classes(boxes, scores, rules)
    kept = tf.raw_ops.CombinedNonMaxSuppression(
        boxes=boxes[:, :, tf.newaxis],
        scores=scores,
        max_output_size_per_class=rules.max_per_class,
        max_total_size=rules.max_detections,
        iou_threshold=rules.iou_threshold,
        score_threshold=rules.score_threshold,
        clip_boxes=False,
    )
    batch, room = codes.shape[0], rules.max_detections
    return Detections(
        tf.ensure_shape(kept.nmsed_boxes, [batch, room, axis_aligned.SIZE]),
        tf.ensure_shape(kept.nmsed_classes, [batch, room]),
        tf.ensure_shape(kept.nmsed_scores, [batch, room]),
        tf.cast(kept.valid_detections, tf.float32),
    )


def suppress_in_tflite(
    codes: tf.Tensor, scores: tf.Tensor, anchors: tf.Tensor, rules: Rules
) -> Detections:
    """Suppress the boxes of one image by TFLite's op; anchors must be a constant of the graph.

    Args:
        codes: float32 [1, A, 4].
        scores: float32 [1, A, classes].
        anchors: float32 [A, 4].
        rules: of the suppression.
    """
    room = rules.max_detections
    low, high = np.split(tf.get_static_value(anchors), 2, axis=-1)
    # The op decodes boxes itself, from anchors as center and size.
    centered = tf.constant(np.concatenate([(low + high) / 2, high - low], -1))
    if not rules.fast and len(low) > rules.tflite_candidates:
        # With the 1,917 anchors and 90 classes of a published SSD, sorting all of them was half of
        # the time of an image (5e400fb9).
        best = tf.reduce_max(scores[0, :, scores.shape[-1] - rules.num_classes :], axis=-1)
        rows = tf.math.top_k(best, rules.tflite_candidates).indices
        codes, scores = tf.gather(codes, rows, axis=1), tf.gather(scores, rows, axis=1)
        centered, anchors = tf.gather(centered, rows), tf.gather(anchors, rows)
    if rules.drops_empty:
        # The op decodes boxes again: it has no other input for what is not to be chosen.
        boxes = box_coders.FasterRcnnBoxCoder(rules.scales).decode(codes, anchors)
        scores = _drop_empty(boxes, scores)

    @tf.function(experimental_implements=_op(rules), autograph=False)
    def post_process(
        codes: tf.Tensor, scores: tf.Tensor, anchors: tf.Tensor
    ) -> Tuple[tf.Tensor, ...]:
        del codes, scores, anchors
        shapes = ([1, room, axis_aligned.SIZE], [1, room], [1, room], [1])
        return tuple(tf.zeros(shape) for shape in shapes)

    return Detections(*post_process(codes, scores, centered))


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


def _suppress_across_classes(boxes: tf.Tensor, scores: tf.Tensor, rules: Rules) -> Detections:
    """Suppress all classes as one."""
    as_one = suppression.Rules(
        score_threshold=rules.score_threshold,
        iou_threshold=rules.iou_threshold,
        max_total=rules.max_detections,
        class_agnostic=True,
        portable=True,
    )
    kept = suppression.suppress(boxes[:, :, tf.newaxis], scores, as_one)
    return Detections(
        kept.boxes,
        tf.cast(kept.classes, tf.float32),
        kept.scores,
        tf.cast(kept.counts, tf.float32),
    )


def _op(rules: Rules) -> str:
    """Describe the op with its attributes in the converter's syntax."""
    y, x, h, w = rules.scales
    values = {
        'max_detections': f'i: {rules.max_detections}',
        'max_classes_per_detection': 'i: 1',
        # TensorFlow's converter drops this attribute: the op then keeps 100 (167d54db).
        'detections_per_class': f'i: {rules.max_per_class}',
        'use_regular_nms': f'b: {str(not rules.fast).lower()}',
        'nms_score_threshold': f'f: {rules.score_threshold!r}',
        'nms_iou_threshold': f'f: {rules.iou_threshold!r}',
        'num_classes': f'i: {rules.num_classes}',
        'y_scale': f'f: {y!r}',
        'x_scale': f'f: {x!r}',
        'h_scale': f'f: {h!r}',
        'w_scale': f'f: {w!r}',
    }
    attributes = [f'attr {{ key: "{name}" value {{ {text} }} }}' for name, text in values.items()]
    return ' '.join([f'name: "{TFLITE_OP}"', *attributes])
