"""One range for all that is put side by side, in a network that was trained to be quantized.

In int8 the parts of a concatenation share one scale. Where training gave each part a range of its
own, TFLite's converter takes that of the first for all: what the others have beyond it is cut off.
A detector's levels are such parts, and the scores of large objects were lost in that way. It takes
no second rounding of a part either, so that the first one's range is what widens.
"""

from __future__ import annotations

from typing import Dict, NamedTuple, Optional, Set

import numpy as np
import tensorflow as tf

from estimator_lib.export import freezing

tf1 = tf.compat.v1

ROUNDING = 'FakeQuantWithMinMaxVars'
# Ops that leave values as they are.
_SAME_VALUES = ('ExpandDims', 'Identity', 'Reshape', 'Squeeze', 'Transpose')


class Range(NamedTuple):
    """Both ends of what a rounding keeps."""

    low: float
    high: float


def widen(graph_def: tf1.GraphDef) -> tf1.GraphDef:
    """Rounds the parts of each concatenation to one range, which holds those of all.

    A concatenation with a part that is not rounded stays as it is.

    Args:
        graph_def: of constants, and of roundings whose ranges are constants.

    Returns:
        A copy in which some roundings have other ranges; nodes keep their names.
    """
    nodes = {node.name: node for node in graph_def.node}
    ranges = _ranges(graph_def)
    wanted = dict(ranges)
    groups = [_roundings(node, nodes) for node in graph_def.node if node.op == 'ConcatV2']
    changed = True
    while changed:  # a part of two concatenations brings their ranges together
        changed = False
        for group in filter(None, groups):
            low = min(wanted[name].low for name in group)
            high = max(wanted[name].high for name in group)
            common = {name: Range(low, high) for name in group}
            changed = changed or any(wanted[name] != one for name, one in common.items())
            wanted.update(common)
    result = tf1.GraphDef(versions=graph_def.versions, library=graph_def.library)
    for node in graph_def.node:
        if node.name in wanted and wanted[node.name] != ranges[node.name]:
            node = _with_range(node, wanted[node.name], result)
        result.node.append(node)
    return result


def _ranges(graph_def: tf1.GraphDef) -> Dict[str, Range]:
    """Of roundings, by their names."""
    roundings = [node for node in graph_def.node if node.op == ROUNDING]
    ends = freezing.constants(graph_def, {end for node in roundings for end in node.input[1:3]})
    return {node.name: Range(*(float(ends[end]) for end in node.input[1:3])) for node in roundings}


def _roundings(concatenation: tf1.NodeDef, nodes: Dict[str, tf1.NodeDef]) -> Optional[Set[str]]:
    """The names of the roundings of a concatenation's parts; None where one is not rounded."""
    found = set()
    for name in concatenation.input[: concatenation.attr['N'].i]:
        node = nodes[freezing.node_name(name)]
        while node.op in _SAME_VALUES:
            node = nodes[freezing.node_name(node.input[0])]
        if node.op != ROUNDING:
            return None
        found.add(node.name)
    return found


def _with_range(node: tf1.NodeDef, wanted: Range, graph_def: tf1.GraphDef) -> tf1.NodeDef:
    """The rounding with another range, whose constants are added to a graph."""
    rounding = tf1.NodeDef()
    rounding.CopyFrom(node)
    for index, (end, value) in enumerate(wanted._asdict().items(), start=1):
        constant = freezing.constant_node(f'{node.name}/common_{end}', np.array(value, np.float32))
        graph_def.node.append(constant)
        rounding.input[index] = constant.name
    return rounding
