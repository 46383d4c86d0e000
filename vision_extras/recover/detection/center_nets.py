"""Recognition of CenterNets with names by scope, as exports of this project have them."""

from __future__ import annotations

import functools
import re
from typing import Dict, List, Optional, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors, tf_estimator
from model_fns.detection import fields
from model_fns.detection.architectures.center_net import extractors, heads, objects
from model_fns.detection.task import DetectionTask
from vision_extras.recover import networks
from vision_extras.recover.artifacts import running
from vision_extras.recover.artifacts.graphs import Graph
from vision_extras.recover.artifacts.reading import Artifact
from vision_extras.recover.detection import (
    decoding,
    keypoint_searches,
    outputs,
    published,
    resizing,
)
from vision_extras.recover.facts import Proposal, Refusal
from vision_extras.recover.kernels import Kernels, NetworkKernels, build_kernels

Shapes = Dict[str, Tuple[int, ...]]
Layers = Dict[str, List[Tuple[int, ...]]]

_WHERE = 'model.center_net'
_EXTRACTOR = f'{_WHERE}.feature_extractor'
# Fields of heads of boxes.
_HEADS = {
    objects.CENTER: 'object_center_params.center_head_params',
    objects.SIZE: 'object_detection_task.scale_head_params',
    objects.OFFSET: 'object_detection_task.offset_head_params',
}
_LAYER = re.compile(rf'^{heads.SCOPE}/(.+)/output_(\d+)/conv_(\d+)/weights$')
_EVIDENCE = 'names and shapes of all kernels'
_SIDE = 64


def propose(artifact: Artifact, kernels: Kernels) -> Optional[Proposal]:
    """Describe the CenterNet of an artifact; None where it is none.

    Raises:
        Refusal: it predicts more than boxes, or its network is not known.
    """
    found = kernels.shapes()
    layers = _layers(found)
    if objects.CENTER not in layers:
        return None
    tasks = keypoint_searches.task_names(layers)
    of_keypoints = keypoint_searches.head_names(tasks)
    others = sorted({*layers} - {*_HEADS, *of_keypoints})
    if others:
        raise Refusal(
            f'it is a CenterNet with {errors.shortened(others, 3)} besides boxes and keypoints'
        )
    starts = tuple(f'{heads.SCOPE}/{head}/' for head in of_keypoints)
    boxes = {name: shape for name, shape in found.items() if not name.startswith(starts)}
    proposal = _match(boxes, layers)
    if tasks:
        output = fields.DETECTION_KEYPOINT_SCORES
        scores = outputs.find(artifact).get(output, '')
        keypoint_searches.add_tasks(proposal, layers, artifact.graph, scores.partition(':')[0])
        if scores:
            proposal.outputs[output] = scores
            proposal.counts[output] = fields.NUM_DETECTIONS
    if artifact.graph is None:
        proposal.unknown.append(
            'A checkpoint tells neither the size of images nor how they are normalized: they are '
            'the published ones.'
        )
        return proposal
    with running.open_runner(artifact) as runner:
        _read_graph(artifact, artifact.graph, runner, proposal)
    return proposal


def _layers(found: Shapes) -> Layers:
    """Return the shapes of the layers of each head on its last map, in their order."""
    numbered: Dict[str, Dict[Tuple[int, int], Tuple[int, ...]]] = {}
    for match in filter(None, map(_LAYER.match, found)):
        place = int(match.group(2)), int(match.group(3))
        numbered.setdefault(match.group(1), {})[place] = found[match.group(0)]
    return {
        head: [shape for place, shape in sorted(places.items()) if place[0] == max(places)[0]]
        for head, places in numbered.items()
    }


def _match(found: Shapes, layers: Layers) -> Proposal:
    """Find the feature extractor."""
    scopes = {kind: extractors.EXTRACTORS.get(kind).base_scope for kind in extractors.EXTRACTORS}
    proposals = [
        describe(kind, layers)
        for kind, scope in scopes.items()
        if any(name.startswith(f'{extractors.SCOPE}/{scope}/') for name in found)
    ]
    builds = [(one.network, functools.partial(_build, one)) for one in proposals]
    reason = 'the feature extractor is of no known network'
    return proposals[networks.choose(found, builds, reason)[0]]


