"""Centers, sizes and offsets, against slow loops and by hand."""

import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf

from model_fns.detection.architectures.center_net import objects
from tests.model_fns.detection.architectures.center_net import oracles, tiny_center_net
from tests.model_fns.detection.architectures.center_net.tiny_center_net import (
    BOXES,
    CLASSES,
    COUNTS,
    HEIGHT,
    NUM_CLASSES,
    TRUE_SHAPES,
    WEIGHTS,
    WIDTH,
)


def rows():
    """List (image, box, class, weight) of all boxes that are not padding."""
    for image, count in enumerate(COUNTS):
        for row in range(count):
            yield image, BOXES[image, row], CLASSES[image, row], WEIGHTS[image, row]


def slow_heat(overlap):
    heat = np.zeros([2, HEIGHT, WIDTH, NUM_CLASSES])
    for image, box, index, weight in rows():
        center = (box[:2] + box[2:]) / 2
        spread = oracles.sigma(*(box[2:] - box[:2]), overlap)
        one = weight * oracles.gaussian((HEIGHT, WIDTH), center, spread)
        heat[image, ..., index] = np.maximum(heat[image, ..., index], one)
    return heat


@pytest.fixture(scope='module')
def learned():
    arrays = tiny_center_net.predictions()
    model = tiny_center_net.of_objects()

    def build():
        truth = tiny_center_net.groundtruth()
        places = objects.place_boxes(truth, tf.constant(arrays[objects.CENTER][0]))
        heat = model.heat(places, truth.classes, tf.constant(arrays[objects.CENTER][0]))
        losses = model.losses(tiny_center_net.constants(arrays), truth, tf.constant(TRUE_SHAPES))
        return heat, losses

    return (arrays, *tiny_center_net.run(build))


def test_heat_is_of_the_highest_gaussian_of_a_class(learned):
    _, heat, _ = learned
    np.testing.assert_allclose(heat, slow_heat(0.6), atol=1e-6)
    assert heat[0, 4, 4, 0] == 1.0  # of weight 1 and 0.5 the first is higher


def test_losses_equal_the_slow_ones(learned):
    arrays, _, losses = learned
    weights = np.zeros([2, HEIGHT, WIDTH, NUM_CLASSES])
    weights[0] = 1
    weights[1, : math.ceil(41 / 4), : math.ceil(50 / 4)] = 1
    heat = slow_heat(0.6)
    # What is compared with 1 is computed alike on both sides.
    share = 1 / (4 * 2)
    center = sum(oracles.focal(one, heat, weights) for one in arrays[objects.CENTER])
    np.testing.assert_allclose(losses[objects.CENTER], 1.5 * share * center, rtol=1e-4)
    size = offset = 0.0
    for image, box, _, weight in rows():
        center = (box[:2] + box[2:]) / 2
        cell = np.floor(center).astype(int)
        for number in range(2):
            found = arrays[objects.SIZE][number][(image, *cell)]
            size += weight * np.abs(found - (box[2:] - box[:2])).sum()
            found = arrays[objects.OFFSET][number][(image, *cell)]
            offset += weight * np.abs(found - (center - cell)).sum()
    np.testing.assert_allclose(losses[objects.SIZE], 0.1 * share * size, rtol=1e-4)
    np.testing.assert_allclose(losses[objects.OFFSET], 2.0 * share * offset, rtol=1e-4)


def test_classes_that_were_not_looked_for_count_for_nothing():
    """An image without a list has all classes."""
    arrays = tiny_center_net.predictions(maps=1)

    def build():
        looked_for = np.zeros([2, NUM_CLASSES], np.float32)
        looked_for[0, 1] = 1
        truth = dataclasses.replace(tiny_center_net.groundtruth(), image_classes=looked_for)
        model = dataclasses.replace(tiny_center_net.of_objects(), only_labeled=True)
        return model.losses(tiny_center_net.constants(arrays), truth, None)

    losses = tiny_center_net.run(build)
    weights = np.ones([2, HEIGHT, WIDTH, NUM_CLASSES])
    weights[0, ..., [index for index in range(NUM_CLASSES) if index != 1]] = 0
    center = oracles.focal(arrays[objects.CENTER][0], slow_heat(0.6), weights)
    np.testing.assert_allclose(losses[objects.CENTER], 1.5 / 4 * center, rtol=1e-4)


