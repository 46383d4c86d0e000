"""Inception V3, Inception V4 and Inception ResNet V2."""

from __future__ import annotations

import re
from typing import Dict, Iterable, Iterator, Mapping, Optional, Tuple

from model_fns.backbones.hub_weights.family import Family, Shape

# A table of a module: our layers, by the names of the layers in timm.
Table = Mapping[str, str]


def _branch(number: int, names: Iterable[str], layers: str) -> Dict[str, str]:
    """Pair the names of a branch with our layers, which are written without `Conv2d_`."""
    ours = [f'Branch_{number}/Conv2d_{layer}' for layer in layers.split()]
    return dict(zip(names, ours))


def _numbered(name: str) -> Iterator[str]:
    """Yield names with the positions of a branch at their end, from 0."""
    return (f'{name}.{position}' for position in range(9))


def _counted(name: str) -> Iterator[str]:
    """Yield names with the positions of a branch at their end, from 1."""
    return (f'{name}_{position}' for position in range(1, 9))


_SINGLE_1X1 = _branch(0, ['branch1x1'], '0a_1x1')
_AFTER_POOL = _branch(3, ['branch_pool'], '0b_1x1')
_V3_35 = {
    **_SINGLE_1X1,
    **_branch(1, _counted('branch5x5'), '0a_1x1 0b_5x5'),
    **_branch(2, _counted('branch3x3dbl'), '0a_1x1 0b_3x3 0c_3x3'),
    **_AFTER_POOL,
}
_V3_17 = {
    **_SINGLE_1X1,
    **_branch(1, _counted('branch7x7'), '0a_1x1 0b_1x7 0c_7x1'),
    **_branch(2, _counted('branch7x7dbl'), '0a_1x1 0b_7x1 0c_1x7 0d_7x1 0e_1x7'),
    **_AFTER_POOL,
}
_V3_8 = {
    **_SINGLE_1X1,
    **_branch(1, ['branch3x3_1', 'branch3x3_2a', 'branch3x3_2b'], '0a_1x1 0b_1x3 0b_3x1'),
    **_branch(
        2,
        ['branch3x3dbl_1', 'branch3x3dbl_2', 'branch3x3dbl_3a', 'branch3x3dbl_3b'],
        '0a_1x1 0b_3x3 0c_1x3 0d_3x1',
    ),
    **_AFTER_POOL,
}
_V3: Mapping[str, Table] = {
    'Mixed_5b': _V3_35,
    # The published names are irregular.
    'Mixed_5c': {
        **_V3_35,
        'branch5x5_1': 'Branch_1/Conv2d_0b_1x1',
        'branch5x5_2': 'Branch_1/Conv_1_0c_5x5',
    },
    'Mixed_5d': _V3_35,
    'Mixed_6a': {
        **_branch(0, ['branch3x3'], '1a_1x1'),
        **_branch(1, _counted('branch3x3dbl'), '0a_1x1 0b_3x3 1a_1x1'),
    },
    **{f'Mixed_6{letter}': _V3_17 for letter in 'bcde'},
    'Mixed_7a': {
        **_branch(0, _counted('branch3x3'), '0a_1x1 1a_3x3'),
        **_branch(1, _counted('branch7x7x3'), '0a_1x1 0b_1x7 0c_7x1 1a_3x3'),
    },
    'Mixed_7b': _V3_8,
    'Mixed_7c': {**_V3_8, 'branch3x3_2b': 'Branch_1/Conv2d_0c_3x1'},
}

