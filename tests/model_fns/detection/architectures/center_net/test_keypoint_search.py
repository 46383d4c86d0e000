"""Where the keypoints of detections are found, against slow loops."""

import math

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns.detection.architectures.center_net import keypoint_search
from tests.model_fns.detection.architectures.center_net import oracles, tiny_center_net
from tests.model_fns.detection.architectures.center_net.tiny_center_net import HEIGHT, WIDTH

CELLS = np.array([[[2, 3], [6, 9], [10, 14]], [[0, 0], [5, 5], [11, 15]]], np.int32)
BOXES = np.array(
    [
        [[0, 0, 6, 7], [1, 4, 11, 15], [9, 12, 11, 15]],
        [[0, 0, 2, 1], [0, 0, 12, 16], [4, 4, 12, 16]],
    ],
    np.float32,
)


def slow_candidates(search, logits, offsets, kind):
    """(score, place) of the peaks of a kind, highest first."""
    scores = 1 / (1 + np.exp(-logits[..., kind : kind + 1].astype(float)))
    found = []
    for score, row, column, _ in oracles.peaks(scores)[: search.max_candidates]:
        moved = offsets[row, column]
        moved = moved[2 * kind : 2 * kind + 2] if search.task.own_offsets else moved
        found.append((score, np.array([row, column]) + moved))
    return found


def slow_search(search, arrays, image, row):
    """Place and score of each kind."""
    box, cell = BOXES[image, row], CELLS[image, row]
    height, width = box[2:] - box[:2]
    result = []
    for kind in range(2):
        regression = arrays['pose/keypoint/regression'][-1][(image, *cell)]
        expected = cell + regression[2 * kind : 2 * kind + 2]
        candidates = [
            (score, place, math.dist(place, expected) if score >= search.least_score else 1e5)
            for score, place in slow_candidates(
                search,
                arrays['pose/keypoint/heatmap'][-1][image],
                arrays['pose/keypoint/offset'][-1][image],
                kind,
            )
        ]
        spread = (
            search.task.deviations[kind]
            * search.deviation_multiplier
            * oracles.sigma(height, width, 0.7)
        )

        def rank(score, far, spread=spread):
            if search.ranking == 'min_distance':
                return -far
            if search.ranking == 'gaussian_weighted':
                return score * math.exp(-(far**2) / (2 * spread**2))
            if search.ranking == 'score_distance_ratio':
                return score / (far + search.distance_offset)
            return score / (far + search.distance_multiplier * max(height, width))

        score, place, _ = max(candidates, key=lambda one: rank(one[0], one[2]))
        nearest = min(far for _, _, far in candidates)
        center, half = (box[:2] + box[2:]) / 2, (box[2:] - box[:2]) / 2 * search.box_scale
        taken = (
            np.all(np.abs(place - center) <= half)
            and score >= search.least_score
            and nearest <= search.reach * 2 * max(half)
        )
        result.append((place, score) if taken else (expected, search.unmatched_score))
    return result


@pytest.mark.parametrize(
    'ranking, own',
    [
        ('min_distance', True),
        ('min_distance', False),
        ('score_distance_ratio', True),
        ('score_scaled_distance_ratio', True),
        ('gaussian_weighted', True),
    ],
)
def test_the_search_equals_the_slow_one(ranking, own):
    arrays = tiny_center_net.predictions(own, seed=5)
    search = keypoint_search.Search(
        tiny_center_net.keypoint_task(own_offsets=own),
        ranking=ranking,
        least_score=0.8,
        max_candidates=12,
        unmatched_score=0.07,
        deviation_multiplier=3.0,
    )
    found = tiny_center_net.run(
        lambda: search.find(
            tiny_center_net.constants(arrays), tf.constant(CELLS), tf.constant(BOXES)
        )
    )
    matched = 0
    for image, row in np.ndindex(2, 3):
        for kind, (place, score) in enumerate(slow_search(search, arrays, image, row)):
            np.testing.assert_allclose(found.places[image, row, kind], place, atol=1e-4)
            np.testing.assert_allclose(found.scores[image, row, kind], score, rtol=1e-4)
            matched += score > 0.1
    assert 2 <= matched <= 10  # both ways are taken


def found_at(places, scores):
    return keypoint_search.Found(tf.constant(places), tf.constant(scores))


def test_keypoints_beyond_the_image_are_clipped_where_asked_for():
    search = keypoint_search.Search(tiny_center_net.keypoint_task(), clips=True)
    sides = np.array([HEIGHT, WIDTH], np.float32)
    places = np.array([[[[6, 4], [-1, 20]]]], np.float32)
    clipped, kept = tiny_center_net.run(
        lambda: [
            one.finished(found_at(places, [[[0.5, 0.6]]]), tf.constant(sides))
            for one in (search, keypoint_search.Search(search.task))
        ]
    )
    np.testing.assert_allclose(clipped.places[0, 0], [[0.5, 0.25], [0, 1]])
    np.testing.assert_allclose(clipped.scores[0, 0], [0.5, 0])
    np.testing.assert_allclose(kept.places[0, 0], [[0.5, 0.25], [-1 / 12, 1.25]])
    np.testing.assert_allclose(kept.scores[0, 0], [0.5, 0.6])


def test_scores_by_those_of_keypoints():
    search = keypoint_search.Search(
        tiny_center_net.keypoint_task(), rescores=True, rescoring_threshold=0.2
    )
    scores = [[0.5, 0.5, 0.5]]
    of_keypoints = [[[0.4, 0.8], [0.1, 0.9], [0.1, 0.2]]]
    found, same = tiny_center_net.run(
        lambda: [
            one.rescored(tf.constant(scores), tf.constant(of_keypoints))
            for one in (search, keypoint_search.Search(search.task))
        ]
    )
    np.testing.assert_allclose(found, [[0.5 * 0.6, 0.5 * 0.9, 0.0]], rtol=1e-6)
    np.testing.assert_allclose(same, scores)


def test_keypoints_have_their_places_among_all_and_none_for_other_classes():
    task = tiny_center_net.keypoint_task()
    places = np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2)
    spread, scores = tiny_center_net.run(
        lambda: keypoint_search.scatter_keypoints(
            found_at(places, [[[0.1, 0.2], [0.3, 0.4]]]), task, tf.constant([[0, 1]]), 4
        )
    )
    np.testing.assert_allclose(spread[0, 0], [[2, 3], [0, 0], [0, 1], [0, 0]])
    np.testing.assert_allclose(scores[0, 0], [0.2, 0, 0.1, 0])
    assert not spread[0, 1].any() and not scores[0, 1].any()


def test_an_unknown_ranking_is_named():
    with pytest.raises(errors.ConfigError, match='min_distance'):
        keypoint_search.RANKINGS.get('min_distanse', 'here')