def test_without_a_box_losses_are_finite():
    def build():
        truth = tiny_center_net.groundtruth()
        empty = tf.zeros_like(truth.valid)
        maps = tiny_center_net.constants(tiny_center_net.predictions(maps=1))
        truth = type(truth)(truth.boxes, truth.classes, truth.weights, empty).trimmed()
        return tiny_center_net.of_objects().losses(maps, truth, None)

    losses = tiny_center_net.run(build)
    assert losses[objects.SIZE] == losses[objects.OFFSET] == 0.0
    logits = tiny_center_net.predictions(maps=1)[objects.CENTER][0]
    expected = oracles.focal(logits, np.zeros_like(logits), np.ones_like(logits))
    np.testing.assert_allclose(losses[objects.CENTER], 1.5 * expected, rtol=1e-4)


@pytest.mark.parametrize('window', [3, 1])
def test_peaks_and_their_boxes(window):
    arrays = tiny_center_net.predictions(seed=3)
    last = {name: maps[-1] for name, maps in arrays.items()}
    model = tiny_center_net.of_objects(peak_window=window)

    def build():
        maps = tiny_center_net.constants(arrays)
        peaks = model.peaks(maps[objects.CENTER][-1], None)
        return peaks, model.boxes(peaks, maps[objects.SIZE][-1], maps[objects.OFFSET][-1])

    peaks, boxes = tiny_center_net.run(build)
    for image in range(2):
        scores = 1 / (1 + np.exp(-last[objects.CENTER][image].astype(float)))
        for at, (score, row, column, channel) in enumerate(oracles.peaks(scores, window)[:5]):
            np.testing.assert_allclose(peaks.scores[image, at], score, rtol=1e-5)
            assert tuple(peaks.cells[image, at]) == (row, column)
            assert peaks.classes[image, at] == channel
            np.testing.assert_allclose(peaks.class_scores[image, at], scores[row, column], 1e-5)
            center = (row, column) + last[objects.OFFSET][image, row, column]
            half = np.maximum(last[objects.SIZE][image, row, column], 0) / 2
            expected = np.concatenate([center - half, center + half])
            expected = np.clip(expected, 0, [HEIGHT, WIDTH] * 2)
            np.testing.assert_allclose(boxes[image, at], expected, rtol=1e-5, atol=1e-5)


def test_a_tiny_map_has_fewer_peaks_than_there_is_room_for():
    model = tiny_center_net.of_objects(num_classes=1)

    def build():
        logits = tf.reshape(tf.constant([0.0, 2.0]), [1, 1, 2, 1])
        return model.peaks(logits, tf.constant([[4, 8, 3]]))

    peaks = tiny_center_net.run(build)
    np.testing.assert_allclose(peaks.scores, [[1 / (1 + math.exp(-2)), 0, 0, 0, 0]], rtol=1e-5)
    assert peaks.cells[0, 0].tolist() == [0, 1] and np.all(peaks.cells <= [0, 1])


def test_small_images_hide_what_lies_in_padding():
    # As published: cells are held against pixels.
    model = tiny_center_net.of_objects(num_classes=1, max_detections=1)

    def build():
        logits = tf.reshape(tf.constant([0.0, 1.0, 2.0, 3.0]), [1, 1, 4, 1])
        return model.peaks(logits, tf.constant([[4, 3, 3]])).cells

    assert tiny_center_net.run(build)[0, 0].tolist() == [0, 2]
