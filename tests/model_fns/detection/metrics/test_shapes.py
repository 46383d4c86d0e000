from __future__ import annotations

import numpy as np

from model_fns.detection import fields
from model_fns.detection.metrics import shapes
from model_fns.detection.metrics.run_length_masks import RunLengthMasks
from tests.model_fns.detection.metrics.scenes import detections, groundtruth

# A triangle is half of its box.
TRIANGLE = np.tri(10, 10, -1, dtype=np.uint8)
WHOLE = np.ones([10, 10], np.uint8)
BOX = [0.0, 0.0, 10.0, 10.0]


def scene(**more):
    truth = groundtruth(
        [BOX, BOX], [1, 1], masks=RunLengthMasks.encode([[WHOLE, TRIANGLE]]), **more
    )
    found = detections([BOX], [0.5], [1], masks=RunLengthMasks.encode([np.array([TRIANGLE])]))
    return found, truth


def test_boxes():
    found, truth = scene()
    half = groundtruth([[0, 0, 10, 5], [0, 0, 10, 5]], [1, 1])
    np.testing.assert_allclose(
        shapes.BOXES.overlaps(found, half, np.array([False, True])), [[0.5, 0.5]]
    )
    wide = groundtruth([[0, 0, 10, 20], [0, 0, 10, 20]], [1, 1])
    np.testing.assert_allclose(
        shapes.BOXES.overlaps(found, wide, np.array([False, True])), [[0.5, 1.0]]
    )
    assert shapes.BOXES.areas(found).tolist() == [100]
    assert shapes.BOXES.unknown(truth).tolist() == [False, False]
    assert not shapes.BOXES.needs


def test_masks():
    found, truth = scene()
    np.testing.assert_allclose(
        shapes.MASKS.overlaps(found, truth, np.array([False, False])), [[0.45, 1.0]]
    )
    np.testing.assert_allclose(
        shapes.MASKS.overlaps(found, truth, np.array([True, False])), [[1.0, 1.0]]
    )
    assert shapes.MASKS.areas(found).tolist() == [45]
    assert shapes.MASKS.needs == {fields.MASKS}


def test_objects_without_a_mask_are_unknown():
    _, truth = scene()
    assert shapes.MASKS.unknown(truth).tolist() == [False, False]
    _, truth = scene(mask_weights=np.array([0.0, 0.5], np.float32))
    assert shapes.MASKS.unknown(truth).tolist() == [True, False]
    assert shapes.BOXES.unknown(truth).tolist() == [False, False]
