from __future__ import annotations

import numpy as np
import pytest

from model_fns.detection.metrics.run_length_masks import RunLengthMasks


def masks(*rows_and_columns, size=(6, 8)):
    """Draw rectangles (top, left, bottom, right)."""
    found = np.zeros([len(rows_and_columns), *size], np.uint8)
    for mask, (top, left, bottom, right) in zip(found, rows_and_columns):
        mask[top:bottom, left:right] = 255
    return found


def test_masks_of_nothing_overlap_nothing():
    nothing = RunLengthMasks.encode([masks((0, 0, 0, 0))])
    assert nothing.overlaps(nothing, np.array([False])).tolist() == [[0.0]]
    none = RunLengthMasks.encode([])
    assert none.overlaps(nothing, np.array([True])).shape == (0, 1)
    assert nothing.overlaps(none, np.zeros([0], bool)).shape == (1, 0)
    assert none.areas().shape == (0,)


def test_some_of_them():
    encoded = RunLengthMasks.encode([masks((0, 0, 1, 1), (0, 0, 1, 2), (0, 0, 1, 3))])
    assert encoded.kept(np.array([True, False, True])).areas().tolist() == [1, 3]
    assert encoded.kept(np.array([2, 0])).areas().tolist() == [3, 1]


@pytest.mark.parametrize('share', [0.0, 0.3, 0.9, 1.0])
def test_windows_are_encoded_as_whole_masks(share):
    rng = np.random.RandomState(int(10 * share))
    for size in ((1, 1), (3, 7), (8, 5)):
        whole, windows = np.zeros([12, *size], np.uint8), []
        for mask in whole:
            top, left = rng.randint(0, size[0]), rng.randint(0, size[1])
            bottom, right = rng.randint(top, size[0] + 1), rng.randint(left, size[1] + 1)
            window = (rng.rand(bottom - top, right - left) < share).astype(np.uint8)
            mask[top:bottom, left:right] = window
            windows.append((top, left, window))
        windows.append((0, 0, np.ones(size, np.uint8)))
        whole = np.concatenate([whole, np.ones([1, *size], np.uint8)])
        found = RunLengthMasks.encode_windows(iter(windows), np.array(size))
        assert found._encoded == RunLengthMasks.encode([whole])._encoded


def test_no_windows():
    assert len(RunLengthMasks.encode_windows([], (4, 5))) == 0
