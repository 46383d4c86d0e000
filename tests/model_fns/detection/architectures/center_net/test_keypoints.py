"""What is learned of keypoints, against slow loops."""

import math

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns.detection.architectures.center_net import objects
from tests.model_fns.detection.architectures.center_net import oracles, tiny_center_net
from tests.model_fns.detection.architectures.center_net.tiny_center_net import (
    BOXES,
    CLASSES,
    COUNTS,
    HEIGHT,
    POINTS,
    TRUE_SHAPES,
    WEIGHTS,
    WIDTH,
)

WANTED, DEVIATIONS = (2, 0), (0.5, 2.0)


def weight_of(image, row, kind):
    """Return 0 for classes other than the first, and for missing keypoints."""
    known = not math.isnan(POINTS[image, row, WANTED[kind], 0])
    return WEIGHTS[image, row] * (CLASSES[image, row] == 0) * known


def valid_rows():
    return [(image, row) for image, count in enumerate(COUNTS) for row in range(count)]


def slow_heat():
    heat = np.zeros([2, HEIGHT, WIDTH, 2])
    weights = np.zeros([2, HEIGHT, WIDTH, 2])
    weights[0] = 1
    weights[1, : math.ceil(41 / 4), : math.ceil(50 / 4)] = 1
    for image, row in valid_rows():
        box = BOXES[image, row]
        for kind, deviation in enumerate(DEVIATIONS):
            weight = weight_of(image, row, kind)
            if weight < 1e-3:
                for y, x in np.ndindex(HEIGHT, WIDTH):
                    if box[0] <= y < box[2] and box[1] <= x < box[3]:
                        weights[image, y, x, kind] = 0
                continue
            spread = deviation * oracles.sigma(*(box[2:] - box[:2]), 0.7)
            place = POINTS[image, row, WANTED[kind]]
            one = weight * oracles.gaussian((HEIGHT, WIDTH), place, spread)
            heat[image, ..., kind] = np.maximum(heat[image, ..., kind], one)
    return heat, weights


def slow_points(arrays, own, from_center):
    """Compute the sum of weighted differences, and that of the weights."""
    loss = total = 0.0
    for image, row in valid_rows():
        for kind in range(2):
            weight = weight_of(image, row, kind)
            if not weight:
                continue
            place = POINTS[image, row, WANTED[kind]]
            box = BOXES[image, row]
            source = (box[:2] + box[2:]) / 2 if from_center else place
            for cell in oracles.disc(source, 2, (HEIGHT, WIDTH)):
                total += weight
                for values in arrays:
                    channels = values[(image, *cell)]
                    found = channels[2 * kind : 2 * kind + 2] if own else channels
                    loss += weight * np.abs(found - (place - cell)).sum()
    return loss, total


@pytest.mark.parametrize('own_offsets', [True, False])
def test_losses_equal_the_slow_ones(own_offsets):
    arrays = tiny_center_net.predictions(own_offsets)
    task = tiny_center_net.keypoint_task(own_offsets=own_offsets)

    def build():
        truth = tiny_center_net.groundtruth()
        maps = tiny_center_net.constants(arrays)
        places = objects.place_boxes(truth, maps[objects.CENTER][0])
        heat = task.heat(
            places, task.points(truth, places, maps[objects.CENTER][0]), maps[objects.CENTER][0]
        )
        return heat, task.losses(maps, truth, tf.constant(TRUE_SHAPES))

    heat, losses = tiny_center_net.run(build)
    expected, weights = slow_heat()
    np.testing.assert_allclose(heat, expected, atol=1e-6)
    # Of the first kind 1 + 0.5 keypoints count as 1, of the second likewise.
    slow = sum(oracles.focal(one, heat, weights) for one in arrays['pose/keypoint/heatmap'])
    np.testing.assert_allclose(losses['pose/keypoint/heatmap'], 3.0 * slow / (2 * 2), rtol=1e-4)
    loss, total = slow_points(arrays['pose/keypoint/offset'], own_offsets, from_center=False)
    np.testing.assert_allclose(losses['pose/keypoint/offset'], 0.5 * loss / (total * 2), rtol=1e-4)
    loss, total = slow_points(arrays['pose/keypoint/regression'], True, from_center=True)
    np.testing.assert_allclose(
        losses['pose/keypoint/regression'], 0.25 * loss / (total * 2), rtol=1e-4
    )
    assert set(losses) == set(task.loss_names)


def test_readers_with_fewer_keypoints_are_named():
    task = tiny_center_net.keypoint_task(keypoints=(2, 3))
    with tf.Graph().as_default(), pytest.raises(errors.ConfigError, match='3; expected at least 4'):
        task.points(tiny_center_net.groundtruth(), None, None)
