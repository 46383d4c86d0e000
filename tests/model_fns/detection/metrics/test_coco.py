from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from model_fns.detection.metrics import coco_matching, shapes
from model_fns.detection.metrics.coco import MASK_PREFIX, PREFIX, CocoEvaluator
from tests.model_fns.detection.metrics.pycoco import reference
from tests.model_fns.detection.metrics.scenes import (
    detections,
    groundtruth,
    random_image,
    random_masks,
    square,
)

NAMES = {1: 'one', 2: 'two', 3: 'three'}
SUMMARY = [
    'DetectionBoxes_Precision/mAP',
    'DetectionBoxes_Precision/mAP@.50IOU',
    'DetectionBoxes_Precision/mAP@.75IOU',
    'DetectionBoxes_Precision/mAP (small)',
    'DetectionBoxes_Precision/mAP (medium)',
    'DetectionBoxes_Precision/mAP (large)',
    'DetectionBoxes_Recall/AR@1',
    'DetectionBoxes_Recall/AR@10',
    'DetectionBoxes_Recall/AR@100',
    'DetectionBoxes_Recall/AR@100 (small)',
    'DetectionBoxes_Recall/AR@100 (medium)',
    'DetectionBoxes_Recall/AR@100 (large)',
]


def evaluate(images, names=NAMES, **options):
    evaluator = CocoEvaluator(names, **options)
    for index, (truth, found) in enumerate(images):
        evaluator.add_image(str(index), truth, found)
    metrics = evaluator.evaluate()
    assert set(metrics) <= set(evaluator.names())
    assert len(set(evaluator.names())) == len(evaluator.names())
    return metrics


def assert_equal(metrics, evaluated):
    np.testing.assert_allclose([metrics[name] for name in SUMMARY], evaluated.stats, atol=1e-12)


@pytest.mark.parametrize('coarse', [False, True])
@pytest.mark.parametrize('seed', range(12))
def test_as_pycocotools(seed, coarse):
    rng = np.random.RandomState(seed)
    images = [random_image(rng, len(NAMES), coarse=coarse) for _ in range(rng.randint(1, 30))]
    assert_equal(evaluate(images), reference(images, NAMES))


def test_as_pycocotools_with_more_detections_than_count():
    rng = np.random.RandomState(5)
    images = [random_image(rng, 1, coarse=index < 2, most=400) for index in range(6)]
    assert max(len(found.scores) for _, found in images) > 100
    assert_equal(evaluate(images, {1: 'one'}), reference(images, {1: 'one'}))


@pytest.mark.parametrize('seed', range(6))
def test_masks_as_pycocotools(seed):
    rng = np.random.RandomState(seed)
    images = [random_masks(rng, len(NAMES)) for _ in range(rng.randint(1, 20))]
    metrics = evaluate(images, shape=shapes.MASKS, prefix=MASK_PREFIX)
    names = [name.replace(PREFIX, MASK_PREFIX) for name in SUMMARY]
    stats = reference(images, NAMES, 'segm').stats
    np.testing.assert_allclose([metrics[name] for name in names], stats, atol=1e-12)
    assert set(metrics) == set(names)


def test_an_object_without_a_mask_excuses_what_lies_on_it():
    truth, _ = random_masks(np.random.RandomState(1), 1, objects=2)
    found = detections(truth.boxes, [0.9, 0.8], [1, 1], masks=truth.masks)
    known = dataclasses.replace(truth, is_crowd=np.zeros(2, bool), mask_weights=np.array([0, 1]))
    options = {'shape': shapes.MASKS, 'prefix': MASK_PREFIX}
    evaluator = CocoEvaluator(NAMES, **options)
    assert evaluator.needs == {'groundtruth_instance_masks'} and not CocoEvaluator(NAMES).needs
    metrics = evaluate([(known, found)], **options)
    assert metrics[MASK_PREFIX + 'Precision/mAP'] == pytest.approx(1.0)
    missed = found.kept(np.array([True, False]))
    assert evaluate([(known, missed)], **options)[MASK_PREFIX + 'Recall/AR@100'] == 0.0


