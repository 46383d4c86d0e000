"""LeNet, in the variant that is published for MNIST: two convolutions, two linear layers."""

from __future__ import annotations

import math

import tensorflow as tf

from model_fns import layers
from model_fns.backbones import registry

tf1 = tf.compat.v1

SCOPE = 'LeNet'


def lenet_style(is_training: bool, options: registry.Options) -> layers.LayerStyle:
    """Return the style as published: no regularizer unless the options ask for one."""
    return layers.LayerStyle(
        is_training=is_training,
        initializer=layers.truncated_normal(0.1),
        regularizer=layers.l2(options.get('weight_decay', 0.0)),
    )


def lenet_features(
    images: tf.Tensor, style: layers.LayerStyle, options: registry.Options
) -> registry.EndPoints:
    """Return the feature maps of LeNet.

    Args:
        images: float32 [batch, height, width, channels], in [-1, 1].
        style: of all layers.
        options: it has none that change feature maps.

    Returns:
        Float32 [batch, height', width', channels'] by name: `conv1`, `pool1` (stride 2), `conv2`,
        `pool2` (stride 4).
    """
    del options
    with tf1.variable_scope(SCOPE):
        conv1 = layers.conv2d(images, 32, 5, style, 'conv1')
        pool1 = tf.nn.max_pool2d(conv1, 2, 2, 'VALID', name='pool1')
        conv2 = layers.conv2d(pool1, 64, 5, style, 'conv2')
        pool2 = tf.nn.max_pool2d(conv2, 2, 2, 'VALID', name='pool2')
    return {'conv1': conv1, 'pool1': pool1, 'conv2': conv2, 'pool2': pool2}


def lenet(
    images: tf.Tensor, num_classes: int, style: layers.LayerStyle, options: registry.Options
) -> registry.EndPoints:
    """Return the classifier.

    Args:
        images: float32 [batch, height, width, channels], in [-1, 1]; height and width static.
        num_classes: how many logits.
        style: of all layers.
        options: `dropout_keep_prob` counts.

    Returns:
        The feature maps, `Flatten`, `fc3`, `dropout3`, `Logits` and `Predictions` by name.
    """
    end_points = lenet_features(images, style, options)
    pool2 = end_points['pool2']
    with tf1.variable_scope(SCOPE):
        flat = tf.reshape(pool2, [-1, math.prod(pool2.shape[1:].as_list())], name='Flatten')
        fc3 = layers.fully_connected(flat, 1024, style, 'fc3')
        keep_prob = options.get('dropout_keep_prob', 0.5)
        dropped = layers.dropout(fc3, keep_prob, style.is_training, 'dropout3')
        logits = layers.fully_connected(dropped, num_classes, style.linear(), 'fc4')
    end_points.update(Flatten=flat, fc3=fc3, dropout3=dropped)
    end_points[registry.LOGITS] = logits
    end_points['Predictions'] = tf.nn.softmax(logits)
    return end_points


registry.add(
    registry.Network(
        name='lenet',
        build=lenet,
        features=lenet_features,
        feature_maps={1: 'conv1', 2: 'conv2', 4: 'pool2'},
        style=lenet_style,
        scope=SCOPE,
        logits_scopes=(f'{SCOPE}/fc4',),
        image_size=28,
        image_channels=1,
        preprocessing='lenet',
        honors=('dropout_keep_prob', 'weight_decay'),
        min_size=4,
        fixed_size=True,
    )
)
