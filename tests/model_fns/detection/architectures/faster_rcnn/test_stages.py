"""The backbone in its two stages: whose style its layers have, and what they share."""

import tensorflow as tf

from model_fns import layers
from model_fns.detection.architectures.faster_rcnn import extractors, stages

tf1 = tf.compat.v1

EXTRACTOR = extractors.EXTRACTORS.get('faster_rcnn_mobilenet_v1_025', 'type')


def test_features_of_boxes_are_computed_again_by_the_same_variables():
    backbone = stages.Backbone(EXTRACTOR)
    with tf.Graph().as_default():
        (features,) = backbone.features(tf.zeros([1, 64, 64, 3]), is_training=True)
        first = backbone.box_features(features, is_training=True)
        count = len(tf1.global_variables())
        second = backbone.box_features(features, is_training=False)
        assert len(tf1.global_variables()) == count
    assert first.shape == second.shape == [1, 2, 2, 256]


def updates_of(trains, decay):
    """Return the number of moving statistics that training updates, and their decay."""
    build_style = None
    if decay:
        norm = layers.BatchNorm(decay=decay)

        def build_style(is_training):
            return layers.LayerStyle(is_training=is_training, batch_norm=norm)

    backbone = stages.Backbone(EXTRACTOR, trains_batch_norm=trains, build_style=build_style)
    with tf.Graph().as_default(), tf1.Session() as session:
        (features,) = backbone.features(tf.ones([1, 32, 32, 3]), is_training=True)
        backbone.box_features(features, is_training=True)
        updates = tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)
        (variance,) = tf1.global_variables('FirstStageFeatureExtractor.*Conv2d_0/.*moving_variance')
        session.run(tf1.global_variables_initializer())
        session.run(updates)
        # Of a constant image the variance is 0 in the middle, and small everywhere.
        return len(updates), session.run(variance).max()


def test_statistics_follow_as_the_style_says():
    assert updates_of(trains=False, decay=0.5)[0] == 0
    count, kept = updates_of(trains=True, decay=None)
    assert count == 50 and kept > 0.99  # a mean and a variance of each of 23 + 2 layers
    count, kept = updates_of(trains=True, decay=0.5)
    assert count == 50 and kept < 0.9
