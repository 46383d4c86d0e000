"""Outputs of detectors in artifacts, and their suppression."""

from __future__ import annotations

from typing import Dict, List, Mapping, Optional, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib.config.section import Section
from model_fns.detection import fields
from protos import post_processing_pb2
from vision_extras.recover.artifacts import running
from vision_extras.recover.artifacts.graphs import Graph
from vision_extras.recover.artifacts.reading import Artifact
from vision_extras.recover.detection import decoding
from vision_extras.recover.facts import Proposal

_Processing = post_processing_pb2.PostProcessing
CONVERTERS = {
    'IDENTITY': _Processing.IDENTITY,
    'SIGMOID': _Processing.SIGMOID,
    'SOFTMAX': _Processing.SOFTMAX,
}
_IMAGE = (64, 96)
# Detections that another order of clipping and suppression replaces.
_OTHER_DETECTIONS = 0.1
_NAMES = (
    fields.DETECTION_BOXES,
    fields.DETECTION_SCORES,
    fields.DETECTION_CLASSES,
    fields.RAW_DETECTION_SCORES,
    fields.RAW_DETECTION_BOXES,
    fields.DETECTION_MASKS,
    fields.DETECTION_KEYPOINT_SCORES,
)


def find(artifact: Artifact) -> Dict[str, str]:
    """Return the tensors of outputs by the key of the signature."""
    if artifact.outputs or artifact.graph is None:
        return dict(artifact.outputs)
    return {name: f'{name}:0' for name in _NAMES if name in artifact.graph.nodes}


def ends(known: Mapping[str, str]) -> List[str]:
    """Return the nodes of outputs that depend on scores."""
    keys = (fields.DETECTION_SCORES, fields.DETECTION_BOXES)
    return [known[key].partition(':')[0] for key in keys if key in known]


def add_compared(
    known: Mapping[str, str],
    graph: Graph,
    scores: decoding.Scores,
    raw_boxes: Sequence[str],
    proposal: Proposal,
) -> None:
    """Set the outputs that are compared: raw scores, and boxes before or after suppression.

    Args:
        known: tensors of outputs by the key of the signature.
        graph: of the artifact.
        scores: of the graph.
        raw_boxes: outputs of boxes before suppression that are compared, if they are known.
        proposal: changed in place.
    """
    raw, boxes = known.get(fields.RAW_DETECTION_SCORES), fields.DETECTION_BOXES
    converter = (scores.tensor or '').partition(':')[0]
    if raw and converter and converter not in graph.ancestors([raw.partition(':')[0]]):
        proposal.unknown.append(
            f'Its {fields.RAW_DETECTION_SCORES} are logits, as exports of early 2019 have them: '
            f'{scores.tensor} is compared.'
        )
        raw = scores.tensor
    raw = raw or scores.tensor
    if raw is not None:
        proposal.outputs.setdefault(fields.RAW_DETECTION_SCORES, raw)
    if scores.is_cut:
        ordered = proposal.ours.get(fields.RAW_DETECTION_SCORES, np.asarray)
        proposal.ours[fields.RAW_DETECTION_SCORES] = lambda value: ordered(value)[..., 1:]
    raw_boxes = [name for name in raw_boxes if name in known]
    proposal.outputs.update({name: known[name] for name in raw_boxes})
    if not raw_boxes and boxes in known:
        proposal.outputs[boxes] = known[boxes]
        proposal.counts[boxes] = fields.NUM_DETECTIONS
        proposal.other_rows[boxes] = _OTHER_DETECTIONS
        proposal.unknown.append(
            f'Boxes are compared as {boxes}, after suppression, as its graph has no raw ones. Few '
            'of them are others where its suppression clips boxes to the image first, as that of '
            '2017 does; here they are clipped last.'
        )
    elif not raw_boxes and fields.BOX_ENCODINGS not in proposal.outputs:
        proposal.unknown.append('Boxes are not compared: its graph has no output of them.')


def read_suppression(
    suppression: Optional[decoding.Suppression],
    runner: running.Runner,
    known: Mapping[str, str],
    section: Section[post_processing_pb2.BatchNonMaxSuppression],
    proposal: Proposal,
) -> None:
    """Set the config of suppression.

    Args:
        suppression: constants of the graph; None: it suppresses nothing.
        runner: of the artifact.
        known: tensors of outputs by the key of the signature.
        section: changed in place.
        proposal: learns what is read.
    """
    if suppression is None:
        proposal.unknown.append('Its graph suppresses no overlapping boxes.')
        return
    evidence = f'input of {suppression.where}'
    numbers = {
        'iou_threshold': suppression.iou_threshold,
        'score_threshold': suppression.score_threshold,
        'soft_nms_sigma': suppression.soft_sigma or None,
    }
    for name, number in numbers.items():
        if number is not None:
            value = float(f'{max(number, 0.0):.6g}')
            proposal.set(section, name, value, evidence)
    boxes = known.get(fields.DETECTION_BOXES)
    if boxes is not None:
        try:
            image = runner.test_image(_IMAGE)
            rows = runner.run({'boxes': boxes}, image)['boxes'].shape[1]
        except tf.errors.OpError:
            return
        found = f'{fields.DETECTION_BOXES} has {rows} rows'
        proposal.set(section, 'max_total_detections', rows, found)
    most = suppression.max_per_class
    if most is not None:
        most = min(most, section.message.max_total_detections)
        proposal.set(section, 'max_detections_per_class', most, evidence)
