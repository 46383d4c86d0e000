"""Decoding of boxes in a graph: scales of the coder, anchors, raw scores and suppression."""

from __future__ import annotations

import dataclasses
from typing import Dict, List, Optional, Set, Tuple

import numpy as np

from vision_extras.recover.artifacts.graphs import Graph

_CONVERTERS = {'Sigmoid': 'SIGMOID', 'Softmax': 'SOFTMAX'}
_ADDITIONS = ('Add', 'AddV2')
_SLICES = ('Slice', 'StridedSlice')
_SUPPRESSIONS = (
    'NonMaxSuppression',
    'NonMaxSuppressionV2',
    'NonMaxSuppressionV3',
    'NonMaxSuppressionV4',
    'NonMaxSuppressionV5',
    'CombinedNonMaxSuppression',
    'NonMaxSuppressionWithOverlaps',
)


@dataclasses.dataclass(frozen=True)
class BoxDecoding:
    """Decoding of box codes t: y = t_y / s_y * h_a + y_a, h = exp(t_h / s_h) * h_a.

    Attributes:
        scales: (y, x, height, width).
        anchors: names of the tensors of the anchors' (center y, center x, height, width).
        where: name of a node of it.
    """

    scales: Tuple[float, float, float, float]
    anchors: Tuple[str, str, str, str]
    where: str


@dataclasses.dataclass(frozen=True)
class Scores:
    """Conversion of logits to scores.

    Attributes:
        converter: `SIGMOID`, `SOFTMAX` or `IDENTITY`.
        tensor: name of the tensor of the scores; None: not known.
        logit_scale: divisor of logits.
        background_column: True: the first column is left out before suppression.
        is_cut: True: it is left out of the logits, as in graphs of 2017.
    """

    converter: str
    tensor: Optional[str]
    logit_scale: float = 1.0
    background_column: bool = True
    is_cut: bool = False


@dataclasses.dataclass(frozen=True)
class Suppression:
    """Constants of suppression; None: not known.

    Attributes:
        iou_threshold: IoU from which boxes are dropped.
        score_threshold: least score.
        max_per_class: largest number of detections of a class.
        soft_sigma: see `soft_nms_sigma`.
        count: number of nodes that suppress.
        where: name of the first.
    """

    iou_threshold: Optional[float]
    score_threshold: Optional[float]
    max_per_class: Optional[int]
    soft_sigma: float
    count: int
    where: str


def find_decodings(graph: Graph) -> List[BoxDecoding]:
    """Find the decodings of boxes, by their exponentials of heights and widths."""
    groups: Dict[str, Dict[int, Tuple[str, float]]] = {}
    for name in graph.find_ops('Exp'):
        code = _code(graph, graph.source(graph.inputs(name)[0]), graph.nodes[name].input[0])
        if code is not None:
            unpack, index, scale = code
            groups.setdefault(unpack, {})[index] = (name, scale)
    found = []
    for unpack, sides in groups.items():
        if set(sides) == {2, 3}:
            decoding = _decoding(graph, unpack, sides)
            if decoding is not None:
                found.append(decoding)
    return found


def _code(graph: Graph, source: str, tensor: str) -> Optional[Tuple[str, int, float]]:
    """Return (node that unpacks codes, index of the code, its scale) of a tensor."""
    scale = 1.0
    if graph.nodes[source].op in ('RealDiv', 'Div', 'Mul'):
        divisor = graph.constant(graph.inputs(source)[1])
        if divisor is None or divisor.size != 1:
            return None
        scale = float(divisor.ravel()[0])
        scale = 1.0 / scale if graph.nodes[source].op == 'Mul' else scale
        tensor = graph.nodes[source].input[0]
        source = graph.inputs(source)[0]
    if graph.nodes[source].op not in ('Unpack', 'Split', 'SplitV'):
        return None
    index = tensor.rpartition(':')[2]
    return source, int(index) if index.isdigit() else 0, scale


def _decoding(
    graph: Graph, unpack: str, sides: Dict[int, Tuple[str, float]]
) -> Optional[BoxDecoding]:
    sizes, centers, scales = {}, {}, {}
    for index, (exponential, scale) in sides.items():
        scales[index] = scale
        product = next(iter(graph.consumers(exponential)), None)
        if product is None or graph.nodes[product].op != 'Mul':
            return None
        sizes[index] = _other(graph, product, exponential)
    for index in (0, 1):
        code, scale = _scaled(graph, unpack, index)
        scales[index] = scale
        product = next((n for n in graph.consumers(*code) if graph.nodes[n].op == 'Mul'), None)
        total = product and next(
            (n for n in graph.consumers(product) if graph.nodes[n].op in _ADDITIONS), None
        )
        if not product or not total:
            return None
        centers[index] = _other(graph, total, product)
    vector = _vector_of_scales(graph, unpack)
    if vector is not None:
        scales = {index: float(vector[index]) for index in range(4)}
    return BoxDecoding(
        scales=(scales[0], scales[1], scales[2], scales[3]),
        anchors=(centers[0], centers[1], sizes[2], sizes[3]),
        where=sides[2][0],
    )


