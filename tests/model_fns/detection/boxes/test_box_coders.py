from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.config.section import Section
from model_fns.detection.boxes import box_coders
from protos import box_coding_pb2

tf1 = tf.compat.v1

# Centers (5, 8) and (0.5, 0.5), sizes 10 x 4 and 1 x 1.
ANCHORS = [[0.0, 6.0, 10.0, 10.0], [0.0, 0.0, 1.0, 1.0]]
# Centers (6, 9) and (0.5, 0.75), sizes 20 x 2 and 1 x 0.5.
BOXES = [[-4.0, 8.0, 16.0, 10.0], [0.0, 0.5, 1.0, 1.0]]
LN2 = math.log(2)


def coder_of(text):
    return box_coders.build_box_coder(
        Section(text_format.Parse(text, box_coding_pb2.BoxCoder()), 'here')
    )


def run(function, *arrays):
    with tf.Graph().as_default(), tf1.Session() as session:
        return session.run(function(*(tf.constant(array, tf.float32) for array in arrays)))


def check(text, codes, boxes=BOXES, anchors=ANCHORS):
    """Encode boxes to the codes, and decode the codes to the boxes."""
    coder = coder_of(text)
    assert coder.code_size == len(codes[0])
    np.testing.assert_allclose(run(coder.encode, boxes, anchors), codes, atol=1e-5)
    np.testing.assert_allclose(run(coder.decode, codes, anchors), boxes, atol=1e-5)


def test_faster_rcnn():
    unscaled = 'y_scale: 1 x_scale: 1 height_scale: 1 width_scale: 1'
    check(
        f'faster_rcnn_box_coder {{ {unscaled} }}',
        [[0.1, 0.25, LN2, -LN2], [0, 0.25, 0, -LN2]],
    )


def test_faster_rcnn_scales():
    check('faster_rcnn_box_coder {}', [[1, 2.5, 5 * LN2, -5 * LN2], [0, 2.5, 0, -5 * LN2]])
    check(
        'faster_rcnn_box_coder { y_scale: 1 x_scale: 2 height_scale: 3 width_scale: 4 }',
        [[0.1, 0.5, 3 * LN2, -4 * LN2], [0, 0.5, 0, -4 * LN2]],
    )


def test_mean_stddev():
    check('mean_stddev_box_coder { stddev: 2 }', [[-2, 1, 3, 0], [0, 0.25, 0, 0]])
    check('mean_stddev_box_coder {}', np.subtract(BOXES, ANCHORS) * 100)


def test_square():
    # The anchors' lengths are sqrt(40) and 1; the boxes' sqrt(40) and sqrt(1 / 2).
    coder = coder_of('square_box_coder {}')
    assert coder.code_size == 3
    root = math.sqrt(40)
    codes = [[10 / root, 10 / root, 0], [0, 2.5, -2.5 * LN2]]
    np.testing.assert_allclose(run(coder.encode, BOXES, ANCHORS), codes, atol=1e-5)
    # It decodes to squares of the same area around the same center.
    squares = [
        [6 - root / 2, 9 - root / 2, 6 + root / 2, 9 + root / 2],
        [0.5 - 0.125**0.5, 0.75 - 0.125**0.5, 0.5 + 0.125**0.5, 0.75 + 0.125**0.5],
    ]
    np.testing.assert_allclose(run(coder.decode, codes, ANCHORS), squares, atol=1e-5)
    changed = coder_of('square_box_coder { y_scale: 1 x_scale: 2 length_scale: 4 }')
    np.testing.assert_allclose(
        run(changed.encode, BOXES[1:], ANCHORS[1:]), [[0, 0.5, -2 * LN2]], atol=1e-5
    )


def test_boxes_of_a_batch_against_the_same_anchors():
    coder = coder_of('faster_rcnn_box_coder {}')
    codes = run(coder.encode, [BOXES, BOXES[::-1]], ANCHORS)
    assert codes.shape == (2, 2, 4)
    np.testing.assert_allclose(codes[0], run(coder.encode, BOXES, ANCHORS))


@pytest.mark.parametrize('kind', ['faster_rcnn_box_coder', 'square_box_coder'])
def test_codes_of_boxes_without_area_are_finite(kind):
    coder = coder_of(f'{kind} {{}}')
    assert np.isfinite(run(coder.encode, [[0.5, 0.5, 0.5, 0.5]], ANCHORS[1:])).all()
    assert np.isfinite(run(coder.encode, BOXES[1:], [[0.5, 0.5, 0.5, 0.5]])).all()


@pytest.mark.parametrize('text', ['faster_rcnn_box_coder {}', 'mean_stddev_box_coder {}'])
def test_there_and_back(text):
    rng = np.random.RandomState(0)
    corners, sizes = rng.rand(2, 50, 2), rng.uniform(0.01, 1.0, [2, 50, 2])
    boxes, anchors = np.concatenate([corners, corners + sizes], axis=-1)
    coder = coder_of(text)
    back = run(lambda box, anchor: coder.decode(coder.encode(box, anchor), anchor), boxes, anchors)
    np.testing.assert_allclose(back, boxes, atol=1e-4)


def test_an_empty_config():
    with pytest.raises(errors.ConfigError, match='^here.box_coder: empty; expected faster_rcnn'):
        box_coders.build_box_coder(Section(box_coding_pb2.BoxCoder(), 'here.box_coder'))
