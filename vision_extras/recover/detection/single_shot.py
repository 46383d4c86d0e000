"""Recognition of single-shot detectors."""

from __future__ import annotations

import functools
import re
from typing import Dict, Optional, Sequence, Tuple

import numpy as np

from estimator_lib.config.section import Section
from model_fns.detection import fields
from model_fns.detection.networks.feature_extractors.bifpn import BidirectionalPyramid
from protos import hyperparams_pb2, pipeline_pb2, ssd_pb2
from vision_extras.recover import bases
from vision_extras.recover.artifacts import graphs, running
from vision_extras.recover.artifacts.graphs import Graph
from vision_extras.recover.artifacts.reading import Artifact
from vision_extras.recover.detection import (
    anchor_fitting,
    decoding,
    defaults,
    device_op,
    extractors,
    heads,
    necks,
    outputs,
    published_objects,
    resizing,
    rotated_boxes,
)
from vision_extras.recover.facts import Proposal, Refusal
from vision_extras.recover.kernels import Kernels

_WHERE = 'model.ssd'
_ACTIVATIONS = {
    'Relu6': hyperparams_pb2.Hyperparams.RELU_6,
    'Relu': hyperparams_pb2.Hyperparams.RELU,
    graphs.SWISH: hyperparams_pb2.Hyperparams.SWISH,
}
_IMAGE = (64, 96)
# Layers after the backbone, which have the hyperparameters of the config.
_ADDED_LAYERS = r'FeatureExtractor/.*(fpn/|bottom_up|_Conv2d_\d+_\dx\d)'
_STACKED = r'_2_Conv2d_\d+_\dx\d_s2_'
# The layers of the neck of an EfficientDet, whose activation is before them.
_NECK_LAYERS = r'FeatureExtractor/bifpn/.*/post/'


def propose(artifact: Artifact, kernels: Kernels) -> Optional[Proposal]:
    """Describe the single-shot detector of an artifact; None where it is none.

    Raises:
        Refusal: it has the head of one, and a network that is not known.
    """
    shapes = kernels.shapes()
    proposal = Proposal(pipeline_pb2.TrainEvalPipelineConfig(), '')
    rotated = None if artifact.graph is None else rotated_boxes.find(artifact.graph)
    code_size = heads.CODE_SIZE if rotated is None else rotated_boxes.CODE_SIZE
    head = heads.recognize(shapes, proposal, code_size)
    if head is None or not any(
        name.startswith(f'{scope}/') for name in shapes for scope in extractors.scopes()
    ):
        return None
    num_maps = len(head.anchors) or _count_shared_maps(artifact, kernels)
    matches = extractors.recognize(shapes, num_maps)
    if not matches or matches[0].differences:
        raise Refusal(
            'the feature extractor is of no known network',
            {str(match.settings['type']): match.differences for match in matches[:3]},
        )
    match = matches[0]
    kind = str(match.settings['type'])
    head_field = head.config.WhichOneof('box_predictor_oneof') or ''
    if match.neck is None:
        config = defaults.build(kind, head_field)
    else:
        config = published_objects.efficient_detector(kind)
    config.model.ssd.box_predictor.MergeFrom(head.config)
    proposal.config, proposal.network = config, kind
    _set_extractor(config.model.ssd, match, num_maps, proposal)
    if match.neck is not None:
        _set_neck(config.model.ssd.feature_extractor, match.neck, kind, kernels, proposal)
    _set_hyperparams(config.model.ssd, head, head_field, kernels, proposal)
    ssd = config.model.ssd
    if artifact.graph is None:
        _guess_anchors(ssd, head, match, proposal)
    else:
        with running.open_runner(artifact) as runner:
            _read_graph(ssd, artifact, artifact.graph, kernels, runner, head, rotated, proposal)
    ssd.num_classes = head.class_columns - int(ssd.add_background_class)
    proposal.learn(
        f'{_WHERE}.num_classes', ssd.num_classes, f'{head.class_columns} class logits an anchor'
    )
    return proposal


def _set_extractor(
    ssd: ssd_pb2.Ssd, match: extractors.Match, num_maps: int, proposal: Proposal
) -> None:
    section = Section(ssd, _WHERE).child('feature_extractor')
    extractor, evidence = section.message, 'names and shapes of all kernels'
    for name, value in match.settings.items():
        proposal.set(section, name, value, evidence)
    if match.min_level:
        extractor.fpn.min_level, extractor.fpn.max_level = match.min_level, match.max_level
        extractor.fpn.additional_layer_depth = match.depth
        levels = f'levels {match.min_level} to {match.max_level}'
        proposal.learn(section.at('fpn'), levels, evidence)
    elif match.neck is None and num_maps != extractor.num_layers:
        proposal.set(section, 'num_layers', num_maps, evidence)