_V4_FIRST = _branch(0, ['branch0'], '0a_1x1')
# A pool has position 0.
_V4_AFTER_POOL = _branch(3, ['branch3.1'], '0b_1x1')
_V4_A = {
    **_V4_FIRST,
    **_branch(1, _numbered('branch1'), '0a_1x1 0b_3x3'),
    **_branch(2, _numbered('branch2'), '0a_1x1 0b_3x3 0c_3x3'),
    **_V4_AFTER_POOL,
}
_V4_B = {
    **_V4_FIRST,
    **_branch(1, _numbered('branch1'), '0a_1x1 0b_1x7 0c_7x1'),
    **_branch(2, _numbered('branch2'), '0a_1x1 0b_7x1 0c_1x7 0d_7x1 0e_1x7'),
    **_V4_AFTER_POOL,
}
_V4_C = {
    **_V4_FIRST,
    **_branch(1, ['branch1_0', 'branch1_1a', 'branch1_1b'], '0a_1x1 0b_1x3 0c_3x1'),
    **_branch(
        2,
        ['branch2_0', 'branch2_1', 'branch2_2', 'branch2_3a', 'branch2_3b'],
        '0a_1x1 0b_3x1 0c_1x3 0d_1x3 0e_3x1',
    ),
    **_V4_AFTER_POOL,
}
# In the order of timm's `features`, after the three convolutions of the stem.
_V4: Tuple[Tuple[str, Table], ...] = (
    ('Mixed_3a', _branch(1, ['conv'], '0a_3x3')),
    (
        'Mixed_4a',
        {
            **_branch(0, _numbered('branch0'), '0a_1x1 1a_3x3'),
            **_branch(1, _numbered('branch1'), '0a_1x1 0b_1x7 0c_7x1 1a_3x3'),
        },
    ),
    ('Mixed_5a', _branch(0, ['conv'], '1a_3x3')),
    *((f'Mixed_5{letter}', _V4_A) for letter in 'bcde'),
    (
        'Mixed_6a',
        {
            **_branch(0, ['branch0'], '1a_3x3'),
            **_branch(1, _numbered('branch1'), '0a_1x1 0b_3x3 1a_3x3'),
        },
    ),
    *((f'Mixed_6{letter}', _V4_B) for letter in 'bcdefgh'),
    (
        'Mixed_7a',
        {
            **_branch(0, _numbered('branch0'), '0a_1x1 1a_3x3'),
            **_branch(1, _numbered('branch1'), '0a_1x1 0b_1x7 0c_7x1 1a_3x3'),
        },
    ),
    *((f'Mixed_7{letter}', _V4_C) for letter in 'bcd'),
)
_V4_STEM = ('Conv2d_1a_3x3', 'Conv2d_2a_3x3', 'Conv2d_2b_3x3')

_FIRST = _branch(0, ['branch0'], '1x1')
_SUM = {'conv2d': 'Conv2d_1x1'}
_BLOCK35 = {
    **_FIRST,
    **_branch(1, _numbered('branch1'), '0a_1x1 0b_3x3'),
    **_branch(2, _numbered('branch2'), '0a_1x1 0b_3x3 0c_3x3'),
    **_SUM,
}
_BLOCK17 = {**_FIRST, **_branch(1, _numbered('branch1'), '0a_1x1 0b_1x7 0c_7x1'), **_SUM}
_BLOCK8 = {**_FIRST, **_branch(1, _numbered('branch1'), '0a_1x1 0b_1x3 0c_3x1'), **_SUM}
_RESNET: Mapping[str, Table] = {
    'mixed_5b': {
        **_FIRST,
        **_branch(1, _numbered('branch1'), '0a_1x1 0b_5x5'),
        **_branch(2, _numbered('branch2'), '0a_1x1 0b_3x3 0c_3x3'),
        **_V4_AFTER_POOL,
    },
    'mixed_6a': {
        **_branch(0, ['branch0'], '1a_3x3'),
        **_branch(1, _numbered('branch1'), '0a_1x1 0b_3x3 1a_3x3'),
    },
    'mixed_7a': {
        **_branch(0, _numbered('branch0'), '0a_1x1 1a_3x3'),
        **_branch(1, _numbered('branch1'), '0a_1x1 1a_3x3'),
        **_branch(2, _numbered('branch2'), '0a_1x1 0b_3x3 1a_3x3'),
    },
    'block8': _BLOCK8,
}
_REPEATED = {
    'repeat': ('Repeat/block35', _BLOCK35),
    'repeat_1': ('Repeat_1/block17', _BLOCK17),
    'repeat_2': ('Repeat_2/block8', _BLOCK8),
}
_RESNET_LAYERS = {
    'conv2d_1a': 'Conv2d_1a_3x3',
    'conv2d_2a': 'Conv2d_2a_3x3',
    'conv2d_2b': 'Conv2d_2b_3x3',
    'conv2d_3b': 'Conv2d_3b_1x1',
    'conv2d_4a': 'Conv2d_4a_3x3',
    'conv2d_7b': 'Conv2d_7b_1x1',
    'classif': 'Logits/Logits',
}
_UNIT = re.compile(r'(repeat(?:_\d)?)\.(\d+)\.(.+)')
_FEATURE = re.compile(r'features\.(\d+)(?:\.(.+))?')
_V3_LAYER = re.compile(r'Conv2d_\w+')


