"""Recognition of the feature pyramids of two-stage detectors, and of their anchors."""

from __future__ import annotations

import dataclasses
import re
from typing import Dict, Iterator, List, Mapping, Optional, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.config.section import Section
from model_fns.backbones import registry
from model_fns.detection import generations
from model_fns.detection.architectures.faster_rcnn import extractors, pyramid
from model_fns.detection.boxes import anchors
from model_fns.detection.networks.feature_extractors.extractor import Pyramid
from protos import anchors_pb2, faster_rcnn_pb2, hyperparams_pb2, pipeline_pb2
from vision_extras.recover import kernels as kernels_lib
from vision_extras.recover.artifacts import graphs, running
from vision_extras.recover.artifacts.graphs import Graph
from vision_extras.recover.detection import decoding
from vision_extras.recover.facts import Proposal, Refusal
from vision_extras.recover.kernels import Kernels

Shapes = Mapping[str, Tuple[int, ...]]

_SCOPE = f'{generations.SECOND.scope}{extractors.FIRST_SCOPE}'
_WHERE = 'model.faster_rcnn'
_EXTRACTOR = f'{_WHERE}.feature_extractor'
_CODES = re.compile(r'^FirstStageBoxPredictor(?:_(\d+))?/BoxEncodingPredictor/weights$')
_PROJECTION = re.compile(rf'^{_SCOPE}/.*/fpn/projection_\d+/weights$')
_ADDED_LAYERS = rf'{_SCOPE}/.*/fpn/'
_BACKBONE_LAYERS = rf'{_SCOPE}/(?!.*/fpn/)'
_NORMS = re.compile(
    rf'^({_SCOPE}/.*/fpn/.*|{generations.SECOND.scope}{extractors.SECOND_SCOPE})'
    r'/BatchNorm/(gamma|beta|moving_mean|moving_variance)$'
)
_EVIDENCE = 'names and shapes of all kernels'
_LAST_TAPPED = 5  # level
_CODE_SIZE = 4
_SIDE = 128
_IMAGE = (160, 224)
_TOLERANCE = 0.01  # in pixels
_MULTIPLES = (32, 1, 64, 128, 16)
_ACTIVATIONS = {
    'Relu6': (hyperparams_pb2.Hyperparams.RELU_6, tf.nn.relu6),
    'Relu': (hyperparams_pb2.Hyperparams.RELU, tf.nn.relu),
    graphs.SWISH: (hyperparams_pb2.Hyperparams.SWISH, tf.nn.swish),
}


def region_codes(shapes: Shapes) -> List[str]:
    """Return the kernels of box codes of the first stage, one for each feature map."""
    matches = [match for match in map(_CODES.match, shapes) if match]
    return [match.group(0) for match in sorted(matches, key=lambda one: int(one.group(1) or 0))]


def has_pyramid(shapes: Shapes) -> bool:
    """Check whether kernels have those of a pyramid."""
    return any(map(_PROJECTION.match, shapes))


def read_kernels(
    config: pipeline_pb2.TrainEvalPipelineConfig, kernels: Kernels, proposal: Proposal
) -> None:
    """Read the network, the levels and the layers of a pyramid.

    Args:
        config: changed in place.
        kernels: of the artifact.
        proposal: learns what is read.

    Raises:
        Refusal: the network is not known.
    """
    config.model.faster_rcnn.clip_anchors_to_image = True
    shapes = kernels.shapes()
    found = {name: shape for name, shape in shapes.items() if name.startswith(f'{_SCOPE}/')}
    kind, levels = _match(found, len(region_codes(shapes)))
    proposal.network = kind
    named = config.model.faster_rcnn.feature_extractor
    named.type = proposal.learn(f'{_EXTRACTOR}.type', kind, _EVIDENCE)
    named.fpn.min_level, named.fpn.max_level = levels.min_level, levels.max_level
    named.fpn.additional_layer_depth = levels.depth
    text = f'levels {levels.min_level} to {levels.max_level}, {levels.depth} channels'
    proposal.learn(f'{_EXTRACTOR}.fpn', text, _EVIDENCE)
    _read_style(named, kernels, proposal)


