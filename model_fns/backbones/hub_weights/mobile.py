"""EfficientNets, EfficientNetsV2 and MobileNets V3: networks of inverted residual blocks."""

from __future__ import annotations

import functools
import re
from typing import Callable, Collection, Dict, Iterator, Mapping, Tuple

from model_fns.backbones.hub_weights.family import Family, Shape

Parts = Mapping[str, str]

_BLOCK = re.compile(r'blocks\.(\d+)\.(\d+)\.(.+)')
_COMMON = {
    'se.conv_reduce': 'squeeze_excite/Conv',
    'se.conv_expand': 'squeeze_excite/Conv_1',
}
# `conv_pw` is the projection of a block without expansion, and the expansion of the others.
_WITHOUT_EXPANSION = {
    **_COMMON,
    'conv_dw': 'depthwise',
    'bn1': 'depthwise/BatchNorm',
    'conv_pw': 'project',
    'bn2': 'project/BatchNorm',
}
_WITH_EXPANSION = {
    **_COMMON,
    'conv_pw': 'expand',
    'bn1': 'expand/BatchNorm',
    'conv_dw': 'depthwise',
    'bn2': 'depthwise/BatchNorm',
    'conv_pwl': 'project',
    'bn3': 'project/BatchNorm',
}
# Blocks of EfficientNetV2 in which one convolution expands and filters, and those without more.
_FUSED = {
    'conv_exp': 'expand',
    'bn1': 'expand/BatchNorm',
    'conv_pwl': 'project',
    'bn2': 'project/BatchNorm',
}
_FUSED_WITHOUT_EXPANSION = {'conv': 'project', 'bn1': 'project/BatchNorm'}


def _block_parts(block: str, modules: Collection[str]) -> Parts:
    """Return the scopes of the modules of a block, of the kind that its modules tell."""
    if f'{block}.conv_exp' in modules:
        return _FUSED
    if f'{block}.conv_pwl' in modules:
        # `conv_pwl` alone tells: `conv_pw` is in both kinds of blocks with gates.
        return _WITH_EXPANSION
    return _FUSED_WITHOUT_EXPANSION if f'{block}.conv' in modules else _WITHOUT_EXPANSION


def _block_scopes(
    modules: Collection[str], name_block: Callable[[int, int], str]
) -> Iterator[Tuple[str, str]]:
    """Yield the modules of all blocks with their scopes.

    Args:
        modules: all modules of the file.
        name_block: (stage, block in it) -> the scope of the block.
    """
    for module in modules:
        match = _BLOCK.fullmatch(module)
        if match:
            stage, block, part = int(match[1]), int(match[2]), match[3]
            parts = _block_parts(f'blocks.{stage}.{block}', modules)
            if part in parts:
                yield module, f'{name_block(stage, block)}/{parts[part]}'


def _efficientnet_scopes(
    modules: Mapping[str, Shape], network: str = 'EfficientNet'
) -> Mapping[str, str]:
    scopes = {
        'conv_stem': 'stem',
        'bn1': 'stem/BatchNorm',
        'conv_head': 'top',
        'bn2': 'top/BatchNorm',
        'classifier': 'logits',
    }
    scopes.update(_block_scopes(modules, lambda stage, block: f'stack_{stage}/block_{block}'))
    return {module: f'{network}/{scope}' for module, scope in scopes.items()}


def _mobilenet_scopes(modules: Mapping[str, Shape]) -> Mapping[str, str]:
    matches = filter(None, map(_BLOCK.fullmatch, modules))
    # The last stage is one convolution.
    places = sorted({(int(match[1]), int(match[2])) for match in matches})
    last = f'blocks.{places[-1][0]}.0'
    numbers = {place: number for number, place in enumerate(places)}

    def name_block(stage: int, block: int) -> str:
        number = numbers[stage, block]
        return f'expanded_conv_{number}' if number else 'expanded_conv'

    scopes: Dict[str, str] = dict(_block_scopes(modules, name_block))
    scopes.update(
        {
            'conv_stem': 'Conv',
            'bn1': 'Conv/BatchNorm',
            f'{last}.conv': 'Conv_1',
            f'{last}.bn1': 'Conv_1/BatchNorm',
            'conv_head': 'Conv_2',
            'classifier': 'Logits/Conv2d_1c_1x1',
        }
    )
    return {module: f'MobilenetV3/{scope}' for module, scope in scopes.items()}


def _efficientnet_tags(size: int) -> Tuple[str, ...]:
    return (
        *(('in1k',) if size <= 5 else ()),
        'aa_in1k',
        'ns_jft_in1k',
        *(('ra_in1k',) if size in (5, 7) else ()),
    )


EFFICIENTNET = Family(
    name='EfficientNet',
    signature=('conv_stem.weight', 'blocks.0.0.conv_pw.weight', 'blocks.1.0.se.conv_reduce.weight'),
    networks={f'tf_efficientnet_b{size}': f'efficientnet_b{size}' for size in range(8)},
    tags={f'tf_efficientnet_b{size}': _efficientnet_tags(size) for size in range(8)},
    scopes=_efficientnet_scopes,
)

_SEARCHED = ('in1k', 'in21k_ft_in1k')
_V2_TAGS = {
    's': _SEARCHED,
    'm': _SEARCHED,
    **dict.fromkeys(('b0', 'b1', 'b2', 'b3'), ('in1k',)),
}
EFFICIENTNET_V2 = Family(
    name='EfficientNetV2',
    signature=('conv_stem.weight', 'blocks.0.0.conv.weight', 'blocks.1.0.conv_exp.weight'),
    networks={f'tf_efficientnetv2_{size}': f'efficientnetv2_{size}' for size in _V2_TAGS},
    tags={f'tf_efficientnetv2_{size}': tags for size, tags in _V2_TAGS.items()},
    scopes=functools.partial(_efficientnet_scopes, network='EfficientNetV2'),
)

_MOBILENETS = {
    'tf_mobilenetv3_large_100': 'mobilenet_v3_large',
    'tf_mobilenetv3_large_075': 'mobilenet_v3_large',
    'tf_mobilenetv3_large_minimal_100': 'mobilenet_v3_large_minimalistic',
    'tf_mobilenetv3_small_100': 'mobilenet_v3_small',
    'tf_mobilenetv3_small_075': 'mobilenet_v3_small',
    'tf_mobilenetv3_small_minimal_100': 'mobilenet_v3_small_minimalistic',
}
MOBILENET_V3 = Family(
    name='MobileNet V3',
    signature=('conv_stem.weight', 'blocks.0.0.conv_pw.weight', 'conv_head.bias'),
    networks=_MOBILENETS,
    tags=dict.fromkeys(_MOBILENETS, ('in1k',)),
    scopes=_mobilenet_scopes,
    convolutional_head=True,
)
