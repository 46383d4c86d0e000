"""PNASNet-5 (Liu et al. 2018, "Progressive Neural Architecture Search"): one cell for everything.

Where NASNet has reduction cells, the next cell strides.
"""

from __future__ import annotations

from typing import Dict

from model_fns.backbones import registry
from model_fns.backbones.searched import nasnet
from model_fns.backbones.searched.cells import CURRENT, PREVIOUS, Cell, Term

CELL = Cell(
    sums=(
        (Term('separable', 5, PREVIOUS), Term('max_pool', 3, PREVIOUS)),
        (Term('separable', 7, CURRENT), Term('max_pool', 3, CURRENT)),
        (Term('separable', 5, CURRENT), Term('separable', 3, CURRENT)),
        (Term('separable', 3, 4), Term('max_pool', 3, CURRENT)),
        (Term('separable', 3, PREVIOUS), Term('identity', 1, CURRENT)),
    ),
    outputs=(2, 3, 4, 5, 6),
)

ARCHITECTURES: Dict[str, nasnet.Architecture] = {
    'pnasnet_mobile': nasnet.Architecture(
        cells=9, channels=54, stem_channels=32, normal=CELL, reduction=None
    ),
    'pnasnet_large': nasnet.Architecture(
        cells=12,
        channels=216,
        stem_channels=96,
        normal=CELL,
        reduction=None,
        keep_prob=0.6,
        image_size=331,
        second_stage=8,
    ),
}

for _name, _architecture in ARCHITECTURES.items():
    registry.add(nasnet.describe(_name, _architecture))
