"""Masks in the frame of the original image, where metrics compare them.

Only one block of masks is in memory at one time. The results are run lengths.
"""

from __future__ import annotations

from typing import Iterator, Sequence

import numpy as np

from model_fns.detection.detections.masks import binary_windows
from model_fns.detection.metrics.run_length_masks import RunLengthMasks

_BLOCK_PIXELS = 1 << 23


def resize_groundtruth(
    masks: np.ndarray, content: Sequence[int], size: Sequence[int]
) -> RunLengthMasks:
    """Resize groundtruth masks of the network's input to the original image.

    As published, the part without padding is resized to the original size by the nearest pixel,
    with aligned corners.

    Args:
        masks: [n, height, width], 0 or 1.
        content: height and width of the part without padding.
        size: height and width of the original image.
    """
    rows, columns = (_nearest(inside, whole) for inside, whole in zip(content, size))

    def blocks() -> Iterator[np.ndarray]:
        for part in _parts(len(masks), size):
            yield masks[part][:, rows][:, :, columns]

    return RunLengthMasks.encode(blocks())


def paste_detections(masks: np.ndarray, boxes: np.ndarray, size: Sequence[int]) -> RunLengthMasks:
    """Paste masks of detections into the image; see `detections.masks.binary_windows`.

    Args:
        masks: [n, h, w], scores of the pixels of each box.
        boxes: [n, 4], normalized to the image.
        size: height and width of the image.
    """
    return RunLengthMasks.encode_windows(binary_windows(masks, boxes, size), size)


def _parts(count: int, size: Sequence[int]) -> Iterator[slice]:
    """Split a number of images into slices with a bounded number of pixels."""
    most = max(1, _BLOCK_PIXELS // max(int(size[0]) * int(size[1]), 1))
    return (slice(start, start + most) for start in range(0, count, most))


def _nearest(inside: int, whole: int) -> np.ndarray:
    """Find the nearest of the first `inside` pixels of a side for each of `whole` pixels."""
    scale = np.float32((inside - 1) / (whole - 1) if whole > 1 else 0.0)
    # The later one of two equally near pixels wins.
    # In 32 bits, and by `roundf`: what `ResizeNearestNeighbor` with aligned corners computes.
    return np.floor(np.arange(whole, dtype=np.float32) * scale + np.float32(0.5)).astype(int)
