"""Range of an image's sides for the first resize.

The arithmetic is in integers, so that the graph and Python compute the same sizes.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Optional, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib.config.section import Section
from protos import segmentation_pb2

Side = Any  # an int, an int array or an int32 tensor


@dataclasses.dataclass(frozen=True)
class ResizeRange:
    """Resize of the shorter side to `least`, unless the longer side would exceed `most`.

    Attributes:
        least: of the shorter side, in pixels.
        most: of the longer side, in pixels; None for no bound.
        factor: both sides are raised to a multiple of it plus 1; None: no rounding.
        keep_aspect_ratio: False: both sides get the length of the longer one.

    Example: 375 x 500 pixels with `least` 513 and `most` 640 would become 513 x 684, which is too
    long; they become 480 x 640 (with `factor` 16: `most` counts as 625, 468 x 625 are raised to
    481 x 625).
    """

    least: int
    most: Optional[int] = None
    factor: Optional[int] = None
    keep_aspect_ratio: bool = True

    def size(self, height: Side, width: Side) -> Tuple[Side, Side]:
        """Compute height and width of the resized image, in the type of the arguments."""
        ops = tf if tf.is_tensor(height) else np
        shorter, longer = ops.minimum(height, width), ops.maximum(height, width)
        target, side = self.least, shorter
        if self.most is not None:
            most = self._most()
            # For ints, arrays and tensors alike; products of sides below 46,340 fit int32.
            is_too_long = longer * self.least // shorter > most
            target = ops.where(is_too_long, most, self.least)
            side = ops.where(is_too_long, longer, shorter)
        height, width = (self._round(ops.maximum(s * target // side, 1)) for s in (height, width))
        if not self.keep_aspect_ratio:
            height = width = ops.maximum(height, width)
        return height, width

    def _most(self) -> int:
        """Return `most`, lowered so that no rounded side exceeds it."""
        # DeepLab lowers max_size before it scales, so that raising a side cannot exceed it.
        return self.most if self.factor is None else self.most - (self.most - 1) % self.factor

    def _round(self, side: Side) -> Side:
        # Python's and TensorFlow's % have the sign of the divisor: never negative here.
        return side if self.factor is None else side + (1 - side) % self.factor


def from_config(
    section: Section[segmentation_pb2.SegmentationPreprocessing],
) -> Optional[ResizeRange]:
    """Build the range of a config; None where images keep their size.

    Args:
        section: of the preprocessing.

    Raises:
        errors.ConfigError: the bounds contradict each other.
    """
    config = section.message
    least, most = config.min_resize_value, config.max_resize_value
    if not least:
        return None
    if most and most < least:
        raise section.error(
            '',
            f'min_resize_value is {least} and max_resize_value {most}; expected min_resize_value '
            '<= max_resize_value.',
        )
    return ResizeRange(least, most or None, config.resize_factor or None, config.keep_aspect_ratio)
