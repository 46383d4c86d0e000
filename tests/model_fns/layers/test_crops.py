"""Crops of boxes, held against a slow computation, and what must not depend on the processor."""

import numpy as np
import pytest
import tensorflow as tf

from model_fns.layers import crops
from tests.model_fns import edge_cases, slow_alignment

tf1 = tf.compat.v1


def cropped(image, boxes, size, method='bilinear'):
    """Crops [n, *size, channels] of one image."""
    with tf.Graph().as_default(), tf1.Session() as session:
        rows = tf.zeros([len(boxes)], tf.int32)
        sampled = crops.crop_and_resize(
            tf.constant(image[np.newaxis]), tf.constant(boxes), rows, size, method
        )
        return session.run(sampled)


class TestCropAndResize:
    """Samples are 0 outside of an image, and a border on its edge is inside."""

    @pytest.mark.parametrize('side', [5, 16, 19, 67])
    @pytest.mark.parametrize('samples', [2, 4, 7, 14])
    def test_the_last_bit_of_a_border_on_the_edge_moves_no_sample_out(self, side, samples):
        nears = np.random.RandomState(0).uniform(0, 0.9, [40, 1])
        ends = np.float32([*edge_cases.neighbors(0), *edge_cases.neighbors(1)])
        nears, ends = np.broadcast_arrays(np.float32(nears), ends)
        boxes = np.stack([nears, nears, ends, ends], axis=-1).reshape([-1, 4])
        boxes = np.concatenate([boxes, boxes[:, [2, 1, 0, 3]], boxes[:, [0, 3, 2, 1]]])
        # Of ones, any sample inside is 1.
        ones = np.ones([side, side, 1], np.float32)
        for method in ('bilinear', 'nearest'):
            found = cropped(ones, boxes, [samples] * 2, method)
            np.testing.assert_allclose(found, np.ones(found.shape), rtol=1e-5)

    def test_what_is_truly_outside_is_0(self):
        ones = np.ones([5, 5, 1], np.float32)
        boxes = np.float32([[-0.5, 0, 1, 1.5], [0, -1e-3, 1 + 1e-3, 1], [0, 0, 1, 1]])
        found = cropped(ones, boxes, [3, 3])
        expected = np.ones([3, 3, 3])
        expected[0, 0] = expected[0, :, 2] = expected[1, :, 0] = expected[1, 2] = 0
        np.testing.assert_allclose(found[..., 0], expected, rtol=1e-5)

    def test_samples_are_interpolated(self):
        """Rows of an image that are 0, 10 and 20, from its middle to its end, and back."""
        rows = np.float32([0, 10, 20]).reshape([3, 1, 1])
        boxes = np.float32([[0.5, 0, 1, 0], [1, 0, 0.5, 0]])
        found = cropped(np.tile(rows, [1, 3, 1]), boxes, [3, 1])
        np.testing.assert_allclose(found[..., 0, 0], [[10, 15, 20], [20, 15, 10]], rtol=1e-5)


def test_coordinates_on_an_edge_are_moved_inside_and_others_are_not():
    given = [-0.5, -1e-3, -1e-6, 0, 1e-3, 0.5, 1, 1 + 1e-6, 1 + 1e-3, np.inf, np.nan]
    with tf.Graph().as_default(), tf1.Session() as session:
        found = session.run(crops.snap_to_edges(tf.constant(given, tf.float32)))
    expected = [-0.5, -1e-3, 0, 0, 1e-3, 0.5, 1, 1, 1 + 1e-3, np.inf, np.nan]
    np.testing.assert_array_equal(found, np.float32(expected))


def sample_slowly(image, box, size):
    """What each pixel of an image [height, width] gives to each sample: [*size, height, width]."""
    height, width = image
    given = np.zeros([*size, height, width])
    ends = np.multiply(box, [height - 1, width - 1] * 2)
    for i, y in enumerate(np.linspace(ends[0], ends[2], size[0])):
        for j, x in enumerate(np.linspace(ends[1], ends[3], size[1])):
            if 0 <= y <= height - 1 and 0 <= x <= width - 1:
                rows = np.maximum(1 - np.abs(np.arange(height) - y), 0)
                columns = np.maximum(1 - np.abs(np.arange(width) - x), 0)
                given[i, j] = np.outer(rows, columns)
    return given


class TestGradient:
    def gradient(self, shape, boxes, rows, of_crops, times=1):
        size = of_crops.shape[1:3]
        with tf.Graph().as_default(), tf1.Session() as session:
            # Fed, since constants would be folded, once and on one thread.
            given = tf1.placeholder(tf.float32, of_crops.shape)
            images = tf.zeros(shape)
            found = crops.crop_and_resize(images, tf.constant(boxes), tf.constant(rows), size)
            gradient = tf.gradients(found, images, given)[0]
            return [session.run(gradient, {given: of_crops}) for _ in range(times)]

    @pytest.mark.parametrize('size', [(3, 2), (1, 4)])
    def test_a_slow_computation(self, size):
        random = np.random.RandomState(0)
        boxes = random.uniform(0.05, 0.95, [6, 4]).astype(np.float32)
        boxes[:2] = [[-0.2, 0.3, 0.7, 1.4], [0, 0, 1, 1]]
        if size[0] == 1:  # The one row is in the middle.
            boxes[:, [0, 2]] = np.mean(boxes[:, [0, 2]], axis=1, keepdims=True)
        rows = np.int32([0, 1, 2, 2, 0, 2])
        of_crops = random.normal(size=[6, *size, 4]).astype(np.float32)
        (found,) = self.gradient([3, 5, 7, 4], boxes, rows, of_crops)
        expected = np.zeros([3, 5, 7, 4])
        for box, row, one in zip(boxes, rows, of_crops):
            expected[row] += np.einsum('ijhw,ijc->hwc', sample_slowly((5, 7), box, size), one)
        np.testing.assert_allclose(found, expected, atol=1e-4)

    def test_nothing_is_lost_where_boxes_overlap(self):
        """Each of 1024 boxes gives a 1 to each of four pixels, on any number of threads."""
        boxes = np.tile(np.float32([[0, 0, 1, 1]]), [1024, 1])
        of_crops = np.ones([1024, 2, 2, 1024], np.float32)
        rows = np.zeros(1024, np.int32)
        for found in self.gradient([1, 2, 2, 1024], boxes, rows, of_crops, times=30):
            np.testing.assert_allclose(found, np.full([1, 2, 2, 1024], 1024), rtol=1e-4)

    def test_without_boxes(self):
        none = np.zeros([0, 4], np.float32), np.zeros([0], np.int32)
        (found,) = self.gradient([1, 2, 3, 4], *none, np.zeros([0, 2, 2, 4], np.float32))
        np.testing.assert_array_equal(found, np.zeros([1, 2, 3, 4]))


