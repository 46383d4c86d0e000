"""Inception V4 (Szegedy et al. 2016)."""

from __future__ import annotations

from model_fns.backbones import inception_parts as parts
from model_fns.backbones import registry
from model_fns.backbones.inception_parts import AvgPool, Conv, Fork, MaxPool, Mixed

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

NETWORK = parts.Inception(
    'InceptionV4',
    _LAYERS,
    pooled='global_pool',
    dropped='PreLogitsFlatten',
    auxiliary=parts.Auxiliary('Mixed_6h', 'Conv2d_2a', 'Aux_logits'),
)

registry.add(NETWORK.describe('inception_v4', ('Mixed_5e', 'Mixed_6h'), min_size=75))
