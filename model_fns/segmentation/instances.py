"""Grouping of pixels to instances and a panoptic map, by a heat map of centers and offsets.

The steps of Panoptic-DeepLab (Cheng et al. 2020, section 3.3): the peaks of the heat map are the
instances. Each pixel of a class with instances belongs to the center that its offset points at. An
instance has the class of most of its pixels. B is the batch, H x W the size of the maps, K
the most instances of an image.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, Optional, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from model_fns.segmentation import fields
from model_fns.structures import heatmaps
from protos import segmentation_pb2

# A pixel of the panoptic map is class * this + instance, where 0 is no instance.
# Cityscapes' instanceIds are made with 1000 too.
PANOPTIC_DIVISOR = 1000
UNLABELED = -1

_WHERE = 'model.segmentation.instance_grouping'


@dataclasses.dataclass(frozen=True)
class InstanceGrouping:
    """Parameters of the grouping, and the grouping itself.

    Attributes:
        num_classes: C.
        thing_classes: those with instances, in ascending order.
        center_threshold: a peak is at least this high.
        suppression_window: side in pixels of the square in which a peak is the highest.
        max_instances: K.
        min_instance_area: instances with fewer pixels are removed.
        min_stuff_area: classes without instances are removed where they have fewer pixels.
    """

    num_classes: int
    thing_classes: Tuple[int, ...]
    # Threshold, window and number are those of Panoptic-DeepLab's published configs.
    center_threshold: float = 0.1
    suppression_window: int = 7
    max_instances: int = 200
    min_instance_area: int = 0
    min_stuff_area: int = 0

    @classmethod
    def from_config(
        cls, config: segmentation_pb2.InstanceGrouping, num_classes: int
    ) -> InstanceGrouping:
        """Build the grouping of a config.

        Raises:
            errors.ConfigError: an unknown class, or a value out of its range.
        """
        unknown = [index for index in config.thing_classes if index >= num_classes]
        if unknown:
            raise errors.ConfigError(
                f'{_WHERE}.thing_classes: {unknown[0]} is not a class; expected 0 to '
                f'{num_classes - 1}.'
            )
        if not 1 <= config.max_instances < PANOPTIC_DIVISOR:
            raise errors.ConfigError(
                f'{_WHERE}.max_instances is {config.max_instances}; expected 1 to '
                f'{PANOPTIC_DIVISOR - 1}.'
            )
        if config.suppression_window % 2 == 0:
            raise errors.ConfigError(
                f'{_WHERE}.suppression_window is {config.suppression_window}; expected an odd '
                'number, which has a middle.'
            )
        return cls(
            num_classes,
            # Without a list, all but class 0, which is the background of most sets.
            tuple(sorted(set(config.thing_classes))) or tuple(range(1, num_classes)),
            config.center_threshold,
            config.suppression_window,
            config.max_instances,
            config.min_instance_area,
            config.min_stuff_area,
        )

    def group(
        self,
        semantic: tf.Tensor,
        heatmap: tf.Tensor,
        offsets: tf.Tensor,
        is_image: Optional[tf.Tensor] = None,
    ) -> Dict[str, tf.Tensor]:
        """Group pixels to instances and the panoptic map.

        Args:
            semantic: int64 [B, H, W], predicted classes.
            heatmap: float32 [B, H, W].
            offsets: float32 [B, H, W, 2], rows and columns, in pixels.
            is_image: bool [B, H, W]: False in padding, which counts for no area; None: no padding.

        Returns:
            `fields.INSTANCE_PREDICTIONS` int32 [B, H, W]: 0 for none, else 1 to K without gaps, the
            highest peak first; and `fields.PANOPTIC_PREDICTIONS` int32 [B, H, W], where pixels
            of removed segments, and of things without an instance, are `UNLABELED`.
        """
        semantic = tf.cast(semantic, tf.int32)
        if is_image is None:
            is_image = tf.ones_like(semantic, tf.bool)
        is_thing = tf.gather(tf.constant(self.things()), semantic)
        centers = heatmaps.highest_peaks(
            heatmap, self.center_threshold, self.suppression_window, self.max_instances
        )
        nearest = nearest_centers(offsets, centers)
        instances = tf.where(is_thing & is_image, nearest, 0)
        instances, classes = self._classify(instances, semantic)
        of_instances = classes * PANOPTIC_DIVISOR + instances
        is_stuff = is_image & ~is_thing & ~self._find_small_stuff(semantic, is_image)
        of_stuff = tf.where(is_stuff, semantic * PANOPTIC_DIVISOR, UNLABELED)
        return {
            fields.INSTANCE_PREDICTIONS: instances,
            fields.PANOPTIC_PREDICTIONS: tf.where(instances > 0, of_instances, of_stuff),
        }

    def _classify(self, instances: tf.Tensor, semantic: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
        """Remove small instances, renumber the others, and find the class of each.

        The class is that of most of the instance's pixels, the lowest one of several.

        Returns:
            The instance of each pixel and the class of that instance, both int32 [B, H, W].
        """
        batch = tf.shape(instances)[0]
        # One numbering for the instances of all images; the first number of each is no instance.
        rows = _number_by_image(instances, self.max_instances + 1)
        num_rows = batch * (self.max_instances + 1)
        votes = _count(rows * self.num_classes + semantic, num_rows * self.num_classes)
        votes = tf.reshape(votes, [-1, self.max_instances + 1, self.num_classes])
        areas = tf.reduce_sum(votes, axis=-1)
        is_instance = tf.range(self.max_instances + 1) > 0
        # At least 1: peaks of which no pixel is the nearest get no number.
        kept = (areas >= max(1, self.min_instance_area)) & is_instance
        number = tf.cumsum(tf.cast(kept, tf.int32), axis=1)
        number = tf.where(kept, number, 0)
        classes = tf.argmax(votes, axis=-1, output_type=tf.int32)
        return (
            tf.gather(tf.reshape(number, [-1]), rows),
            tf.gather(tf.reshape(classes, [-1]), rows),
        )

    def _find_small_stuff(self, semantic: tf.Tensor, is_image: tf.Tensor) -> tf.Tensor:
        """Find the pixels whose class has too few pixels in the image: bool [B, H, W]."""
        rows = _number_by_image(semantic, self.num_classes)
        num_rows = tf.shape(semantic)[0] * self.num_classes
        areas = _count(tf.where(is_image, rows, num_rows), num_rows)
        return tf.gather(areas < self.min_stuff_area, rows)

    def things(self) -> np.ndarray:
        """Return a mask of the classes with instances: bool [C]."""
        return np.isin(np.arange(self.num_classes), self.thing_classes)


def nearest_centers(offsets: tf.Tensor, centers: heatmaps.Peaks) -> tf.Tensor:
    """Find the center nearest to the position that each pixel's offset points at.

    A loop compares each center with the nearest one so far: its time grows with the number of
    centers, its memory does not.

    Args:
        offsets: float32 [B, H, W, 2], rows and columns.
        centers: of the image's instances.

    Returns:
        int32 [B, H, W]: the number of the center, from 1, the first of equally near ones; 0 where
        the image has no center.
    """
    shape = tf.shape(offsets)
    rows = offsets[..., 0] + tf.cast(tf.range(shape[1]), tf.float32)[:, tf.newaxis]
    columns = offsets[..., 1] + tf.cast(tf.range(shape[2]), tf.float32)
    positions = tf.transpose(tf.cast(centers.positions, tf.float32), [1, 2, 0])
    positions = positions[..., tf.newaxis, tf.newaxis]  # [K, 2, B, 1, 1]

    def body(index: tf.Tensor, nearest: tf.Tensor, least: tf.Tensor) -> Tuple[tf.Tensor, ...]:
        position = positions[index]
        distance = tf.square(rows - position[0]) + tf.square(columns - position[1])
        is_center = (index < centers.num_valid)[:, tf.newaxis, tf.newaxis]
        # Strictly: of equally near centers the one with the higher peak keeps the pixel.
        closer = (distance < least) & is_center
        for value in (distance, closer):
            value.set_shape(rows.shape)  # The batch size may be unknown in the centers.
        return index + 1, tf.where(closer, index + 1, nearest), tf.where(closer, distance, least)

    start = (
        tf.constant(0),
        tf.zeros_like(rows, tf.int32),
        tf.ones_like(rows) * np.inf,
    )
    most = tf.reduce_max(centers.num_valid)
    # One iteration at a time: parallel ones would keep a map of distances for each center.
    _, nearest, _ = tf.while_loop(
        lambda index, *_: index < most, body, start, parallel_iterations=1
    )
    return nearest


def _number_by_image(labels: tf.Tensor, num_labels: int) -> tf.Tensor:
    """Make labels [B, H, W] in [0, num_labels) unique to their image: + image * num_labels."""
    return labels + num_labels * tf.range(tf.shape(labels)[0])[:, tf.newaxis, tf.newaxis]


def _count(labels: tf.Tensor, num_labels: tf.Tensor) -> tf.Tensor:
    """Count each label: int32 [num_labels]; labels from `num_labels` on are ignored."""
    ones = tf.zeros([0], tf.int32)  # An empty tensor stands for weights of 1.
    return tf.raw_ops.Bincount(arr=labels, size=num_labels, weights=ones)
