"""Keypoints of records, ordered by number or named."""

from __future__ import annotations

import dataclasses
from typing import Dict, Optional, Tuple

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.task import Example
from model_fns.detection import fields
from model_fns.detection.data import instance_checks
from model_fns.detection.data.examples import fill_missing
from model_fns.structures.label_map import LabelMap

# (name, index) of keypoints.
Places = Tuple[Tuple[str, int], ...]

_NAN = float('nan')
_UNKNOWN = -1


@dataclasses.dataclass(frozen=True)
class KeypointDecoder:
    """Decoder of the keypoints of the n boxes of a record.

    Attributes:
        count: k, the number of keypoints of each box.
        places: indices of keypoints by name; None: a record has all keypoints, in order.
    """

    count: int
    places: Optional[Places] = None

    def keys(self) -> Dict[str, tf.DType]:
        """List the keys of keypoints in a record with their types."""
        keys = {
            instance_checks.Y: tf.float32,
            instance_checks.X: tf.float32,
            instance_checks.VISIBILITY: tf.int64,
        }
        return keys if self.places is None else {**keys, instance_checks.TEXT: tf.string}

    def are_sound(self, parsed: Dict[str, tf.Tensor], boxes: tf.Tensor) -> tf.Tensor:
        """Check that lists have the length of so many boxes (int32 scalar): bool scalar."""
        sizes = tf.stack([tf.size(parsed[key]) for key in self.keys()])
        most = tf.reduce_max(sizes)
        # Named keypoints: boxes have the same number of keypoints, but not necessarily `count`.
        expected = boxes * self.count if self.places is None else most
        filled = tf.logical_or(tf.equal(sizes, 0), tf.equal(sizes, expected))
        required = sizes[:2] if self.places is None else tf.gather(sizes, [0, 1, 3])
        conditions = [
            tf.reduce_all(filled),
            tf.reduce_all(tf.equal(required, required[0])),
            tf.equal(most % tf.maximum(boxes, 1), 0),
        ]
        return tf.reduce_all(tf.stack(conditions))

    def decode(self, parsed: Dict[str, tf.Tensor], boxes: tf.Tensor) -> Example:
        """Decode points [n, k, 2], NaN for invisible ones, and visibilities [n, k].

        Args:
            parsed: lists of the record; see `are_sound`.
            boxes: int32 scalar, n.
        """
        total = boxes * self.count if self.places is None else tf.size(parsed[instance_checks.TEXT])
        points = tf.stack(
            [
                fill_missing(parsed[key], total, _NAN)
                for key in (instance_checks.Y, instance_checks.X)
            ],
            axis=-1,
        )
        visible = fill_missing(parsed[instance_checks.VISIBILITY] > 0, total, True)
        if self.places is not None:
            points, visible = self._placed(parsed[instance_checks.TEXT], points, visible, boxes)
        points = tf.reshape(points, [boxes, self.count, 2])
        visible = tf.reshape(visible, [boxes, self.count])
        return {
            fields.KEYPOINTS: tf.where(visible[..., tf.newaxis], points, _NAN),
            fields.KEYPOINT_VISIBILITIES: visible,
        }

    def _placed(
        self, names: tf.Tensor, points: tf.Tensor, visible: tf.Tensor, boxes: tf.Tensor
    ) -> Tuple[tf.Tensor, tf.Tensor]:
        """Move points [t, 2] and visibilities [t] to the indices of their names; others are NaN."""
        initializer = tf.lookup.KeyValueTensorInitializer(
            tf.constant([name for name, _ in self.places], tf.string),
            tf.constant([place for _, place in self.places], tf.int32),
        )
        places = tf.lookup.StaticHashTable(initializer, _UNKNOWN).lookup(names)
        points_per_box = tf.maximum(tf.size(names) // tf.maximum(boxes, 1), 1)
        # `are_sound` has checked that all boxes have the same number of named keypoints.
        rows = tf.range(tf.size(names)) // points_per_box
        known = tf.where(places >= 0)[:, 0]
        slots = tf.gather(rows * self.count + places, known)[:, tf.newaxis]
        total = boxes * self.count
        placed = tf.tensor_scatter_nd_update(
            tf.fill([total, 2], _NAN), slots, tf.gather(points, known)
        )
        seen = tf.tensor_scatter_nd_update(
            tf.zeros([total], tf.bool), slots, tf.gather(visible, known)
        )
        return placed, seen


def index_keypoints(label_map: Optional[LabelMap], count: int, where: str) -> Places:
    """Return the index of each named keypoint in a label map: from 0, over all classes.

    Args:
        label_map: a label map with keypoints.
        count: number of keypoints of a box in examples.
        where: path of the reader, for error messages.

    Raises:
        errors.ConfigError: no keypoints, a name with two numbers, or a number that is too large.
    """
    field = f'{where}.use_keypoint_label_map'
    if not count:
        raise errors.ConfigError(f'{field}: true, without num_keypoints; expected both.')
    places: Dict[str, int] = {}
    for item in label_map.items if label_map is not None else ():
        for number, label in item.keypoints:
            if places.setdefault(label, number) != number:
                raise errors.ConfigError(
                    f'{field}: the label map has two numbers for the keypoint {label!r}, '
                    f'{places[label]} and {number}; expected a name for each.'
                )
            if not 0 <= number < count:
                raise errors.ConfigError(
                    f'{field}: the keypoint {label!r} has the number {number} in the label map; '
                    f'expected 0 to {count - 1}, as num_keypoints is {count}.'
                )
    if not places:
        raise errors.ConfigError(
            f'{field}: the label map names no keypoints; expected keypoints {{ id: 0 label: '
            '"nose" } and so on in its items.'
        )
    return tuple(sorted(places.items()))
