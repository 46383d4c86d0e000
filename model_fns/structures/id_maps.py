"""Maps of ids of any size: how many pixels each id has, and the box around them.

The maps are read in blocks of rows, so that temporary arrays are small beside the map.
"""

from __future__ import annotations

from typing import Tuple

import numpy as np

# `np.bincount` makes int64 of its input: 32 MiB of a block.
_BLOCK_PIXELS = 1 << 22


def count_pixels(ids: np.ndarray) -> np.ndarray:
    """Count the pixels of each id: int64 [largest id + 1].

    Args:
        ids: integers [height, width], from 0.
    """
    counts = np.zeros([int(ids.max(initial=0)) + 1], np.int64)
    for part in _blocks(ids):
        counts += np.bincount(ids[part].ravel(), minlength=len(counts))
    return counts


def enclosing_boxes(ids: np.ndarray) -> np.ndarray:
    """Find the box around each id: int64 [largest id + 1, 4].

    Args:
        ids: integers [height, width], from 0.

    Returns:
        ymin, xmin, ymax and xmax in pixels, the last two exclusive. Boxes of ids without a pixel
        have no meaning.
    """
    height, width = ids.shape
    count = int(ids.max(initial=0)) + 1
    boxes = np.tile(np.array([height, width, 0, 0]), [count, 1])
    for part in _blocks(ids):
        # Few runs of equal pixels stand for many pixels.
        is_start = np.ones(ids[part].shape, bool)
        is_start[:, 1:] = ids[part][:, 1:] != ids[part][:, :-1]
        rows, starts = np.nonzero(is_start)
        ends = np.where(np.append(rows[1:], -1) == rows, np.append(starts[1:], 0), width)
        found = ids[part][rows, starts]
        rows = rows + part.start
        for side, values in enumerate((rows, starts)):
            np.minimum.at(boxes[:, side], found, values)
        for side, values in enumerate((rows + 1, ends)):
            np.maximum.at(boxes[:, 2 + side], found, values)
    return boxes


def _blocks(ids: np.ndarray) -> Tuple[slice, ...]:
    """Split the rows of a map into blocks with a bounded number of pixels."""
    rows = max(1, _BLOCK_PIXELS // max(ids.shape[1], 1))
    return tuple(slice(start, start + rows) for start in range(0, len(ids), rows))
