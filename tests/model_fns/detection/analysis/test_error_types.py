"""TIDE's types of errors: each by hand, and random scenes beside a slow version."""

import collections

import numpy as np
import pytest

from model_fns.detection.analysis import error_types
from model_fns.detection.analysis.error_types import Kind
from model_fns.detection.metrics import coco_matching
from tests.model_fns.detection.analysis import slow_analysis
from tests.model_fns.detection.metrics.scenes import detections, groundtruth, square

OBJECT = [0.0, 0.0, 10.0, 10.0]


def found_errors(truth, found):
    assignment = coco_matching.assign(truth, found)
    counted = ~coco_matching.not_counted(truth)[0]
    return assignment, error_types.find_errors(assignment, truth.classes, counted)


@pytest.mark.parametrize(
    ('box', 'class_id', 'kind', 'overlap', 'missed'),
    [
        (OBJECT, 1, Kind.NONE, 1.0, False),
        (OBJECT, 2, Kind.CLASSIFICATION, 1.0, False),
        ([0.0, 0.0, 10.0, 4.0], 1, Kind.LOCALIZATION, 0.4, False),
        ([0.0, 0.0, 10.0, 4.0], 2, Kind.BOTH, 0.4, True),
        ([0.0, 0.0, 10.0, 1.0], 1, Kind.LOCALIZATION, 0.1, False),
        ([0.0, 0.0, 10.0, 0.5], 1, Kind.BACKGROUND, 0.05, True),
        ([50.0, 50.0, 60.0, 60.0], 1, Kind.BACKGROUND, 0.0, True),
    ],
)
def test_the_type_of_one_detection(box, class_id, kind, overlap, missed):
    _, errors = found_errors(groundtruth([OBJECT], [1]), detections([box], [0.9], [class_id]))
    assert errors.kinds.tolist() == [kind]
    assert errors.overlaps[0] == pytest.approx(overlap)
    assert errors.missed.tolist() == [missed]
    assert errors.fixed.tolist() == [1 if kind in (Kind.CLASSIFICATION, Kind.LOCALIZATION) else 0]


def test_the_second_detection_of_an_object_is_a_duplicate():
    assignment, errors = found_errors(
        groundtruth([OBJECT], [1]), detections([OBJECT, OBJECT], [0.5, 0.9], [1, 1])
    )
    np.testing.assert_allclose(assignment.matches.scores, [0.9, 0.5])
    assert errors.kinds.tolist() == [Kind.NONE, Kind.DUPLICATE]
    assert errors.fixed.tolist() == [0, 0]


def test_a_fix_gives_an_object_to_the_highest_score():
    near = [[0.0, 0.0, 10.0, 4.0], [0.0, 0.0, 10.0, 4.5]]
    _, errors = found_errors(groundtruth([OBJECT], [1]), detections(near, [0.6, 0.8], [1, 1]))
    assert errors.kinds.tolist() == [Kind.LOCALIZATION] * 2
    assert errors.fixed.tolist() == [1, 0]  # the highest score comes first


def test_optional_objects_cause_no_errors():
    truth = groundtruth([[0.0, 0.0, 100.0, 100.0]], [1], crowd=[True])
    found = detections(
        [square(0), square(1), [300.0, 300.0, 310.0, 310.0]], [0.9, 0.8, 0.7], [1] * 3
    )
    _, errors = found_errors(truth, found)
    assert errors.kinds.tolist() == [Kind.NONE, Kind.NONE, Kind.BACKGROUND]
    assert not errors.missed.any()


def test_an_image_without_objects_or_detections():
    _, errors = found_errors(groundtruth([], []), detections([OBJECT], [0.9], [1]))
    assert errors.kinds.tolist() == [Kind.BACKGROUND] and errors.overlaps.tolist() == [0.0]
    _, errors = found_errors(groundtruth([OBJECT], [1]), detections([], [], []))
    assert errors.kinds.tolist() == [] and errors.missed.tolist() == [True]


