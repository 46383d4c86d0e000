"""Masks of boxes in the frame of their image, against recorded ones and some made by hand."""

import numpy as np
import pytest
import tensorflow as tf

from model_fns.detection.detections import masks
from tests.model_fns.detection.architectures.faster_rcnn import oracles

tf1 = tf.compat.v1

WHOLE = np.array([[0.0, 0.0, 1.0, 1.0]], np.float32)

of_both_kinds = pytest.mark.parametrize('kind', [np.asarray, tf.constant])


class TestPasteMasks:
    @of_both_kinds
    def test_recorded(self, kind):
        case = oracles.case('mask_paste')
        ours = masks.paste_masks(kind(case['masks']), kind(case['boxes']), 8, 10)
        np.testing.assert_allclose(ours, case['image_masks'], rtol=1e-5, atol=1e-6)

    @of_both_kinds
    def test_threshold(self, kind):
        case = oracles.case('mask_paste')
        ours = masks.paste_masks(kind(case['masks']), kind(case['boxes']), 8, 10, threshold=0.5)
        assert np.asarray(ours).dtype == np.uint8
        np.testing.assert_array_equal(ours, case['image_masks'] > 0.5)

    @of_both_kinds
    def test_between_cells(self, kind):
        mask = np.array([[[0.0, 1.0], [1.0, 0.0]]], np.float32)
        ours = masks.paste_masks(kind(mask), kind(WHOLE), 3, 3)
        np.testing.assert_allclose(ours, [[[0, 0.5, 1], [0.5, 0.5, 0.5], [1, 0.5, 0]]])

    @of_both_kinds
    def test_half_a_box(self, kind):
        box = np.array([[0.0, 0.0, 1.0, 0.5]], np.float32)
        ours = masks.paste_masks(kind(np.ones([1, 2, 2], np.float32)), kind(box), 2, 3)
        np.testing.assert_allclose(ours, [[[1, 1, 0], [1, 1, 0]]])

    @pytest.mark.parametrize('side', [7, 100, 333, 1001])
    def test_a_whole_image_has_its_last_row_and_column(self, side):
        ours = masks.paste_masks(np.ones([1, 15, 15], np.float32), WHOLE, side, side)
        np.testing.assert_allclose(ours, 1.0, atol=1e-3)

    @of_both_kinds
    def test_an_image_of_one_pixel(self, kind):
        ours = masks.paste_masks(kind(np.eye(3, dtype=np.float32)[None]), kind(WHOLE), 1, 1)
        np.testing.assert_allclose(ours, [[[1.0]]])

    def test_batches_in_blocks_of_a_size_known_late(self, monkeypatch):
        random = np.random.RandomState(0)
        values = random.uniform(size=[2, 5, 4, 6]).astype(np.float32)
        boxes = random.uniform(size=[2, 5, 2, 2]).astype(np.float32)
        boxes = np.sort(boxes, axis=2).reshape([2, 5, 4])
        expected = masks.paste_masks(values, boxes, 20, 30, threshold=0.4)
        monkeypatch.setattr(masks, '_BLOCK_PIXELS', 3 * 20 * 30)
        with tf.Graph().as_default(), tf1.Session() as session:
            size = tf1.placeholder(tf.int32, [2])
            given = tf1.placeholder(tf.float32, [None, 5, 4, 6])
            ours = masks.paste_masks(given, tf.constant(boxes), size[0], size[1], threshold=0.4)
            assert ours.shape.as_list() == [None, 5, None, None]
            ours = session.run(ours, {size: [20, 30], given: values})
        np.testing.assert_array_equal(ours, expected)

    def test_no_masks(self):
        none = tf.zeros([0, 4, 4]), tf.zeros([0, 4])
        assert masks.paste_masks(*none, 3, 5).shape == [0, 3, 5]


def pasted(values, boxes, size):
    """Put the windows of masks into the whole image: bool [n, height, width]."""
    whole = np.zeros([len(values), *size], bool)
    for mask, (top, left, window) in zip(whole, masks.binary_windows(values, boxes, size)):
        mask[top : top + window.shape[0], left : left + window.shape[1]] = window
    return whole


