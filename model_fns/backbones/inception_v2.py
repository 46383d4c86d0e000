"""Inception V2 (Ioffe and Szegedy 2015, "Batch Normalization"): 5x5 as two 3x3."""

from __future__ import annotations

import dataclasses
from typing import Tuple

import tensorflow as tf

from model_fns import layers
from model_fns.backbones import inception_parts as parts
from model_fns.backbones import registry
from model_fns.backbones.inception_parts import AvgPool, Conv, Layer, MaxPool, Mixed

_AVERAGE = AvgPool('AvgPool_0a_3x3')


@dataclasses.dataclass(frozen=True)
class Stem:
    """The first layer: a 7x7 convolution of each color, then 1x1, in one.

    Attributes:
        is_plain: whether it has biases for batch norm, and no regularizer, as published in the
            classifier; in the published detectors it is like the other layers.
    """

    is_plain: bool = False
    end_point: str = 'Conv2d_1a_7x7'

    def build(self, inputs: tf.Tensor, style: layers.LayerStyle, depth: parts.Depth) -> tf.Tensor:
        """Build the separable 7x7 convolution of stride 2.

        Returns:
            [batch, height / 2, width / 2, channels].
        """
        channels = depth(64)
        if self.is_plain:
            # slim's inception_arg_scope leaves separable_conv2d out; that of detectors has it.
            style = style.but(batch_norm=None, regularizer=None)
        return layers.separable_conv2d(
            inputs,
            channels,
            parts.kernel_size(self.end_point),
            style.but(initializer=layers.truncated_normal(1.0), depthwise_initializer=None),
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

NETWORK = parts.Inception(
    'InceptionV2',
    (Stem(), *_LAYERS),
    pooled='AvgPool_1a',
    dropped='PreLogits',
    convolution='Conv2d_1c_1x1',
)
_CLASSIFIER = dataclasses.replace(NETWORK, layers=(Stem(is_plain=True), *_LAYERS))


def second_stage(crops: tf.Tensor, style: layers.LayerStyle) -> tf.Tensor:
    """Build the part of the network that a two-stage detector runs on crops.

    Args:
        crops: float32 [n, height, width, 576].
        style: of all layers.

    Returns:
        float32 [n, height', width', 1024].
    """
    return NETWORK.features(crops, style, first_endpoint='Mixed_5a')[NETWORK.last_end_point]


registry.add(
    NETWORK.describe(
        'inception_v2',
        ('Conv2d_1a_7x7', 'Conv2d_2c_3x3', 'Mixed_3c', 'Mixed_4e'),
        build=_CLASSIFIER.build,
        second_stage=second_stage,
        image_size=224,
        honors=parts.SCALED,
    )
)
