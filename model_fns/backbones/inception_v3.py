"""Inception V3 (Szegedy et al. 2015, "Rethinking the Inception Architecture")."""

from __future__ import annotations

from typing import Tuple

from model_fns.backbones import inception_parts as parts
from model_fns.backbones import registry
from model_fns.backbones.inception_parts import AvgPool, Conv, Fork, MaxPool, Mixed

_SCOPE = 'InceptionV3'
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

NETWORK = parts.Inception(
    _SCOPE,
    _LAYERS,
    pooled='AvgPool_1a',
    dropped='PreLogits',
    convolution='Conv2d_1c_1x1',
    auxiliary=parts.Auxiliary('Mixed_6e', 'Conv2d_2a_{}x{}', 'Conv2d_2b_1x1', (0.01, 0.001)),
    # As published, where ops of the trunk are in a scope of that name twice.
    adapt=lambda style: style.ranges_below(_SCOPE),
)

registry.add(
    NETWORK.describe(
        'inception_v3',
        ('Conv2d_2b_3x3', 'Conv2d_4a_3x3', 'Mixed_5d', 'Mixed_6e'),
        honors=parts.SCALED,
        # VALID layers make 37, 35, 17, 15, 7, 3 and 1 of 75 pixels; 74 would leave nothing.
        min_size=75,
    )
)