class TestRoiAlign:
    STRIDE = 4
    # In an image of 24 x 32 pixels: inside, the whole, beyond all sides, tiny, and without an area.
    BOXES = np.float32(
        [
            [3.3, 5.1, 17.9, 30.2],
            [0, 0, 24, 32],
            [-9, -13, 40, 55],
            [2, 3, 2.5, 3.25],
            [12, 8, 12, 8],
        ]
    )
    ROWS = np.int32([0, 1, 1, 0, 1])

    def maps(self):
        return np.random.RandomState(3).normal(size=[2, 6, 8, 3]).astype(np.float32)

    @pytest.mark.parametrize(('size', 'ratio'), [(3, 2), (2, 1), (1, 1), (1, 3)])
    def test_a_slow_computation(self, size, ratio):
        maps = self.maps()
        ours = crops.roi_align(
            tf.constant(maps), tf.constant(self.BOXES), self.ROWS, size, self.STRIDE, ratio
        )
        expected = [
            slow_alignment.align(maps[row].astype(np.float64), box, size, self.STRIDE, ratio)
            for box, row in zip(self.BOXES, self.ROWS)
        ]
        np.testing.assert_allclose(ours, expected, atol=1e-5)

    def test_by_hand(self):
        """The bins of a box whose borders are those of four pixels are these pixels."""
        maps = np.arange(16, dtype=np.float32).reshape([1, 4, 4, 1])
        box, rows = tf.constant([[8.0, 8.0, 24.0, 24.0]]), tf.constant([0])
        ours = crops.roi_align(tf.constant(maps), box, rows, 2, 8, 1)
        np.testing.assert_allclose(ours[0, ..., 0], [[5, 6], [9, 10]], atol=1e-5)

    def test_pixels_at_whole_numbers_by_hand(self):
        """Samples are at 1.5 and 2.5 pixels; a box without a size has that of a pixel."""
        maps = tf.constant(np.arange(16, dtype=np.float32).reshape([1, 4, 4, 1]))
        boxes = tf.constant([[8.0, 8.0, 24.0, 24.0], [8.0, 8.0, 8.0, 8.0]])
        ours = crops.roi_align(maps, boxes[:1], tf.constant([0]), 2, 8, 1, aligned=False)
        np.testing.assert_allclose(ours[0, ..., 0], [[7.5, 8.5], [11.5, 12.5]], atol=1e-5)
        ours = crops.roi_align(maps, boxes[1:], tf.constant([0]), 1, 8, 1, aligned=False)
        np.testing.assert_allclose(ours[0, ..., 0], [[7.5]], atol=1e-5)

    def test_each_pixel_gets_the_gradient_of_its_samples(self):
        maps = self.maps()
        of_bins = np.random.RandomState(4).normal(size=[5, 2, 2, 3]).astype(np.float32)
        with tf.GradientTape() as tape:
            images = tf.constant(maps)
            tape.watch(images)
            bins = crops.roi_align(images, tf.constant(self.BOXES), self.ROWS, 2, self.STRIDE)
            total = tf.reduce_sum(bins * of_bins)
        found = tape.gradient(total, images).numpy()
        # The bins are linear in the pixels: what a pixel of 1 gives is its factor.
        expected = np.zeros([2, 6, 8, 3])
        for place in np.ndindex(6, 8):
            one = np.zeros([6, 8, 1])
            one[place] = 1.0
            for box, row, gradient in zip(self.BOXES, self.ROWS, of_bins):
                share = slow_alignment.align(one, box, 2, self.STRIDE, 2)
                expected[(row, *place)] += (share * gradient).sum(axis=(0, 1))
        np.testing.assert_allclose(found, expected, atol=1e-4)

    def test_nothing_is_lost_where_boxes_overlap(self):
        """Of 1024 boxes of the whole map, each pixel gets the same from each, on any thread."""
        boxes = tf.constant(np.tile(np.float32([[0, 0, 8, 8]]), [1024, 1]))
        rows = tf.zeros([1024], tf.int32)
        images = tf.zeros([1, 2, 2, 256])
        for _ in range(10):
            with tf.GradientTape() as tape:
                tape.watch(images)
                total = tf.reduce_sum(crops.roi_align(images, boxes, rows, 2, 4, 2))
            found = tape.gradient(total, images)
            np.testing.assert_allclose(found, np.full([1, 2, 2, 256], 1024.0), rtol=1e-4)

    def test_without_boxes(self):
        none = tf.zeros([0, 4]), tf.zeros([0], tf.int32)
        assert crops.roi_align(tf.zeros([1, 2, 3, 4]), *none, 7, 4).shape == (0, 7, 7, 4)
