from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from model_fns.detection.metrics import open_images, shapes
from model_fns.detection.metrics.open_images import OpenImagesEvaluator
from model_fns.detection.metrics.run_length_masks import RunLengthMasks
from tests.model_fns.detection.metrics.scenes import detections, groundtruth, square

NAMES = {1: 'one', 2: 'two'}
MEAN = 'OpenImagesV2_Precision/mAP@0.5IOU'
BY_CLASS = 'OpenImagesV2_PerformanceByCategory/AP@0.5IOU/'
CROWD = [0, 100, 100, 200]


def evaluate(images, **options):
    evaluator = OpenImagesEvaluator(NAMES, **options)
    for index, (truth, found) in enumerate(images):
        evaluator.add_image(str(index), truth, found)
    metrics = evaluator.evaluate()
    assert set(metrics) <= set(evaluator.names())
    return metrics


def image_with_group(found):
    truth = groundtruth([CROWD, square(0)], [1, 1], group_of=[True])
    return [(truth, found)]


@pytest.mark.parametrize(
    ('group_weight', 'area'),
    [
        (0.0, 1.0),  # detections in the group count for nothing
        # The best of them is half a find, of 1.5 objects: precision 1 all the way.
        (0.5, 1.0),
        (1.0, 1.0),
    ],
)
def test_detections_in_a_group_are_no_mistakes(group_weight, area):
    found = detections(
        [[0, 100, 10, 110], [50, 150, 60, 160], square(0)], [0.9, 0.8, 0.7], [1, 1, 1]
    )
    metrics = evaluate(image_with_group(found), group_weight=group_weight)
    assert metrics[MEAN] == pytest.approx(area)


@pytest.mark.parametrize(('group_weight', 'area'), [(0.0, 1.0), (0.5, 1 / 1.5), (1.0, 1 / 2)])
def test_a_group_that_is_not_found(group_weight, area):
    metrics = evaluate(
        image_with_group(detections([square(0)], [0.9], [1])), group_weight=group_weight
    )
    assert metrics[MEAN] == pytest.approx(area)


def test_the_best_detection_of_a_group_says_when_it_is_found():
    # In the order of scores: wrong, the group, the object.
    found = detections(
        [square(3), [0, 100, 10, 110], [20, 120, 30, 130], square(0)],
        [0.9, 0.8, 0.2, 0.5],
        [1, 1, 1, 1],
    )
    # Of two objects: precision 0, 1/2, 2/3 at recall 0, 1/2, 1.
    assert evaluate(image_with_group(found), group_weight=1.0)[MEAN] == pytest.approx(2 / 3)


def test_half_of_the_detection_must_lie_in_the_group():
    half, less = [0, 95, 10, 105], [0, 94, 10, 104]
    right = [square(0)]
    found = detections([half, *right], [0.9, 0.8], [1, 1])
    assert evaluate(image_with_group(found))[MEAN] == pytest.approx(1.0)
    found = detections([less, *right], [0.9, 0.8], [1, 1])
    assert evaluate(image_with_group(found))[MEAN] == pytest.approx(0.5)


def test_a_group_excuses_its_own_class_alone():
    found = detections([[0, 100, 10, 110], square(0)], [0.9, 0.8], [2, 1])
    truth = groundtruth([CROWD, square(0), square(4)], [1, 1, 2], group_of=[True])
    metrics = evaluate([(truth, found)])
    assert metrics[BY_CLASS + 'two'] == 0.0


def test_an_object_in_a_group_is_found_as_an_object():
    truth = groundtruth([CROWD, [0, 100, 10, 110]], [1, 1], group_of=[True])
    found = detections([[0, 100, 10, 110]] * 2, [0.9, 0.8], [1, 1])
    # The second detection finds no object, but lies in the group.
    assert evaluate([(truth, found)])[MEAN] == 1.0
    assert evaluate([(truth, found)], group_weight=1.0)[MEAN] == 1.0


def test_difficult_and_crowd_flags_mean_nothing_here():
    truth = groundtruth([square(0), square(1)], [1, 1], difficult=[True], crowd=[True])
    assert evaluate([(truth, detections([square(1)], [0.5], [1]))])[MEAN] == 0.5


@pytest.mark.parametrize(
    ('verified', 'empty_to_all', 'area'),
    # A record that names no class at all: as published, all count, unless a config says none does.
    [([], True, 0.5), ([], False, 1.0), ([1], True, 1.0), ([2], True, 0.5)],
)
def test_only_verified_classes_count(verified, empty_to_all, area):
    images = [
        (
            groundtruth([square(0)], [1], image_classes=verified),
            detections([square(0), square(1)], [0.5, 0.9], [1, 2]),
        ),
        (groundtruth([square(0)], [2]), detections([square(0)], [0.5], [2])),
    ]
    metrics = evaluate(images, verified_only=True, empty_to_all=empty_to_all)
    assert metrics[BY_CLASS + 'two'] == pytest.approx(area)
    assert metrics[BY_CLASS + 'one'] == 1.0


