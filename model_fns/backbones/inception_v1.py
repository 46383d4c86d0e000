"""Inception V1, known as GoogLeNet (Szegedy et al. 2014), with batch norm."""

from __future__ import annotations

from typing import Tuple

from model_fns import layers
from model_fns.backbones import inception_parts as parts
from model_fns.backbones import registry
from model_fns.backbones.inception_parts import Conv, MaxPool, Mixed


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

NETWORK = parts.Inception(
    'InceptionV1',
    _LAYERS,
    pooled='AvgPool_0a_7x7',
    convolution='Conv2d_0c_1x1',
    # The initial weights are the network's own.
    adapt=lambda style: style.but(initializer=layers.truncated_normal(0.01)),
)

registry.add(
    NETWORK.describe(
        'inception_v1',
        ('Conv2d_1a_7x7', 'Conv2d_2c_3x3', 'Mixed_3c', 'Mixed_4f'),
        image_size=224,
    )
)
