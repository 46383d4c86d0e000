"""Pixels of an object, kept as a window of its image until something needs the whole image."""

from __future__ import annotations

from typing import NamedTuple, Sequence, Tuple

import numpy as np

from model_fns.datasets import codecs
from model_fns.structures import images


class PixelMask(NamedTuple):
    """The pixels of an object in a window of its image; those outside are not the object's.

    Attributes:
        top: first row of the window.
        left: first column of the window.
        pixels: uint8 [rows, columns] of 0 and 1; the window is inside of the image.
    """

    top: int
    left: int
    pixels: np.ndarray

    @property
    def num_pixels(self) -> int:
        """The number of the object's pixels."""
        return int(np.count_nonzero(self.pixels))

    @property
    def window(self) -> Tuple[slice, slice]:
        """The rows and columns of the window."""
        height, width = self.pixels.shape
        return slice(self.top, self.top + height), slice(self.left, self.left + width)

    def whole(self, header: images.ImageHeader) -> np.ndarray:
        """Return the pixels of the image: uint8 [height, width] of 0 and 1.

        Args:
            header: the image's size.
        """
        whole = np.zeros([header.height, header.width], np.uint8)
        whole[self.window] = self.pixels
        return whole

    def png(self, header: images.ImageHeader) -> bytes:
        """Return the pixels of the image as a PNG of 0 and 1.

        Args:
            header: the image's size.
        """
        return codecs.encode_png(self.whole(header))


def join(masks: Sequence[PixelMask]) -> PixelMask:
    """Return the pixels of several masks, at least one, as one mask.

    The masks of pixels 1 to 3 and 5 to 6 of a row have a window of the pixels 1 to 6.
    """
    top, left = min(mask.top for mask in masks), min(mask.left for mask in masks)
    rows = max(mask.window[0].stop for mask in masks) - top
    columns = max(mask.window[1].stop for mask in masks) - left
    joined = np.zeros([rows, columns], np.uint8)
    for mask in masks:
        height, width = mask.pixels.shape
        part = joined[mask.top - top :, mask.left - left :][:height, :width]
        np.maximum(part, mask.pixels, out=part)
    return PixelMask(top, left, joined)


def of_box(box: Sequence[float], header: images.ImageHeader) -> PixelMask:
    """Return the pixels of a box.

    Args:
        box: ymin, xmin, ymax, xmax in pixels.
        header: the image's size.
    """
    sides = [header.height, header.width] * 2
    top, left, bottom, right = (min(max(0, round(s)), most) for s, most in zip(box, sides))
    return PixelMask(top, left, np.ones([max(0, bottom - top), max(0, right - left)], np.uint8))