def _set_neck(
    extractor: ssd_pb2.SsdFeatureExtractor,
    neck: BidirectionalPyramid,
    kind: str,
    kernels: Kernels,
    proposal: Proposal,
) -> None:
    section = Section(extractor, f'{_WHERE}.feature_extractor').child('bifpn')
    config = section.message
    config.min_level, config.max_level = neck.min_level, neck.max_level
    config.num_iterations, config.num_filters = neck.iterations, neck.depth
    for name in ('min_level', 'max_level', 'num_iterations', 'num_filters'):
        evidence = 'names and shapes of its kernels'
        proposal.learn(section.at(name), getattr(config, name), evidence)
    config.combine_method, evidence = necks.find_combination(kind, kernels)
    if evidence:
        proposal.learn(section.at('combine_method'), config.combine_method, evidence)


def _set_hyperparams(
    ssd: ssd_pb2.Ssd, head: heads.Head, head_field: str, kernels: Kernels, proposal: Proposal
) -> None:
    parts = (
        ('feature_extractor', _ADDED_LAYERS),
        (f'box_predictor.{head_field}', head.layers),
    )
    for part, layers in parts:
        section = Section(ssd, _WHERE).child(f'{part}.conv_hyperparams')
        hyperparams = section.message
        activation = kernels.activation(layers)
        if activation is None and part == 'feature_extractor':
            activation = kernels.activation_before(_NECK_LAYERS)
        if activation in _ACTIVATIONS:
            hyperparams.activation = _ACTIVATIONS[activation]
            proposal.learn(section.at('activation'), activation, f'node type {activation}')
        epsilon = kernels.epsilon(layers)
        if epsilon is not None:
            hyperparams.batch_norm.epsilon = float(f'{epsilon:.6g}')
            evidence = 'attribute epsilon of batch norms'
            proposal.learn(section.at('batch_norm.epsilon'), f'{epsilon:.6g}', evidence)
            has_biases = _has_biases(kernels, layers)
            if has_biases or hyperparams.HasField('force_use_bias'):
                evidence = 'biases before batch norms' if has_biases else 'no biases'
                proposal.set(section, 'force_use_bias', has_biases, evidence)


def _has_biases(kernels: Kernels, layers: str) -> bool:
    """Check whether a layer with a part in its name has biases and a batch norm."""
    return any(
        layer.has_batch_norm and layer.bias is not None and re.search(layers, layer.name)
        for layer in kernels.layers
    )


def _count_shared_maps(artifact: Artifact, kernels: Kernels) -> int:
    """Return the number of maps that a shared head is applied to."""
    maps = {
        name.rpartition('/feature_')[2].partition('/')[0]
        for name in artifact.arrays
        if '/feature_' in name
    }
    if maps:
        return len(maps)
    layers = [layer for layer in kernels.layers if '/BoxPredictor/' in layer.name]
    return max(1, len([layer for layer in layers if not layer.name.endswith('depthwise')]))


def _read_graph(
    ssd: ssd_pb2.Ssd,
    artifact: Artifact,
    graph: Graph,
    kernels: Kernels,
    runner: running.Runner,
    head: heads.Head,
    rotated: Optional[rotated_boxes.Decoding],
    proposal: Proposal,
) -> None:
    _read_padding(ssd.feature_extractor, graph, kernels, proposal)
    tensor = graphs.first_layer_input(graph, runner.input_name)
    if tensor is None:
        raise Refusal('its network has no input of images that could be computed')
    _read_resizer(ssd, graph, runner, tensor, proposal)
    size = runner.run({'input': tensor}, runner.test_image(_IMAGE))['input'].shape[1:3]
    device = device_op.find(graph)
    known = outputs.find(artifact)
    by_map = functools.partial(_read_anchors, ssd, head, kernels, proposal)
    pixels = (int(size[0]), int(size[1]))
    if device is not None:
        boxes = device_op.read(ssd, graph, device, head.class_columns, proposal)
        known = {fields.DETECTION_SCORES: device_op.scores(graph, device)}
        by_map(boxes, pixels)
    elif rotated is not None:
        counts = head.anchors or [head.anchors_of_all]
        rotated_boxes.read(proposal.config, rotated, runner, counts, pixels, proposal)
    else:
        by_map(_read_boxes(ssd, graph, runner, proposal), pixels)
    _read_scores(ssd, graph, known, device is None, proposal)
    if device is None:
        section = Section(ssd, _WHERE).child('post_processing.batch_non_max_suppression')
        suppression = decoding.find_suppression(graph)
        outputs.read_suppression(suppression, runner, known, section, proposal)


