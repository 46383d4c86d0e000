"""Xceptions of DeepLab."""

from __future__ import annotations

import re
from typing import Dict, List, Mapping

from model_fns.backbones.hub_weights.family import Family, Shape

_BLOCK = re.compile(r'blocks\.(\d+)\.(?:stack\.(conv\d)\.(conv|bn)_(dw|pw)|shortcut\.(conv|bn))')
_EXIT_BLOCKS = 2
# By the number of blocks of all flows: the network, and the blocks of its entry flow.
_SIZES = {13: ('xception_41', 3), 21: ('xception_65', 3), 23: ('xception_71', 5)}
_KINDS = {'dw': 'depthwise', 'pw': 'pointwise'}


def _units(count: int, entry: int) -> List[str]:
    """Return the scopes of all blocks, which are units of the blocks of our flows."""
    middle = count - entry - _EXIT_BLOCKS
    return [
        *(f'entry_flow/block{number}/unit_1' for number in range(1, entry + 1)),
        *(f'middle_flow/block1/unit_{number}' for number in range(1, middle + 1)),
        *(f'exit_flow/block{number}/unit_1' for number in range(1, _EXIT_BLOCKS + 1)),
    ]


def _scopes(modules: Mapping[str, Shape]) -> Mapping[str, str]:
    matches = [match for match in map(_BLOCK.fullmatch, modules) if match]
    count = 1 + max(int(match[1]) for match in matches)
    if count not in _SIZES:
        return {}
    network, entry = _SIZES[count]
    units = _units(count, entry)
    scopes: Dict[str, str] = {'head.fc': 'logits'}
    for number in (0, 1):
        scopes[f'stem.{number}.conv'] = f'entry_flow/conv1_{number + 1}'
        scopes[f'stem.{number}.bn'] = f'entry_flow/conv1_{number + 1}/BatchNorm'
    for match in matches:
        block, layer, part, kind, shortcut = match.groups()
        own = 'shortcut' if shortcut else f'separable_{layer}_{_KINDS[kind]}'
        norm = '/BatchNorm' if 'bn' in (part, shortcut) else ''
        scopes[match[0]] = f'{units[int(block)]}/xception_module/{own}{norm}'
    return {module: f'{network}/{scope}' for module, scope in scopes.items()}


XCEPTION = Family(
    name='Xception',
    signature=('stem.0.conv.weight', 'blocks.0.stack.conv1.conv_dw.weight', 'head.fc.weight'),
    networks={f'xception{size}': f'xception_{size}' for size in (41, 65, 71)},
    tags={f'xception{size}': ('tf_in1k',) for size in (41, 65, 71)},
    scopes=_scopes,
    convolutional_head=True,
)
