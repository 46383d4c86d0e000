"""Classes that boxes are learned with: several of equal boxes, soft scores, classes above."""

from __future__ import annotations

import dataclasses
from typing import Optional

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.task import Example
from model_fns.detection import fields
from model_fns.detection.data.examples import fill_missing, take_boxes
from model_fns.structures import label_map as label_maps

# Key of a record with the scores of all classes, box by box.
SCORES = 'image/object/class/multiclass_scores'
# As published, boxes are equal if their sides are in the same of these parts of an image.
_PARTS = 10000


def merge_equal_boxes(example: Example) -> Example:
    """Merge equal boxes to one with all of their classes; the rest is that of the first of them.

    Args:
        example: an example with `fields.CLASSES` as float32 [n, C].
    """
    parts = tf.cast(tf.round(example[fields.BOXES] * _PARTS), tf.int32)
    # Groups are numbered in the order of their first boxes, so that boxes keep their order.
    unique, groups = tf.raw_ops.UniqueV2(x=parts, axis=tf.constant([0], tf.int32))
    count, rows = tf.shape(unique)[0], tf.range(tf.shape(parts)[0])
    classes = tf.math.unsorted_segment_max(example[fields.CLASSES], groups, count)
    merged = take_boxes(example, tf.math.unsorted_segment_min(rows, groups, count))
    return {**merged, fields.CLASSES: classes}


def decode_scores(scores: tf.Tensor, classes: tf.Tensor, num_classes: int) -> tf.Tensor:
    """Decode the scores of all classes: float32 [n, C]; one-hot classes if a record has none.

    Args:
        scores: float32 [n * C] or [0], as parsed.
        classes: int64 [n], from 0.
        num_classes: C.
    """
    one_hot = tf.one_hot(classes, num_classes)
    missing = tf.reshape(one_hot, [-1])[tf.size(scores) :]
    return tf.reshape(tf.concat([scores, missing], axis=0), tf.shape(one_hot))


@dataclasses.dataclass(frozen=True)
class Hierarchy:
    """Relations of classes, of which an object of a class is one of all classes above it too.

    Attributes:
        above: bool [C, C]: a row for each class, true for itself and the classes above it.
        below: bool [C, C]: likewise, for the classes below it.
    """

    above: np.ndarray
    below: np.ndarray

    def expand_boxes(self, example: Example) -> Example:
        """Add a copy of each box for each class above its own, and sort copies by class.

        Args:
            example: an example with `fields.CLASSES` as int64 [n], from 0.
        """
        pairs = tf.where(tf.gather(tf.constant(self.above), example[fields.CLASSES]))
        return {**take_boxes(example, pairs[:, 0]), fields.CLASSES: pairs[:, 1]}

    def expand_image(self, ids: tf.Tensor, confidences: tf.Tensor) -> tf.Tensor:
        """Compute the classes whose presence or absence is known: float32 [C], 0 or 1.

        A present class tells about the classes above it, and an absent one about those below it.

        Args:
            ids: int64 [m], indices of verified classes, from 0; others are ignored.
            confidences: float32 [m] or [0]; 0 for absent classes.
        """
        confidences = fill_missing(confidences, tf.size(ids), 1.0)
        hot = tf.one_hot(ids, len(self.above))
        present = tf.cast(confidences > 0, tf.float32)[:, tf.newaxis]
        related = tf.matmul(hot * present, tf.constant(self.above, tf.float32))
        related += tf.matmul(hot * (1.0 - present), tf.constant(self.below, tf.float32))
        return tf.minimum(tf.reduce_sum(related, axis=0), 1.0)


def build_hierarchy(
    label_map: Optional[label_maps.LabelMap], num_classes: int, where: str
) -> Hierarchy:
    """Build the hierarchy of a label map.

    Args:
        label_map: label map with the ids of ancestors and descendants.
        num_classes: C.
        where: path of the input reader, for error messages.

    Raises:
        errors.ConfigError: there is no label map, or it has no hierarchy.
        errors.DataError: the hierarchy has an id that no class has.
    """
    above, below = (np.eye(num_classes, dtype=bool) for _ in range(2))
    for item in label_map.items if label_map else ():
        for related, ids in ((above, item.ancestor_ids), (below, item.descendant_ids)):
            for class_id in ids:
                related[label_map.index(item.id), label_map.index(class_id)] = True
    if (above == np.eye(num_classes, dtype=bool)).all():
        found = f'{label_map.path} has none' if label_map else 'there is no label_map_path'
        raise errors.ConfigError(
            f'{where}.expand_labels_hierarchy: true, but {found}; expected ancestor_ids in the '
            'items of the label map.'
        )
    return Hierarchy(above, below)
