"""Inception V3 (Szegedy et al. 2015, "Rethinking the Inception Architecture")."""

from __future__ import annotations

from typing import Tuple

import tensorflow as tf

from model_fns import layers
from model_fns.backbones import inception_parts as parts
from model_fns.backbones import registry
from model_fns.backbones.inception_parts import AvgPool, Conv, Fork, MaxPool, Mixed

tf1 = tf.compat.v1

SCOPE = 'InceptionV3'
LAST_END_POINT = 'Mixed_7c'
MIN_DEPTH = 16

_AVERAGE = AvgPool('AvgPool_0a_3x3')


def _module_35(
    scope: str,
    pooled: int,
    fives: Tuple[str, str] = ('Conv2d_0a_1x1', 'Conv2d_0b_5x5'),
) -> Mixed:
    """Describe a module on the 35x35 map; one of them has other names in its 5x5 branch."""
    return Mixed(
        scope,
        (
            (Conv('Conv2d_0a_1x1', 64),),
            (Conv(fives[0], 48), Conv(fives[1], 64)),
            (Conv('Conv2d_0a_1x1', 64), Conv('Conv2d_0b_3x3', 96), Conv('Conv2d_0c_3x3', 96)),
            (_AVERAGE, Conv('Conv2d_0b_1x1', pooled)),
        ),
    )


def _module_17(scope: str, width: int) -> Mixed:
    """Describe a module on the 17x17 map: 7x7 split into 1x7 and 7x1."""
    return Mixed(
        scope,
        (
            (Conv('Conv2d_0a_1x1', 192),),
            (
                Conv('Conv2d_0a_1x1', width),
                Conv('Conv2d_0b_1x7', width),
                Conv('Conv2d_0c_7x1', 192),
            ),
            (
                Conv('Conv2d_0a_1x1', width),
                Conv('Conv2d_0b_7x1', width),
                Conv('Conv2d_0c_1x7', width),
                Conv('Conv2d_0d_7x1', width),
                Conv('Conv2d_0e_1x7', 192),
            ),
            (_AVERAGE, Conv('Conv2d_0b_1x1', 192)),
        ),
    )


def _module_8(scope: str, column: str) -> Mixed:
    """Describe a module on the 8x8 map, whose 3x3 are rows and columns side by side."""
    return Mixed(
        scope,
        (
            (Conv('Conv2d_0a_1x1', 320),),
            (
                Conv('Conv2d_0a_1x1', 384),
                Fork((Conv('Conv2d_0b_1x3', 384), Conv(column, 384))),
            ),
            (
                Conv('Conv2d_0a_1x1', 448),
                Conv('Conv2d_0b_3x3', 384),
                Fork((Conv('Conv2d_0c_1x3', 384), Conv('Conv2d_0d_3x1', 384))),
            ),
            (_AVERAGE, Conv('Conv2d_0b_1x1', 192)),
        ),
    )


# From 35x35 to 17x17. The published names of the two strided convolutions say 1x1.
_MIXED_6A = Mixed(
    'Mixed_6a',
    (
        (Conv('Conv2d_1a_1x1', 384, kernel=3, stride=2, padding='VALID'),),
        (
            Conv('Conv2d_0a_1x1', 64),
            Conv('Conv2d_0b_3x3', 96),
            Conv('Conv2d_1a_1x1', 96, kernel=3, stride=2, padding='VALID'),
        ),
        (MaxPool('MaxPool_1a_3x3', stride=2, padding='VALID'),),
    ),
)

# From 17x17 to 8x8.
_MIXED_7A = Mixed(
    'Mixed_7a',
    (
        (
            Conv('Conv2d_0a_1x1', 192),
            Conv('Conv2d_1a_3x3', 320, stride=2, padding='VALID'),
        ),
        (
            Conv('Conv2d_0a_1x1', 192),
            Conv('Conv2d_0b_1x7', 192),
            Conv('Conv2d_0c_7x1', 192),
            Conv('Conv2d_1a_3x3', 192, stride=2, padding='VALID'),
        ),
        (MaxPool('MaxPool_1a_3x3', stride=2, padding='VALID'),),
    ),
)

_LAYERS = (
    Conv('Conv2d_1a_3x3', 32, stride=2, padding='VALID'),
    Conv('Conv2d_2a_3x3', 32, padding='VALID'),
    Conv('Conv2d_2b_3x3', 64),
    MaxPool('MaxPool_3a_3x3', stride=2, padding='VALID'),
    Conv('Conv2d_3b_1x1', 80, padding='VALID'),
    Conv('Conv2d_4a_3x3', 192, padding='VALID'),
    MaxPool('MaxPool_5a_3x3', stride=2, padding='VALID'),
    _module_35('Mixed_5b', pooled=32),
    _module_35('Mixed_5c', pooled=64, fives=('Conv2d_0b_1x1', 'Conv_1_0c_5x5')),
    _module_35('Mixed_5d', pooled=64),
    _MIXED_6A,
    _module_17('Mixed_6b', width=128),
    _module_17('Mixed_6c', width=160),
    _module_17('Mixed_6d', width=160),
    _module_17('Mixed_6e', width=192),
    _MIXED_7A,
    _module_8('Mixed_7b', column='Conv2d_0b_3x1'),
    _module_8('Mixed_7c', column='Conv2d_0c_3x1'),
)

