"""Keypoints of boxes: the head, the loss and the search, held against slow computations."""

import math

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns import layers
from model_fns.detection.architectures.faster_rcnn import keypoint_heatmaps
from model_fns.detection.boxes import targets
from tests.model_fns.detection.architectures.faster_rcnn import oracles

NAN = float('nan')


def slow_cell(point, box, size):
    """Return (row, column) of a point in a box, None where it has none."""
    cell = []
    for axis in (0, 1):
        near, far = box[axis], box[axis + 2]
        if math.isnan(point[axis]) or not near <= point[axis] <= far or near >= far:
            return None
        cell.append(min(int((point[axis] - near) / (far - near) * size), size - 1))
    return tuple(cell)


def slow_enlarged(values):
    """Enlarge [height, width] by 2, between the centers of cells."""
    height, width = values.shape
    result = np.zeros([2 * height, 2 * width])
    for row, column in np.ndindex(*result.shape):
        y = min(max((row + 0.5) / 2 - 0.5, 0), height - 1)
        x = min(max((column + 0.5) / 2 - 0.5, 0), width - 1)
        for i, j in np.ndindex(height, width):
            weight = max(1 - abs(y - i), 0) * max(1 - abs(x - j), 0)
            result[row, column] += weight * values[i, j]
    return result


def slow_transposed(features, weights, bias):
    """Spread each cell [height, width, channels] over 4 x 4 cells of a map twice as large."""
    height, width, _ = features.shape
    result = np.full([2 * height, 2 * width, weights.shape[2]], 0.0) + bias
    for i, j in np.ndindex(height, width):
        for a, b in np.ndindex(4, 4):
            row, column = 2 * i + a - 1, 2 * j + b - 1
            if 0 <= row < 2 * height and 0 <= column < 2 * width:
                result[row, column] += weights[a, b] @ features[i, j]
    return result


class TestHead:
    def test_a_slow_computation(self):
        random = np.random.RandomState(0)
        start = 'var/SecondStageBoxPredictor/KeypointPredictor'
        values = {
            # A convolution that changes nothing but negative values.
            f'{start}/Conv/weights': np.eye(3)[np.newaxis, np.newaxis]
            * np.pad(np.ones([1, 1]), 1)[..., np.newaxis, np.newaxis],
            f'{start}/Conv/biases': np.zeros(3),
            f'{start}/Conv2d_transpose/weights': random.normal(size=[4, 4, 2, 3]),
            f'{start}/Conv2d_transpose/biases': random.normal(size=[2]),
        }
        features = random.normal(size=[2, 2, 3, 3]).astype(np.float32)
        head = keypoint_heatmaps.KeypointHead(layers.LayerStyle(), 2, depth=3, num_layers=1)
        ours = oracles.run(lambda: head.predict(tf.constant(features)), values)
        assert ours.shape == (2, 2, 8, 12)
        for found, one in zip(ours, np.maximum(features, 0)):
            small = slow_transposed(
                one,
                values[f'{start}/Conv2d_transpose/weights'],
                values[f'{start}/Conv2d_transpose/biases'],
            )
            expected = [slow_enlarged(small[..., index]) for index in (0, 1)]
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


class TestPlaces:
    def test_a_slow_computation(self):
        random = np.random.RandomState(1)
        boxes = np.hstack([random.uniform(0, 20, [30, 2]), random.uniform(30, 50, [30, 2])])
        boxes[0, 2:] = boxes[0, :2]
        points = random.uniform(0, 50, [30, 5, 2])
        points[random.uniform(size=[30, 5]) < 0.2] = NAN
        points[0, 0] = boxes[0, :2]
        boxes, points = boxes.astype(np.float32), points.astype(np.float32)
        cells, inside = keypoint_heatmaps.locate(tf.constant(points), tf.constant(boxes), (7, 7))
        assert 10 < inside.numpy().sum() < 140
        for row, index in np.ndindex(30, 5):
            expected = slow_cell(points[row, index].astype(float), boxes[row].astype(float), 7)
            assert bool(inside[row, index]) == (expected is not None)
            if expected is not None:
                assert divmod(int(cells[row, index]), 7) == expected

    def test_a_keypoint_is_found_where_it_was_put(self):
        """The center of a cell is at most half a cell from what is in it."""
        random = np.random.RandomState(2)
        boxes = np.float32([[3, 5, 40, 61], [0, 0, 8, 8]])
        shares = random.uniform(0, 1, [2, 4, 2])
        points = boxes[:, np.newaxis, :2] + shares * (boxes[:, 2:] - boxes[:, :2])[:, np.newaxis]
        points = tf.constant(points, tf.float32)
        cells, _ = keypoint_heatmaps.locate(points, tf.constant(boxes), (8, 8))
        logits = tf.reshape(tf.one_hot(cells, 64) * math.log(63 * 3), [2, 4, 8, 8])
        found, scores = keypoint_heatmaps.find(logits, tf.constant(boxes))
        half = (boxes[:, 2:] - boxes[:, :2])[:, np.newaxis] / 16
        assert (np.abs(found - points) <= half + 1e-4).all()
        # One cell of weight 189 and 63 of weight 1.
        np.testing.assert_allclose(scores, np.full([2, 4], 0.75), rtol=1e-5)