def _read_padding(
    extractor: ssd_pb2.SsdFeatureExtractor, graph: Graph, kernels: Kernels, proposal: Proposal
) -> None:
    """Read whether maps with odd sides are padded by the concatenation of zeros."""
    stacked = [layer.name for layer in kernels.layers if re.search(_STACKED, layer.name)]
    before = [graph.source(graph.inputs(name)[0]) for name in stacked]
    if before and all(graph.nodes[name].op == 'ConcatV2' for name in before):
        where, evidence = f'{_WHERE}.feature_extractor.pad_stacked_maps', f'node {before[0]}'
        extractor.pad_stacked_maps = proposal.learn(where, True, evidence)


def _read_resizer(
    ssd: ssd_pb2.Ssd, graph: Graph, runner: running.Runner, tensor: str, proposal: Proposal
) -> None:
    where = f'{_WHERE}.image_resizer'
    if runner.takes_pixels:
        resizer = resizing.recognize(runner, graph, tensor, where, proposal)
        if resizer is None:
            raise Refusal('its network has no input of images that could be computed')
        ssd.image_resizer.CopyFrom(resizer)
        return
    size = runner.accepted_size((0, 0))
    if not size[0]:
        raise Refusal('its input is that of the network, of any size')
    fixed = ssd.image_resizer.fixed_shape_resizer
    fixed.height, fixed.width = size
    proposal.learn(where, f'fixed_shape_resizer {size}', f'shape of {runner.input_name}')
    proposal.network_input = fields.PREPROCESSED
    proposal.unknown.append(
        'Its input is that of the network, so it does not tell how images of other sizes are '
        'resized, nor how pixels are normalized.'
    )


def _read_boxes(
    ssd: ssd_pb2.Ssd, graph: Graph, runner: running.Runner, proposal: Proposal
) -> np.ndarray:
    """Return the anchors [A, 4] of the graph: center y, center x, height, width."""
    found = decoding.find_decodings(graph)
    if not found:
        raise Refusal('its graph decodes no boxes, so its anchors are not known')
    decoded = found[0]
    coder = ssd.box_coder.faster_rcnn_box_coder
    names = ('y_scale', 'x_scale', 'height_scale', 'width_scale')
    for name, scale in zip(names, decoded.scales):
        setattr(coder, name, float(f'{scale:.6g}'))
    evidence = f'constants before {decoded.where}'
    proposal.learn(f'{_WHERE}.box_coder', decoded.scales, evidence)
    image = runner.test_image(_IMAGE)
    values = runner.run(dict(zip(('y', 'x', 'h', 'w'), decoded.anchors)), image)
    return np.stack([np.ravel(values[key]) for key in ('y', 'x', 'h', 'w')], axis=1)


def _read_anchors(
    ssd: ssd_pb2.Ssd,
    head: heads.Head,
    kernels: Kernels,
    proposal: Proposal,
    boxes: np.ndarray,
    size: Tuple[int, int],
) -> None:
    counts: Sequence[int] = head.anchors or [head.anchors_of_all]
    boxes = boxes.astype(np.float64)
    fitted, order = anchor_fitting.fit(boxes, counts, size), None
    if fitted is None and head.anchors:
        order = anchor_fitting.modern_order(boxes, counts)
        fitted = None if order is None else anchor_fitting.fit(boxes[order], counts, size)
    if fitted is not None and order is not None:
        _reorder(kernels, head.anchors, boxes, order, proposal)
    if fitted is None:
        raise Refusal(f'its {len(boxes)} anchors are of no known generator')
    ssd.anchor_generator.CopyFrom(fitted)
    evidence = f'{len(boxes)} anchors that its graph computes'
    kind = fitted.WhichOneof('anchor_generator_oneof')
    proposal.learn(f'{_WHERE}.anchor_generator', kind, evidence)


