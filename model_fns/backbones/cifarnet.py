"""CifarNet, the published network for CIFAR-10, after Krizhevsky's cuda-convnet."""

from __future__ import annotations

import math

import tensorflow as tf

from model_fns import layers
from model_fns.backbones import registry

tf1 = tf.compat.v1

SCOPE = 'CifarNet'
# The size of `fc4` in the published checkpoints of TF-Slim.
_HIDDEN = 192


def cifarnet_style(is_training: bool, options: registry.Options) -> layers.LayerStyle:
    """Return the style of the hidden linear layers, as published; the only regularized ones."""
    return layers.LayerStyle(
        is_training=is_training,
        initializer=layers.truncated_normal(0.04),
        regularizer=layers.l2(options.get('weight_decay', 0.004)),
    )


def cifarnet_features(
    images: tf.Tensor, style: layers.LayerStyle, options: registry.Options
) -> registry.EndPoints:
    """Return the feature maps of CifarNet.

    Args:
        images: float32 [batch, height, width, channels], of mean 0 and variance 1.
        style: of the network; convolutions have their own initial values and no regularizer.
        options: it has none that change feature maps.

    Returns:
        Float32 [batch, height', width', 64] by name: `conv1`, `pool1` (stride 2), `conv2`, `pool2`
        (stride 4).
    """
    del options
    style = style.but(initializer=layers.truncated_normal(0.05), regularizer=None)
    with tf1.variable_scope(SCOPE):
        conv1 = layers.conv2d(images, 64, 5, style, 'conv1')
        pool1 = tf.nn.max_pool2d(conv1, 2, 2, 'VALID', name='pool1')
        # Pooling, then normalization; behind conv2 the reverse. Both orders are the published ones.
        conv2 = layers.conv2d(_normalize(pool1, 'norm1'), 64, 5, style, 'conv2')
        pool2 = tf.nn.max_pool2d(_normalize(conv2, 'norm2'), 2, 2, 'VALID', name='pool2')
    return {'conv1': conv1, 'pool1': pool1, 'conv2': conv2, 'pool2': pool2}


def cifarnet(
    images: tf.Tensor, num_classes: int, style: layers.LayerStyle, options: registry.Options
) -> registry.EndPoints:
    """Return the classifier.

    Args:
        images: float32 [batch, height, width, channels], of mean 0 and variance 1; height and
            width static.
        num_classes: how many logits.
        style: of the hidden linear layers.
        options: `dropout_keep_prob` counts.

    Returns:
        The feature maps, `Flatten`, `fc3`, `fc4`, `Logits` and `Predictions` by name.
    """
    end_points = cifarnet_features(images, style, options)
    pool2 = end_points['pool2']
    bias = layers.Initializer('constant', 0.1, fan=None)
    last = style.linear().but(initializer=layers.truncated_normal(1.0 / _HIDDEN), regularizer=None)
    with tf1.variable_scope(SCOPE):
        flat = tf.reshape(pool2, [-1, math.prod(pool2.shape[1:].as_list())], name='Flatten')
        fc3 = layers.fully_connected(flat, 384, style, 'fc3', bias_initializer=bias)
        keep_prob = options.get('dropout_keep_prob', 0.5)
        dropped = layers.dropout(fc3, keep_prob, style.is_training, 'dropout3')
        fc4 = layers.fully_connected(dropped, _HIDDEN, style, 'fc4', bias_initializer=bias)
        logits = layers.fully_connected(fc4, num_classes, last, 'logits')
    end_points.update(Flatten=flat, fc3=fc3, fc4=fc4)
    end_points[registry.LOGITS] = logits
    end_points['Predictions'] = tf.nn.softmax(logits)
    return end_points


def _normalize(inputs: tf.Tensor, name: str) -> tf.Tensor:
    """Apply local response normalization over 9 channels (Krizhevsky et al. 2012, section 3.3)."""
    # There is no kernel for bfloat16.
    values = layers.to_float32(inputs)
    # cuda-convnet divides its alpha of 0.001 by the 9 channels, TensorFlow's kernel does not.
    outputs = tf.nn.lrn(values, 4, bias=1.0, alpha=0.001 / 9.0, beta=0.75, name=name)
    return outputs if outputs.dtype == inputs.dtype else tf.cast(outputs, inputs.dtype)


registry.add(
    registry.Network(
        name='cifarnet',
        build=cifarnet,
        features=cifarnet_features,
        feature_maps={1: 'conv1', 2: 'conv2', 4: 'pool2'},
        style=cifarnet_style,
        scope=SCOPE,
        logits_scopes=(f'{SCOPE}/logits',),
        image_size=32,
        preprocessing='cifarnet',
        honors=('dropout_keep_prob', 'weight_decay'),
        min_size=4,
        fixed_size=True,
    )
)
