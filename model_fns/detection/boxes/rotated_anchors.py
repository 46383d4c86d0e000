"""Rotated anchors: the anchors of another generator, each at several angles."""

from __future__ import annotations

import math
from typing import List, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib.config.section import Section
from model_fns.detection.boxes import anchors
from protos import anchors_pb2


class RotatedAnchorGenerator(anchors.AnchorGenerator):
    """Anchors [A, 5] in pixels of the input, in their long edge form (see `rotated_rectangles`).

    An anchor that is higher than wide is rotated by 90 degrees and its sides are exchanged. The
    codes of boxes depend on the order of the sides, and groundtruth has the long edge form too.

    Args:
        generator: generates axis-aligned anchors, whose centers and sizes are used.
        angles: in radians, clockwise; the angle varies fastest.
    """

    in_pixels = True

    def __init__(self, generator: anchors.AnchorGenerator, angles: Sequence[float] = (0.0,)):
        self._generator = generator
        self.keeps_outside = generator.keeps_outside
        self._angles = np.array(angles, np.float64)

    def anchors_per_location(self) -> List[int]:
        """Return the number of axis-aligned anchors times the number of angles."""
        return [count * len(self._angles) for count in self._generator.anchors_per_location()]

    def level(self, index: int, grid: anchors.Size, image_size: anchors.Size) -> anchors.Array:
        """Compute the anchors of a feature map, float64 [cells * anchors_per_location, 5]."""
        boxes = self._generator.level(index, grid, image_size)
        if not self._generator.in_pixels:
            boxes = boxes * _tiled(image_size)
        is_tensor = tf.is_tensor(boxes)
        where, concat = (tf.where, tf.concat) if is_tensor else (np.where, np.concatenate)
        centers, sizes = (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]
        swap = (sizes[:, 1] < sizes[:, 0])[:, np.newaxis]
        sizes = where(swap, sizes[:, ::-1], sizes)
        angles = where(swap, _wrapped(self._angles + math.pi / 2), _wrapped(self._angles))
        rectangles = concat([centers, sizes], 1)
        if is_tensor:
            tiled = tf.repeat(rectangles, len(self._angles), axis=0)
            return tf.concat([tiled, tf.reshape(angles, [-1, 1])], axis=1)
        tiled = np.repeat(rectangles, len(self._angles), axis=0)
        return np.concatenate([tiled, angles.reshape([-1, 1])], axis=1)

    def enclosing_boxes(self, boxes: anchors.Array) -> anchors.Array:
        """Compute the smallest axis-aligned boxes [A, 4] around rotated ones [A, 5]."""
        ops = tf if tf.is_tensor(boxes) else np
        cosine, sine = ops.abs(ops.cos(boxes[:, 4:])), ops.abs(ops.sin(boxes[:, 4:]))
        height, width = boxes[:, 2:3], boxes[:, 3:4]
        down, along = height * cosine + width * sine, height * sine + width * cosine
        reach = 0.5 * (tf.concat if ops is tf else np.concatenate)([down, along], 1)
        sides = [boxes[:, :2] - reach, boxes[:, :2] + reach]
        return (tf.concat if ops is tf else np.concatenate)(sides, 1)


def _tiled(image_size: anchors.Size) -> anchors.Array:
    """Return float64 [4]: height, width, height, width."""
    if any(map(tf.is_tensor, image_size)):
        return tf.tile(tf.cast(tf.stack(image_size), tf.float64), [2])
    return np.tile(np.array(image_size, np.float64), 2)


def build_anchor_generator(section: Section[anchors_pb2.AnchorGenerator]) -> RotatedAnchorGenerator:
    """Build the generator that a config describes, with its angles.

    Args:
        section: configuration message.

    Raises:
        errors.ConfigError: the message is empty, or its values contradict each other.
    """
    config = section.message
    generator = anchors.build_anchor_generator(section)
    angles = getattr(config, config.WhichOneof('anchor_generator_oneof')).angles
    return RotatedAnchorGenerator(generator, list(angles) or [0.0])


def _wrapped(angles: np.ndarray) -> np.ndarray:
    # The angles -90 and 90 become one direction: published lists from -90 to 90 have it twice.
    return np.mod(angles + math.pi / 2, math.pi) - math.pi / 2
