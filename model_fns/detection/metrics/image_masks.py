"""Masks in the frame of the original image, which is where metrics compare them.

All that is held at one time is a block of them; what is kept are run lengths.
"""

from __future__ import annotations

from typing import Iterator, Sequence

import numpy as np

from model_fns.detection.detections.masks import binary_windows
from model_fns.detection.metrics.run_length_masks import RunLengthMasks

_BLOCK_PIXELS = 1 << 23


def of_groundtruth(
    masks: np.ndarray, content: Sequence[int], size: Sequence[int]
) -> RunLengthMasks:
    """Return groundtruth as the network's input has it.

    As published: the part that is image, resized to the original size by the nearest pixel, with
    the corner pixels on each other.

    Args:
        masks: [n, height, width], 0 or 1.
        content: height and width of the part that is image, not padding.
        size: height and width of the original image.
    """
    rows, columns = (_nearest(inside, whole) for inside, whole in zip(content, size))

    def blocks() -> Iterator[np.ndarray]:
        for part in _parts(len(masks), size):
            yield masks[part][:, rows][:, :, columns]

    return RunLengthMasks.encode(blocks())


def of_boxes(masks: np.ndarray, boxes: np.ndarray, size: Sequence[int]) -> RunLengthMasks:
    """Return detections' masks, each of its box; see `detections.masks.binary_windows`."""
    return RunLengthMasks.encode_windows(binary_windows(masks, boxes, size), size)


def _parts(count: int, size: Sequence[int]) -> Iterator[slice]:
    """Slices of so many images of a size that their pixels are bounded."""
    most = max(1, _BLOCK_PIXELS // max(int(size[0]) * int(size[1]), 1))
    return (slice(start, start + most) for start in range(0, count, most))


def _nearest(inside: int, whole: int) -> np.ndarray:
    """Which of the first `inside` pixels of a side each of `whole` is nearest to."""
    scale = np.float32((inside - 1) / (whole - 1) if whole > 1 else 0.0)
    # Of two that are as near the later one.
    return np.floor(np.arange(whole, dtype=np.float32) * scale + np.float32(0.5)).astype(int)
