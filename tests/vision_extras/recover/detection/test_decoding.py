"""Decoding of boxes, scores and suppression in graphs of the published form."""

import numpy as np
import pytest
import tensorflow as tf

from vision_extras.recover.artifacts import graphs
from vision_extras.recover.detection import decoding

tf1 = tf.compat.v1

SCALES = (8.0, 9.0, 4.0, 3.0)


@pytest.fixture(scope='module')
def published():
    """Return a graph with the operations of the TF1 Object Detection API, by hand."""
    with tf.Graph().as_default() as graph:
        codes = tf1.placeholder(tf.float32, [7, 4], name='codes')
        anchors = tf.constant(np.full([7, 4], 0.5, np.float32))
        ymin, xmin, ymax, xmax = tf.unstack(tf.transpose(anchors))
        width, height = tf.subtract(xmax, xmin, 'width'), tf.subtract(ymax, ymin, 'height')
        ya, xa = tf.add(ymin, height / 2.0, 'ya'), tf.add(xmin, width / 2.0, 'xa')
        ty, tx, th, tw = tf.unstack(tf.transpose(codes), name='codes_apart')
        ty, tx, th, tw = (t / s for t, s in zip((ty, tx, th, tw), SCALES))
        w, h = tf.exp(tw) * width, tf.exp(th) * height
        y, x = ty * height + ya, tx * width + xa
        boxes = tf.stack([y - h / 2, x - w / 2, y + h / 2, x + w / 2], axis=1)
        logits = tf1.placeholder(tf.float32, [1, 7, 3], name='logits')
        scores = tf.nn.sigmoid(logits / tf.constant(2.0), name='convert_scores')
        scores = tf.slice(scores, [0, 0, 1], [-1, -1, -1])[0]
        for index in range(2):
            most = tf.minimum(10, tf.shape(boxes)[0])
            kept = tf.image.non_max_suppression(boxes, scores[:, index], most, 0.45, 0.125)
        tf.gather(scores, kept, name='detection_scores')
    return graphs.Graph(graph.as_graph_def())


def test_scales_and_anchors(published):
    (decoded,) = decoding.find_decodings(published)
    assert decoded.scales == SCALES
    assert decoded.anchors == ('ya:0', 'xa:0', 'height:0', 'width:0')


def test_scores(published):
    scores = decoding.find_scores(published, ['detection_scores'])
    assert scores == decoding.Scores('SIGMOID', 'convert_scores:0', 2.0, True)


def test_suppression(published):
    found = decoding.find_suppression(published)
    assert (found.iou_threshold, found.score_threshold) == (np.float32(0.45), 0.125)
    assert (found.max_per_class, found.soft_sigma, found.count) == (10, 0.0, 2)


def test_graph_without_boxes():
    empty = graphs.Graph(tf1.GraphDef())
    assert decoding.find_decodings(empty) == []
    assert decoding.find_suppression(empty) is None
    assert decoding.find_scores(empty, ['x']) == decoding.Scores('IDENTITY', None)


def test_background_may_be_left_out_before_the_conversion():
    """As in graphs of 2017."""
    with tf.Graph().as_default() as graph:
        logits = tf1.placeholder(tf.float32, [1, 7, 3], name='logits')
        scores = tf.nn.sigmoid(tf.slice(logits, [0, 0, 1], [-1, -1, -1]), name='convert')
        tf.identity(scores, name='detection_scores')
    found = decoding.find_scores(graphs.Graph(graph.as_graph_def()), ['detection_scores'])
    assert found == decoding.Scores('SIGMOID', 'convert:0', 1.0, True, is_cut=True)
