from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from model_fns.detection.metrics import pascal, shapes
from model_fns.detection.metrics.pascal import PascalEvaluator
from model_fns.detection.metrics.run_length_masks import RunLengthMasks
from model_fns.structures import box_overlaps
from tests.model_fns.detection.metrics.scenes import detections, groundtruth, random_image, square

NAMES = {1: 'one', 2: 'two', 3: 'three'}
MEAN = 'PascalBoxes_Precision/mAP@0.5IOU'
BY_CLASS = 'PascalBoxes_PerformanceByCategory/AP@0.5IOU/'


def evaluate(images, prefix=pascal.PREFIX, names=NAMES, **options):
    evaluator = PascalEvaluator(names, prefix, **options)
    for index, (truth, found) in enumerate(images):
        evaluator.add_image(str(index), truth, found)
    metrics = evaluator.evaluate()
    assert set(metrics) <= set(evaluator.names())
    return metrics


def slow_area(images, class_id):
    """Average precision of a class, one detection after the other; None without objects."""
    ranked = [
        (-float(found.scores[row]), image, row)
        for image, (_, found) in enumerate(images)
        for row in range(len(found.scores))
        if found.classes[row] == class_id and (found.boxes[row, 2:] > found.boxes[row, :2]).all()
    ]
    taken, finds = set(), []
    for _, image, row in sorted(ranked, key=lambda each: each[0]):
        truth, found = images[image]
        own = np.flatnonzero(truth.classes == class_id)
        overlap = box_overlaps.iou(
            found.boxes[row : row + 1].astype(float), truth.boxes[own].astype(float)
        )[0]
        best = int(overlap.argmax()) if len(own) else None
        if best is None or overlap[best] < 0.5:
            finds.append(0)
        elif not truth.difficult[own[best]]:
            finds.append(0 if (image, best) in taken else 1)
            taken.add((image, best))
    count = sum(
        np.count_nonzero((truth.classes == class_id) & ~truth.difficult) for truth, _ in images
    )
    if not count:
        return None
    precision = [sum(finds[: place + 1]) / (place + 1) for place in range(len(finds))]
    return sum(max(precision[place:]) for place, hit in enumerate(finds) if hit) / count


@pytest.mark.parametrize('coarse', [False, True])
@pytest.mark.parametrize('seed', range(6))
def test_as_one_by_one(seed, coarse):
    rng = np.random.RandomState(seed)
    images = [random_image(rng, len(NAMES), coarse=coarse) for _ in range(rng.randint(1, 15))]
    metrics = evaluate(images)
    areas = {name: slow_area(images, class_id) for class_id, name in NAMES.items()}
    areas = {name: area for name, area in areas.items() if area is not None}
    assert metrics.pop(MEAN) == pytest.approx(np.mean(list(areas.values())))
    assert metrics == pytest.approx({BY_CLASS + name: area for name, area in areas.items()})


def test_class_ids_come_in_any_order():
    images = [random_image(np.random.RandomState(0), len(NAMES)) for _ in range(5)]
    metrics = evaluate(images)
    assert len(set(metrics.values())) == 1 + len(NAMES)
    assert evaluate(images, names=dict(reversed(NAMES.items()))) == metrics


def test_by_hand():
    # Of two objects of class 1 the second is found, after a wrong detection and before a double.
    images = [
        (
            groundtruth([square(0), square(1)], [1, 1]),
            detections(
                [square(3), square(1), square(1)],
                [0.9, 0.8, 0.7],
                [1, 1, 1],
            ),
        ),
        (groundtruth([square(0)], [2]), detections([square(0)], [0.3], [2])),
    ]
    assert evaluate(images) == pytest.approx(
        {MEAN: (0.25 + 1.0) / 2, BY_CLASS + 'one': 0.25, BY_CLASS + 'two': 1.0}
    )


def test_detections_without_area_are_left_out():
    images = [
        (
            groundtruth([square(0)], [1]),
            detections([[5, 5, 5, 9], [9, 9, 8, 8], square(0)], [0.9, 0.8, 0.7], [1, 1, 1]),
        )
    ]
    assert evaluate(images)[MEAN] == 1.0