def _match(found: Shapes, count: int) -> Tuple[str, Pyramid]:
    """Find the type of the feature extractor and the levels of its pyramid."""
    tried: Dict[str, List[str]] = {}
    for kind in extractors.EXTRACTORS:
        extractor = extractors.EXTRACTORS.get(kind)
        scope = registry.get_network(extractor.network, task='detection').scope
        if extractor.pyramid is None or not any(
            name.startswith(f'{_SCOPE}/{scope}/') for name in found
        ):
            continue
        for levels in _candidates(found, count):
            network = _build(kind, extractor, levels)
            if network is None:
                continue
            differences = kernels_lib.differences(found, network)
            if not differences:
                return kind, levels
            if len(differences) < len(tried.get(kind, found)):
                tried[kind] = differences
    nearest = dict(sorted(tried.items(), key=lambda item: len(item[1]))[:3])
    raise Refusal('the feature extractor is of no known network', nearest)


def _candidates(found: Shapes, count: int) -> Iterator[Pyramid]:
    """Yield the levels that a number of maps and of projections may have."""
    projections = [shape for name, shape in found.items() if _PROJECTION.match(name)]
    for min_level in (2, 3, 4, 5):
        max_level = min_level + count - 1
        if min(max_level, _LAST_TAPPED) - min_level + 1 == len(projections):
            yield Pyramid(min_level, max_level, projections[0][-1])


def _build(
    kind: str, extractor: extractors.Extractor, levels: Pyramid
) -> Optional[kernels_lib.NetworkKernels]:
    neck = pyramid.FeaturePyramid(levels, type_name=kind)
    built = dataclasses.replace(extractor, pyramid=neck)
    images = [1, _SIDE, _SIDE, 3]
    try:
        return kernels_lib.build_kernels(
            lambda: built.features(tf.zeros(images), 16, is_training=False, trains_batch_norm=False)
        )
    except (errors.ConfigError, ValueError):
        return None


def _read_style(
    named: faster_rcnn_pb2.FasterRcnnFeatureExtractor, kernels: Kernels, proposal: Proposal
) -> None:
    """Read the hyperparameters, and whether they hold for the backbone too."""
    section = Section(named, _EXTRACTOR).child('conv_hyperparams')
    hyperparams = section.message
    activation = kernels.activation(_ADDED_LAYERS)
    if activation in _ACTIVATIONS:
        hyperparams.activation = _ACTIVATIONS[activation][0]
        proposal.learn(section.at('activation'), activation, f'node type {activation}')
    epsilon = kernels.epsilon(_ADDED_LAYERS)
    if epsilon is not None:
        hyperparams.batch_norm.epsilon = float(f'{epsilon:.6g}')
        evidence = 'attribute epsilon of batch norms'
        proposal.learn(section.at('batch_norm.epsilon'), f'{epsilon:.6g}', evidence)
    norms = [name for name in kernels.arrays if _NORMS.search(name)]
    if norms:
        scale = any(name.endswith('/gamma') for name in norms)
        evidence = 'names of its variables'
        proposal.set(section.child('batch_norm'), 'scale', scale, evidence)
    elif not any(re.search(_ADDED_LAYERS, scope) for scope in kernels.folded):
        hyperparams.ClearField('batch_norm')
    _read_override(named, kernels, proposal)


def _read_override(
    named: faster_rcnn_pb2.FasterRcnnFeatureExtractor, kernels: Kernels, proposal: Proposal
) -> None:
    """Read whether the hyperparameters hold for the backbone too, if its style tells it."""
    extractor = extractors.EXTRACTORS.get(named.type)
    network = registry.get_network(extractor.network, task='detection')
    style = (network.detection_style or network.style)(False, registry.Options())
    activation = kernels.activation(_BACKBONE_LAYERS)
    epsilon = kernels.epsilon(_BACKBONE_LAYERS)
    if extractor.keeps_style or activation not in _ACTIVATIONS:
        return
    number, function = _ACTIVATIONS[activation]
    configured = named.conv_hyperparams.activation == number
    published = function is style.activation
    if configured == published and epsilon is not None and style.batch_norm is not None:
        configured = abs(epsilon - named.conv_hyperparams.batch_norm.epsilon) < 1e-3 * epsilon
        published = abs(epsilon - style.batch_norm.epsilon) < 1e-3 * epsilon
    if configured != published:
        where = f'{_EXTRACTOR}.override_base_feature_extractor_hyperparams'
        evidence = 'activations and batch norms of the backbone'
        named.override_base_feature_extractor_hyperparams = proposal.learn(
            where, configured, evidence
        )


