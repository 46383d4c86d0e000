from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns.detection import fields
from model_fns.detection.data import keypoints
from model_fns.detection.data.keypoints import KeypointDecoder
from model_fns.structures.label_map import LabelMap, LabelMapItem

tf1 = tf.compat.v1

NAN = float('nan')
NO = [NAN, NAN]
NAMED = KeypointDecoder(3, (('nose', 0), ('tail', 2)))


def decode(decoder, boxes, y=(), x=(), visibility=(), text=()):
    """Return (whether the lists are sound, points, visibilities); None if decoding fails."""
    with tf.Graph().as_default(), tf1.Session() as session:
        given = {'y': y, 'x': x, 'visibility': visibility, 'text': text}
        parsed = {
            key: tf.constant(given[key.rpartition('/')[2]], dtype)
            for key, dtype in decoder.keys().items()
        }
        count = tf.constant(boxes)
        sound = session.run(decoder.are_sound(parsed, count))
        if not sound:
            return False, None, None
        decoded = decoder.decode(parsed, count)
        session.run(tf1.tables_initializer())
        found = session.run([decoded[fields.KEYPOINTS], decoded[fields.KEYPOINT_VISIBILITIES]])
        return sound, *found


def test_in_order():
    sound, points, visible = decode(
        KeypointDecoder(2), 2, [0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8], [1, 0, 2, 2]
    )
    assert sound
    np.testing.assert_allclose(points, [[[0.1, 0.5], NO], [[0.3, 0.7], [0.4, 0.8]]])
    assert visible.tolist() == [[True, False], [True, True]]


def test_by_name():
    sound, points, visible = decode(
        NAMED,
        2,
        [0.1, 0.2, 0.3, 0.4],
        [0.5, 0.6, 0.7, 0.8],
        [2, 0, 2, 2],
        ['tail', 'nose', 'nose', 'horn'],
    )
    assert sound
    np.testing.assert_allclose(points, [[NO, NO, [0.1, 0.5]], [[0.3, 0.7], NO, NO]])
    assert visible.tolist() == [[False, False, True], [True, False, False]]


@pytest.mark.parametrize('decoder', [KeypointDecoder(3), NAMED])
@pytest.mark.parametrize('boxes', [0, 2])
def test_none(decoder, boxes):
    sound, points, visible = decode(decoder, boxes)
    assert sound and points.shape == (boxes, 3, 2) and visible.shape == (boxes, 3)
    assert np.isnan(points).all()


@pytest.mark.parametrize(
    ('decoder', 'lists'),
    [
        (KeypointDecoder(2), {'y': [0.1] * 3, 'x': [0.1] * 3}),
        (KeypointDecoder(2), {'y': [0.1] * 4}),
        (KeypointDecoder(2), {'y': [0.1] * 4, 'x': [0.1] * 4, 'visibility': [1] * 2}),
        (NAMED, {'y': [0.1] * 4, 'x': [0.1] * 4}),
        (NAMED, {'y': [0.1] * 3, 'x': [0.1] * 3, 'text': ['nose'] * 3}),
        (NAMED, {'text': ['nose'] * 4}),
    ],
)
def test_lists_that_do_not_fit_two_boxes(decoder, lists):
    assert not decode(decoder, 2, **lists)[0]


def label_map(*numbers):
    """Build a label map of two classes with keypoints (number, label)."""
    return LabelMap(
        (LabelMapItem(1, 'a', 'a', numbers[:2]), LabelMapItem(2, 'b', 'b', numbers[2:]))
    )


def test_places_are_over_all_classes():
    named = label_map((0, 'nose'), (2, 'tail'), (0, 'nose'), (1, 'wing'))
    found = keypoints.index_keypoints(named, 3, 'reader')
    assert found == (('nose', 0), ('tail', 2), ('wing', 1))


@pytest.mark.parametrize(
    ('named', 'count', 'message'),
    [
        (None, 3, r'reader.use_keypoint_label_map: the label map names no keypoints'),
        (label_map(), 3, 'the label map names no keypoints'),
        (label_map((0, 'nose'), (3, 'tail')), 3, "'tail' has the number 3 in .* expected 0 to 2"),
        (label_map((0, 'nose'), (1, 'nose')), 3, "two numbers for the keypoint 'nose', 0 and 1"),
        (label_map((0, 'nose')), 0, 'true, without num_keypoints; expected both'),
    ],
)
def test_label_maps_that_do_not_fit(named, count, message):
    with pytest.raises(errors.ConfigError, match=message):
        keypoints.index_keypoints(named, count, 'reader')