inception_v3_style = parts.inception_style


def inception_v3_features(
    images: tf.Tensor,
    style: layers.LayerStyle,
    *,
    depth_multiplier: float = 1.0,
    min_depth: int = MIN_DEPTH,
    final_endpoint: str = LAST_END_POINT,
) -> registry.EndPoints:
    """Return the feature maps of Inception V3.

    Args:
        images: float32 [batch, height, width, channels], in [-1, 1].
        style: of all layers.
        depth_multiplier: factor on all channel counts.
        min_depth: least channel count that the factor leaves.
        final_endpoint: where to stop.

    Returns:
        Float32 [batch, height', width', channels'] by name, from the image on.

    Raises:
        ValueError: there is no such final end point.
    """
    network = parts.section(_LAYERS, None, final_endpoint)
    depth = parts.scaled_depth(depth_multiplier, min_depth)
    with tf1.variable_scope(SCOPE):
        # As published, where ops of the trunk are in a scope of that name twice.
        style = style.ranges_below(SCOPE)
        return parts.run(network, images, style, depth)


def inception_v3(
    images: tf.Tensor, num_classes: int, style: layers.LayerStyle, options: registry.Options
) -> registry.EndPoints:
    """Return the classifier: mean over the image, dropout, a linear layer; and an auxiliary one.

    Args:
        images: float32 [batch, height, width, channels], in [-1, 1].
        num_classes: how many logits.
        style: of all layers.
        options: the channel factor, `dropout_keep_prob` and `final_endpoint` count.

    Returns:
        The feature maps, `AuxLogits`, `AvgPool_1a`, `PreLogits`, `Logits` and `Predictions`.
    """
    multiplier = options.depth_multiplier
    min_depth = int(options.get('min_depth', MIN_DEPTH))
    end_points = inception_v3_features(
        images, style, depth_multiplier=multiplier, min_depth=min_depth
    )
    end_points[registry.AUXILIARY_LOGITS] = _auxiliary_logits(
        end_points['Mixed_6e'], num_classes, style, parts.scaled_depth(multiplier, min_depth)
    )
    end = parts.classify(
        end_points[LAST_END_POINT],
        num_classes,
        style,
        options,
        scope=f'{SCOPE}/Logits',
        pooled='AvgPool_1a',
        dropped='PreLogits',
        convolution='Conv2d_1c_1x1',
    )
    return {**end_points, **end}


def _auxiliary_logits(
    inputs: tf.Tensor, num_classes: int, style: layers.LayerStyle, depth: parts.Depth
) -> tf.Tensor:
    with tf1.variable_scope(f'{SCOPE}/AuxLogits'):
        features = parts.auxiliary_features(
            inputs, style, depth, last_scope='Conv2d_2a_{}x{}', stddev=0.01
        )
        linear = style.linear().but(initializer=layers.truncated_normal(0.001))
        logits = layers.conv2d(features, num_classes, 1, linear, 'Conv2d_2b_1x1')
        return tf.squeeze(logits, [1, 2])


def _features(
    images: tf.Tensor, style: layers.LayerStyle, options: registry.Options
) -> registry.EndPoints:
    return inception_v3_features(
        images,
        style,
        depth_multiplier=options.depth_multiplier,
        min_depth=int(options.get('min_depth', MIN_DEPTH)),
        final_endpoint=options.final_endpoint or LAST_END_POINT,
    )


registry.add(
    registry.Network(
        name='inception_v3',
        build=inception_v3,
        features=_features,
        feature_maps={
            2: 'Conv2d_2b_3x3',
            4: 'Conv2d_4a_3x3',
            8: 'Mixed_5d',
            16: 'Mixed_6e',
            32: LAST_END_POINT,
        },
        style=inception_v3_style,
        scope=SCOPE,
        logits_scopes=(f'{SCOPE}/Logits', f'{SCOPE}/AuxLogits/Conv2d_2b_1x1'),
        image_size=299,
        honors=(
            'depth_multiplier',
            'min_depth',
            'dropout_keep_prob',
            'weight_decay',
            'batch_norm_decay',
            'batch_norm_epsilon',
        ),
        min_size=75,
    )
)
