"""Masks of an image as run lengths: some hundred bytes each, whatever size the image has."""

from __future__ import annotations

from typing import Any, Iterable, List, Mapping, Sequence

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
        """The masks of blocks [k, height, width], in which all but 0 is object.

        Blocks may come from a generator, so that not all masks are there at one time.
        """
        encoded: List[Mapping[str, Any]] = []
        for block in blocks:
            for start in range(0, len(block), _BLOCK):
                part = np.asarray(block[start : start + _BLOCK]) != 0
                # [height, width, k], with the rows of a column one after the other.
                encoded += _kernels().encode(np.asfortranarray(part.transpose(1, 2, 0), np.uint8))
        return cls(encoded)

    def __len__(self) -> int:
        return len(self._encoded)

    def kept(self, which: np.ndarray) -> RunLengthMasks:
        """Those for which `which`, bool [n], is true, or those at its places."""
        which = np.asarray(which)
        places = np.flatnonzero(which) if which.dtype == bool else which
        return RunLengthMasks([self._encoded[place] for place in places])

    def areas(self) -> np.ndarray:
        """Pixels of each: float64 [n]."""
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


def _kernels() -> Any:
    # Here: they take a while to load, and few need them.
    from faster_coco_eval.core import mask as coco_masks

    return coco_masks
