"""Inception V4 (Szegedy et al. 2016)."""

from __future__ import annotations

import tensorflow as tf

from model_fns import layers
from model_fns.backbones import inception_parts as parts
from model_fns.backbones import registry
from model_fns.backbones.inception_parts import AvgPool, Conv, Fork, MaxPool, Mixed

tf1 = tf.compat.v1

SCOPE = 'InceptionV4'
LAST_END_POINT = 'Mixed_7d'

_AVERAGE = AvgPool('AvgPool_0a_3x3')
_HALVING_POOL = MaxPool('MaxPool_1a_3x3', stride=2, padding='VALID')


def _module_a(scope: str) -> Mixed:
    """Describe Inception-A, for the 35x35 map."""
    return Mixed(
        scope,
        (
            (Conv('Conv2d_0a_1x1', 96),),
            (Conv('Conv2d_0a_1x1', 64), Conv('Conv2d_0b_3x3', 96)),
            (Conv('Conv2d_0a_1x1', 64), Conv('Conv2d_0b_3x3', 96), Conv('Conv2d_0c_3x3', 96)),
            (_AVERAGE, Conv('Conv2d_0b_1x1', 96)),
        ),
    )


def _module_b(scope: str) -> Mixed:
    """Describe Inception-B, for the 17x17 map."""
    return Mixed(
        scope,
        (
            (Conv('Conv2d_0a_1x1', 384),),
            (Conv('Conv2d_0a_1x1', 192), Conv('Conv2d_0b_1x7', 224), Conv('Conv2d_0c_7x1', 256)),
            (
                Conv('Conv2d_0a_1x1', 192),
                Conv('Conv2d_0b_7x1', 192),
                Conv('Conv2d_0c_1x7', 224),
                Conv('Conv2d_0d_7x1', 224),
                Conv('Conv2d_0e_1x7', 256),
            ),
            (_AVERAGE, Conv('Conv2d_0b_1x1', 128)),
        ),
    )


def _module_c(scope: str) -> Mixed:
    """Describe Inception-C, for the 8x8 map."""
    return Mixed(
        scope,
        (
            (Conv('Conv2d_0a_1x1', 256),),
            (
                Conv('Conv2d_0a_1x1', 384),
                Fork((Conv('Conv2d_0b_1x3', 256), Conv('Conv2d_0c_3x1', 256))),
            ),
            (
                Conv('Conv2d_0a_1x1', 384),
                Conv('Conv2d_0b_3x1', 448),
                Conv('Conv2d_0c_1x3', 512),
                Fork((Conv('Conv2d_0d_1x3', 256), Conv('Conv2d_0e_3x1', 256))),
            ),
            (_AVERAGE, Conv('Conv2d_0b_1x1', 256)),
        ),
    )


_STEM = (
    Conv('Conv2d_1a_3x3', 32, stride=2, padding='VALID'),
    Conv('Conv2d_2a_3x3', 32, padding='VALID'),
    Conv('Conv2d_2b_3x3', 64),
    Mixed(
        'Mixed_3a',
        (
            (MaxPool('MaxPool_0a_3x3', stride=2, padding='VALID'),),
            (Conv('Conv2d_0a_3x3', 96, stride=2, padding='VALID'),),
        ),
    ),
    Mixed(
        'Mixed_4a',
        (
            (Conv('Conv2d_0a_1x1', 64), Conv('Conv2d_1a_3x3', 96, padding='VALID')),
            (
                Conv('Conv2d_0a_1x1', 64),
                Conv('Conv2d_0b_1x7', 64),
                Conv('Conv2d_0c_7x1', 64),
                Conv('Conv2d_1a_3x3', 96, padding='VALID'),
            ),
        ),
    ),
    Mixed(
        'Mixed_5a',
        ((Conv('Conv2d_1a_3x3', 192, stride=2, padding='VALID'),), (_HALVING_POOL,)),
    ),
)

