"""Position-sensitive heads, held against recorded cases, a slow computation and hand-made maps."""

import numpy as np
import tensorflow as tf

from model_fns import layers
from model_fns.detection.architectures.faster_rcnn import position_sensitive
from tests.model_fns import edge_cases
from tests.model_fns.detection.architectures.faster_rcnn import oracles

BINS = position_sensitive.Bins((2, 2), (4, 4))


def pooled_slowly(image, boxes, bins):
    """Compute the mean of bilinear samples of each bin, one by one: [N, K]."""
    height, width, _ = image.shape
    channels = image.shape[-1] // bins.count
    rows, columns = (whole // parts for whole, parts in zip(bins.crop, bins.grid))

    def at(y, x, group):
        if not (0 <= y <= height - 1 and 0 <= x <= width - 1):
            return np.zeros(channels)
        y0, x0 = int(y), int(x)
        y1, x1 = min(y0 + 1, height - 1), min(x0 + 1, width - 1)
        maps = image[..., group * channels : (group + 1) * channels].astype(np.float64)
        top = maps[y0, x0] * (1 - x + x0) + maps[y0, x1] * (x - x0)
        bottom = maps[y1, x0] * (1 - x + x0) + maps[y1, x1] * (x - x0)
        return top * (1 - y + y0) + bottom * (y - y0)

    found = []
    for ymin, xmin, ymax, xmax in boxes:
        values = []
        for group in range(bins.count):
            row, column = divmod(group, bins.grid[1])
            sizes = (ymax - ymin) / bins.grid[0], (xmax - xmin) / bins.grid[1]
            top, left = ymin + row * sizes[0], xmin + column * sizes[1]
            for i in np.linspace(top, top + sizes[0], rows) * (height - 1):
                for j in np.linspace(left, left + sizes[1], columns) * (width - 1):
                    values.append(at(i, j, group))
        found.append(np.mean(values, axis=0))
    return np.array(found)


class TestBins:
    def test_recorded(self):
        case = oracles.case('ps_pool')
        maps, boxes = (tf.constant(case[name][np.newaxis]) for name in ('image', 'boxes'))
        expected = case['pooled'][:, 0, 0]
        np.testing.assert_allclose(BINS.pooled(maps, boxes), expected, rtol=1e-4, atol=1e-6)

    def test_a_slow_computation(self):
        random = np.random.RandomState(0)
        bins = position_sensitive.Bins((3, 2), (9, 4))
        maps = random.normal(size=[2, 7, 5, 6 * 4]).astype(np.float32)
        corners = np.sort(random.uniform(0, 1, [2, 6, 2, 2]), axis=2)
        boxes = corners.reshape([2, 6, 4]).astype(np.float32)
        ours = bins.pooled(tf.constant(maps), tf.constant(boxes)).numpy().reshape([2, 6, 4])
        for index in range(2):
            expected = pooled_slowly(maps[index], boxes[index], bins)
            np.testing.assert_allclose(ours[index], expected, rtol=1e-3, atol=1e-4)

    def test_the_last_bit_of_a_box_on_the_edge_moves_no_sample_out(self):
        """Of ones, all samples are 1: none is outside of the map, where it would be 0."""
        bins = position_sensitive.Bins((3, 3), (12, 12))
        nears = np.linspace(0, 0.9, 30)
        boxes = [[near, near, far, far] for near in nears for far in edge_cases.neighbors(1)]
        samples = bins.samples(tf.ones([1, 19, 19, 9]), tf.constant([boxes], tf.float32))
        np.testing.assert_allclose(samples, np.ones(samples.shape), rtol=1e-5)

    def test_gradients_reach_maps_and_not_boxes(self):
        maps, boxes = tf.ones([1, 4, 4, 4]), tf.constant([[[0.0, 0.0, 1.0, 1.0]]])
        with tf.GradientTape() as tape:
            tape.watch([maps, boxes])
            pooled = BINS.pooled(maps, boxes)
        of_maps, of_boxes = tape.gradient(pooled, [maps, boxes])
        np.testing.assert_allclose(tf.reduce_sum(of_maps), 1.0, rtol=1e-5)
        assert of_boxes is None


def test_recorded_head():
    case = oracles.case('rfcn_head')
    head = position_sensitive.PositionSensitiveHead(
        layers.LayerStyle(activation=tf.nn.relu), 2, BINS, depth=4
    )
    codes, logits = oracles.run(
        lambda: head.predict(tf.constant(case['features']), tf.constant(case['boxes'])), case
    )
    np.testing.assert_allclose(codes, case['box_encodings'][:, 0], rtol=1e-4, atol=1e-6)
    expected = case['class_predictions_with_background'][:, 0]
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-6)
