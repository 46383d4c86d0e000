"""NASNet and PNASNet."""

from __future__ import annotations

import re
from typing import Mapping, Optional

from model_fns.backbones.hub_weights.family import Family, Shape

_CELL = re.compile(r'((?:reduction_)?cell_(?:stem_)?\d+)\.(.+)')
_PATH = re.compile(r'(?:conv_prev_1x1\.)?path_([12])\.conv')
_PARTS = {
    'conv_1x1.conv': '1x1',
    'conv_1x1.bn': 'beginning_bn',
    'conv_prev_1x1.conv': 'prev_1x1',
    'conv_prev_1x1.bn': 'prev_bn',
    'final_path_bn': 'final_path_bn',
    'conv_prev_1x1.final_path_bn': 'final_path_bn',
}
_SIDE = re.compile(r'comb_iter_(\d)_(left|right)\.(.+)')
_SEPARABLE = re.compile(r'separable_([12])\.(?:depthwise|pointwise)_conv2d')
_NORM = re.compile(r'bn_sep_([12])')
_SIDE_PARTS = {'conv': '1x1', 'bn': 'bn_1'}


def _part(module: str, part: str, modules: Mapping[str, Shape]) -> Optional[str]:
    """Return the scope of a module in its cell; None for an unknown one."""
    path = _PATH.fullmatch(part)
    if path:
        return f'path{path[1]}_conv'
    side = _SIDE.fullmatch(part)
    if side is None:
        return _PARTS.get(part)
    scope, own = f'comb_iter_{side[1]}/{side[2]}', side[3]
    if own in _SIDE_PARTS:
        return f'{scope}/{_SIDE_PARTS[own]}'
    separable, norm = _SEPARABLE.fullmatch(own), _NORM.fullmatch(own)
    if not separable and not norm:
        return None
    number = (separable or norm)[1]
    # The size of the kernel is in our names.
    depthwise = f'{module[: -len(own)]}separable_{number}.depthwise_conv2d'
    if depthwise not in modules:
        return None
    size = modules[depthwise][-1]
    return f'{scope}/{"separable" if separable else "bn_sep"}_{size}x{size}_{number}'


def _scopes(modules: Mapping[str, Shape]) -> Mapping[str, str]:
    scopes = {'last_linear': 'final_layer/FC'}
    # NASNet's and PNASNet's name of the same layer; the signatures tell them apart.
    for stem in ('conv0', 'conv_0'):
        scopes.update({f'{stem}.conv': 'conv0', f'{stem}.bn': 'conv0_bn'})
    for module in modules:
        cell = _CELL.fullmatch(module)
        part = _part(module, cell[2], modules) if cell else None
        if part is not None:
            scopes[module] = f'{cell[1]}/{part}'
    return scopes


NASNET = Family(
    name='NASNet',
    signature=('conv0.conv.weight', 'cell_stem_0.conv_1x1.conv.weight'),
    networks={'nasnetalarge': 'nasnet_large'},
    tags={'nasnetalarge': ('tf_in1k',)},
    scopes=_scopes,
)
PNASNET = Family(
    name='PNASNet',
    signature=('conv_0.conv.weight', 'cell_stem_0.conv_1x1.conv.weight'),
    networks={'pnasnet5large': 'pnasnet_large'},
    tags={'pnasnet5large': ('tf_in1k',)},
    scopes=_scopes,
)