def test_no_detections_and_no_images():
    assert evaluate([(groundtruth([square(0)], [1]), detections([], [], []))])[MEAN] == 0.0
    assert evaluate([(groundtruth([], []), detections([square(0)], [0.5], [1]))]) == {}
    assert evaluate([]) == {}


def test_weighted_is_one_curve_of_all_classes():
    # Class 1 finds its three objects, class 2 misses its one with the highest score.
    images = [
        (
            groundtruth([square(0), square(1), square(2), square(3)], [1, 1, 1, 2]),
            detections(
                [square(4), square(0), square(1), square(2), square(5)],
                [0.9, 0.8, 0.7, 0.6, 0.95],
                [2, 1, 1, 1, 3],
            ),
        )
    ]
    metrics = evaluate(images, pascal.WEIGHTED_PREFIX, pooled=True)
    # wrong, right, right, right of 4 objects: precision 3/4 up to recall 3/4. Class 3 has no
    # objects, and takes no part.
    assert metrics['WeightedPascalBoxes_Precision/mAP@0.5IOU'] == pytest.approx(9 / 16)
    by_class = 'WeightedPascalBoxes_PerformanceByCategory/AP@0.5IOU/'
    assert metrics[by_class + 'one'] == 1.0
    assert metrics[by_class + 'two'] == 0.0


@pytest.mark.parametrize(
    ('bounds', 'area'),
    [
        # The whole curve: recall 1/4, 1/4, 2/4, 3/4 at precision 1, 1/2, 2/3, 3/4.
        ((0.0, 1.0), 0.25 + 0.5 * 0.75),
        ((0.0, 0.5), 0.25 + 0.25 * 2 / 3),
        ((0.3, 1.0), 0.75 * 0.75),
        ((0.8, 1.0), 0.0),
    ],
)
def test_precision_at_recall(bounds, area):
    images = [
        (
            groundtruth([square(place) for place in range(4)], [1] * 4),
            detections(
                [square(place) for place in (0, 9, 1, 2)], [0.9, 0.8, 0.7, 0.6], [1, 1, 1, 1]
            ),
        )
    ]
    metrics = evaluate(images, pascal.PRECISION_AT_RECALL_PREFIX, recall_bounds=bounds)
    suffix = '' if bounds == (0.0, 1.0) else f'@[{bounds[0]},{bounds[1]}]Recall'
    assert metrics['PrecisionAtRecallBoxes_Precision/mAP@0.5IOU' + suffix] == pytest.approx(area)


def test_little_is_kept_of_a_detection():
    evaluator = PascalEvaluator(NAMES, pascal.PREFIX)
    truth, found = random_image(np.random.RandomState(0), 3, most=200)
    evaluator.add_image('a', truth, found)
    arrays = vars(evaluator._matched[0]).values()
    assert sum(array.nbytes for array in arrays) <= 12 * len(found.scores)


def test_masks_decide_where_boxes_do_not():
    """Two triangles share a box; each is found by its own mask alone."""
    triangle = np.tri(10, 10, -1, dtype=np.uint8)
    masks = RunLengthMasks.encode([np.array([triangle, 1 - triangle])])
    box = [[0.0, 0.0, 10.0, 10.0]]
    truth = groundtruth(box * 2, [1, 2], masks=masks)
    found = detections(box * 2, [0.9, 0.8], [1, 2], masks=masks.kept(np.array([0, 0])))
    images = [(truth, found)]
    metrics = evaluate(images, pascal.MASK_PREFIX, shape=shapes.MASKS)
    by_class = BY_CLASS.replace('Boxes', 'Masks')
    assert metrics[by_class + 'one'] == 1.0 and metrics[by_class + 'two'] == 0.0
    assert evaluate(images)[MEAN] == 1.0
    # Whose mask nobody knows need not be found, and excuses what is found there.
    unknown = dataclasses.replace(truth, mask_weights=np.array([1.0, 0.0]))
    metrics = evaluate([(unknown, found)], pascal.MASK_PREFIX, shape=shapes.MASKS)
    assert by_class + 'two' not in metrics and metrics[by_class + 'one'] == 1.0
