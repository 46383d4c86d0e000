from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from model_fns.detection.metrics.best_f1 import BestF1Evaluator
from model_fns.structures import box_overlaps, rotated_overlaps
from tests.model_fns.detection.metrics.scenes import detections, groundtruth, random_image, square

NAMES = {1: 'one', 2: 'two', 3: 'three'}
PREFIX = 'BestF1@.50IOU/'


def evaluate(images):
    evaluator = BestF1Evaluator(NAMES)
    for index, (truth, found) in enumerate(images):
        evaluator.add_image(str(index), truth, found)
    metrics = evaluator.evaluate()
    assert set(metrics) <= set(evaluator.names())
    return {name.removeprefix(PREFIX): value for name, value in metrics.items()}


def test_by_hand():
    """Scores 0.9 right, 0.8 wrong, 0.7 right, 0.2 wrong; of four objects two are found."""
    truth = groundtruth([square(place) for place in range(4)], [1, 2, 3, 1])
    found = detections(
        [square(0), square(1), square(2), square(9)], [0.9, 0.8, 0.7, 0.2], [1, 1, 3, 2]
    )
    # F1 after each: 2 * 1 / (1 + 4), 2 * 1 / (2 + 4), 2 * 2 / (3 + 4), 2 * 2 / (4 + 4).
    assert evaluate([(truth, found)]) == {
        'F1': pytest.approx(4 / 7),
        'precision': pytest.approx(2 / 3),
        'recall': pytest.approx(2 / 4),
        'score_threshold': pytest.approx(0.7),
    }


def test_equal_scores_are_shown_together_and_of_equal_f1_less_is_shown():
    truth = groundtruth([square(0), square(1)], [1, 1])
    tied = detections([square(0), square(7), square(8)], [0.5, 0.5, 0.5], [1, 1, 1])
    assert evaluate([(truth, tied)])['precision'] == pytest.approx(1 / 3)
    # 2 * 1 / (1 + 2) after the first, 2 * 2 / (4 + 2) after the last: equal.
    found = detections(
        [square(0), square(7), square(8), square(1)], [0.9, 0.8, 0.7, 0.6], [1, 1, 1, 1]
    )
    assert evaluate([(truth, found)])['score_threshold'] == pytest.approx(0.9)


@pytest.mark.parametrize('flag', ['crowd', 'difficult', 'group_of'])
def test_what_is_unclear_counts_for_nothing(flag):
    truth = groundtruth([square(0), square(1)], [1, 1], **{flag: [True]})
    found = detections([square(0), square(0), square(1)], [0.9, 0.8, 0.3], [1, 1, 1])
    assert evaluate([(truth, found)]) == {
        'F1': 1.0,
        'precision': 1.0,
        'recall': 1.0,
        'score_threshold': pytest.approx(0.3),
    }


BOXES = [square(0, side=100.0), square(0)]  # a crowd, and an object inside of it


@pytest.mark.parametrize('rotated', [False, True])
@pytest.mark.parametrize('flag', ['crowd', 'group_of'])
def test_detections_inside_of_a_crowd_count_for_nothing(flag, rotated):
    """The second detection has 1 % of the crowd's area, and lies in it; the third does by 4/10."""
    truth = groundtruth(BOXES, [1, 1], **{flag: [True]})
    found = detections(
        [square(0), [40, 40, 50, 50], [96, 0, 106, 10], square(0), [30, 30, 40, 40]],
        [0.9, 0.8, 0.7, 0.6, 0.95],
        [1, 1, 1, 1, 2],
    )
    if rotated:
        truth, found = (
            dataclasses.replace(one, boxes=rotated_overlaps.corners(one.boxes))
            for one in (truth, found)
        )
    evaluator = BestF1Evaluator(NAMES)
    matched = evaluator.match(truth, found)
    assert sorted(zip(matched.scores.tolist(), matched.true_positives.tolist())) == [
        (pytest.approx(0.7), 0),
        (pytest.approx(0.9), 1),
        (pytest.approx(0.95), 0),  # of another class
    ]
    assert evaluator.objects_to_find(truth).tolist() == [False, True]


def test_nothing_to_tell_from():
    nothing, some = groundtruth([], []), groundtruth([square(0)], [1])
    found = detections([square(1)], [0.5], [1])
    assert evaluate([]) == {}
    assert evaluate([(nothing, found)]) == {}
    assert evaluate([(some, found)]) == {}
    assert evaluate([(some, detections([], [], []))]) == {}


def slow_best(images):
    """Compute (F1, precision, recall, threshold) of the best threshold by trying each score."""
    best = (0.0, 0.0, 0.0, 0.0)
    every = np.concatenate([found.scores for _, found in images])
    for threshold in sorted(set(every.tolist()), reverse=True):
        right = shown = objects = 0
        for truth, found in images:
            several = truth.is_crowd | truth.group_of
            objects += int((~truth.difficult & ~several).sum())
            taken = set()
            for row in np.argsort(-found.scores, kind='stable'):
                box = found.boxes[row : row + 1].astype(float)
                if found.scores[row] < threshold or not (box[0, 2:] > box[0, :2]).all():
                    continue
                same = truth.classes == found.classes[row]
                own, crowds = np.flatnonzero(same & ~several), np.flatnonzero(same & several)
                overlap = box_overlaps.iou(box, truth.boxes[own].astype(float))[0]
                chosen = int(own[overlap.argmax()]) if len(own) else None
                is_near = len(own) > 0 and overlap.max() >= 0.5
                if is_near and truth.difficult[chosen]:
                    continue
                if is_near and chosen not in taken:
                    taken.add(chosen)
                    right += 1
                elif (box_overlaps.ioa(box, truth.boxes[crowds].astype(float)) >= 0.5).any():
                    continue
                shown += 1
        if right and 2 * right / (shown + objects) > best[0] + 1e-12:
            best = (2 * right / (shown + objects), right / shown, right / objects, threshold)
    return best


@pytest.mark.parametrize('seed', range(6))
def test_it_is_the_best_of_all_thresholds(seed):
    random = np.random.RandomState(seed)
    images = [random_image(random, 3, coarse=seed % 2 == 1, most=12) for _ in range(6)]
    metrics = evaluate(images)
    names = ('F1', 'precision', 'recall', 'score_threshold')
    assert [metrics[name] for name in names] == pytest.approx(slow_best(images))
