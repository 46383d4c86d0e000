from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from model_fns.detection.metrics import image_masks
from model_fns.structures import images
from tests.model_fns.detection.architectures.faster_rcnn import oracles

tf1 = tf.compat.v1


def pixels(encoded):
    """Decode run lengths to arrays [height, width]."""
    from faster_coco_eval.core import mask as coco_masks

    return [coco_masks.decode(one) for one in encoded._encoded]


@pytest.mark.parametrize('content', [(20, 30), (12, 30), (7, 5), (1, 1)])
@pytest.mark.parametrize('size', [(20, 30), (41, 17), (5, 64), (1, 1)])
def test_groundtruth_is_resized_by_the_nearest_pixel(content, size):
    masks = (np.random.RandomState(0).rand(3, 20, 30) < 0.5).astype(np.uint8)
    found = pixels(image_masks.resize_groundtruth(masks, content, size))
    with tf.Graph().as_default(), tf1.Session() as session:
        inside = tf.constant(masks[:, : content[0], : content[1], np.newaxis])
        expected = session.run(images.resize(inside, *size, 'nearest', align_corners=True))
    np.testing.assert_array_equal(found, expected[..., 0])


def test_padding_and_blocks(monkeypatch):
    monkeypatch.setattr(image_masks, '_BLOCK_PIXELS', 50)
    masks = np.zeros([5, 8, 8], np.uint8)
    masks[:, 0, 0] = 1
    masks[:, 6:] = 1  # padding
    found = pixels(image_masks.resize_groundtruth(masks, (6, 8, 3), (6, 8)))
    assert len(found) == 5
    assert all(one.sum() == 1 and one[0, 0] == 1 for one in found)


def test_no_masks():
    assert len(image_masks.resize_groundtruth(np.zeros([0, 4, 4], np.uint8), (4, 4), (8, 8))) == 0
    none = np.zeros([0, 3, 3], np.float32)
    assert len(image_masks.paste_detections(none, np.zeros([0, 4], np.float32), (8, 8))) == 0


def test_a_full_mask_covers_its_box():
    # Corner pixels are at the corners of the image: of 9, the 3rd to the 7th are in [1/4, 3/4].
    masks, boxes = np.ones([1, 3, 3], np.float32), np.array([[0.25, 0.25, 0.75, 0.5]], np.float32)
    (found,) = pixels(image_masks.paste_detections(masks, boxes, np.array([9, 9])))
    expected = np.zeros([9, 9])
    expected[2:7, 2:5] = 1
    np.testing.assert_array_equal(found, expected)


def test_detections_as_recorded():
    case = oracles.case('mask_paste')
    whole = case['image_masks']
    found = pixels(image_masks.paste_detections(case['masks'], case['boxes'], whole.shape[1:]))
    np.testing.assert_array_equal(found, whole > 0.5)
