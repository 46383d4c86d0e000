"""Non-maximum suppression, which keeps the best one of overlapping boxes.

Greedy suppression visits boxes in descending order of scores, so the result for the best boxes does
not depend on the others. Therefore `suppress` starts with the best pairs of anchor and class, and
adds more pairs only if too few survive. The result is the same as for all pairs.

B is the batch size, A the number of anchors, C that of classes, and K that of the values of a box.
q is 1, or C for boxes by class. N is the largest number of detections of an image.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import ContextManager, Optional, Tuple, Union

import tensorflow as tf

from model_fns.detection.detections import survivors
from model_fns.detection.detections.survivors import Rules

# Initial number of pairs of anchor and class, and its growth factor. 1024 pairs yield a hundred
# detections with a dozen boxes per object. Each step costs little compared with the network.
# It takes a hundredth of the time of all pairs (67fab9e3).
_FIRST_PAIRS = 1024
_GROWTH = 8
# Ranks of pairs are passed as float32, which represents integers exactly up to this number.
_MOST_PAIRS = 1 << 24


@dataclasses.dataclass(frozen=True)
class Detections:
    """Detections in descending order of scores; rows after the last one are zeros.

    Attributes:
        boxes: float32 [B, N, K], inside the window.
        scores: float32 [B, N].
        classes: int32 [B, N], from 0.
        anchors: int32 [B, N]: indices of their rows in the input.
        counts: int32 [B]: number of detections.
    """

    boxes: tf.Tensor
    scores: tf.Tensor
    classes: tf.Tensor
    anchors: tf.Tensor
    counts: tf.Tensor

    def tensors(self) -> Tuple[tf.Tensor, ...]:
        """Return the attributes in order."""
        return self.boxes, self.scores, self.classes, self.anchors, self.counts


def suppress(
    boxes: tf.Tensor,
    scores: tf.Tensor,
    rules: Rules,
    windows: Optional[tf.Tensor] = None,
    counts: Optional[tf.Tensor] = None,
) -> Detections:
    """Suppress overlapping boxes of a batch.

    Example:
        Boxes [0, 0, 2, 2], [0, 0, 2, 1.8] and [4, 4, 6, 6] of one class have the scores 0.9, 0.8
        and 0.7. The second overlaps the first by an IoU of 0.9. So with a threshold of 0.6 the
        first and the third survive.

    Args:
        boxes: float32 [B, A, q, K]. Corners may be swapped; overlaps with a box without area are 0.
        scores: float32 [B, A, C], without background.
        rules: rules of suppression.
        windows: float32 [B, 4] or [1, 4], in the boxes' coordinates: survivors are clipped to it;
            None: they are not clipped, and `rules.change_frame` must be False.
        counts: int32 [B]: number of valid rows of each image; None: all.

    Returns:
        The detections, see `Detections`.

    Raises:
        ValueError: windows are missing for a change of frame, or q is neither 1 nor C.
    """
    if rules.change_frame and windows is None:
        raise ValueError('a change of frame needs windows')
    if boxes.shape[2] not in (1, scores.shape[2]):
        raise ValueError(f'{boxes.shape[2]} boxes an anchor for {scores.shape[2]} classes')
    if counts is not None:
        valid = tf.range(tf.shape(scores)[1]) < counts[:, tf.newaxis]
        scores = tf.where(valid[..., tf.newaxis], scores, tf.constant(-float('inf')))
    if rules.class_agnostic:
        return _class_agnostic(boxes, scores, rules, windows)
    return _suppress_by_class(boxes, scores, rules, windows)


def select_by_class(values: tf.Tensor, classes: tf.Tensor) -> tf.Tensor:
    """Select one of several values by class.

    Args:
        values: [B, n, q, ...].
        classes: int32 [B, n].

    Returns:
        [B, n, ...]: the only value if q is 1, else the value of the class.
    """
    if values.shape[2] == 1:
        return values[:, :, 0]
    return tf.gather(values, classes, batch_dims=2)


def _class_agnostic(
    boxes: tf.Tensor, scores: tf.Tensor, rules: Rules, windows: Optional[tf.Tensor]
) -> Detections:
    classes = tf.argmax(scores, axis=-1, output_type=tf.int32)
    detections = _suppress_by_class(
        select_by_class(boxes, classes)[:, :, tf.newaxis],
        tf.reduce_max(scores, axis=-1, keepdims=True),
        # Suppression sees a single class.
        dataclasses.replace(rules, max_per_class=rules.max_total),
        windows,
    )
    if rules.max_classes_per_box > 1:
        return _with_further_classes(detections, scores, rules)
    classes = tf.gather(classes, detections.anchors, batch_dims=1)
    return dataclasses.replace(detections, classes=tf.where(_is_valid(detections), classes, 0))


def _with_further_classes(detections: Detections, scores: tf.Tensor, rules: Rules) -> Detections:
    """Repeat each detection for each of its best classes, and keep the best N."""
    most = min(rules.max_classes_per_box, scores.shape[2])
    class_scores, classes = tf.math.top_k(tf.gather(scores, detections.anchors, batch_dims=1), most)
    counting = tf.logical_and(
        _is_valid(detections)[..., tf.newaxis], class_scores > rules.score_threshold
    )
    flat = [tf.shape(scores)[0], rules.max_total * most]
    class_scores = tf.where(counting, class_scores, tf.constant(-float('inf')))
    best, indices = tf.math.top_k(tf.reshape(class_scores, flat), rules.max_total)
    rows = indices // most

    def picked(values: tf.Tensor) -> tf.Tensor:
        return tf.gather(values, rows, batch_dims=1)

    return _zero_padded(
        Detections(
            picked(detections.boxes),
            best,
            tf.gather(tf.reshape(classes, flat), indices, batch_dims=1),
            picked(detections.anchors),
            detections.counts,
        )
    )


def _is_valid(detections: Detections) -> tf.Tensor:
    return tf.range(tf.shape(detections.scores)[1]) < detections.counts[:, tf.newaxis]


def _suppress_by_class(
    boxes: tf.Tensor, scores: tf.Tensor, rules: Rules, windows: Optional[tf.Tensor]
) -> Detections:
    """Suppress each class separately, first the best pairs, then more until these are enough."""
    if rules.portable:
        pairs = survivors.all_pairs(boxes, scores)
        left = survivors.find_survivors(pairs, rules, scores.shape[2])
        return _detections(pairs, left, rules, windows)
    best = tf.reduce_max(scores, axis=-1)  # [B, A]
    batch, num_anchors = tf.unstack(tf.shape(best))
    all_pairs = tf.minimum(num_anchors * scores.shape[2], _MOST_PAIRS)
    first = max(_FIRST_PAIRS, 4 * rules.max_total)

    def attempt(
        num_pairs: tf.Tensor, enough: tf.Tensor, *detections: tf.Tensor
    ) -> Tuple[tf.Tensor, ...]:
        del enough, detections
        pairs = survivors.best_pairs(boxes, scores, best, num_pairs)
        bounds = tf.where(num_pairs < all_pairs, pairs.bounds, tf.constant(-float('inf')))
        pairs = dataclasses.replace(pairs, bounds=bounds)
        with _device(rules):
            left = survivors.find_survivors(pairs, rules, scores.shape[2])
        detections = _detections(pairs, left, rules, windows)
        enough = _is_enough(pairs, left, detections, rules, scores.shape[2])
        return (tf.minimum(num_pairs * _GROWTH, _MOST_PAIRS), enough, *detections.tensors())

    # All pairs are in the first attempt, so that the graph has no loop.
    if boxes.shape[1] is not None and boxes.shape[1] * scores.shape[2] <= first:
        return Detections(*attempt(tf.constant(first), tf.constant(False))[2:])
    size = rules.max_total
    nothing = (
        tf.zeros([batch, size, rules.family.SIZE]),
        tf.zeros([batch, size]),
        tf.zeros([batch, size], tf.int32),
        tf.zeros([batch, size], tf.int32),
        tf.zeros([batch], tf.int32),
    )
    detections = tf.while_loop(
        lambda num_pairs, enough, *detections: tf.logical_not(enough),
        attempt,
        (tf.constant(first), tf.constant(False), *nothing),
        parallel_iterations=1,
    )
    return Detections(*detections[2:])


def _device(rules: Rules) -> ContextManager[object]:
    return tf.device('/CPU:0') if rules.on_cpu else contextlib.nullcontext()


def _detections(
    pairs: survivors.Pairs, left: survivors.Survivors, rules: Rules, windows: Optional[tf.Tensor]
) -> Detections:
    """Clip survivors to their windows, and keep the N best in descending order of scores."""
    slots, classes = left.places % pairs.slots, left.places // pairs.slots
    detections = Detections(
        boxes=select_by_class(tf.gather(pairs.boxes, slots, batch_dims=1), classes),
        scores=left.scores,
        classes=classes,
        anchors=tf.gather(pairs.anchors, slots, batch_dims=1),
        counts=tf.zeros_like(left.scores[:, 0]),
    )
    return keep_best(detections, rules.max_total, rules, windows)


def keep_best(
    detections: Detections, most: Union[int, tf.Tensor], rules: Rules, windows: Optional[tf.Tensor]
) -> Detections:
    """Clip detections to their windows, and keep the best in descending order of scores.

    Args:
        detections: detections in any order; a score of -inf is that of no detection, and counts
            mean nothing.
        most: number of rows to keep.
        rules: `drop_empty` and `change_frame` say what becomes of boxes beyond the window.
        windows: float32 [B, 4] or [1, 4]; None: boxes stay as they are.
    """
    boxes, scores = detections.boxes, detections.scores
    if windows is not None:
        # Clipped after suppression, as published: overlaps are those of whole boxes.
        boxes = rules.family.clip_to_window(boxes, windows[:, tf.newaxis])
        if rules.drop_empty:
            # As published, this comes after suppression: such boxes have taken places of
            # `max_per_class`. A score below 0 marks a row without a detection there.
            visible = tf.logical_and(rules.family.area(boxes) > 0, scores >= 0)
            scores = tf.where(visible, scores, tf.constant(-float('inf')))
        if rules.change_frame:
            boxes = rules.family.change_frame(boxes, windows[:, tf.newaxis])
    best, rows = tf.math.top_k(scores, most)

    def picked(values: tf.Tensor) -> tf.Tensor:
        return tf.gather(values, rows, batch_dims=1)

    classes, anchors = picked(detections.classes), picked(detections.anchors)
    return _zero_padded(Detections(picked(boxes), best, classes, anchors, detections.counts))


def _zero_padded(detections: Detections) -> Detections:
    """Count detections, and set those with a score of -inf to zero."""
    valid = detections.scores > -float('inf')
    return Detections(
        boxes=tf.where(valid[..., tf.newaxis], detections.boxes, 0.0),
        scores=tf.where(valid, detections.scores, 0.0),
        classes=tf.where(valid, detections.classes, 0),
        anchors=tf.where(valid, detections.anchors, 0),
        counts=tf.reduce_sum(tf.cast(valid, tf.int32), axis=1),
    )


def _is_enough(
    pairs: survivors.Pairs,
    left: survivors.Survivors,
    detections: Detections,
    rules: Rules,
    num_classes: int,
) -> tf.Tensor:
    """Check that no omitted pair could change the detections of any image."""
    bounds = pairs.bounds
    none_left = bounds <= rules.score_threshold
    full = tf.logical_and(
        tf.equal(detections.counts, rules.max_total),
        detections.scores[:, rules.max_total - 1] > bounds,
    )
    certain = tf.cast(left.scores > bounds[:, tf.newaxis], tf.int32)
    no_room = tf.reduce_sum(certain, axis=1) >= rules.max_per_class * num_classes
    return tf.reduce_all(none_left | full | no_room)
