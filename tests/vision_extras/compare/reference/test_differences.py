"""Differences of two sides, against numbers by hand."""

import numpy as np
import pytest

from vision_extras.compare.reference import differences


@pytest.mark.parametrize(
    'here, there, absolute, relative',
    [
        ([1.0, -4.0], [1.0, -5.0], 1.0, 0.2),
        ([0.0], [0.0], 0.0, 0.0),
        ([1.0], [1.0, 1.0], np.inf, np.inf),
        ([np.nan, 2.0], [np.nan, 2.0], 0.0, 0.0),
        ([np.nan], [2.0], np.inf, np.inf),
        ([np.inf, 2.0], [np.inf, 3.0], 1.0, 1 / 3),
        ([np.inf, 2.0], [4.0, 2.0], np.inf, np.inf),
        ([np.inf], [-np.inf], np.inf, np.inf),
        ([], [], 0.0, 0.0),
        (None, [2.0], np.inf, np.inf),
    ],
)
def test_measured_by_hand(here, there, absolute, relative):
    sides = [None if each is None else np.array(each) for each in (here, there)]
    found = differences.measure('a', *sides)
    assert (found.absolute, found.relative) == (absolute, pytest.approx(relative))


def detections(*rows):
    """One image with rows of (class, score, box side)."""
    classes, scores, sides = np.array(rows, np.float32).reshape([-1, 3]).T
    padded = np.zeros([1, 5, 4], np.float32)
    padded[0, : len(rows)] = sides[:, np.newaxis]
    return {
        'detection_classes': np.pad(classes, [0, 5 - len(rows)])[np.newaxis],
        'detection_scores': np.pad(scores, [0, 5 - len(rows)])[np.newaxis],
        'detection_boxes': padded,
        'num_detections': np.array([len(rows)], np.float32),
    }


FOUND = detections((1, 0.75, 0.25), (2, 0.75, 0.5))


@pytest.mark.parametrize(
    'other, expected',
    [
        (FOUND, 0.0),
        (detections((2, 0.75, 0.5), (1, 0.75, 0.25)), 0.0),  # another order of equal scores
        (detections((1, 0.75, 0.25), (2, 0.5, 0.5)), 0.25),
        (detections((1, 0.75, 0.25), (2, 0.75, 0.625)), 0.125),
        (detections((1, 0.75, 0.25), (3, 0.75, 0.5)), 1.0),  # another class
        (detections((1, 0.75, 0.25)), 1.0),
        (detections(), 1.0),
        (detections((1, 0.75, 0.25), (2, np.nan, 0.5)), 1.0),
        (detections((1, 0.75, 0.25), (2, 0.75, 0.5), (1, 0.5, 0.25)), 0.25),
    ],
)
def test_detections_are_compared_with_the_nearest(other, expected):
    for pair in ((FOUND, other), (other, FOUND)):
        (found,) = differences.measure_detections(*pair)
        assert found.relative == pytest.approx(expected)


def test_no_detections_agree():
    (found,) = differences.measure_detections(detections(), detections())
    assert found == ('image 0', 0.0, 0.0, 0.0, 0.0)


def side(**changes):
    """Results of a side; a change adds a number to a group."""
    values = {
        'initial': {'w': np.array([1.0, 2.0])},
        'raw': {'box_encodings': np.array([3.0])},
        'losses': {'total_loss': np.array([8.0, 6.0, 4.0])},
        'gradients': {'w': np.array([0.5, 0.5])},
        'variables': {'w': np.array([0.5, 1.5])},
        'detections': FOUND,
    }
    for group, change in changes.items():
        values[group] = {name: each + change for name, each in values[group].items()}
    return values


METRICS = [{'mAP': 0.5}, {'mAP': 0.5}]


@pytest.mark.parametrize(
    'changes, begin, step',
    [
        ({}, None, None),
        ({'variables': 1e-5}, None, None),  # rounding
        ({'variables': 0.5}, 'variables after the steps', None),
        ({'losses': np.array([0, 0, 0.5])}, 'losses of later steps', 3),
        ({'losses': np.array([0, 1, 0.5]), 'variables': 0.5}, 'losses of later steps', 2),
        ({'losses': np.array([1, 1, 1]), 'gradients': 1.0}, 'losses of step 1', 1),
        ({'gradients': 1.0, 'variables': 1.0}, 'gradients of step 1', None),
        ({'raw': 1.0, 'losses': np.array([1, 1, 1])}, 'box_encodings of step 1', 1),
        ({'initial': 1.0, 'raw': 1.0}, 'initial values', None),
    ],
)
def test_where_a_difference_begins(changes, begin, step):
    stages = differences.list_stages(side(), side(**changes), METRICS)
    found = differences.find_begin(stages)
    assert (found and found.title) == begin
    assert differences.find_first_step(side(), side(**changes)) == step


def test_small_metrics_differ_by_their_absolute_difference():
    found = differences.measure_metrics({'a': 0.5, 'b': 0.001}, {'a': 0.75, 'b': 0.002})
    assert [(each.name, each.relative) for each in found] == [
        ('a', 0.25),
        ('b', pytest.approx(0.001)),
    ]


def test_a_variable_of_one_side_differs():
    other = side()
    other['initial'] = {**other['initial'], 'v': np.zeros(2)}
    begin = differences.find_begin(differences.list_stages(side(), other, METRICS))
    assert begin.largest.name == 'v' and begin.largest.here is None
