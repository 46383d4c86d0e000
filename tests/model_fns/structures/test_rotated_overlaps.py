import numpy as np
import pytest

from model_fns.structures import rotated_overlaps, rotated_rectangles
from tests.model_fns.detection import rotated_cases


def test_recorded_pairs():
    pairs = rotated_cases.recorded()['pairs']
    first, second = (
        rotated_rectangles.corners(np.array([pair[name] for pair in pairs])) for name in 'ab'
    )
    found = np.diag(rotated_overlaps.iou(first, second))
    np.testing.assert_allclose(found, [pair['iou'] for pair in pairs], atol=1e-9)


def test_by_slow_slices():
    first, second = rotated_cases.boxes(8, 3, 40), rotated_cases.boxes(8, 4, 40)
    expected = [[rotated_cases.slow_area(one, other) for other in second] for one in first]
    found = rotated_overlaps.intersections(
        rotated_rectangles.corners(first), rotated_rectangles.corners(second)
    )
    np.testing.assert_allclose(found, expected, atol=0.1)


def test_outlines_that_are_a_rounding_apart():
    """Corners that are on either side of a common edge by turns are many, and all count."""
    boxes = rotated_cases.boxes(2000, 5)
    boxes = np.concatenate([boxes, [[53, 233, 6, 12, 27.0]]])
    outlines = rotated_rectangles.corners(boxes)
    for shift in ([0, 180], [40, 180]):
        others = rotated_rectangles.corners(boxes - [*shift, 0, 0, 0]) / 70 * 70 + shift
        common = rotated_overlaps.clipped_areas(outlines, others)
        np.testing.assert_allclose(common, boxes[:, 2] * boxes[:, 3], rtol=1e-9)


def test_mirrored_outlines():
    outline = rotated_rectangles.corners(rotated_cases.boxes(3, 3, 40))
    np.testing.assert_allclose(
        np.diag(rotated_overlaps.iou(outline[:, ::-1], outline)), np.ones(3), atol=1e-12
    )


@pytest.mark.parametrize('counts', [(0, 2), (2, 0)])
def test_of_none(counts):
    first, second = (np.zeros([count, 4, 2]) for count in counts)
    assert rotated_overlaps.iou(first, second).shape == counts


def test_outlines_of_all_kinds_of_boxes():
    square = [[2, 4], [2, 12], [6, 12], [6, 4]]
    size = (10, 20)
    for box in (
        [0.2, 0.2, 0.6, 0.6],
        [0.4, 0.4, 0.4, 0.4, 0.0],
        [0.2, 0.2, 0.2, 0.6, 0.6, 0.6, 0.6, 0.2],
    ):
        np.testing.assert_allclose(rotated_overlaps.outlines(np.array([box]), size), [square])
    assert rotated_overlaps.areas(np.array([square], float)) == [32]
