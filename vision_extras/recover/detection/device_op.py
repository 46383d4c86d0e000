"""Suppression of graphs for small devices: an op that decodes and suppresses boxes at once."""

from __future__ import annotations

from typing import Optional, Tuple

import numpy as np

from estimator_lib.config.section import Section
from model_fns.detection import fields
from model_fns.detection.detections.device_suppression import TFLITE_OP
from protos import ssd_pb2
from vision_extras.recover.artifacts.graphs import Graph
from vision_extras.recover.facts import Proposal, Refusal

_WHERE = 'model.ssd'
_ENCODINGS, _SCORES, _ANCHORS = range(3)  # its inputs
_CODER = (
    ('y_scale', 'y_scale'),
    ('x_scale', 'x_scale'),
    ('height_scale', 'h_scale'),
    ('width_scale', 'w_scale'),
)
_SUPPRESSION = (
    ('iou_threshold', 'nms_iou_threshold'),
    ('score_threshold', 'nms_score_threshold'),
)


def find(graph: Graph) -> Optional[str]:
    """Return the name of the op; None: there is none."""
    return next(iter(graph.find_ops(TFLITE_OP)), None)


def scores(graph: Graph, name: str) -> str:
    """Return the tensor of the scores with a column for background, which the op takes."""
    return _input(graph, name, _SCORES)


def read(ssd: ssd_pb2.Ssd, graph: Graph, name: str, columns: int, proposal: Proposal) -> np.ndarray:
    """Read the box coder, suppression and anchors from the op.

    Args:
        ssd: changed in place.
        graph: of the artifact.
        name: of the op.
        columns: number of class logits of an anchor.
        proposal: learns what is read.

    Returns:
        Anchors [A, 4]: center y, center x, height, width, normalized.

    Raises:
        Refusal: its anchors are no constant.
    """
    attributes, evidence = graph.nodes[name].attr, f'attributes of {name}'
    coder = ssd.box_coder.faster_rcnn_box_coder
    for field, key in _CODER:
        setattr(coder, field, float(f'{attributes[key].f:.6g}'))
    told: Tuple[float, ...] = tuple(getattr(coder, field) for field, _ in _CODER)
    proposal.learn(f'{_WHERE}.box_coder', told, evidence)
    section = Section(ssd, _WHERE).child('post_processing.batch_non_max_suppression')
    suppression = section.message
    for field, key in _SUPPRESSION:
        value = float(f'{max(attributes[key].f, 0.0):.6g}')
        proposal.set(section, field, value, evidence)
    most = int(attributes['max_detections'].i)
    if most:
        proposal.set(section, 'max_total_detections', most, evidence)
    per_class = int(attributes['detections_per_class'].i) or suppression.max_detections_per_class
    most = suppression.max_total_detections
    suppression.max_detections_per_class = min(per_class, most)
    background = columns == int(attributes['num_classes'].i) + 1
    ssd.add_background_class = background
    proposal.learn(f'{_WHERE}.add_background_class', background, evidence)
    proposal.outputs[fields.RAW_DETECTION_SCORES] = scores(graph, name)
    proposal.outputs[fields.BOX_ENCODINGS] = _input(graph, name, _ENCODINGS)
    anchors = graph.constant(_input(graph, name, _ANCHORS).partition(':')[0])
    if anchors is None:
        raise Refusal(f'the anchors of {name} are no constant')
    return anchors.reshape(-1, 4)


def _input(graph: Graph, name: str, index: int) -> str:
    """Return an input of the op, of all anchors: files of ours have those of the best gathered."""
    tensor = graph.nodes[name].input[index]
    source = graph.inputs(name)[index]
    if source in graph.nodes and graph.nodes[source].op == 'GATHER':
        tensor = graph.nodes[source].input[0]
    return tensor if ':' in tensor else f'{tensor}:0'
