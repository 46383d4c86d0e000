"""The tiles of a large image."""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Sequence

# The usual overlap of DOTA's tiles of 1024 pixels.
_LARGEST_OVERLAP = 200  # of tiles by default, in pixels


class Window(NamedTuple):
    """A part of an image, in pixels."""

    top: int
    left: int
    height: int
    width: int


class Tiling(NamedTuple):
    """Division of images into tiles.

    Attributes:
        size: the side of a tile in pixels.
        overlap: smallest overlap of neighbors in pixels; less than `size`.
        whole: whether the model also runs on the whole image when it is divided.
    """

    size: int
    overlap: int
    whole: bool = False

    @classmethod
    def create(cls, size: int, overlap: Optional[int], whole: bool = False) -> Tiling:
        """Create tiles of a size that share some pixels; None: a quarter of it, at most 200."""
        usual = min(_LARGEST_OVERLAP, size // 4)
        return cls(size, usual if overlap is None else overlap, whole)

    def windows(self, height: int, width: int) -> List[Window]:
        """Return the tiles of an image, row by row; the last tile ends at the image's border."""
        return [
            Window(top, left, min(self.size, height), min(self.size, width))
            for top in self._starts(height)
            for left in self._starts(width)
        ]

    def _starts(self, side: int) -> Sequence[int]:
        last = max(side - self.size, 0)
        return [*range(0, last, self.size - self.overlap), last]
