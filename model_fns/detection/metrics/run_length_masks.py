"""Masks of an image as run lengths: some hundred bytes each, for images of any size."""

from __future__ import annotations

from typing import Any, Iterable, List, Mapping, Sequence, Tuple, Union

import numpy as np

from model_fns.structures import run_lengths

# Masks that are encoded at once, which bounds the memory of their transposed copies.
_BLOCK = 16


class RunLengthMasks:
    """Masks of the size of one image.

    Args:
        encoded: run lengths of each mask, in the form of faster-coco-eval.
    """

    def __init__(self, encoded: Sequence[Mapping[str, Any]]):
        self._encoded = list(encoded)

    @classmethod
    def encode(cls, blocks: Iterable[np.ndarray]) -> RunLengthMasks:
        """Encode the masks of blocks [k, height, width]; values other than 0 are object.

        Blocks may come from a generator, so that not all masks are in memory at one time.
        """
        encoded: List[Mapping[str, Any]] = []
        for block in blocks:
            for start in range(0, len(block), _BLOCK):
                part = np.asarray(block[start : start + _BLOCK]) != 0
                # [height, width, k] in column-major order.
                encoded += _kernels().encode(np.asfortranarray(part.transpose(1, 2, 0), np.uint8))
        return cls(encoded)

    @classmethod
    def encode_windows(
        cls, windows: Iterable[Tuple[int, int, np.ndarray]], size: Sequence[int]
    ) -> RunLengthMasks:
        """Encode masks that are empty outside of a window each, at no cost for the outside.

        Args:
            windows: first row, first column, and mask of the window, [h, w], in which 1 is object.
            size: height and width of the image.
        """
        height, width = (int(side) for side in size)
        runs = [
            {'size': [height, width], 'counts': run_lengths.window_runs(*window, height, width)}
            for window in windows
        ]
        return cls(_kernels().frPyObjects(runs, height, width) if runs else [])

    def __len__(self) -> int:
        return len(self._encoded)

    def kept(self, rows: np.ndarray) -> RunLengthMasks:
        """Return the masks with a True in bool [n], or those at some indices."""
        rows = np.asarray(rows)
        indices = np.flatnonzero(rows) if rows.dtype == bool else rows
        return RunLengthMasks([self._encoded[index] for index in indices])

    def to_json(self) -> List[Mapping[str, Any]]:
        """Return the masks in the form of COCO's files, with run lengths as text."""
        return [
            {'size': [int(side) for side in mask['size']], 'counts': _text(mask['counts'])}
            for mask in self._encoded
        ]

    def areas(self) -> np.ndarray:
        """Compute the pixels of each mask: float64 [n]."""
        if not self._encoded:
            return np.zeros([0])
        return np.asarray(_kernels().area(self._encoded), np.float64)

    def overlaps(self, others: RunLengthMasks, by_own_area: np.ndarray) -> np.ndarray:
        """Compute the overlap of each mask with each other one: float64 [n, m].

        Args:
            others: m masks of the same image.
            by_own_area: bool [m]: True: common pixels are divided by the pixels of the own mask;
                False: by those of the union.
        """
        if not len(self) or not len(others):
            return np.zeros([len(self), len(others)])
        divided = [int(flag) for flag in by_own_area]
        ratios = np.asarray(_kernels().iou(self._encoded, others._encoded, divided), np.float64)
        # The overlap of two empty masks is 0 / 0.
        return np.nan_to_num(ratios.reshape(len(self), len(others)))


def _text(counts: Union[bytes, str]) -> str:
    return counts.decode('ascii') if isinstance(counts, bytes) else counts


def _kernels() -> Any:
    # Imported here because loading takes a while and few callers need it.
    from faster_coco_eval.core import mask as coco_masks

    return coco_masks
