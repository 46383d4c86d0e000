"""Polygons around masks, by hand and drawn again by COCO's tool."""

import numpy as np
import pycocotools.mask
import pytest

from estimator_lib.drawing import outlines


def drawn(points, shape):
    """Return the pixels that COCO's tool fills for a polygon of y and x."""
    (encoded,) = pycocotools.mask.frPyObjects([points[:, ::-1].ravel().tolist()], *shape)
    return pycocotools.mask.decode(encoded).astype(bool)


def enclosed(points, shape):
    """Return the pixels whose centers have an odd number of the polygon's lines at their left."""
    ends = np.roll(points, -1, axis=0)
    rows, columns = np.mgrid[: shape[0], : shape[1]] + 0.5
    counts = np.zeros(shape, int)
    for (y, x), (end_y, end_x) in zip(points, ends):
        if y == end_y:
            continue
        crosses = (min(y, end_y) < rows) & (rows < max(y, end_y))
        counts += crosses & (x + (rows - y) / (end_y - y) * (end_x - x) < columns)
    return counts % 2 == 1


@pytest.mark.parametrize(
    'mask, expected',
    [
        ([[0, 1, 1]], [[0, 1], [0, 3], [1, 3], [1, 1]]),
        (
            [[1, 0], [1, 1]],
            [[0, 0], [0, 1], [1, 1], [1, 2], [2, 2], [2, 0]],
        ),
        # Two parts: from the first point to the second part and back.
        (
            [[1, 0, 1]],
            [[0, 0], [0, 1], [1, 1], [1, 0], [0, 0]]
            + [[0, 2], [0, 3], [1, 3], [1, 2], [0, 2], [0, 0]],
        ),
        ([[0, 0]], np.zeros([0, 2])),
    ],
)
def test_polygons_by_hand(mask, expected):
    np.testing.assert_array_equal(outlines.polygon(np.array(mask, bool)), expected)


def test_pixels_that_touch_at_a_corner_are_two_parts():
    points = outlines.polygon(np.eye(2, dtype=bool))
    assert len(points) == 4 + 1 + 4 + 2


@pytest.mark.parametrize('seed', range(8))
def test_a_polygon_gives_its_mask_back(seed):
    """Noise has parts, holes, parts in holes, and pixels that touch at corners."""
    random = np.random.RandomState(seed)
    shape = random.randint(1, 14, 2)
    mask = random.uniform(size=shape) < random.uniform(0.2, 0.9)
    points = outlines.polygon(mask)
    if mask.any():
        np.testing.assert_array_equal(enclosed(points, shape), mask)
        np.testing.assert_array_equal(drawn(points, shape), mask)


def test_a_ring_has_its_hole():
    rows, columns = np.mgrid[:60, :80] - 30.0
    radii = np.hypot(rows, columns)
    mask = (radii > 10) & (radii < 25)
    points = outlines.polygon(mask)
    np.testing.assert_array_equal(drawn(points, mask.shape), mask)
    rounded = np.round(points / mask.shape, 6) * mask.shape
    np.testing.assert_array_equal(drawn(rounded, mask.shape), mask)