def _v3_scope(layer: str) -> Optional[str]:
    if _V3_LAYER.fullmatch(layer):
        return layer
    if layer == 'fc':
        return 'Logits/Conv2d_1c_1x1'
    module, _, rest = layer.partition('.')
    return _find_scope(module, _V3.get(module, {}), rest)


def _v4_scope(layer: str) -> Optional[str]:
    if layer == 'last_linear':
        return 'Logits/Logits'
    match = _FEATURE.fullmatch(layer)
    if match is None:
        return None
    place = int(match[1])
    if place < len(_V4_STEM):
        return None if match[2] else _V4_STEM[place]
    place -= len(_V4_STEM)
    return _find_scope(*_V4[place], match[2]) if place < len(_V4) else None


def _resnet_scope(layer: str) -> Optional[str]:
    if layer in _RESNET_LAYERS:
        return _RESNET_LAYERS[layer]
    unit = _UNIT.fullmatch(layer)
    if unit and unit[1] in _REPEATED:
        scope, table = _REPEATED[unit[1]]
        return _find_scope(f'{scope}_{int(unit[2]) + 1}', table, unit[3])
    module, _, rest = layer.partition('.')
    return _find_scope(module.capitalize(), _RESNET.get(module, {}), rest)


def _find_scope(scope: str, table: Table, layer: str) -> Optional[str]:
    return f'{scope}/{table[layer]}' if layer in table else None


def _scopes(outer: str, scope_of, modules: Mapping[str, Shape]) -> Mapping[str, str]:
    """Map modules with a function of layers: `conv` and `bn` of a layer are parts of it."""
    scopes: Dict[str, str] = {}
    for module in modules:
        layer, _, part = module.rpartition('.')
        has_parts = part in ('conv', 'bn') and f'{layer}.bn' in modules
        scope = scope_of(layer if has_parts else module)
        if scope is not None:
            norm = '/BatchNorm' if has_parts and part == 'bn' else ''
            scopes[module] = f'{outer}/{scope}{norm}'
    return scopes


INCEPTION_V3 = Family(
    name='Inception V3',
    signature=('Conv2d_1a_3x3.conv.weight', 'Mixed_5b.branch1x1.conv.weight'),
    networks={'inception_v3': 'inception_v3'},
    tags={'inception_v3': ('tf_in1k', 'tf_adv_in1k')},
    scopes=lambda modules: _scopes('InceptionV3', _v3_scope, modules),
    has_gamma=False,
    convolutional_head=True,
)
INCEPTION_V4 = Family(
    name='Inception V4',
    signature=('features.0.conv.weight', 'features.21.branch2_3b.conv.weight'),
    networks={'inception_v4': 'inception_v4'},
    tags={'inception_v4': ('tf_in1k',)},
    scopes=lambda modules: _scopes('InceptionV4', _v4_scope, modules),
    has_gamma=False,
)
INCEPTION_RESNET_V2 = Family(
    name='Inception ResNet V2',
    signature=('conv2d_1a.conv.weight', 'mixed_5b.branch0.conv.weight'),
    networks={'inception_resnet_v2': 'inception_resnet_v2'},
    tags={'inception_resnet_v2': ('tf_in1k', 'tf_ens_adv_in1k')},
    scopes=lambda modules: _scopes('InceptionResnetV2', _resnet_scope, modules),
    has_gamma=False,
)