def test_names_of_the_challenge():
    names = OpenImagesEvaluator(NAMES, open_images.CHALLENGE_PREFIX).names()
    assert names == [
        'OpenImagesDetectionChallenge_Precision/mAP@0.5IOU',
        'OpenImagesDetectionChallenge_PerformanceByCategory/AP@0.5IOU/one',
        'OpenImagesDetectionChallenge_PerformanceByCategory/AP@0.5IOU/two',
    ]


def test_images_without_boxes_or_detections():
    none = detections([], [], [])
    assert evaluate([(groundtruth([], []), none)]) == {}
    assert evaluate([(groundtruth([CROWD], [1], group_of=[True]), none)]) == {}
    metrics = evaluate([(groundtruth([CROWD], [1], group_of=[True]), none)], group_weight=1.0)
    assert metrics[MEAN] == 0.0


def test_masks_in_a_group():
    """What is found lies in the group's box, but only one detection in its mask."""
    size = (200, 200)
    boxes = [[0, 100, 10, 110], [90, 190, 100, 200]]
    corner = np.zeros([1, *size], np.uint8)
    corner[:, :50, 100:150] = 1
    masks = np.zeros([2, *size], np.uint8)
    masks[0, :10, 100:110] = masks[1, 90:100, 190:200] = 1
    truth = groundtruth([CROWD], [1], group_of=[True], masks=RunLengthMasks.encode([corner]))
    found = detections(boxes, [0.9, 0.8], [1, 1], masks=RunLengthMasks.encode([masks]))
    options = {'group_weight': 1.0, 'shape': shapes.MASKS}
    images = [(truth, found)]
    assert OpenImagesEvaluator(NAMES, **options).match(*images[0]).true_positives.sum() == 1
    assert len(OpenImagesEvaluator(NAMES, **options).match(*images[0]).scores) == 2
    assert len(OpenImagesEvaluator(NAMES, group_weight=1.0).match(*images[0]).scores) == 1
    # What nobody knows the mask of is no object to find.
    unknown = dataclasses.replace(truth, mask_weights=np.array([0.0]))
    assert evaluate([(unknown, found)], **options) == {}


def image_of_masks(boxes, classes, empty=(), **more):
    """Return objects or detections of boxes, whose masks fill them unless they are empty."""
    masks = np.zeros([len(boxes), 200, 200], np.uint8)
    for index, (top, left, bottom, right) in enumerate(np.asarray(boxes, int)):
        masks[index, top:bottom, left:right] = index not in empty
    return more.pop('build')(boxes, classes, masks=RunLengthMasks.encode([masks]), **more)


@pytest.mark.parametrize('known', [True, False])
def test_objects_without_a_mask_are_optional(known):
    """They are compared by boxes, and their best detection does not count."""
    truth = image_of_masks([square(0), square(1)], [1, 1], empty=[1], build=groundtruth)
    if not known:
        truth = dataclasses.replace(truth, mask_weights=np.array([1.0, 0.0]))
    found = image_of_masks(
        [square(1), square(0), square(1)],
        [1, 1, 1],
        build=lambda boxes, classes, **more: detections(boxes, [0.9, 0.8, 0.7], classes, **more),
    )
    matched = OpenImagesEvaluator(NAMES, shape=shapes.MASKS).match(truth, found)
    assert matched.scores == pytest.approx([0.8, 0.7])
    assert matched.true_positives.tolist() == [1, 0]
    assert evaluate([(truth, found)], shape=shapes.MASKS)[MEAN] == pytest.approx(1.0)


def test_detections_in_a_group_without_a_mask_do_not_count():
    truth = image_of_masks([square(0), CROWD], [1, 1], [1], group_of=[0, 1], build=groundtruth)
    found = image_of_masks(
        [[0, 100, 10, 110], [50, 150, 60, 160], square(0)],
        [1, 1, 1],
        build=lambda boxes, classes, **more: detections(boxes, [0.9, 0.8, 0.7], classes, **more),
    )
    for weight in (0.0, 1.0):
        options = {'shape': shapes.MASKS, 'group_weight': weight}
        assert evaluate([(truth, found)], **options)[MEAN] == pytest.approx(1.0)


def test_detections_without_a_pixel_are_left_out():
    truth = image_of_masks([square(0)], [1], build=groundtruth)
    found = image_of_masks(
        [square(3), square(0)],
        [1, 1],
        empty=[0],
        build=lambda boxes, classes, **more: detections(boxes, [0.9, 0.8], classes, **more),
    )
    assert evaluate([(truth, found)], shape=shapes.MASKS)[MEAN] == pytest.approx(1.0)
    assert evaluate([(truth, found)])[MEAN] == pytest.approx(0.5)
