"""Masks as COCO's files hold them: run lengths, compressed to text."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np


def encode(
    mask: np.ndarray, origin: Sequence[int] = (0, 0), size: Optional[Sequence[int]] = None
) -> Dict[str, Any]:
    """Return a mask as `size` and `counts`, which pycocotools reads.

    Args:
        mask: bool [h, w], a part of an image outside of which the mask is empty.
        origin: row and column of the image where the part begins.
        size: height and width of the image; None: the mask is as large as the image.
    """
    # Here: its kernels take a while to load, and few need them.
    from faster_coco_eval.core import mask as coco_masks

    height, width = (int(side) for side in (mask.shape if size is None else size))
    runs = window_runs(int(origin[0]), int(origin[1]), np.asarray(mask, bool), height, width)
    encoded = coco_masks.frPyObjects([{'size': [height, width], 'counts': runs}], height, width)[0]
    counts = encoded['counts']
    return {
        'size': [height, width],
        'counts': counts.decode() if isinstance(counts, bytes) else counts,
    }


def window_runs(top: int, left: int, window: np.ndarray, height: int, width: int) -> List[int]:
    """Compute the alternating lengths of runs of 0 and 1, column by column of the whole image.

    Args:
        top: first row of the window in the image.
        left: first column of the window in the image.
        window: [h, w], in which 1 is object; outside of it there is none.
        height: height of the image.
        width: width of the image.
    """
    # Padding with 0 above and below splits runs at the ends of columns.
    columns = np.pad(window.T.astype(np.int8), [[0, 0], [1, 1]])
    column, row = np.nonzero(np.diff(columns, axis=1))
    ends = (left + column) * height + top + row
    # Join runs that end at the bottom of the image and continue at the top of the next column.
    joint = 2 * np.flatnonzero(ends[1:-1:2] == ends[2::2]) + 1
    ends = np.delete(ends, np.concatenate([joint, joint + 1]))
    runs = np.diff(ends, prepend=0, append=height * width)
    return runs[: len(runs) - (runs[-1] == 0)].tolist()


def parse_counts(text: bytes) -> List[int]:
    """Parse the compressed run lengths of COCO.

    A number has 5 bits in each character from `0` on, the lowest first; the sixth bit says that
    more follow, and the highest of the last character is the sign. From the fourth number on it is
    the difference from the number two before (`rleToString` of the COCO API). `b'203'` is
    [2, 0, 3].

    Args:
        text: valid `counts`.
    """
    counts: List[int] = []
    value = shift = 0
    for character in text:
        bits = character - ord('0')
        value |= (bits & 31) << shift
        shift += 5
        if bits & 32:
            continue
        if bits & 16:
            value -= 1 << shift
        # `if(m>2)` in `rleFrString`: the third number is not a difference, though it has one two
        # before.
        counts.append(value + (counts[-2] if len(counts) > 2 else 0))
        value = shift = 0
    return counts


def pixels_of_window(
    runs: Sequence[int], height: int, top: int, left: int, shape: Tuple[int, int]
) -> np.ndarray:
    """Return the pixels in a window of an image, without those of the rest of the image.

    Args:
        runs: alternating lengths of 0 and 1, column by column of the whole image.
        height: height of the image.
        top: first row of the window.
        left: first column of the window.
        shape: rows and columns of the window, which is inside of the image.

    Returns:
        uint8 [rows, columns] of 0 and 1.
    """
    rows, columns = shape
    ends = np.clip(np.cumsum(runs), left * height, (left + columns) * height)
    lengths = np.diff(ends, prepend=left * height)
    values = np.arange(len(lengths), dtype=np.uint8) & 1
    pixels = np.repeat(values, lengths).reshape(columns, height)
    return np.ascontiguousarray(pixels[:, top : top + rows].T)
