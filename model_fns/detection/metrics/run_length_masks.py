"""Masks of an image as run lengths: some hundred bytes each, whatever size the image has."""

from __future__ import annotations

from typing import Any, Iterable, List, Mapping, Sequence, Tuple

import numpy as np

# At once, so that no more of them are turned into the order that run lengths have.
_BLOCK = 16


class RunLengthMasks:
    """Masks of the size of one image.

    Args:
        encoded: run lengths of each, as faster-coco-eval has them.
    """

    def __init__(self, encoded: Sequence[Mapping[str, Any]]):
        self._encoded = list(encoded)

    @classmethod
    def encode(cls, blocks: Iterable[np.ndarray]) -> RunLengthMasks:
        """Return the masks of blocks [k, height, width], in which all but 0 is object.

        Blocks may come from a generator, so that not all masks are there at one time.
        """
        encoded: List[Mapping[str, Any]] = []
        for block in blocks:
            for start in range(0, len(block), _BLOCK):
                part = np.asarray(block[start : start + _BLOCK]) != 0
                # [height, width, k], with the rows of a column one after the other.
                encoded += _kernels().encode(np.asfortranarray(part.transpose(1, 2, 0), np.uint8))
        return cls(encoded)

    @classmethod
    def encode_windows(
        cls, windows: Iterable[Tuple[int, int, np.ndarray]], size: Sequence[int]
    ) -> RunLengthMasks:
        """Return masks that are empty outside of a window each: what is around it costs nothing.

        Args:
            windows: first row, first column, and what is inside, [h, w], in which 1 is object.
            size: height and width of the image.
        """
        height, width = (int(side) for side in size)
        runs = [
            {'size': [height, width], 'counts': _runs(*window, height, width)} for window in windows
        ]
        return cls(_kernels().frPyObjects(runs, height, width) if runs else [])

    def __len__(self) -> int:
        return len(self._encoded)

    def kept(self, which: np.ndarray) -> RunLengthMasks:
        """Those for which `which`, bool [n], is true, or those at its places."""
        which = np.asarray(which)
        places = np.flatnonzero(which) if which.dtype == bool else which
        return RunLengthMasks([self._encoded[place] for place in places])

    def areas(self) -> np.ndarray:
        """Return pixels of each: float64 [n]."""
        if not self._encoded:
            return np.zeros([0])
        return np.asarray(_kernels().area(self._encoded), np.float64)

    def overlaps(self, others: RunLengthMasks, of_own_area: np.ndarray) -> np.ndarray:
        """How much of each mask and each other one they share: float64 [n, m].

        Args:
            others: m masks of the same image.
            of_own_area: bool [m]: whether the pixels in common are divided by those of the own
                mask; else by those that either has.
        """
        if not len(self) or not len(others):
            return np.zeros([len(self), len(others)])
        divided = [int(flag) for flag in of_own_area]
        found = np.asarray(_kernels().iou(self._encoded, others._encoded, divided), np.float64)
        return np.nan_to_num(found.reshape(len(self), len(others)))


def _runs(top: int, left: int, window: np.ndarray, height: int, width: int) -> List[int]:
    """Lengths of runs of 0 and of 1, in turn, column by column of the whole image."""
    # A column's runs begin and end in it, as if there were a 0 above and below.
    columns = np.pad(window.T.astype(np.int8), [[0, 0], [1, 1]])
    column, row = np.nonzero(np.diff(columns, axis=1))
    ends = (left + column) * height + top + row
    # Runs from top to bottom of the image go on in the next column.
    joint = 2 * np.flatnonzero(ends[1:-1:2] == ends[2::2]) + 1
    ends = np.delete(ends, np.concatenate([joint, joint + 1]))
    runs = np.diff(ends, prepend=0, append=height * width)
    return runs[: len(runs) - (runs[-1] == 0)].tolist()


def _kernels() -> Any:
    # Here: they take a while to load, and few need them.
    from faster_coco_eval.core import mask as coco_masks

    return coco_masks
