"""ConvNeXts."""

from __future__ import annotations

import re
from typing import Dict, Mapping

from model_fns.backbones.hub_weights.family import Family, Shape

_BLOCK = re.compile(r'stages\.(\d)\.blocks\.(\d+)\.(conv_dw|norm|mlp\.fc1|mlp\.fc2)')
_PARTS = {
    'conv_dw': 'depthwise',
    'norm': 'LayerNorm',
    'mlp.fc1': 'expand',
    'mlp.fc2': 'project',
}


def _scopes(modules: Mapping[str, Shape]) -> Mapping[str, str]:
    scopes: Dict[str, str] = {
        'stem.0': 'stem',
        'stem.1': 'stem/LayerNorm',
        'head.norm': 'LayerNorm',
        'head.fc': 'logits',
    }
    for stage in (1, 2, 3):
        scopes[f'stages.{stage}.downsample.0'] = f'stage_{stage}/downsample/LayerNorm'
        scopes[f'stages.{stage}.downsample.1'] = f'stage_{stage}/downsample'
    for match in filter(None, map(_BLOCK.fullmatch, modules)):
        own, number, part = match.groups()
        block = f'stage_{own}/block_{number}'
        scopes[f'stages.{own}.blocks.{number}'] = block
        scopes[match[0]] = f'{block}/{_PARTS[part]}'
    return {module: f'ConvNeXt/{scope}' for module, scope in scopes.items()}


_PUBLISHED = ('fb_in1k', 'fb_in22k_ft_in1k', 'fb_in22k_ft_in1k_384')
_TAGS = {
    'convnext_tiny': (*_PUBLISHED, 'in12k_ft_in1k', 'in12k_ft_in1k_384'),
    'convnext_small': (*_PUBLISHED, 'in12k_ft_in1k', 'in12k_ft_in1k_384'),
    'convnext_base': _PUBLISHED,
}

CONVNEXT = Family(
    name='ConvNeXt',
    signature=('stem.0.weight', 'stages.0.blocks.0.conv_dw.weight', 'stages.0.blocks.0.gamma'),
    networks={model: model for model in _TAGS},
    tags=_TAGS,
    scopes=_scopes,
    convolutional_head=True,
    layer_norms=True,
)
