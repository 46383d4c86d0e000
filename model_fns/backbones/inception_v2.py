"""Inception V2 (Ioffe and Szegedy 2015, "Batch Normalization"): 5x5 as two 3x3."""

from __future__ import annotations

import dataclasses
from typing import Optional, Tuple

import tensorflow as tf

from model_fns import layers
from model_fns.backbones import inception_parts as parts
from model_fns.backbones import registry
from model_fns.backbones.inception_parts import AvgPool, Conv, Layer, MaxPool, Mixed

tf1 = tf.compat.v1

SCOPE = 'InceptionV2'
LAST_END_POINT = 'Mixed_5c'
MIN_DEPTH = 16

_AVERAGE = AvgPool('AvgPool_0a_3x3')


@dataclasses.dataclass(frozen=True)
class Stem:
    """The first layer: a 7x7 convolution of each color, then 1x1, in one.

    Attributes:
        style: its own style, but for the initial weights; None: that of the network.
    """

    style: Optional[layers.LayerStyle] = None
    end_point: str = 'Conv2d_1a_7x7'

    def build(self, inputs: tf.Tensor, style: layers.LayerStyle, depth: parts.Depth) -> tf.Tensor:
        """Build the separable 7x7 convolution of stride 2.

        Returns:
            [batch, height / 2, width / 2, channels].
        """
        channels = depth(64)
        return layers.separable_conv2d(
            inputs,
            channels,
            parts.kernel_size(self.end_point),
            (self.style or style).but(
                initializer=layers.truncated_normal(1.0), depthwise_initializer=None
            ),
            self.end_point,
            stride=2,
            # So that three colors give no more channels than there are outputs.
            depth_multiplier=min(channels // 3, 8),
        )


def _reducing_conv(channels: int) -> Conv:
    return Conv('Conv2d_0a_1x1', channels, stddev=0.09)


def _module(
    scope: str,
    ones: int,
    threes: Tuple[int, int],
    double_threes: Tuple[int, int],
    pooled: int,
    pool: Layer = _AVERAGE,
) -> Mixed:
    """Describe a module of four branches: 1x1; 1x1, 3x3; 1x1, 3x3, 3x3; pooling, 1x1."""
    return Mixed(
        scope,
        (
            (Conv('Conv2d_0a_1x1', ones),),
            (_reducing_conv(threes[0]), Conv('Conv2d_0b_3x3', threes[1])),
            (
                _reducing_conv(double_threes[0]),
                Conv('Conv2d_0b_3x3', double_threes[1]),
                Conv('Conv2d_0c_3x3', double_threes[1]),
            ),
            (pool, Conv('Conv2d_0b_1x1', pooled, stddev=0.1)),
        ),
    )


def _halving(scope: str, threes: Tuple[int, int], double_threes: Tuple[int, int]) -> Mixed:
    """Describe a module of stride 2: as `_module`, but without 1x1 alone or after the pooling."""
    return Mixed(
        scope,
        (
            (_reducing_conv(threes[0]), Conv('Conv2d_1a_3x3', threes[1], stride=2)),
            (
                _reducing_conv(double_threes[0]),
                Conv('Conv2d_0b_3x3', double_threes[1]),
                Conv('Conv2d_1a_3x3', double_threes[1], stride=2),
            ),
            (MaxPool('MaxPool_1a_3x3', stride=2),),
        ),
    )


_LAYERS = (
    MaxPool('MaxPool_2a_3x3', stride=2),
    Conv('Conv2d_2b_1x1', 64, stddev=0.1),
    Conv('Conv2d_2c_3x3', 192),
    MaxPool('MaxPool_3a_3x3', stride=2),
    _module('Mixed_3b', 64, (64, 64), (64, 96), 32),
    _module('Mixed_3c', 64, (64, 96), (64, 96), 64),
    _halving('Mixed_4a', (128, 160), (64, 96)),
    _module('Mixed_4b', 224, (64, 96), (96, 128), 128),
    _module('Mixed_4c', 192, (96, 128), (96, 128), 128),
    _module('Mixed_4d', 160, (128, 160), (128, 160), 96),
    _module('Mixed_4e', 96, (128, 192), (160, 192), 96),
    _halving('Mixed_5a', (128, 192), (192, 256)),
    _module('Mixed_5b', 352, (192, 320), (160, 224), 128),
    _module('Mixed_5c', 352, (192, 320), (192, 224), 128, pool=MaxPool('MaxPool_0a_3x3')),
)

inception_v2_style = parts.inception_style


def inception_v2_features(
    images: tf.Tensor,
    style: layers.LayerStyle,
    *,
    depth_multiplier: float = 1.0,
    min_depth: int = MIN_DEPTH,
    stem_style: Optional[layers.LayerStyle] = None,
    first_endpoint: Optional[str] = None,
    final_endpoint: str = LAST_END_POINT,
) -> registry.EndPoints:
    """Return the feature maps of Inception V2.

    Args:
        images: float32 [batch, height, width, channels], in [-1, 1]; or, with `first_endpoint`,
            the features that it takes.
        style: of all layers; some have initial weights of their own.
        depth_multiplier: factor on all channel counts.
        min_depth: least channel count that the factor leaves.
        stem_style: of the first layer; None: `style`. (In the published detectors that layer is
            like the others; in the classifier it has biases for batch norm, and no regularizer.)
        first_endpoint: where to begin: `Mixed_5a` for a detector's second stage; None: at the
            image.
        final_endpoint: where to stop.

    Returns:
        float32 [batch, height', width', channels'] by name, from the first on.

    Raises:
        ValueError: there are no such end points.
    """
    network = parts.section((Stem(stem_style), *_LAYERS), first_endpoint, final_endpoint)
    depth = parts.scaled_depth(depth_multiplier, min_depth)
    with tf1.variable_scope(SCOPE):
        return parts.run(network, images, style, depth)


def inception_v2(
    images: tf.Tensor, num_classes: int, style: layers.LayerStyle, options: registry.Options
) -> registry.EndPoints:
    """Return the classifier: mean over the image, dropout, a linear layer.

    Args:
        images: float32 [batch, height, width, channels], in [-1, 1].
        num_classes: how many logits.
        style: of all layers.
        options: the channel factor, `dropout_keep_prob` and `final_endpoint` count.

    Returns:
        The feature maps, `AvgPool_1a`, `PreLogits`, `Logits` and `Predictions` by name.
    """
    stem_style = style.but(batch_norm=None, regularizer=None)
    end_points = _features(images, style, options, stem_style)
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


def _features(
    images: tf.Tensor,
    style: layers.LayerStyle,
    options: registry.Options,
    stem_style: Optional[layers.LayerStyle] = None,
) -> registry.EndPoints:
    return inception_v2_features(
        images,
        style,
        depth_multiplier=options.depth_multiplier,
        min_depth=int(options.get('min_depth', MIN_DEPTH)),
        stem_style=stem_style,
        final_endpoint=options.final_endpoint or LAST_END_POINT,
    )


def _second_stage(inputs: tf.Tensor, style: layers.LayerStyle) -> tf.Tensor:
    return inception_v2_features(inputs, style, first_endpoint='Mixed_5a')[LAST_END_POINT]


registry.add(
    registry.Network(
        name='inception_v2',
        build=inception_v2,
        features=_features,
        feature_maps={
            2: 'Conv2d_1a_7x7',
            4: 'Conv2d_2c_3x3',
            8: 'Mixed_3c',
            16: 'Mixed_4e',
            32: LAST_END_POINT,
        },
        second_stage=_second_stage,
        style=inception_v2_style,
        scope=SCOPE,
        logits_scopes=(f'{SCOPE}/Logits',),
        image_size=224,
        honors=(
            'depth_multiplier',
            'min_depth',
            'dropout_keep_prob',
            'weight_decay',
            'batch_norm_decay',
            'batch_norm_epsilon',
        ),
    )
)
