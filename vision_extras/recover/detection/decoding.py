"""Decoding of boxes in a graph: scales of the coder, anchors, raw scores and suppression."""

from __future__ import annotations

import dataclasses
from typing import Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from model_fns.detection.boxes import axis_aligned, rotated
from vision_extras.recover.artifacts.graphs import PASSED, Graph
from vision_extras.recover.artifacts.running import Runner

_CONVERTERS = {'Sigmoid': 'SIGMOID', 'Softmax': 'SOFTMAX'}
_IMAGE = (160, 224)
_ADDITIONS = ('Add', 'AddV2')
_DIVISIONS = ('RealDiv', 'Div')
_SCALINGS = (*_DIVISIONS, 'Mul')
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
        scales: (y, x, height, width); of rotated boxes also that of the angle.
        anchors: names of the tensors of the anchors' (center y, center x, height, width), and
            angle.
        where: name of a node of it.
    """

    scales: Tuple[float, ...]
    anchors: Tuple[str, ...]
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
    """Find the decodings of boxes by the nodes that take codes apart."""
    nodes = graph.find_ops('Unpack', 'Split', 'SplitV')
    return [each for each in (_decoding(graph, name) for name in nodes) if each is not None]


class Measured(NamedTuple):
    """What a graph computes for an image.

    Attributes:
        size: height and width of the network's input.
        grids: rows and columns of each map.
        anchors: [A, 4], center y, center x, height, width, rotated ones [A, 5]; or none.
    """

    size: Tuple[int, int]
    grids: List[Tuple[int, int]]
    anchors: np.ndarray


def measure(
    graph: Graph,
    runner: Runner,
    tensor: str,
    layers: Sequence[str],
    decoded: Optional[BoxDecoding],
) -> Measured:
    """Run a graph on an image for its maps and anchors.

    Args:
        graph: of the artifact.
        runner: of the artifact.
        tensor: of the network's input.
        layers: of box codes, one for each map.
        decoded: decoding of the codes; None: anchors are not computed.
    """
    maps = {f'map/{name}': graph.input_tensor(name) for name in layers}
    anchors = {f'anchors/{name}': name for name in (decoded.anchors if decoded else ())}
    fetches = {'input': tensor, **maps, **anchors}
    values = runner.run(fetches, runner.test_image(_IMAGE))
    size, *grids = ((values[n].shape[1], values[n].shape[2]) for n in ('input', *maps))
    columns = [np.ravel(values[key]) for key in anchors] or [np.zeros(0)]
    return Measured(size, grids, np.stack(columns, axis=1))


def _decoding(graph: Graph, unpack: str) -> Optional[BoxDecoding]:
    """Read y = t_y / s_y * h_a + y_a, and the same of x, and the exponentials of sizes."""
    vector = _vector_of_scales(graph, unpack)
    codes = [_scaled(graph, unpack, index) for index in range(axis_aligned.SIZE)]
    scales = tuple(scale for _, scale in codes) if vector is None else vector
    products = [_user(graph, code, ('Mul',)) for code, _ in codes[:2]]
    if None in products:
        return None
    sizes = [_other(graph, str(one), code[0]) for one, (code, _) in zip(products, codes)]
    if len(scales) == rotated.SIZE:
        # The distance down is a code times the height of an anchor.
        anchors = sizes[0].partition(':')[0]
        if any(_count_outputs(graph, each) != rotated.SIZE for each in (unpack, anchors)):
            return None
        values = tuple(f'{anchors}:{index}' for index in range(rotated.SIZE))
        return BoxDecoding(scales, values, unpack)
    totals = [_user(graph, (str(product), 0), _ADDITIONS) for product in products]
    if None in totals or None in [_user(graph, code, ('Exp',)) for code, _ in codes[2:]]:
        return None
    centers = [_other(graph, str(end), str(one)) for end, one in zip(totals, products)]
    return BoxDecoding(scales, (*centers, *sizes), unpack)


def _count_outputs(graph: Graph, name: str) -> int:
    node = graph.nodes[name]
    return int(node.attr['num'].i) if node.op == 'Unpack' else 0


def _users(graph: Graph, name: str, index: int) -> Iterator[str]:
    """Yield the nodes that use an output of a node, or an identity of it."""
    for user in graph.consumers(name, index):
        if graph.nodes[user].op in PASSED:
            yield from _users(graph, user, 0)
        else:
            yield user


def _user(graph: Graph, tensor: Tuple[str, int], ops: Sequence[str]) -> Optional[str]:
    return next((user for user in _users(graph, *tensor) if graph.nodes[user].op in ops), None)


def _scaled(graph: Graph, unpack: str, index: int) -> Tuple[Tuple[str, int], float]:
    """Return the tensor of a code after its division, and the scale."""
    for user in _users(graph, unpack, index):
        op = graph.nodes[user].op
        factor = _number(graph, graph.inputs(user)[1]) if op in _SCALINGS else None
        if factor is not None:
            return (user, 0), 1.0 / factor if op == 'Mul' else factor
    return (unpack, index), 1.0


def _vector_of_scales(graph: Graph, unpack: str) -> Optional[Tuple[float, ...]]:
    """Return the scales that codes are divided by before they are taken apart."""
    before = graph.source(graph.inputs(unpack)[-1 if graph.nodes[unpack].op == 'Split' else 0])
    if graph.nodes[before].op in _DIVISIONS:
        divisor = graph.constant(graph.inputs(before)[1])
        if divisor is not None and divisor.size in (axis_aligned.SIZE, rotated.SIZE):
            return tuple(map(float, divisor.ravel()))
    return None


def _other(graph: Graph, name: str, known: str) -> str:
    """Return the tensor of a node's other input than one that comes from a node."""
    tensors = [each for each in graph.nodes[name].input if not each.startswith('^')]
    others = [each for each in tensors if graph.source(each.partition(':')[0]) != known]
    other = next(iter(others), tensors[0])
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
            if graph.nodes[source].op in _DIVISIONS:
                scale = _number(graph, graph.inputs(source)[1]) or 1.0
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