def test_as_pycocotools_by_category():
    rng = np.random.RandomState(7)
    images = [random_image(rng, len(NAMES)) for _ in range(20)]
    metrics = evaluate(images, all_per_category=True)
    evaluated = reference(images, NAMES)
    precision, recall = evaluated.eval['precision'], evaluated.eval['recall']
    for index, name in enumerate(NAMES.values()):
        assert metrics[f'{PREFIX}PerformanceByCategory/mAP/{name}'] == pytest.approx(
            precision[:, :, index, 0, 2].mean()
        )
        by_category = ' ByCategory/' + name
        assert metrics[SUMMARY[0] + by_category] == pytest.approx(
            precision[:, :, index, 0, 2].mean()
        )
        assert metrics[SUMMARY[2] + by_category] == pytest.approx(
            precision[5, :, index, 0, 2].mean()
        )
        assert metrics[SUMMARY[4] + by_category] == pytest.approx(
            precision[:, :, index, 2, 2].mean()
        )
        assert metrics[SUMMARY[6] + by_category] == pytest.approx(recall[:, index, 0, 0].mean())
        assert metrics[SUMMARY[11] + by_category] == pytest.approx(recall[:, index, 3, 2].mean())


def test_no_detections_are_no_recall():
    metrics = evaluate([(groundtruth([square(0)], [2]), detections([], [], []))], per_category=True)
    assert metrics[SUMMARY[0]] == metrics[SUMMARY[8]] == 0.0
    assert metrics[PREFIX + 'PerformanceByCategory/mAP/two'] == 0.0
    assert PREFIX + 'PerformanceByCategory/mAP/one' not in metrics
    assert metrics[SUMMARY[5]] == -1.0  # no large object


@pytest.mark.parametrize(
    'images', [[], [(groundtruth([], []), detections([square(0)], [0.5], [1]))]]
)
def test_no_groundtruth_tells_nothing(images):
    assert evaluate(images, per_category=True) == dict.fromkeys(SUMMARY, -1.0)


def test_super_categories_are_means_of_their_classes():
    images = [
        (
            groundtruth([square(0), square(1)], [1, 2]),
            detections([square(0)], [0.9], [1]),
        )
    ]
    groups = {'all': [1, 2, 3], 'first': [1], 'none': [3]}
    metrics = evaluate(images, super_categories=groups)
    name = PREFIX + 'PerformanceBySuperCategory/'
    assert metrics[name + 'all'] == pytest.approx(0.5)  # the third class has no groundtruth
    assert metrics[name + 'first'] == pytest.approx(1.0)
    assert name + 'none' not in metrics
    assert len(metrics) == len(SUMMARY) + 2
    metrics = evaluate(images, super_categories=groups, all_per_category=True)
    assert metrics[SUMMARY[8] + ' BySuperCategory/all'] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ('looked_for', 'empty_to_all', 'precision'),
    [
        ([], True, 0.5),  # as if all classes had been looked for
        ([], False, 1.0),  # only the class that has a box
        ([2], True, 0.5),
        ([3], True, 1.0),
    ],
)
def test_detections_of_classes_that_nobody_looked_for(looked_for, empty_to_all, precision):
    # A wrong detection of class 2 here, a right one with a lower score elsewhere.
    images = [
        (
            groundtruth([square(0)], [1], image_classes=looked_for),
            detections([square(0), square(1)], [0.9, 0.8], [1, 2]),
        ),
        (groundtruth([square(0)], [2]), detections([square(0)], [0.5], [2])),
    ]
    metrics = evaluate(images, per_category=True, skip_unlabeled=True, empty_to_all=empty_to_all)
    assert metrics[PREFIX + 'PerformanceByCategory/mAP/two'] == pytest.approx(precision)
    assert evaluate(images, per_category=True)[
        PREFIX + 'PerformanceByCategory/mAP/two'
    ] == pytest.approx(0.5)


def test_little_is_kept_of_a_detection():
    truth, found = random_image(np.random.RandomState(0), 3, most=200)
    matches = coco_matching.match(truth, found)
    arrays = vars(matches).values()
    assert sum(array.nbytes for array in arrays) <= 29 * len(found.scores)
    assert all(array.base is None for array in arrays)  # no view that keeps a batch
