"""Recognition of the necks of EfficientDets, and of the sizes of their networks, by kernels."""

from __future__ import annotations

import collections
import re
from typing import Dict, Iterable, Mapping, Optional, Tuple

from model_fns.backbones.efficientnet import SIZES, list_blocks
from model_fns.detection.networks.feature_extractors import bifpn
from model_fns.detection.networks.feature_extractors.efficientnet import NECKS, TYPES
from vision_extras.recover.kernels import Kernels

Shapes = Mapping[str, Tuple[int, ...]]

_NODE = re.compile(rf'/{bifpn.SCOPE}/node_\d+_(\d+)_(?:up|dn)_lvl_(\d+)/post/pointwise_weights$')
_BLOCK = re.compile(r'/stack_(\d+)/block_(\d+)/')
_PASSED = ('Identity', 'ReadVariableOp', 'Squeeze', 'Reshape')
# By the type of the node that weights of inputs go to.
_COMBINATIONS = {'Relu': 'fast_attention', 'Softmax': 'attention'}
_PLAIN, _UNWEIGHTED = 'weighted_sum', 'sum'


def recognize(shapes: Shapes) -> Optional[bifpn.BidirectionalPyramid]:
    """Read the iterations, levels and channels of a neck; None where there is none.

    Args:
        shapes: kernels of the feature extractor.
    """
    found = ((_NODE.search(name), shape[-1]) for name, shape in shapes.items())
    nodes = [(match, width) for match, width in found if match]
    if not nodes:
        return None
    iterations, levels = ([int(match.group(number)) for match, _ in nodes] for number in (1, 2))
    return bifpn.BidirectionalPyramid(
        max(iterations), nodes[0][1], min_level=min(levels), max_level=max(levels)
    )


def may_be(kind: str, shapes: Shapes) -> bool:
    """Check whether a network has as many blocks as kernels say.

    Args:
        kind: type of an EfficientDet.
        shapes: kernels of the feature extractor.
    """
    counts = _count_blocks(shapes)
    if not counts:
        return False
    own = _count_blocks(f'/{block.name}/' for block in list_blocks(SIZES[TYPES[kind]]))
    # The last stack may be used in part.
    return all(own.get(stack) == counts[stack] for stack in counts if stack != max(counts))


def _count_blocks(names: Iterable[str]) -> Dict[int, int]:
    """Return the numbers of the blocks of each stack that names are of."""
    places = {match.groups() for match in map(_BLOCK.search, names) if match}
    return dict(collections.Counter(int(stack) for stack, _ in places))


def find_combination(kind: str, kernels: Kernels) -> Tuple[str, str]:
    """Return the combination of the inputs of a neck's nodes, and what tells it.

    Args:
        kind: type of an EfficientDet.
        kernels: of the artifact.
    """
    ending = f'/{bifpn.COMBINE_WEIGHTS}'
    name = next((each for each in kernels.arrays if each.endswith(ending)), None)
    if name is None:
        return _UNWEIGHTED, f'no variables {bifpn.COMBINE_WEIGHTS}'
    if kernels.graph is None:
        return NECKS[TYPES[kind]].combine, ''
    graph = kernels.graph
    users = [name] if name in graph.nodes else []
    while users:
        user = users.pop()
        for following in graph.consumers(user):
            if graph.nodes[following].op in _PASSED:
                users.append(following)
            else:
                op = graph.nodes[following].op
                return _COMBINATIONS.get(op, _PLAIN), f'node {following} of type {op}'
    return NECKS[TYPES[kind]].combine, ''