_REDUCTION_A = Mixed(
    'Mixed_6a',
    (
        (Conv('Conv2d_1a_3x3', 384, stride=2, padding='VALID'),),
        (
            Conv('Conv2d_0a_1x1', 192),
            Conv('Conv2d_0b_3x3', 224),
            Conv('Conv2d_1a_3x3', 256, stride=2, padding='VALID'),
        ),
        (_HALVING_POOL,),
    ),
)

_REDUCTION_B = Mixed(
    'Mixed_7a',
    (
        (Conv('Conv2d_0a_1x1', 192), Conv('Conv2d_1a_3x3', 192, stride=2, padding='VALID')),
        (
            Conv('Conv2d_0a_1x1', 256),
            Conv('Conv2d_0b_1x7', 256),
            Conv('Conv2d_0c_7x1', 320),
            Conv('Conv2d_1a_3x3', 320, stride=2, padding='VALID'),
        ),
        (_HALVING_POOL,),
    ),
)

_LAYERS = (
    *_STEM,
    *(_module_a(f'Mixed_5{letter}') for letter in 'bcde'),
    _REDUCTION_A,
    *(_module_b(f'Mixed_6{letter}') for letter in 'bcdefgh'),
    _REDUCTION_B,
    *(_module_c(f'Mixed_7{letter}') for letter in 'bcd'),
)

inception_v4_style = parts.inception_style


def inception_v4_features(
    images: tf.Tensor,
    style: layers.LayerStyle,
    *,
    final_endpoint: str = LAST_END_POINT,
) -> registry.EndPoints:
    """Return the feature maps of Inception V4.

    Args:
        images: float32 [batch, height, width, channels], in [-1, 1].
        style: of all layers.
        final_endpoint: where to stop.

    Returns:
        Float32 [batch, height', width', channels'] by name, from the image on.

    Raises:
        ValueError: there is no such final end point.
    """
    with tf1.variable_scope(SCOPE):
        return parts.run(parts.section(_LAYERS, None, final_endpoint), images, style)


def inception_v4(
    images: tf.Tensor, num_classes: int, style: layers.LayerStyle, options: registry.Options
) -> registry.EndPoints:
    """Return the classifier: mean over the image, dropout, a linear layer; and an auxiliary one.

    Args:
        images: float32 [batch, height, width, channels], in [-1, 1].
        num_classes: how many logits.
        style: of all layers.
        options: `dropout_keep_prob` and `final_endpoint` count.

    Returns:
        The feature maps, `AuxLogits`, `global_pool`, `PreLogitsFlatten`, `Logits` and
        `Predictions` by name.
    """
    end_points = inception_v4_features(images, style)
    with tf1.variable_scope(f'{SCOPE}/AuxLogits'):
        auxiliary = parts.auxiliary_features(end_points['Mixed_6h'], style, last_scope='Conv2d_2a')
        end_points[registry.AUXILIARY_LOGITS] = parts.dense_logits(
            tf.squeeze(auxiliary, [1, 2]), num_classes, style, 'Aux_logits'
        )
    end = parts.classify(
        end_points[LAST_END_POINT],
        num_classes,
        style,
        options,
        scope=f'{SCOPE}/Logits',
        pooled='global_pool',
        dropped='PreLogitsFlatten',
    )
    return {**end_points, **end}


def _features(
    images: tf.Tensor, style: layers.LayerStyle, options: registry.Options
) -> registry.EndPoints:
    last = options.final_endpoint or LAST_END_POINT
    return inception_v4_features(images, style, final_endpoint=last)


registry.add(
    registry.Network(
        name='inception_v4',
        build=inception_v4,
        features=_features,
        feature_maps={8: 'Mixed_5e', 16: 'Mixed_6h', 32: LAST_END_POINT},
        style=inception_v4_style,
        scope=SCOPE,
        logits_scopes=(f'{SCOPE}/Logits', f'{SCOPE}/AuxLogits/Aux_logits'),
        image_size=299,
        honors=('dropout_keep_prob', 'weight_decay', 'batch_norm_decay', 'batch_norm_epsilon'),
        min_size=75,
    )
)
