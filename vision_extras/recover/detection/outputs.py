"""Outputs of detectors in artifacts, and their suppression."""

from __future__ import annotations

from typing import Dict, List, Mapping, Optional, Sequence

import numpy as np
import tensorflow as tf

from model_fns.detection import fields
from vision_extras.recover.artifacts import running
from vision_extras.recover.artifacts.graphs import Graph
from vision_extras.recover.artifacts.reading import Artifact
from vision_extras.recover.detection import decoding
from vision_extras.recover.facts import Proposal

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
    where: str,
    proposal: Proposal,
) -> None:
    """Set the config of suppression.

    Args:
        suppression: constants of the graph; None: it suppresses nothing.
        runner: of the artifact.
        known: tensors of outputs by the key of the signature.
        where: path of the post-processing.
        proposal: changed in place.
    """
    if suppression is None:
        proposal.unknown.append('Its graph suppresses no overlapping boxes.')
        return
    where, evidence = f'{where}.batch_non_max_suppression', f'input of {suppression.where}'
    numbers = {
        'iou_threshold': suppression.iou_threshold,
        'score_threshold': suppression.score_threshold,
        'soft_nms_sigma': suppression.soft_sigma or None,
    }
    for name, number in numbers.items():
        if number is not None:
            proposal.set(name, max(float(number), 0.0), evidence, where)
    rows = count_detections(runner, known)
    if rows is not None:
        found = f'{fields.DETECTION_BOXES} has {rows} rows'
        proposal.set('max_total_detections', rows, found, where)
    most = suppression.max_per_class
    if most is not None:
        total = proposal.at(where).max_total_detections
        proposal.set('max_detections_per_class', min(most, total), evidence, where)


def count_detections(runner: running.Runner, known: Mapping[str, str]) -> Optional[int]:
    """Return the number of detections of an image; None: it is not known.

    Args:
        runner: of the artifact.
        known: tensors of outputs by the key of the signature.
    """
    boxes = known.get(fields.DETECTION_BOXES)
    if boxes is None:
        return None
    try:
        return int(runner.run({'boxes': boxes}, runner.test_image(_IMAGE))['boxes'].shape[1])
    except tf.errors.OpError:
        return None