def _reorder(
    kernels: Kernels,
    counts: Sequence[int],
    boxes: np.ndarray,
    order: np.ndarray,
    proposal: Proposal,
) -> None:
    """Give the outputs of the head the order of the published anchors.

    Args:
        kernels: changed in place.
        counts: number of anchors of a cell of each map.
        boxes: anchors [A, 4] in the order of the artifact.
        order: indices [A] of the anchors in the order of the published generator.
        proposal: compares scores in the order of the artifact.
    """
    start = 0
    levels = anchor_fitting.split_levels(boxes, counts) or []
    for index, (count, level) in enumerate(zip(counts, levels)):
        places = order[start : start + count] - start
        start += count * level.grid[0] * level.grid[1]
        for name, value in list(kernels.arrays.items()):
            match = re.match(rf'BoxPredictor_{index}/(Class|BoxEncoding)Predictor/(\w+)$', name)
            if match and match.group(2) in ('weights', 'pointwise_weights', 'biases'):
                cells = value.reshape(*value.shape[:-1], count, -1)
                kernels.arrays[name] = cells[..., places, :].reshape(value.shape)
    inverse = np.argsort(order)
    for name in (fields.RAW_DETECTION_SCORES, fields.RAW_DETECTION_BOXES, fields.BOX_ENCODINGS):
        proposal.ours[name] = lambda value: value[:, inverse]
    evidence = 'the anchor between the scales of two maps is the second of a cell in its graph'
    proposal.learn(bases.CHECKPOINT, 'kernels of the head in the order of newer anchors', evidence)


def _read_scores(
    ssd: ssd_pb2.Ssd,
    graph: Graph,
    known: Dict[str, str],
    slices_background: bool,
    proposal: Proposal,
) -> None:
    scores = decoding.find_scores(graph, outputs.ends(known))
    section = Section(ssd, _WHERE).child('post_processing')
    ssd.post_processing.score_converter = outputs.CONVERTERS[scores.converter]
    proposal.learn(section.at('score_converter'), scores.converter, f'node {scores.tensor}')
    if scores.logit_scale != 1.0:
        ssd.post_processing.logit_scale = scores.logit_scale
    evidence = 'divisor before the conversion'
    proposal.learn(section.at('logit_scale'), scores.logit_scale, evidence)
    if slices_background:
        ssd.add_background_class = scores.background_column
        evidence = 'a slice leaves out the first column of scores'
        proposal.learn(f'{_WHERE}.add_background_class', scores.background_column, evidence)
    outputs.add_compared(known, graph, scores, [fields.RAW_DETECTION_BOXES], proposal)


def _guess_anchors(
    ssd: ssd_pb2.Ssd, head: heads.Head, match: extractors.Match, proposal: Proposal
) -> None:
    """Set the published anchors and size of images, which a checkpoint does not hold."""
    ssd.add_background_class = match.neck is None
    levels = match if match.neck is None else match.neck
    if levels.min_level:
        octaves = 2 if match.neck is None else 3
        multiscale = ssd.anchor_generator.multiscale_anchor_generator
        multiscale.min_level, multiscale.max_level = levels.min_level, levels.max_level
        multiscale.anchor_scale, multiscale.scales_per_octave = 4.0, octaves
        multiscale.aspect_ratios.extend(published_objects.RATIOS)
        side, published = 640, octaves * len(published_objects.RATIOS)
    else:
        generator = ssd.anchor_generator.ssd_anchor_generator
        generator.num_layers, generator.min_scale, generator.max_scale = (
            len(head.anchors),
            0.2,
            0.95,
        )
        generator.aspect_ratios.extend([1.0, 2.0, 0.5, 3.0, 0.3333])
        side, published = 300, 6
    count = head.anchors_of_all or head.anchors[-1]
    if count != published:
        raise Refusal(
            f'a checkpoint tells no anchors, and its {count} anchors of a cell are not the '
            f'published {published}'
        )
    if match.neck is None:
        ssd.image_resizer.fixed_shape_resizer.height = side
        ssd.image_resizer.fixed_shape_resizer.width = side
    else:
        keeping = ssd.image_resizer.keep_aspect_ratio_resizer
        side = published_objects.efficient_side(ssd.feature_extractor.type)
        keeping.min_dimension = keeping.max_dimension = side
    published_objects.set_suppression(ssd)
    proposal.unknown.append(
        'A checkpoint tells neither the size of images, nor anchors, nor suppression: they are the '
        'published ones.'
    )
