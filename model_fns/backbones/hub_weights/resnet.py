"""ResNets of torchvision, which timm has trained again in several ways."""

from __future__ import annotations

import re
from typing import Dict, Mapping

from model_fns.backbones.hub_weights.family import Family, Shape

_PART = re.compile(r'layer(\d)\.(\d+)\.(?:(conv|bn)(\d)|downsample\.([01]))')
_UNIT = re.compile(r'layer\d\.\d+')
# The network by the number of its units, and whether they are bottlenecks.
_SIZES = {(8, False): 18, (16, False): 34, (16, True): 50, (33, True): 101, (50, True): 152}


def _scopes(modules: Mapping[str, Shape]) -> Mapping[str, str]:
    units = {match[0] for match in map(_UNIT.match, modules) if match}
    deep = 'layer1.0.conv3' in modules
    size = _SIZES.get((len(units), deep))
    if size is None:
        return {}
    scopes: Dict[str, str] = {'conv1': 'conv1', 'bn1': 'conv1/BatchNorm', 'fc': 'logits'}
    kind = 'bottleneck_v1_5' if deep else 'basic_v1_5'
    for match in filter(None, map(_PART.fullmatch, modules)):
        block, unit, layer, number, shortcut = match.groups()
        own = f'conv{number}' if layer else 'shortcut'
        norm = '/BatchNorm' if layer == 'bn' or shortcut == '1' else ''
        scopes[match[0]] = f'block{block}/unit_{int(unit) + 1}/{kind}/{own}{norm}'
    return {module: f'resnet_v1_5_{size}/{scope}' for module, scope in scopes.items()}


_TAGS = ('tv_in1k', 'a1_in1k', 'a2_in1k', 'gluon_in1k')
_DEEP_TAGS = ('tv_in1k', 'tv2_in1k', 'a1_in1k', 'a1h_in1k', 'a2_in1k', 'gluon_in1k')

RESNET = Family(
    name='ResNet V1.5',
    signature=('conv1.weight', 'bn1.weight', 'layer1.0.conv1.weight'),
    networks={f'resnet{size}': f'resnet_v1_5_{size}' for size in _SIZES.values()},
    tags={f'resnet{size}': _DEEP_TAGS if deep else _TAGS for (_, deep), size in _SIZES.items()},
    scopes=_scopes,
    convolutional_head=True,
)
