"""Detections for people and programs, by hand."""

import numpy as np
import pycocotools.mask
import pytest

from estimator_lib.task import AS_CONFIGURED, Shown
from model_fns.detection import fields
from model_fns.detection.detections import descriptions

# Of an image of 100 x 200 pixels; the last row is padding.
OUTPUTS = {
    fields.NUM_DETECTIONS: np.float32(3),
    fields.DETECTION_SCORES: np.array([0.25, 0.75, 0.5, 0.9], np.float32),
    fields.DETECTION_CLASSES: np.array([1, 2, 7, 1], np.float32),
    fields.DETECTION_BOXES: np.array(
        [[0.1, 0.2, 0.3, 0.4], [0, 0, 1, 1], [0.5, 0.25, 0.75, 0.5], [0, 0, 0, 0]], np.float32
    ),
}
SHAPE = (100, 200, 3)
NAMES = {1: 'cat', 2: 'dog'}


def find(shown=AS_CONFIGURED, least=0.0, **more):
    return descriptions.find({**OUTPUTS, **more}, SHAPE, least, shown)


def test_rows_have_names_ids_scores_and_pixels_the_best_first():
    assert descriptions.rows(find(), NAMES) == [
        {'class': 'dog', 'id': 2, 'score': 0.75, 'ymin': 0, 'xmin': 0, 'ymax': 100, 'xmax': 200},
        {'class': '7', 'id': 7, 'score': 0.5, 'ymin': 50, 'xmin': 50, 'ymax': 75, 'xmax': 100},
        {'class': 'cat', 'id': 1, 'score': 0.25, 'ymin': 10, 'xmin': 40, 'ymax': 30, 'xmax': 80},
    ]


@pytest.mark.parametrize(
    'shown, least, ids',
    [
        (AS_CONFIGURED, 0.5, [2, 7]),
        (Shown(least_score=0.3), 0.6, [2, 7]),
        (Shown(least_score=0.0), 0.6, [2, 7, 1]),
        (Shown(top_k=1), 0.0, [2]),
        (Shown(0.99, 5), 0.0, []),
        (Shown(class_indices=(0, 6)), 0.0, [7, 1]),
        (Shown(top_k=1, class_indices=(0,)), 0.0, [1]),
        (Shown(class_indices=(4,)), 0.0, []),
    ],
)
def test_what_is_shown(shown, least, ids):
    assert list(find(shown, least).ids) == ids


def test_values_have_the_size_and_keypoints_where_they_are():
    points = np.zeros([4, 2, 2], np.float32)
    points[1] = [[0.5, 0.25], [np.nan, np.nan]]
    found = find(Shown(top_k=1), **{fields.DETECTION_KEYPOINTS: points})
    values = descriptions.values(found, [{'id': 2}])
    assert values == {
        'height': 100,
        'width': 200,
        'detections': [{'id': 2, 'keypoints': [[50, 50], None]}],
    }
    (result,) = descriptions.coco_results(found)
    assert result['keypoints'] == [50, 50, 1, 0, 0, 0]


def test_coco_results_have_corner_and_size():
    assert descriptions.coco_results(find()) == [
        {'category_id': 2, 'bbox': [0, 0, 200, 100], 'score': 0.75},
        {'category_id': 7, 'bbox': [50, 50, 50, 25], 'score': 0.5},
        {'category_id': 1, 'bbox': [40, 10, 40, 20], 'score': 0.25},
    ]


def test_masks_of_boxes_are_masks_of_the_image():
    masks = np.zeros([4, 2, 2], np.float32)
    masks[2, 0] = 1.0  # the upper half of the box
    found = find(Shown(top_k=2), **{fields.DETECTION_MASKS: masks})
    empty, half = (
        pycocotools.mask.decode(one['segmentation']) for one in descriptions.coco_results(found)
    )
    assert not empty.any()
    expected = np.zeros([100, 200], np.uint8)
    # Pixels with their center above the middle of rows 50 to 75, which is 62.5.
    expected[50:62, 50:100] = 1
    np.testing.assert_array_equal(half[:62], expected[:62])
    assert not half[63:].any()


def rotated_outputs():
    """Build outputs with one box of 20 x 40 pixels, rotated by 90 degrees."""
    numbers = [[0.5, 0.5, 0.2, 0.2, np.pi / 2]]
    corners = [[0.3, 0.55, 0.7, 0.55, 0.7, 0.45, 0.3, 0.45]]
    return {
        fields.NUM_DETECTIONS: np.float32(1),
        fields.DETECTION_SCORES: np.array([0.75], np.float32),
        fields.DETECTION_CLASSES: np.array([2], np.float32),
        fields.DETECTION_BOXES: np.array(numbers, np.float32),
        fields.DETECTION_CORNERS: np.array(corners, np.float32),
    }


def test_rotated_boxes():
    found = descriptions.find(rotated_outputs(), SHAPE, 0.0, AS_CONFIGURED)
    (row,) = descriptions.rows(found, NAMES)
    assert [row[name] for name in ('cy', 'cx', 'h', 'w')] == [50, 100, 20, 40]
    assert row['angle'] == pytest.approx(np.pi / 2, abs=1e-5)
    corners = [[110, 30], [110, 70], [90, 70], [90, 30]]
    assert [[row[f'x{place}'], row[f'y{place}']] for place in range(1, 5)] == corners
    (result,) = descriptions.coco_results(found)
    assert result['bbox'] == pytest.approx([90, 30, 20, 40], abs=1e-3)
    np.testing.assert_allclose(result['segmentation'], [np.ravel(corners)], atol=1e-3)


def test_regions_have_boxes_masks_and_corners():
    masks = np.ones([4, 2, 2], np.float32)
    first, second = descriptions.regions(find(Shown(top_k=2), **{fields.DETECTION_MASKS: masks}))
    assert (first.class_index, first.box, first.rotated) == (1, [0, 0, 100, 200], None)
    assert (second.class_index, second.box, second.corners) == (6, [50, 50, 75, 100], None)
    assert first.mask.all() and (first.mask.shape, first.origin) == (SHAPE[:2], (0, 0))
    assert second.mask.all() and second.mask.dtype == bool
    # Pixels from 50 to 75 of 100, and from 50 to 100 of 200, see `masks.paste_masks`.
    assert (second.mask.shape, second.origin) == ((25, 50), (50, 50))
    found = descriptions.find(rotated_outputs(), SHAPE, 0.0, AS_CONFIGURED)
    (region,) = descriptions.regions(found)
    assert (region.class_index, region.mask) == (1, None)
    np.testing.assert_allclose(region.box, [30, 90, 70, 110], atol=1e-3)
    np.testing.assert_allclose(region.rotated, [50, 100, 20, 40, np.pi / 2], atol=1e-3)
    corners = [[30, 110], [70, 110], [70, 90], [30, 90]]
    np.testing.assert_allclose(region.corners, corners, atol=1e-3)


def test_lines_for_dota():
    found = descriptions.find(rotated_outputs(), SHAPE, 0.0, AS_CONFIGURED)
    assert descriptions.dota_lines('P0001', found, {1: 'ship', 2: 'soccer/ball'}) == {
        'Task1_ship.txt': [],
        'Task1_soccer-ball.txt': [
            'P0001 0.750000 110.00 30.00 110.00 70.00 90.00 70.00 90.00 30.00'
        ],
    }