# Two images with two and one objects, of three keypoints each.
KEYPOINTS = np.float32(
    [
        [[[10, 10], [30, 40], [NAN, NAN]], [[50, 50], [55, 58], [52, 69]]],
        [[[5, 8], [6, 90], [20, 20]], [[0, 0], [0, 0], [0, 0]]],
    ]
)
BOXES = np.float32([[[8, 8, 32, 44], [0, 0, 64, 64], [49, 49, 60, 70]], [[4, 4, 30, 30]] * 3])
MATCHES = np.int32([[0, -1, 1], [0, 0, -2]])


def loss_of(logits, rows, weights=None, keypoints=KEYPOINTS, scale=2.0):
    none = tf.zeros([2, 2, 4])
    groundtruth = targets.Groundtruth(
        none, none, none, none, keypoints=None if keypoints is None else tf.constant(keypoints)
    )
    weights = np.ones([2, 3], np.float32) if weights is None else weights
    assigned = targets.Targets(none, none, none, tf.constant(weights), tf.constant(MATCHES))
    loss = keypoint_heatmaps.KeypointLoss(scale, 'model.keypoint_head')
    return loss(
        tf.constant(logits), tf.constant(rows, tf.int32), tf.constant(BOXES), assigned, groundtruth
    ).numpy()


class TestLoss:
    ROWS = np.array([0, 1, 2, 3, 4, 5])

    def logits(self):
        return np.random.RandomState(3).normal(size=[6, 3, 8, 8]).astype(np.float32)

    def slow(self, logits, rows, weights):
        total, count = 0.0, 0.0
        for row, maps in zip(rows, logits):
            image, place = divmod(row, 3)
            match = MATCHES[image, place]
            for index in range(3 if match >= 0 else 0):
                cell = slow_cell(KEYPOINTS[image, match, index], BOXES[image, place], 8)
                if cell is not None:
                    shares = np.exp(maps[index].astype(np.float64))
                    weight = weights[image, place]
                    total -= weight * np.log(shares[cell] / shares.sum())
                    count += weight
        return 2.0 * total / max(count, 1.0)

    def test_a_slow_computation(self):
        weights = np.float32([[1, 1, 0.5], [1, 0, 1]])
        expected = self.slow(self.logits(), self.ROWS, weights)
        np.testing.assert_allclose(loss_of(self.logits(), self.ROWS, weights), expected, rtol=1e-5)
        rows = self.ROWS[[0, 2, 3]]
        expected = self.slow(self.logits()[rows], rows, np.ones([2, 3]))
        np.testing.assert_allclose(loss_of(self.logits()[rows], rows), expected, rtol=1e-5)

    def test_nothing_is_labeled(self):
        assert loss_of(self.logits(), self.ROWS, keypoints=np.full_like(KEYPOINTS, NAN)) == 0
        none = np.zeros([2, 0, 3, 2], np.float32)
        background = self.ROWS[[1, 5]]
        assert loss_of(self.logits()[background], background, keypoints=none) == 0

    @pytest.mark.parametrize(('keypoints', 'count'), [(None, 0), (KEYPOINTS[:, :, :2], 2)])
    def test_another_number_of_keypoints(self, keypoints, count):
        with pytest.raises(errors.UserError) as caught:
            loss_of(self.logits(), self.ROWS, keypoints=keypoints)
        assert str(caught.value) == (
            f'model.keypoint_head.num_keypoints: 3, and the groundtruth has {count}; expected the '
            'num_keypoints of the input reader.'
        )
