"""Inception V1, known as GoogLeNet (Szegedy et al. 2014), with batch norm."""

from __future__ import annotations

from typing import Tuple

import tensorflow as tf

from model_fns import layers
from model_fns.backbones import inception_parts as parts
from model_fns.backbones import registry
from model_fns.backbones.inception_parts import Conv, MaxPool, Mixed

tf1 = tf.compat.v1

SCOPE = 'InceptionV1'
LAST_END_POINT = 'Mixed_5c'


def _module(
    scope: str,
    ones: int,
    threes: Tuple[int, int],
    fives: Tuple[int, int],
    pooled: int,
    fives_scope: str = 'Conv2d_0b_3x3',
) -> Mixed:
    """Describe a module of four branches: 1x1; 1x1, 3x3; 1x1, 3x3 (5x5 in the paper); pooling."""
    return Mixed(
        scope,
        (
            (Conv('Conv2d_0a_1x1', ones),),
            (Conv('Conv2d_0a_1x1', threes[0]), Conv('Conv2d_0b_3x3', threes[1])),
            (Conv('Conv2d_0a_1x1', fives[0]), Conv(fives_scope, fives[1])),
            (MaxPool('MaxPool_0a_3x3'), Conv('Conv2d_0b_1x1', pooled)),
        ),
    )


_LAYERS = (
    Conv('Conv2d_1a_7x7', 64, stride=2),
    MaxPool('MaxPool_2a_3x3', stride=2),
    Conv('Conv2d_2b_1x1', 64),
    Conv('Conv2d_2c_3x3', 192),
    MaxPool('MaxPool_3a_3x3', stride=2),
    _module('Mixed_3b', 64, (96, 128), (16, 32), 32),
    _module('Mixed_3c', 128, (128, 192), (32, 96), 64),
    MaxPool('MaxPool_4a_3x3', stride=2),
    _module('Mixed_4b', 192, (96, 208), (16, 48), 64),
    _module('Mixed_4c', 160, (112, 224), (24, 64), 64),
    _module('Mixed_4d', 128, (128, 256), (24, 64), 64),
    _module('Mixed_4e', 112, (144, 288), (32, 64), 64),
    _module('Mixed_4f', 256, (160, 320), (32, 128), 128),
    MaxPool('MaxPool_5a_2x2', stride=2),
    _module('Mixed_5b', 256, (160, 320), (32, 128), 128, fives_scope='Conv2d_0a_3x3'),
    _module('Mixed_5c', 384, (192, 384), (48, 128), 128),
)

inception_v1_style = parts.inception_style


def inception_v1_features(
    images: tf.Tensor,
    style: layers.LayerStyle,
    *,
    final_endpoint: str = LAST_END_POINT,
) -> registry.EndPoints:
    """Return the feature maps of Inception V1.

    Args:
        images: float32 [batch, height, width, channels], in [-1, 1].
        style: of all layers, except for the initial weights, which are the network's own.
        final_endpoint: where to stop.

    Returns:
        Float32 [batch, height', width', channels'] by name, from the image on.

    Raises:
        ValueError: there is no such final end point.
    """
    style = style.but(initializer=layers.truncated_normal(0.01))
    with tf1.variable_scope(SCOPE):
        return parts.run(parts.section(_LAYERS, None, final_endpoint), images, style)


def inception_v1(
    images: tf.Tensor, num_classes: int, style: layers.LayerStyle, options: registry.Options
) -> registry.EndPoints:
    """Return the classifier: mean over the image, dropout, a linear layer.

    Args:
        images: float32 [batch, height, width, channels], in [-1, 1].
        num_classes: how many logits.
        style: of all layers.
        options: `dropout_keep_prob` and `final_endpoint` count.

    Returns:
        The feature maps, `AvgPool_0a_7x7`, `Logits` and `Predictions` by name.
    """
    end_points = inception_v1_features(images, style)
    end = parts.classify(
        end_points[LAST_END_POINT],
        num_classes,
        style,
        options,
        scope=f'{SCOPE}/Logits',
        pooled='AvgPool_0a_7x7',
        convolution='Conv2d_0c_1x1',
    )
    return {**end_points, **end}


def _features(
    images: tf.Tensor, style: layers.LayerStyle, options: registry.Options
) -> registry.EndPoints:
    last = options.final_endpoint or LAST_END_POINT
    return inception_v1_features(images, style, final_endpoint=last)


registry.add(
    registry.Network(
        name='inception_v1',
        build=inception_v1,
        features=_features,
        feature_maps={
            2: 'Conv2d_1a_7x7',
            4: 'Conv2d_2c_3x3',
            8: 'Mixed_3c',
            16: 'Mixed_4f',
            32: LAST_END_POINT,
        },
        style=inception_v1_style,
        scope=SCOPE,
        logits_scopes=(f'{SCOPE}/Logits',),
        image_size=224,
        honors=('dropout_keep_prob', 'weight_decay', 'batch_norm_decay', 'batch_norm_epsilon'),
    )
)
