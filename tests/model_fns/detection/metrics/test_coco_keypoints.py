from __future__ import annotations

import numpy as np
import pytest

from estimator_lib import errors
from model_fns.detection.metrics import coco_keypoints
from model_fns.detection.metrics.coco_keypoints import CocoKeypointEvaluator
from model_fns.detection.metrics.keypoint_similarity import COCO_SIGMAS, Keypoints
from model_fns.structures.label_map import LabelMap, LabelMapItem
from protos import eval_pb2
from tests.model_fns.detection.metrics.pycoco import reference
from tests.model_fns.detection.metrics.scenes import (
    detections,
    groundtruth,
    random_keypoints,
    square,
)

NAMES = {1: 'person', 2: 'dog'}
PERSON = Keypoints(range(17), COCO_SIGMAS)
SUMMARY = [
    f'Keypoints_{name} ByCategory/person'
    for name in (
        'Precision/mAP',
        'Precision/mAP@.50IOU',
        'Precision/mAP@.75IOU',
        'Precision/mAP (medium)',
        'Precision/mAP (large)',
        'Recall/AR@1',
        'Recall/AR@10',
        'Recall/AR@100',
        'Recall/AR@100 (medium)',
        'Recall/AR@100 (large)',
    )
]


def evaluate(images, keypoints=None):
    evaluator = CocoKeypointEvaluator(NAMES, {1: PERSON} if keypoints is None else keypoints)
    for index, (truth, found) in enumerate(images):
        evaluator.add_image(str(index), truth, found)
    metrics = evaluator.evaluate()
    assert list(metrics) == list(evaluator.names())
    return metrics


@pytest.mark.parametrize('seed', range(8))
def test_as_pycocotools(seed):
    rng = np.random.RandomState(seed)
    images = [random_keypoints(rng, 1) for _ in range(rng.randint(2, 25))]
    metrics = evaluate(images)
    stats = reference(images, {1: 'person'}, 'keypoints').stats
    np.testing.assert_allclose([metrics[name] for name in SUMMARY], stats, atol=1e-9)
    assert len(metrics) == len(SUMMARY)


def test_other_classes_are_apart():
    rng = np.random.RandomState(3)
    images = [random_keypoints(rng, 2) for _ in range(20)]
    both = evaluate(images, {1: PERSON, 2: PERSON})
    assert len(both) == 20
    only = [
        (truth.kept(truth.classes == 2), found.kept(found.classes == 2)) for truth, found in images
    ]
    stats = reference(only, NAMES, 'keypoints').stats
    found = [both[name.replace('person', 'dog')] for name in SUMMARY]
    np.testing.assert_allclose(found, stats, atol=1e-9)


def test_no_groundtruth_tells_nothing_and_clearing_forgets():
    assert set(evaluate([]).values()) == {-1.0}
    evaluator = CocoKeypointEvaluator(NAMES, {1: PERSON})
    points = np.full([1, 17, 2], 5.0)
    truth = groundtruth([square(0)], [1], keypoints=points)
    evaluator.add_image('a', truth, detections([square(0)], [0.5], [1], keypoints=points))
    assert evaluator.evaluate()[SUMMARY[0]] == pytest.approx(1.0)
    evaluator.clear()
    assert evaluator.evaluate()[SUMMARY[0]] == -1.0


def label_map(*labels, name='person'):
    keypoints = tuple(enumerate(labels, 1))
    return LabelMap((LabelMapItem(1, name, name, keypoints), LabelMapItem(2, 'dog', 'the dog')))


def build(labels=(), class_label='person', times=1, **sigmas):
    config = eval_pb2.EvalConfig()
    for _ in range(times):
        metric = config.parameterized_metric.add().coco_keypoint_metrics
        metric.class_label = class_label
        metric.keypoint_label_to_sigmas.update(sigmas)
    return coco_keypoints.build_keypoints(config, label_map(*labels), {1: 'person', 2: 'the dog'})


def test_keypoints_by_name():
    (built,) = build(['nose', 'tail'], tail=0.25, nose=0.5).values()
    # Keypoints 1 and 2 of examples: the first of them, and the 0th, does not matter.
    points = np.array([[[9.0, 9.0], [1.0, 1.0], [2.0, 2.0]]])
    off = points + [[[5.0, 5.0], [1.0, 0.0], [1.0, 0.0]]]
    truth = groundtruth([[0, 0, 1, 1]], [1], keypoints=points)
    overlap = built.overlaps(
        detections([[0, 0, 1, 1]], [1], [1], keypoints=off), truth, np.array([False])
    )
    assert overlap[0, 0] == pytest.approx((np.exp(-1 / 2) + np.exp(-1 / 0.5)) / 2)


def test_a_person_needs_no_sigmas():
    assert list(build()) == [1]
    assert list(build([str(place) for place in range(17)])) == [1]
    assert list(build(class_label='the dog')) == list(build(class_label='dog')) == [2]


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        ({'class_label': 'persn'}, "no class is named 'persn'; did you mean 'person'"),
        ({'times': 2}, "'person' for a second time; expected each class once"),
        ({'times': 0}, 'coco_keypoint_metrics needs a class; expected parameterized_metric'),
        ({'nose': 0.1}, "the label map names no keypoints of 'person'; expected keypoints"),
        ({'labels': ['nose', 'tail']}, "nose, tail of 'person' have none above 0"),
        ({'labels': ['nose', 'tail'], 'nose': 0.1, 'tail': 0.0}, 'tail of .person. have none'),
        (
            {'labels': ['nose', 'tail'], 'nos': 0.1, 'tail': 0.2},
            "no keypoint of 'person' is named 'nos'; did you mean 'nose'",
        ),
    ],
)
def test_what_is_wrong(arguments, message):
    with pytest.raises(errors.ConfigError, match=message):
        build(**arguments)