def test_objects_are_missed_by_the_shown_detections():
    # The object has a detection and a confused one; without both it is missed.
    truth = groundtruth([OBJECT, square(5)], [1, 1], crowd=[False, True])
    _, errors = found_errors(truth, detections([OBJECT, OBJECT], [0.9, 0.8], [1, 2]))
    counted = np.array([True, False])
    for shown, missed in (([1, 1], False), ([0, 1], False), ([1, 0], False), ([0, 0], True)):
        result = error_types.missed_objects(errors, counted, np.array(shown, bool))
        assert result.tolist() == [missed, False]


def random_scene(rng, num_classes):
    """Objects in a grid, and detections shifted by many distances, often of a wrong class."""
    places = rng.permutation(9)[: rng.randint(0, 5)]
    objects = []
    for place in places:
        top, left = np.array(divmod(place, 3)) * 12.0
        objects.append(([top, left, top + 10, left + 10], int(rng.randint(1, num_classes + 1))))
    found = []
    for _ in range(rng.randint(0, 14)):
        box, class_id = objects[rng.randint(len(objects))] if objects else ([5, 5, 9, 9], 1)
        shift = rng.choice([0.0, 0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 30.0], 2) * rng.choice([-1, 1], 2)
        if rng.rand() < 0.4:
            class_id = int(rng.randint(1, num_classes + 1))
        # Shares of a shift that are multiples of an irrational number: no overlap is a tie.
        shift = shift + rng.rand(2) * 0.01
        box = [box[0] + shift[0], box[1] + shift[1], box[2] + shift[0], box[3] + shift[1]]
        found.append((np.float32(box).tolist(), class_id, float(np.float32(rng.rand()))))
    return objects, found


def to_arrays(objects, found):
    return (
        groundtruth([box for box, _ in objects], [class_id for _, class_id in objects]),
        detections(*([each[column] for each in found] for column in (0, 2, 1))),
    )


@pytest.mark.parametrize('seed', range(12))
def test_errors_and_gains_of_random_scenes(seed):
    rng = np.random.RandomState(seed)
    num_classes = 3
    images = [random_scene(rng, num_classes) for _ in range(12)]
    parts, missed, seen = [], collections.Counter(), collections.Counter()
    for objects, found in images:
        truth, arrays = to_arrays(objects, found)
        assignment, errors = found_errors(truth, arrays)
        matches = assignment.matches
        kinds, missed_here = slow_analysis.errors(objects, found)
        expected = {(found[index][1], found[index][2]): kind for index, (kind, _) in kinds.items()}
        for row, kind in enumerate(errors.kinds):
            key = int(matches.classes[row]), float(matches.scores[row])
            name = Kind(kind).name.lower()
            assert expected.get(key, 'none') == name
            seen[name] += 1
        assert set(np.flatnonzero(errors.missed)) == missed_here
        missed.update(objects[number][1] for number in missed_here)
        hit = coco_matching.lowest_flags(matches.found)
        parts.append((matches.classes, matches.scores, hit, errors.kinds, errors.fixed))
    detected = error_types.Detected(*map(np.concatenate, zip(*parts)))
    counts = collections.Counter(class_id for objects, _ in images for _, class_id in objects)
    gains = error_types.compute_gains(detected, counts, missed)
    expected = slow_analysis.gains(images, num_classes)
    assert {kind.name.lower(): gain for kind, gain in gains.items()} == pytest.approx(expected)
    assert seen['localization'] and seen['background'] and sum(missed.values())


def test_all_types_occur_and_change_the_precision():
    rng = np.random.RandomState(0)
    images = [random_scene(rng, 3) for _ in range(150)]
    expected = slow_analysis.gains(images, 3)
    assert all(abs(gain) > 1e-4 for gain in expected.values()), expected


def test_a_class_of_missed_objects_keeps_its_false_positives():
    """Without its objects, a class with detections has AP 0; one without is left out (TIDE)."""
    none = np.array([Kind.NONE, Kind.BACKGROUND])
    detected = error_types.Detected(
        np.array([1, 2]),
        np.array([0.9, 0.8]),
        np.array([True, False]),
        none,
        np.zeros(2, int),
    )
    gains = error_types.compute_gains(detected, {1: 1, 2: 1, 3: 1, 4: 0}, {2: 1, 3: 1})
    # Before, the mean of 1, 0 and 0. Class 3 has no detections.
    assert gains[Kind.MISSED] == pytest.approx(1 / 2 - 1 / 3)