def read_regions(
    model: faster_rcnn_pb2.FasterRcnn,
    graph: Graph,
    runner: running.Runner,
    tensor: str,
    proposal: Proposal,
) -> None:
    """Read the anchors of a pyramid, and the padding of images, from what a graph computes.

    Args:
        model: with the levels; changed in place.
        graph: of the artifact.
        runner: of the artifact.
        tensor: of the network's input.
        proposal: learns what is read.

    Raises:
        Refusal: no generator produces the anchors.
    """
    found = decoding.find_decodings(graph)
    if not found:
        raise Refusal('its graph decodes no boxes, so its anchors are not known')
    heads = {layer.weights_name: layer for layer in graph.layers()}
    names = region_codes({name: each.weights.shape for name, each in heads.items()})
    count = heads[names[0]].weights.shape[-1] // _CODE_SIZE
    fetches = {'input': tensor, **dict(zip(('y', 'x', 'h', 'w'), found[0].anchors))}
    fetches.update({name: f'{heads[name].name}:0' for name in names})
    values = runner.run(fetches, runner.test_image(_IMAGE))
    boxes = np.stack([np.ravel(values[key]) for key in ('y', 'x', 'h', 'w')], axis=1)
    corners = np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], 1)
    grids = [(values[name].shape[1], values[name].shape[2]) for name in names]
    height, width = (int(side) for side in values['input'].shape[1:3])
    generator = _fit(model.feature_extractor.fpn.min_level, corners, grids, count, (height, width))
    model.first_stage_anchor_generator.CopyFrom(generator)
    evidence = f'{len(boxes)} anchors that its graph computes, {count} a cell'
    where = f'{_WHERE}.first_stage_anchor_generator'
    proposal.learn(where, 'multiscale_anchor_generator', evidence)
    _read_padding(model.feature_extractor, grids[0], (height, width), proposal)


def _fit(
    min_level: int,
    corners: np.ndarray,
    grids: List[Tuple[int, int]],
    count: int,
    size: Tuple[int, int],
) -> anchors_pb2.AnchorGenerator:
    """Find the config of a generator that produces anchors, which are clipped to the image.

    Args:
        min_level: the finest level.
        corners: [A, 4], in pixels.
        grids: rows and columns of each level.
        count: anchors of a cell.
        size: height and width of images.
    """
    config = anchors_pb2.AnchorGenerator()
    multiscale = config.multiscale_anchor_generator
    multiscale.min_level, multiscale.max_level = min_level, min_level + len(grids) - 1
    multiscale.normalize_coordinates = False
    # Anchors of the cell in the middle are those that are clipped least.
    rows, columns = grids[0]
    start = (rows // 2 * columns + columns // 2) * count
    cell = corners[start : start + count].astype(np.float64)
    sides = cell[:, 2:] - cell[:, :2]
    scales = np.sqrt(np.maximum(sides.prod(axis=1), 0.0)) / 2**min_level
    ratios = _distinct(sides[:, 1] / np.maximum(sides[:, 0], 1e-3))
    multiscale.anchor_scale = _short(float(scales[0]))
    multiscale.aspect_ratios.extend(map(_short, ratios))
    multiscale.scales_per_octave = max(1, count // len(ratios))
    built = anchors.build_anchor_generator(Section(config, 'first_stage_anchor_generator'))
    if built.anchors_per_location()[0] == count:
        made = built.generate(grids, size)
        clipped = np.clip(made, 0, np.tile(np.asarray(size, np.float32), 2))
        for each in (made, clipped):
            if each.shape == corners.shape and np.abs(each - corners).max() < _TOLERANCE:
                return config
    raise Refusal(f'its {count} anchors of a cell are not several scales with every ratio')


def _distinct(values: np.ndarray) -> List[float]:
    known: List[float] = []
    for value in values:
        if not any(abs(value - each) < 1e-3 * each for each in known):
            known.append(float(value))
    return known


def _short(value: float) -> float:
    """Return the number of fewest digits within the precision of pixels in float32."""
    for digits in range(1, 6):
        if abs(round(value, digits) - value) <= 2e-5 * value:
            return round(value, digits)
    return float(np.float32(value))


def _read_padding(
    named: faster_rcnn_pb2.FasterRcnnFeatureExtractor,
    grid: Tuple[int, int],
    size: Tuple[int, int],
    proposal: Proposal,
) -> None:
    """Read the number that images are padded to a multiple of."""
    stride = 2**named.fpn.min_level
    for multiple in _MULTIPLES:
        padded = [-(-side // multiple) * multiple for side in size]
        if [-(-side // stride) for side in padded] == list(grid):
            break
    else:
        raise Refusal(f'images of {size} pixels have a map of {grid} cells')
    if multiple != named.pad_to_multiple:
        evidence = f'images of {size} pixels have a map of {grid} cells'
        where = f'{_EXTRACTOR}.pad_to_multiple'
        named.pad_to_multiple = proposal.learn(where, multiple, evidence)
