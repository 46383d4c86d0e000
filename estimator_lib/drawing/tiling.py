"""Where the tiles of a large image are."""

from __future__ import annotations

from typing import List, NamedTuple, Sequence


class Window(NamedTuple):
    """A part of an image, in pixels."""

    top: int
    left: int
    height: int
    width: int


class Tiling(NamedTuple):
    """How images are cut.

    Attributes:
        size: the side of a tile in pixels.
        overlap: pixels that neighbors share, at least; less than `size`.
        whole: whether the whole of an image that is cut is looked at too.
    """

    size: int
    overlap: int
    whole: bool = False

    def windows(self, height: int, width: int) -> List[Window]:
        """Return the tiles of an image, row by row; the last of a row ends where the image does."""
        return [
            Window(top, left, min(self.size, height), min(self.size, width))
            for top in self._starts(height)
            for left in self._starts(width)
        ]

    def _starts(self, side: int) -> Sequence[int]:
        last = max(side - self.size, 0)
        return [*range(0, last, self.size - self.overlap), last]
