"""Format of the images of a model: the number of their channels, and their bits."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf


class ImageFormat(NamedTuple):
    """Format of the images of a model.

    Attributes:
        additional: number of channels beside red, green and blue.
        bits: of the values in PNGs of 16 bits a channel; 8: all images are read as 8 bits.
    """

    additional: int = 0
    bits: int = 8

    @property
    def channels(self) -> int:
        """Number of all channels."""
        return 3 + self.additional

    @property
    def dtype(self) -> tf.DType:
        """Type of pixels from 0 to 255: uint8, or float32 where they have fractions."""
        return tf.uint8 if self.bits == 8 else tf.float32


COLOR = ImageFormat()
