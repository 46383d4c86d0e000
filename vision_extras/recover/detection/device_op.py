"""Suppression of graphs for small devices: an op that decodes and suppresses boxes at once."""

from __future__ import annotations

from typing import Optional

import numpy as np

from model_fns.detection import fields
from model_fns.detection.deployment.file_suppression import TFLITE_OP
from vision_extras.recover.artifacts.graphs import Graph
from vision_extras.recover.facts import Proposal, Refusal

_ENCODINGS, _SCORES, _ANCHORS = range(3)  # its inputs
_VALUES = {'GATHER': 0, 'SELECT_V2': 1}  # inputs with the values that an op before it passes on
# Attributes by the fields of the config.
_NUMBERS = {
    'box_coder.faster_rcnn_box_coder.y_scale': 'y_scale',
    'box_coder.faster_rcnn_box_coder.x_scale': 'x_scale',
    'box_coder.faster_rcnn_box_coder.height_scale': 'h_scale',
    'box_coder.faster_rcnn_box_coder.width_scale': 'w_scale',
    'post_processing.batch_non_max_suppression.iou_threshold': 'nms_iou_threshold',
    'post_processing.batch_non_max_suppression.score_threshold': 'nms_score_threshold',
}


def find(graph: Graph) -> Optional[str]:
    """Return the name of the op; None: there is none."""
    return next(iter(graph.find_ops(TFLITE_OP)), None)


def scores(graph: Graph, name: str) -> str:
    """Return the tensor of the scores with a column for background, which the op takes."""
    return _input(graph, name, _SCORES)


def read(graph: Graph, name: str, columns: int, proposal: Proposal) -> np.ndarray:
    """Read the box coder, suppression and anchors from the op.

    Args:
        graph: of the artifact.
        name: of the op.
        columns: number of class logits of an anchor.
        proposal: of a single-shot detector; changed in place.

    Returns:
        Anchors [A, 4]: center y, center x, height, width, normalized.

    Raises:
        Refusal: its anchors are no constant.
    """
    attributes, evidence = graph.nodes[name].attr, f'attributes of {name}'
    for field, key in _NUMBERS.items():
        proposal.set(f'model.ssd.{field}', max(attributes[key].f, 0.0), evidence)
    suppression = proposal.config.model.ssd.post_processing.batch_non_max_suppression
    most = int(attributes['max_detections'].i)
    if most:
        where = 'model.ssd.post_processing.batch_non_max_suppression.max_total_detections'
        proposal.set(where, most, evidence)
    per_class = int(attributes['detections_per_class'].i) or suppression.max_detections_per_class
    suppression.max_detections_per_class = min(per_class, suppression.max_total_detections)
    background = columns == int(attributes['num_classes'].i) + 1
    proposal.set('model.ssd.add_background_class', background, evidence)
    proposal.outputs[fields.RAW_DETECTION_SCORES] = scores(graph, name)
    proposal.outputs[fields.BOX_ENCODINGS] = _input(graph, name, _ENCODINGS)
    anchors = graph.constant(_input(graph, name, _ANCHORS).partition(':')[0])
    if anchors is None:
        raise Refusal(f'the anchors of {name} are no constant')
    return anchors.reshape(-1, 4)


def _input(graph: Graph, name: str, index: int) -> str:
    """Return an input of the op, as the network computes it for all anchors.

    In files of ours it is gathered for the best anchors, and scores of boxes outside of the image
    are replaced.
    """
    tensor = graph.nodes[name].input[index]
    source = graph.inputs(name)[index]
    while source in graph.nodes and graph.nodes[source].op in _VALUES:
        index = _VALUES[graph.nodes[source].op]
        tensor, source = graph.nodes[source].input[index], graph.inputs(source)[index]
    return tensor if ':' in tensor else f'{tensor}:0'
