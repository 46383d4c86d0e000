"""Panoptic quality (Kirillov et al. 2019, Panoptic Segmentation, section 4).

A segment is an instance, or all pixels of a class without instances. A predicted segment and a true
one match where they have the same class and an IoU above 0.5; so each has at most one match. TP, FP
and FN are counted per class, and the IoUs of matches are summed:

    PQ = sum of IoU / (TP + FP / 2 + FN / 2) = SQ * RQ
    SQ = sum of IoU / TP
    RQ = TP / (TP + FP / 2 + FN / 2)

Void pixels (the ignore label, and things without an instance id) belong to no true segment: they
are left out of unions. A predicted segment that is mostly void and has no match is not counted as
wrong. All images of a batch are counted at once: a segment's key includes its image.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple

import numpy as np
import tensorflow as tf

from model_fns.segmentation.instances import PANOPTIC_DIVISOR, InstanceGrouping

QUALITIES = ('panoptic_quality', 'segmentation_quality', 'recognition_quality')
THINGS, STUFF = 'things', 'stuff'

# The rows of `panoptic_counts`.
NUM_COUNTS = 4
_IOU, _TRUE_POSITIVE, _FALSE_POSITIVE, _FALSE_NEGATIVE = range(NUM_COUNTS)

_VOID = -1
# Larger than any instance id, so that the class of a key is known.
_KEYS_PER_CLASS = 1 << 31


class _Segments(NamedTuple):
    """The segments of a batch.

    Attributes:
        index: int32 [pixels]: the number of the segment of each pixel.
        keys: int64 [n]: negative for void.
        areas: int32 [n], in pixels.
        classes: int32 [n].
    """

    index: tf.Tensor
    keys: tf.Tensor
    areas: tf.Tensor
    classes: tf.Tensor

    @property
    def is_real(self) -> tf.Tensor:
        """Mask of the segments that are not void: bool [n]."""
        return self.keys >= 0


class _Pairs(NamedTuple):
    """The pairs of a predicted and a true segment that share pixels.

    Attributes:
        found: int32 [m]: number of the predicted segment.
        truth: int32 [m]: number of the true segment.
        areas: int32 [m]: pixels that they share.
    """

    found: tf.Tensor
    truth: tf.Tensor
    areas: tf.Tensor


def panoptic_counts(
    predictions: tf.Tensor,
    labels: tf.Tensor,
    instances: tf.Tensor,
    ignore_label: int,
    grouping: InstanceGrouping,
) -> tf.Tensor:
    """Count the matches of a batch; an evaluation sums these counts.

    Args:
        predictions: int32 [B, H, W]: `fields.PANOPTIC_PREDICTIONS`.
        labels: int32 [B, H, W], classes or the ignore label.
        instances: int32 [B, H, W]; 0 is no instance.
        ignore_label: of void pixels.
        grouping: has the classes with instances.

    Returns:
        float64 [4, C]: per class the sum of the IoUs of matches, and the numbers of matches, of
        predicted segments that match none, and of true segments that match none.
    """
    num_classes = grouping.num_classes
    truth = _segments(_true_keys(labels, instances, ignore_label, grouping), num_classes)
    found = _segments(_predicted_keys(predictions, num_classes), num_classes)
    pairs = _pairs(found, truth)
    pair_classes = tf.gather(truth.classes, pairs.truth)
    void_areas = _sums(
        tf.where(tf.gather(truth.is_real, pairs.truth), 0, pairs.areas), pairs.found, found
    )
    ious = _ious(pairs, found.areas - void_areas, truth.areas)
    is_match = (
        tf.gather(found.is_real, pairs.found)
        & tf.gather(truth.is_real, pairs.truth)
        & tf.equal(tf.gather(found.classes, pairs.found), pair_classes)
        # Strictly above: the proof that a segment has at most one match needs it.
        & (ious > 0.5)
    )
    matched = tf.cast(is_match, tf.int32)
    found_is_matched = _sums(matched, pairs.found, found) > 0
    truth_is_matched = _sums(matched, pairs.truth, truth) > 0
    # Segments that are more than half void are not counted, as in panopticapi.
    is_wrong = found.is_real & ~found_is_matched & (2 * void_areas <= found.areas)
    is_missed = truth.is_real & ~truth_is_matched

    def per_class(values: tf.Tensor, classes: tf.Tensor) -> tf.Tensor:
        return tf.math.unsorted_segment_sum(tf.cast(values, tf.float64), classes, num_classes)

    return tf.stack(
        [
            per_class(tf.where(is_match, ious, 0.0), pair_classes),
            per_class(is_match, pair_classes),
            per_class(is_wrong, found.classes),
            per_class(is_missed, truth.classes),
        ]
    )


def quality_names(num_classes: int) -> List[str]:
    """Return the names of all scalars of `qualities`."""
    names = [_name(quality, group) for group in ('', THINGS, STUFF) for quality in QUALITIES]
    return [*names, *(_name(QUALITIES[0], f'class_{index}') for index in range(num_classes))]


def qualities(counts: np.ndarray, is_thing: np.ndarray) -> Dict[str, float]:
    """Compute the scalars of an evaluation.

    Args:
        counts: [4, C], sums of `panoptic_counts`.
        is_thing: bool [C].

    Returns:
        The means over classes, over things and over stuff, and PQ by class. Classes without true or
        predicted segments are left out, and so are groups without a class.
    """
    counts = np.asarray(counts, np.float64)
    matches = counts[_TRUE_POSITIVE]
    total = matches + 0.5 * (counts[_FALSE_POSITIVE] + counts[_FALSE_NEGATIVE])
    is_there = total > 0
    # Where nothing is there, the result is masked: only the warning of NumPy is avoided.
    recognition = matches / np.where(is_there, total, 1.0)
    segmentation = counts[_IOU] / np.maximum(matches, 1.0)
    by_class = (recognition * segmentation, segmentation, recognition)
    scalars = {}
    for group, members in (('', is_there), (THINGS, is_thing), (STUFF, ~is_thing)):
        chosen = is_there & members
        if chosen.any():
            for quality, values in zip(QUALITIES, by_class):
                scalars[_name(quality, group)] = float(values[chosen].mean())
    for index in np.flatnonzero(is_there):
        scalars[_name(QUALITIES[0], f'class_{index}')] = float(by_class[0][index])
    return scalars


def _name(quality: str, group: str) -> str:
    return f'{quality}_{group}' if group else quality


def _true_keys(
    labels: tf.Tensor, instances: tf.Tensor, ignore_label: int, grouping: InstanceGrouping
) -> tf.Tensor:
    """Build a key for each true segment, `_VOID` for none: int64 [B, H, W]."""
    counted = tf.not_equal(labels, ignore_label)
    classes = tf.where(counted, labels, 0)
    is_thing = tf.gather(tf.constant(grouping.things()), classes)
    is_void = ~counted | (is_thing & tf.equal(instances, 0))
    keys = _keys(classes, tf.where(is_thing, instances, 0), grouping.num_classes)
    return tf.where(is_void, tf.constant(_VOID, tf.int64), keys)


def _predicted_keys(predictions: tf.Tensor, num_classes: int) -> tf.Tensor:
    is_void = predictions < 0
    known = tf.where(is_void, 0, predictions)
    keys = _keys(known // PANOPTIC_DIVISOR, known % PANOPTIC_DIVISOR, num_classes)
    return tf.where(is_void, tf.constant(_VOID, tf.int64), keys)


def _keys(classes: tf.Tensor, instances: tf.Tensor, num_classes: int) -> tf.Tensor:
    """Build a unique key for each image, class and instance: int64 [B, H, W]."""
    image = tf.range(tf.shape(classes)[0])[:, tf.newaxis, tf.newaxis]
    rows = tf.cast(image * num_classes + classes, tf.int64)
    return rows * _KEYS_PER_CLASS + tf.cast(instances, tf.int64)


def _segments(keys: tf.Tensor, num_classes: int) -> _Segments:
    unique, index, areas = tf.unique_with_counts(tf.reshape(keys, [-1]))
    classes = tf.cast(tf.maximum(unique, 0) // _KEYS_PER_CLASS % num_classes, tf.int32)
    return _Segments(index, unique, areas, classes)


def _pairs(found: _Segments, truth: _Segments) -> _Pairs:
    num_true = tf.size(truth.keys, tf.int64)
    # int64 keys: products of two numbers of segments may exceed int32.
    pairs, _, areas = tf.unique_with_counts(
        tf.cast(found.index, tf.int64) * num_true + tf.cast(truth.index, tf.int64)
    )
    return _Pairs(tf.cast(pairs // num_true, tf.int32), tf.cast(pairs % num_true, tf.int32), areas)


def _ious(pairs: _Pairs, found_areas: tf.Tensor, true_areas: tf.Tensor) -> tf.Tensor:
    """Compute the IoU of each pair, from areas without void pixels: float64 [m]."""
    unions = tf.gather(found_areas, pairs.found) + tf.gather(true_areas, pairs.truth) - pairs.areas
    return tf.math.divide_no_nan(tf.cast(pairs.areas, tf.float64), tf.cast(unions, tf.float64))


def _sums(values: tf.Tensor, index: tf.Tensor, segments: _Segments) -> tf.Tensor:
    """Sum values over the pairs of each segment."""
    return tf.math.unsorted_segment_sum(values, index, tf.size(segments.keys))