class TestBinaryWindows:
    def test_recorded(self):
        case = oracles.case('mask_paste')
        whole = pasted(case['masks'], case['boxes'], (8, 10))
        np.testing.assert_array_equal(whole, case['image_masks'] > 0.5)

    def test_a_window_is_as_large_as_its_box(self):
        box = np.array([[0.25, 0.5, 0.5, 0.75]], np.float32)
        ((top, left, window),) = masks.binary_windows(np.ones([1, 3, 3], np.float32), box, (9, 5))
        assert (top, left, window.shape, window.dtype) == (2, 2, (3, 2), np.uint8)
        assert window.all()

    def test_boxes_that_reach_over_the_image_or_are_outside_of_it(self):
        boxes = np.array([[-0.5, -0.5, 0.5, 0.5], [0.5, 2.0, 0.7, 3.0], [0.3] * 4], np.float32)
        values = np.random.RandomState(0).uniform(size=[3, 5, 4]).astype(np.float32)
        expected = masks.paste_masks(values, boxes, 20, 30, threshold=0.5)
        np.testing.assert_array_equal(pasted(values, boxes, (20, 30)), expected)

    def test_no_masks(self):
        none = np.zeros([0, 3, 3], np.float32), np.zeros([0, 4], np.float32)
        assert list(masks.binary_windows(*none, (4, 5))) == []


class TestJoinMasks:
    def test_parts_side_by_side(self):
        """Of two parts that share a fifth, the mask is theirs at each pixel."""
        random = np.random.RandomState(2)
        shape = random.uniform(size=[11, 19])
        boxes = np.array([[10.0, 20, 20, 30], [10, 28, 20, 38]])
        joint = masks.join_masks([shape[:, :11], shape[:, 8:]], boxes, np.array([10.0, 20, 20, 38]))
        np.testing.assert_allclose(joint, shape, atol=1e-4)

    def test_cells_are_those_of_the_finest_part(self):
        ones, halves = np.ones([3, 3], np.float32), np.full([5, 3], 0.5, np.float32)
        boxes = np.array([[0.0, 0, 8, 8], [0, 4, 8, 24]])
        joint = masks.join_masks([ones, halves], boxes, np.array([0.0, 0, 8, 24]))
        # Cells of 2 rows and of 4 columns; the coarser part is interpolated.
        np.testing.assert_allclose(joint, [[1, 1, 1, 0.5, 0.5, 0.5, 0.5]] * 5, atol=1e-6)

    def test_a_mask_has_no_more_cells_than_pixels_or_the_limit(self):
        small = np.ones([9, 9], np.float32)
        boxes = np.array([[0.0, 0, 4, 4], [0, 3, 4, 5000]])
        joint = masks.join_masks([small, small], boxes, np.array([0.0, 0, 4, 5000]))
        assert joint.shape == (5, 512)

    def test_masks_of_several_sizes_are_pasted(self):
        values = masks.list_masks([np.ones([3, 3], np.float32), np.ones([7, 2], np.float32)])
        boxes = np.array([[0.0, 0, 0.5, 0.5], [0.5, 0.5, 1, 1]])
        whole = pasted(values, boxes, (11, 21))
        assert whole[0, :6, :11].all() and whole[1, 5:, 10:].all()
        assert whole.sum() == 2 * 6 * 11


def test_images_of_several_sizes():
    random = np.random.RandomState(1)
    values = random.uniform(size=[2, 3, 4, 4]).astype(np.float32)
    boxes = np.sort(random.uniform(size=[2, 3, 2, 2]), axis=2).reshape([2, 3, 4]).astype(np.float32)
    sizes = [[6, 12], [9, 5]]
    ours = masks.binary_batch(*map(tf.constant, (values, boxes, sizes))).numpy()
    assert ours.shape == (2, 3, 9, 12) and ours.dtype == np.uint8
    for image, size, value, box in zip(ours, sizes, values, boxes):
        expected = masks.paste_masks(value, box, *size, threshold=0.5)
        np.testing.assert_array_equal(image[:, : size[0], : size[1]], expected)
        assert image.sum() == expected.sum()
