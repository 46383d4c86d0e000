"""Recognition of rotated boxes in a graph: the scales of their coder, and their anchors."""

from __future__ import annotations

import dataclasses
import math
from typing import Optional, Sequence, Tuple

import numpy as np

from model_fns.detection.boxes import rotated
from protos import anchors_pb2, box_coding_pb2, pipeline_pb2
from vision_extras.recover.artifacts import running
from vision_extras.recover.artifacts.graphs import Graph
from vision_extras.recover.detection import anchor_fitting
from vision_extras.recover.facts import Proposal, Refusal

CODE_SIZE = rotated.SIZE
_WHERE = 'model.ssd'
_IMAGE = (64, 96)
_SCALES = ('y_scale', 'x_scale', 'height_scale', 'width_scale', 'angle_scale')
_SAME_ANGLE = 1e-3  # in radians
_ROUNDING = 1e-5  # in radians


@dataclasses.dataclass(frozen=True)
class Decoding:
    """Decoding of rotated boxes, see `rotated_coder`.

    Attributes:
        scales: divisors of the codes.
        anchors: name of the node with the values of anchors as outputs.
        where: name of the node with the codes as outputs.
    """

    scales: Tuple[float, ...]
    anchors: str
    where: str


def find(graph: Graph) -> Optional[Decoding]:
    """Find the decoding of rotated boxes; None: there is none."""
    for name in graph.find_ops('Unpack'):
        divided = graph.source(graph.inputs(name)[0])
        scales = None
        if graph.nodes[divided].op in ('RealDiv', 'Div'):
            scales = graph.constant(graph.inputs(divided)[1])
        if scales is None or scales.size != CODE_SIZE or _count(graph, name) != CODE_SIZE:
            continue
        # The distance down is a code times the height of an anchor.
        for product in graph.consumers(name, 0):
            for anchors in graph.inputs(product):
                if anchors != name and _count(graph, anchors) == CODE_SIZE:
                    return Decoding(tuple(map(float, scales.ravel())), anchors, name)
    return None


def _count(graph: Graph, name: str) -> int:
    node = graph.nodes[name]
    return int(node.attr['num'].i) if node.op == 'Unpack' else 0


def read(
    config: pipeline_pb2.TrainEvalPipelineConfig,
    decoding: Decoding,
    runner: running.Runner,
    counts: Sequence[int],
    size: Tuple[int, int],
    proposal: Proposal,
) -> None:
    """Set the coder and the anchors of rotated boxes.

    Args:
        config: changed in place.
        decoding: scales and nodes of the decoding in the graph.
        runner: of the artifact.
        counts: number of anchors of a cell of each map; one number for any number of maps.
        size: height and width of the network's input.
        proposal: learns what is read.

    Raises:
        Refusal: no generator produces the anchors.
    """
    ssd = config.model.ssd
    evidence = f'{CODE_SIZE} codes of a box in {decoding.where}'
    ssd.box_type = box_coding_pb2.ROTATED
    proposal.learn(f'{_WHERE}.box_type', 'ROTATED', evidence)
    coder = ssd.box_coder.rotated_box_coder
    for name, scale in zip(_SCALES, decoding.scales):
        where = f'{_WHERE}.box_coder.rotated_box_coder.{name}'
        value = float(f'{scale:.6g}')
        setattr(coder, name, proposal.learn(where, value, f'constants before {decoding.where}'))
    fetches = {str(index): f'{decoding.anchors}:{index}' for index in range(CODE_SIZE)}
    values = runner.run(fetches, runner.test_image(_IMAGE))
    boxes = np.stack([np.ravel(values[key]) for key in fetches], axis=1).astype(np.float64)
    fitted = fit(boxes, counts, size)
    if fitted is None:
        raise Refusal(f'its {len(boxes)} rotated anchors are of no known generator')
    ssd.anchor_generator.CopyFrom(fitted)
    evidence = f'{len(boxes)} anchors that its graph computes'
    kind = fitted.WhichOneof('anchor_generator_oneof')
    proposal.learn(f'{_WHERE}.anchor_generator', kind, evidence)
    del config.eval_config.metrics_set[:]  # those of axis-aligned boxes


def fit(
    boxes: np.ndarray, counts: Sequence[int], size: Tuple[int, int]
) -> Optional[anchors_pb2.AnchorGenerator]:
    """Find the config of a generator that produces rotated anchors.

    Args:
        boxes: float64 [A, 5] in pixels, in their long edge form.
        counts: number of anchors of a cell of each map; one number for any number of maps.
        size: height and width of the network's input.

    Returns:
        The config; None where no generator produces them.
    """
    # The angle varies fastest.
    same = np.abs(boxes[:, :4] - boxes[0, :4]).max(axis=1) < 1e-3
    num_angles = int(np.argmin(same)) if not same.all() else len(boxes)
    if any(count % num_angles for count in counts):
        return None
    groups = boxes.reshape([-1, num_angles, CODE_SIZE])
    angles = groups[0, :, 4]
    # A box that is higher than wide has its sides exchanged, and is rotated by a right angle.
    straight = (_distance(groups[..., 4], angles) < _SAME_ANGLE).all(axis=1)
    exchanged = (_distance(groups[..., 4], angles + math.pi / 2) < _SAME_ANGLE).all(axis=1)
    if not (straight | exchanged).all():
        return None
    sides = groups[:, 0, 2:4]
    sides = np.where(straight[:, np.newaxis], sides, sides[:, ::-1])
    normalized = np.concatenate([groups[:, 0, :2], sides], axis=1) / np.tile(size, 2)
    config = anchor_fitting.fit(normalized, [count // num_angles for count in counts], size)
    if config is not None:
        kind = config.WhichOneof('anchor_generator_oneof') or ''
        getattr(config, kind).angles.extend(map(_plain_angle, angles))
    return config


def _plain_angle(angle: float) -> float:
    """Return the number of fewest digits that stands for an angle.

    The sign of an angle at the end of its range matters, so the number must be wrapped to the same
    end.
    """
    is_at_end = abs(abs(angle) - math.pi / 2) < _SAME_ANGLE
    for digits in range(1, 7):
        for same in (angle, angle - math.pi, angle + math.pi) if is_at_end else (angle,):
            short = round(float(same), digits)
            wrapped = np.mod(short + math.pi / 2, math.pi) - math.pi / 2
            if abs(wrapped - angle) < _ROUNDING:
                return short
    return float(angle)


def _distance(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the angles between directions, in [0, pi / 2]."""
    difference = np.mod(first - second, math.pi)
    return np.minimum(difference, math.pi - difference)