def describe(kind: str, layers: Layers) -> Proposal:
    """Describe a CenterNet of boxes.

    Args:
        kind: type of the feature extractor.
        layers: shapes of the kernels of each head.
    """
    proposal = Proposal(published.center_net(kind), kind)
    classes = layers[objects.CENTER][-1][-1]
    proposal.set(f'{_WHERE}.num_classes', classes, f'kernels of {objects.CENTER}')
    proposal.set(f'{_EXTRACTOR}.type', kind, _EVIDENCE)
    for name, field in _HEADS.items():
        shapes, where = layers.get(name, [])[:-1], f'{_WHERE}.{field}'
        proposal.set('num_filters', [shape[-1] for shape in shapes], _EVIDENCE, where)
        proposal.set('kernel_sizes', [shape[0] for shape in shapes], _EVIDENCE, where)
    return proposal


def _build(proposal: Proposal, factor: float) -> Optional[NetworkKernels]:
    if factor != 1.0:
        return None

    def build() -> List[tf.Tensor]:
        task = DetectionTask.from_config(proposal.config)
        features = task.serving_features(tf.zeros([1, _SIDE, _SIDE, 3], tf.uint8))
        predictions = task.predict(features, tf_estimator.ModeKeys.PREDICT)
        return list(task.postprocess(predictions, features).values())

    return build_kernels(build)


def _read_graph(
    artifact: Artifact, graph: Graph, runner: running.Runner, proposal: Proposal
) -> None:
    tensor = resizing.network_input(graph, runner, needs_pixels=True)
    resizing.read(runner, graph, tensor, f'{_WHERE}.image_resizer', proposal)
    if proposal.network.startswith('hourglass'):
        _read_normalization(runner, tensor, proposal)
    known = outputs.find(artifact)
    suppression, rows = decoding.find_suppression(graph), outputs.count_detections(runner, known)
    if suppression is not None:
        where = f'{_WHERE}.post_processing'
        outputs.read_suppression(suppression, runner, known, where, proposal)
    elif rows is not None:
        where = f'{_WHERE}.object_center_params.max_box_predictions'
        proposal.set(where, rows, f'{fields.DETECTION_BOXES} has {rows} rows')
    proposal.outputs.update(_ends(graph))
    if not proposal.outputs:
        raise Refusal('its graph has no heads that could be compared')


def _ends(graph: Graph) -> Dict[str, str]:
    """Return the outputs of heads by the names of our predictions."""
    last: Dict[str, Tuple[Tuple[int, int], str]] = {}
    for layer in graph.layers():
        match = _LAYER.match(layer.weights_name)
        if match:
            place = int(match.group(2)), int(match.group(3))
            end = (graph.consumers(layer.name) or [layer.name])[0]
            last[match.group(1)] = max(last.get(match.group(1), (place, end)), (place, end))
    return {f'{head}/{place[0]}': f'{end}:0' for head, (place, end) in last.items()}


def _read_normalization(runner: running.Runner, tensor: str, proposal: Proposal) -> None:
    """Read means, deviations and the order of colors from images of one color."""
    size = runner.accepted_size((_SIDE, _SIDE))
    colors = np.concatenate([np.zeros([1, 3]), 255 * np.eye(3)]).astype(np.uint8)
    values = np.stack(
        [
            runner.run({'input': tensor}, np.broadcast_to(color, [*size, 3]))['input'][0, 0, 0]
            for color in colors
        ]
    )
    slopes = (values[1:] - values[0]) / 255  # rows: colors of images, columns: of the input
    deviations = 1 / np.abs(slopes).max(axis=0)
    evidence = 'input of the network for images of one color'
    is_bgr = bool(abs(slopes[0, 0]) < abs(slopes[0, 2]))
    proposal.set(f'{_EXTRACTOR}.bgr_ordering', is_bgr, evidence)
    proposal.set(f'{_EXTRACTOR}.channel_means', -values[0] * deviations, evidence)
    proposal.set(f'{_EXTRACTOR}.channel_stds', deviations, evidence)
