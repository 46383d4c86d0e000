import numpy as np
import pytest

from estimator_lib.drawing import tiling


@pytest.mark.parametrize(
    'side, starts',
    [
        (80, [0]),
        (100, [0]),
        (101, [0, 1]),
        (180, [0, 80]),
        (181, [0, 80, 81]),
        (350, [0, 80, 160, 240, 250]),
    ],
)
def test_where_tiles_begin(side, starts):
    windows = tiling.Tiling(100, 20).windows(side, 50)
    assert [window.top for window in windows] == starts
    assert {window[1:] for window in windows} == {(0, min(side, 100), 50)}


def test_every_place_is_in_a_tile_and_neighbors_overlap():
    seen = np.zeros([150, 201], int)
    for top, left, height, width in tiling.Tiling(64, 16).windows(150, 201):
        assert (height, width) == (64, 64)
        seen[top : top + height, left : left + width] += 1
    assert seen.min() == 1
    assert np.all(seen[:64, 48:64] >= 2)
