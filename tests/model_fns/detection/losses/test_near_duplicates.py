import numpy as np
import pytest
import tensorflow as tf

from model_fns.detection.losses import near_duplicates
from tests.model_fns.detection import slow_suppression

tf1 = tf.compat.v1


def may_overlap(boxes, threshold):
    with tf.Graph().as_default(), tf1.Session() as session:
        return session.run(near_duplicates.may_overlap(tf.constant(boxes), threshold))


def does_overlap(boxes, threshold):
    return np.array(
        [
            [
                any(np.delete(slow_suppression.iou(box, image), row) > threshold)
                for row, box in enumerate(image)
            ]
            for image in boxes
        ]
    )


def boxes_and_near_copies(seed, batch, count, spread):
    """Generate boxes of all sizes and positions; a third are slightly changed copies."""
    rng = np.random.RandomState(seed)
    sizes = np.exp(rng.uniform(-5, 0.5, [batch, count, 2]))
    corners = rng.uniform(-0.5, 1.0, [batch, count, 2])
    copies = rng.randint(count, size=count // 3)
    sizes[:, : count // 3] = sizes[:, copies] * np.exp(
        rng.uniform(-spread, spread, [batch, count // 3, 2])
    )
    moves = rng.uniform(-spread, spread, [batch, count // 3, 2])
    corners[:, : count // 3] = corners[:, copies] + moves * sizes[:, copies]
    boxes = np.concatenate([corners, corners + sizes], axis=-1).astype(np.float32)
    swapped = rng.uniform(size=[batch, count, 1]) < 0.1
    return np.where(swapped, boxes[..., [2, 3, 0, 1]], boxes)


@pytest.mark.parametrize(('threshold', 'spread'), [(0.99, 0.005), (0.9, 0.05), (0.999, 0.0004)])
def test_no_overlap_is_missed(threshold, spread):
    boxes = boxes_and_near_copies(1, 20, 300, spread)
    overlaps = does_overlap(boxes, threshold)
    found = may_overlap(boxes, threshold)
    assert 0.1 < overlaps.mean() < 0.6
    assert not (overlaps & ~found).any()


def test_few_others_are_found():
    boxes = boxes_and_near_copies(2, 4, 500, 0.0)[:, 200:]
    assert may_overlap(boxes, 0.99).mean() < 0.02


def test_images_are_apart():
    box = [[0.1, 0.1, 0.5, 0.5]]
    assert not may_overlap(np.array([box, box], np.float32), 0.99).any()
    assert may_overlap(np.array([box * 2], np.float32), 0.99).all()


def test_boxes_without_size_or_end_do_no_harm():
    boxes = np.array([[[0, 0, 0, 0], [0, 0, np.inf, np.inf], [-np.inf, 0, 1, 1], [0, 0, 1, 1]]])
    assert may_overlap(boxes.astype(np.float32), 0.99).shape == (1, 4)
