"""LVIS metrics: by hand, and as COCO's where an image tells about all classes."""

import numpy as np
import pytest

from model_fns.detection.metrics import shapes
from model_fns.detection.metrics.lvis import LvisEvaluator
from model_fns.detection.metrics.run_length_masks import RunLengthMasks
from protos import label_map_pb2
from tests.model_fns.detection.metrics.pycoco import reference
from tests.model_fns.detection.metrics.scenes import (
    detections,
    groundtruth,
    random_image,
    square,
)

NAMES = {1: 'one', 2: 'two', 3: 'three'}
FREQUENCIES = {1: label_map_pb2.RARE, 2: label_map_pb2.COMMON, 3: label_map_pb2.FREQUENT}


def evaluate(images, names=NAMES, frequencies=FREQUENCIES):
    evaluator = LvisEvaluator(names, frequencies, shapes.BOXES, '')
    for index, (truth, found) in enumerate(images):
        evaluator.add_image(str(index), truth, found)
    metrics = evaluator.evaluate()
    assert list(metrics) == evaluator.names()
    return metrics


def square_image(classes, **more):
    """Build an image with a square at the place of each of its classes."""
    boxes = [square(class_id) for class_id in classes]
    return groundtruth(boxes, classes, **more)


@pytest.mark.parametrize('seed', range(6))
def test_images_of_all_classes_are_as_those_of_coco(seed):
    rng = np.random.RandomState(seed)
    images = [random_image(rng, len(NAMES)) for _ in range(rng.randint(1, 20))]
    known = [
        (
            groundtruth(truth.boxes, truth.classes, areas=truth.areas, absent_classes=[1, 2, 3]),
            found,
        )
        for truth, found in images
    ]
    metrics = evaluate(known)
    names = ('AP', 'AP50', 'AP75', 'APs', 'APm', 'APl')
    # No class has more than 100 detections in an image.
    limited = ('AR@300', 'ARs@300', 'ARm@300', 'ARl@300')
    stats = reference(known, NAMES).stats
    np.testing.assert_allclose([metrics[name] for name in names], stats[:6], atol=1e-12)
    np.testing.assert_allclose([metrics[name] for name in limited], stats[[8, 9, 10, 11]])


@pytest.mark.parametrize('absent, expected', [([], 1.0), ([2], 0.5)])
def test_a_class_is_wrong_where_it_was_verified_to_be_absent(absent, expected):
    """Elsewhere nobody knows."""
    found = detections([square(2), square(1)], [0.9, 0.5], [2, 1])
    metrics = evaluate(
        [
            (square_image([1], absent_classes=absent), found),
            (square_image([2]), detections([square(2)], [0.8], [2])),
        ]
    )
    # Of class 1 all is right; of class 2 what is found first is wrong, or not counted.
    assert metrics['AP'] == pytest.approx((1.0 + expected) / 2)
    assert metrics['APr'] == pytest.approx(1.0) and metrics['APc'] == pytest.approx(expected)
    assert metrics['APf'] == -1.0


@pytest.mark.parametrize('incomplete, expected', [([], 0.5), ([1], 1.0)])
def test_a_class_with_missing_objects_has_no_wrong_detections(incomplete, expected):
    found = detections([square(5), square(1)], [0.9, 0.5], [1, 1])
    metrics = evaluate([(square_image([1], incomplete_classes=incomplete), found)])
    assert metrics['AP'] == pytest.approx(expected)
    assert metrics['AR@300'] == 1.0


def test_three_hundred_detections_of_an_image_count():
    """More than the hundred of a class that COCO counts; the right one is the last of them."""
    for wrong, expected in ((299, 1.0), (300, 0.0)):
        boxes = [square(2)] * wrong + [square(1)]
        found = detections(boxes, np.linspace(1.0, 0.5, wrong + 1), [1] * (wrong + 1))
        assert evaluate([(square_image([1]), found)])['AR@300'] == expected


@pytest.mark.parametrize('absent', [[], [2]])
def test_empty_masks_are_left_out(absent):
    """As by lvis-api: an empty object is not missed, and an empty detection is not wrong."""
    masks = np.zeros([2, 40, 60], np.uint8)
    masks[0, :20, :20] = 1
    truth = groundtruth(
        [[0, 0, 20, 20], [20, 0, 40, 20]],
        [1, 2],
        areas=[400, 400],
        absent_classes=absent,
        masks=RunLengthMasks.encode([masks]),
    )
    found = detections(
        [[20, 0, 40, 20], [0, 0, 20, 20]],
        [0.9, 0.8],
        [1, 1],
        masks=RunLengthMasks.encode([masks[::-1]]),
    )
    evaluator = LvisEvaluator(NAMES, FREQUENCIES, prefix='')
    evaluator.add_image('0', truth, found)
    metrics = evaluator.evaluate()
    assert metrics['AP'] == metrics['AR@300'] == pytest.approx(1.0)
    assert metrics['APc'] == -1.0  # class 2 has no object that is left


def test_without_objects_numbers_are_undefined():
    assert set(evaluate([]).values()) == {-1.0}
