"""EfficientNetV2 (Tan and Le 2021, "Smaller Models and Faster Training").

The first stacks expand and filter by one convolution, without gates. Two networks were searched for
(S and M); four sizes (B0 to B3) multiply another, as those of the first EfficientNet do. Variables
are named as in `efficientnet`, in the scope `EfficientNetV2`.
"""

from __future__ import annotations

import functools
from typing import Mapping, Tuple

from model_fns.backbones import registry
from model_fns.backbones.efficientnet import Size, Stack, register

SCOPE = 'EfficientNetV2'

_fused = functools.partial(Stack, kernel_size=3, fused=True)
_gated = functools.partial(Stack, kernel_size=3)

# Table 4 of the paper.
_S: Tuple[Stack, ...] = (
    _fused(24, 2, stride=1, expansion=1),
    _fused(48, 4, stride=2, expansion=4),
    _fused(64, 4, stride=2, expansion=4),
    _gated(128, 6, stride=2, expansion=4),
    _gated(160, 9, stride=1),
    _gated(256, 15, stride=2),
)
# M and the base of B0 to B3 are in the published program only.
_M: Tuple[Stack, ...] = (
    _fused(24, 3, stride=1, expansion=1),
    _fused(48, 5, stride=2, expansion=4),
    _fused(80, 5, stride=2, expansion=4),
    _gated(160, 7, stride=2, expansion=4),
    _gated(176, 14, stride=1),
    _gated(304, 18, stride=2),
    _gated(512, 5, stride=1),
)
_BASE: Tuple[Stack, ...] = (
    _fused(16, 1, stride=1, expansion=1),
    _fused(32, 2, stride=2, expansion=4),
    _fused(48, 2, stride=2, expansion=4),
    _gated(96, 3, stride=2, expansion=4),
    _gated(112, 5, stride=1),
    _gated(192, 8, stride=2),
)

# Unlike those of the first EfficientNet, channels are rounded down by any share.
_searched = functools.partial(
    Size,
    1.0,
    1.0,
    stem_channels=24,
    least_share=0.0,
    scope=SCOPE,
    normalization=registry.Normalization(),
    preprocessing='inception',
)
_scaled = functools.partial(Size, stacks=_BASE, least_share=0.0, scope=SCOPE)

SIZES: Mapping[str, Size] = {
    'efficientnetv2_s': _searched(384, 0.8, stacks=_S),
    'efficientnetv2_m': _searched(480, 0.7, stacks=_M),
    'efficientnetv2_b0': _scaled(1.0, 1.0, 224, 0.8),
    'efficientnetv2_b1': _scaled(1.0, 1.1, 240, 0.8),
    'efficientnetv2_b2': _scaled(1.1, 1.2, 260, 0.7),
    'efficientnetv2_b3': _scaled(1.2, 1.4, 300, 0.7),
}

for _name, _size in SIZES.items():
    register(_name, _size)