def _scaled(graph: Graph, unpack: str, index: int) -> Tuple[Tuple[str, int], float]:
    """Return the tensor of a code after its division, and the scale."""
    for user in graph.consumers(unpack, index):
        if graph.nodes[user].op in ('RealDiv', 'Div'):
            divisor = graph.constant(graph.inputs(user)[1])
            if divisor is not None and divisor.size == 1:
                return (user, 0), float(divisor.ravel()[0])
    return (unpack, index), 1.0


def _vector_of_scales(graph: Graph, unpack: str) -> Optional[np.ndarray]:
    """Return four scales that codes are divided by before they are unpacked."""
    before = graph.source(graph.inputs(unpack)[-1 if graph.nodes[unpack].op == 'Split' else 0])
    if graph.nodes[before].op in ('RealDiv', 'Div'):
        divisor = graph.constant(graph.inputs(before)[1])
        if divisor is not None and divisor.size == 4:
            return divisor.ravel()
    return None


def _other(graph: Graph, name: str, known: str) -> str:
    """Return the tensor of a node's other input."""
    tensors = [each for each in graph.nodes[name].input if not each.startswith('^')]
    other = next(each for each in tensors if each.partition(':')[0] != known)
    return other if ':' in other else f'{other}:0'


def find_scores(graph: Graph, ends: List[str]) -> Scores:
    """Find the conversion of scores before suppression.

    Args:
        graph: the graph.
        ends: names of the nodes of outputs that hold detected scores.
    """
    sliced = False
    for name in graph.ancestors([end for end in ends if end in graph.nodes]):
        op = graph.nodes[name].op
        if op in _SLICES and _skips_first_column(graph, name):
            sliced = True
        if op in _CONVERTERS:
            scale = 1.0
            source = graph.source(graph.inputs(name)[0])
            if graph.nodes[source].op in ('RealDiv', 'Div'):
                divisor = graph.constant(graph.inputs(source)[1])
                scale = float(divisor) if divisor is not None and divisor.size == 1 else 1.0
                source = graph.source(graph.inputs(source)[0])
            cuts = graph.nodes[source].op in _SLICES and _skips_first_column(graph, source)
            return Scores(_CONVERTERS[op], f'{name}:0', scale, sliced or cuts, cuts)
    return Scores('IDENTITY', None)


def _skips_first_column(graph: Graph, name: str) -> bool:
    begin = graph.constant(graph.inputs(name)[1])
    if begin is None or not begin.size or begin.ravel()[-1] != 1 or begin.ravel()[:-1].any():
        return False
    return begin.size == 3 or graph.nodes[name].attr['ellipsis_mask'].i > 0


def find_suppression(graph: Graph, within: Optional[Set[str]] = None) -> Optional[Suppression]:
    """Read the constants of the nodes that suppress overlapping boxes; None: there are none.

    Args:
        graph: the graph.
        within: names of the nodes to look at; None: all.
    """
    nodes = [n for n in graph.find_ops(*_SUPPRESSIONS) if within is None or n in within]
    if not nodes:
        return None
    name = nodes[0]
    node, inputs = graph.nodes[name], graph.inputs(name)
    sigma = 0.0
    if node.op == 'CombinedNonMaxSuppression':
        most, iou, score = inputs[2], inputs[4], _number(graph, inputs[5])
        score = score or _compared(graph, within, 'TopKV2')
    else:
        most, iou = inputs[2], inputs[3] if len(inputs) > 3 else ''
        score = _number(graph, inputs[4]) if len(inputs) > 4 else None
        if score is None or not np.isfinite(score):
            score = _compared(graph, within, '', 'FilterGreaterThan')
        if score is None and node.op == 'NonMaxSuppressionWithOverlaps':
            score = _repeated(graph, within)
        if len(inputs) > 5:
            sigma = _number(graph, inputs[5]) or 0.0
    threshold = _number(graph, iou) if iou else float(node.attr['iou_threshold'].f)
    count = _count(graph, most)
    return Suppression(threshold, score, count, sigma, len(nodes), name)


def _number(graph: Graph, name: str) -> Optional[float]:
    value = graph.constant(name)
    return None if value is None or value.size != 1 else float(value.ravel()[0])


def _count(graph: Graph, name: str) -> Optional[int]:
    """Return a number, or the constant that it is at most."""
    name = graph.source(name)
    if graph.nodes[name].op == 'Minimum':
        values = [_number(graph, each) for each in graph.inputs(name)]
        return next((int(value) for value in values if value is not None), None)
    value = _number(graph, name)
    return None if value is None else int(value)


def _repeated(graph: Graph, within: Optional[Set[str]]) -> Optional[float]:
    """Return the constant that is repeated for each image of a loop over the images."""
    for name in graph.find_ops('Fill'):
        value = _number(graph, graph.inputs(name)[1])
        users = {graph.nodes[user].op for user in graph.consumers(name)}
        is_inside = within is None or name in within
        if is_inside and 'TensorListFromTensor' in users and value is not None:
            return value if np.isfinite(value) else None
    return None


def _compared(graph: Graph, within: Optional[Set[str]], op: str, part: str = '') -> Optional[float]:
    """Return the constant that values of a type of node are compared with."""
    for name in graph.find_ops('Greater'):
        if within is not None and name not in within:
            continue
        first, second = graph.inputs(name)[:2]
        value = _number(graph, second)
        if value is not None and part in name and op in ('', graph.nodes[first].op):
            return value
    return None
