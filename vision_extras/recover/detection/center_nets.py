"""Recognition of CenterNets with names by scope, as exports of this project have them."""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors, tf_estimator
from estimator_lib.config.section import Section
from model_fns.detection import fields
from model_fns.detection.architectures.center_net import extractors, heads, objects
from model_fns.detection.task import DetectionTask
from protos import center_net_pb2
from vision_extras.recover import kernels as kernels_lib
from vision_extras.recover.artifacts import running
from vision_extras.recover.artifacts.graphs import Graph, first_layer_input
from vision_extras.recover.artifacts.reading import Artifact
from vision_extras.recover.detection import (
    decoding,
    keypoint_searches,
    outputs,
    published_objects,
    resizing,
)
from vision_extras.recover.facts import Proposal, Refusal
from vision_extras.recover.kernels import Kernels

tf1 = tf.compat.v1

_WHERE = 'model.center_net'
_HEADS = (objects.CENTER, objects.SIZE, objects.OFFSET)
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
    proposal = _match(
        {name: shape for name, shape in found.items() if not name.startswith(starts)}, layers
    )
    model = proposal.config.model.center_net
    if tasks:
        scores = outputs.find(artifact).get(fields.DETECTION_KEYPOINT_SCORES, '')
        keypoint_searches.add_tasks(proposal, layers, artifact.graph, scores.partition(':')[0])
        if scores:
            proposal.outputs[fields.DETECTION_KEYPOINT_SCORES] = scores
            proposal.counts[fields.DETECTION_KEYPOINT_SCORES] = fields.NUM_DETECTIONS
    if artifact.graph is None:
        proposal.unknown.append(
            'A checkpoint tells neither the size of images nor how they are normalized: they are '
            'the published ones.'
        )
        return proposal
    with running.open_runner(artifact) as runner:
        _read_graph(model, artifact, artifact.graph, runner, proposal)
    return proposal


def _layers(found: Dict[str, Tuple[int, ...]]) -> Dict[str, List[Tuple[int, ...]]]:
    """Return the shapes of the layers of each head on its last map, in their order."""
    numbered: Dict[str, Dict[Tuple[int, int], Tuple[int, ...]]] = {}
    for name, shape in found.items():
        match = _LAYER.match(name)
        if match:
            place = int(match.group(2)), int(match.group(3))
            numbered.setdefault(match.group(1), {})[place] = shape
    return {
        head: [shape for place, shape in sorted(places.items()) if place[0] == max(places)[0]]
        for head, places in numbered.items()
    }


def _match(found: Dict[str, Tuple[int, ...]], layers: Dict[str, List[Tuple[int, ...]]]) -> Proposal:
    """Find the feature extractor."""
    tried = {}
    for kind in (*published_objects.HOURGLASSES, *published_objects.CENTER_NETS):
        scope = f'{extractors.SCOPE}/{extractors.EXTRACTORS.get(kind).base_scope}/'
        if not any(name.startswith(scope) for name in found):
            continue
        config = published_objects.center_net(kind)
        model = config.model.center_net
        proposal = Proposal(config, kind)
        model.num_classes = proposal.learn(
            f'{_WHERE}.num_classes', layers[objects.CENTER][-1][-1], f'kernels of {objects.CENTER}'
        )
        proposal.learn(f'{_WHERE}.feature_extractor.type', kind, _EVIDENCE)
        _set_heads(model, layers, proposal)
        task = DetectionTask.from_config(config)

        def build(task: DetectionTask = task) -> List[tf.Tensor]:
            features = task.serving_features(tf.zeros([1, _SIDE, _SIDE, 3], tf.uint8))
            predictions = task.predict(features, tf_estimator.ModeKeys.PREDICT)
            return list(task.postprocess(predictions, features).values())

        tried[kind] = kernels_lib.differences(found, kernels_lib.build_kernels(build))
        if not tried[kind]:
            return proposal
    raise Refusal('the feature extractor is of no known network', tried)


def _set_heads(
    model: center_net_pb2.CenterNet, layers: Dict[str, List[Tuple[int, ...]]], proposal: Proposal
) -> None:
    section = Section(model, _WHERE)
    places = {
        objects.CENTER: 'object_center_params.center_head_params',
        objects.SIZE: 'object_detection_task.scale_head_params',
        objects.OFFSET: 'object_detection_task.offset_head_params',
    }
    for name, field in places.items():
        shapes, head = layers.get(name, [])[:-1], section.child(field)
        head.message.num_filters.extend(shape[-1] for shape in shapes)
        head.message.kernel_sizes.extend(shape[0] for shape in shapes)
        proposal.learn(head.path, f'{list(head.message.num_filters)} filters', _EVIDENCE)


def _read_graph(
    model: center_net_pb2.CenterNet,
    artifact: Artifact,
    graph: Graph,
    runner: running.Runner,
    proposal: Proposal,
) -> None:
    tensor = first_layer_input(graph, runner.input_name)
    if tensor is None or not runner.takes_pixels:
        raise Refusal('its input is not pixels, so the size of images is not known')
    where = f'{_WHERE}.image_resizer'
    resizer = resizing.recognize(runner, graph, tensor, where, proposal)
    if resizer is None:
        raise Refusal('its network has no input of images that could be computed')
    model.image_resizer.CopyFrom(resizer)
    if model.feature_extractor.type.startswith('hourglass'):
        _read_normalization(model.feature_extractor, runner, tensor, proposal)
    known = outputs.find(artifact)
    boxes = known.get(fields.DETECTION_BOXES)
    suppression = decoding.find_suppression(graph)
    if suppression is not None:
        section = Section(model, _WHERE).child('post_processing.batch_non_max_suppression')
        outputs.read_suppression(suppression, runner, known, section, proposal)
    elif boxes is not None:
        rows = runner.run({'boxes': boxes}, runner.test_image((_SIDE, _SIDE)))['boxes'].shape[1]
        where = f'{_WHERE}.object_center_params.max_box_predictions'
        evidence = f'{fields.DETECTION_BOXES} has {rows} rows'
        model.object_center_params.max_box_predictions = proposal.learn(where, rows, evidence)
    for name, key in _ends(graph).items():
        proposal.outputs[name] = key
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


def _read_normalization(
    extractor: center_net_pb2.CenterNetFeatureExtractor,
    runner: running.Runner,
    tensor: str,
    proposal: Proposal,
) -> None:
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
    means = -values[0] * deviations
    section = Section(extractor, f'{_WHERE}.feature_extractor')
    evidence = 'input of the network for images of one color'
    is_bgr = bool(abs(slopes[0, 0]) < abs(slopes[0, 2]))
    proposal.set(section, 'bgr_ordering', is_bgr, evidence)
    for name, numbers in (('channel_means', means), ('channel_stds', deviations)):
        extractor.ClearField(name)
        getattr(extractor, name).extend(float(f'{number:.6g}') for number in numbers)
        proposal.learn(section.at(name), list(getattr(extractor, name)), evidence)
