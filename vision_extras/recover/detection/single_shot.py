"""Recognition of single-shot detectors."""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Sequence, Tuple

import numpy as np

from model_fns.detection import fields
from model_fns.detection.boxes import rotated
from protos import image_resizer_pb2
from vision_extras.recover import bases
from vision_extras.recover.artifacts import running
from vision_extras.recover.artifacts.graphs import Graph
from vision_extras.recover.artifacts.reading import Artifact
from vision_extras.recover.detection import (
    anchor_fitting,
    decoding,
    device_op,
    extractors,
    heads,
    outputs,
    published,
    resizing,
)
from vision_extras.recover.facts import Proposal, Refusal
from vision_extras.recover.kernels import Kernels

_WHERE = 'model.ssd'
_EXTRACTOR = f'{_WHERE}.feature_extractor'
_SUPPRESSED = f'{_WHERE}.post_processing'
_SCALES = ('y_scale', 'x_scale', 'height_scale', 'width_scale', 'angle_scale')
# Layers after the backbone, which have the hyperparameters of the config.
_ADDED_LAYERS = r'FeatureExtractor/.*(fpn/|bottom_up|_Conv2d_\d+_\dx\d)'
_STACKED = r'_2_Conv2d_\d+_\dx\d_s2_'
# The layers of the neck of an EfficientDet, whose activation is before them.
_NECK_LAYERS = r'FeatureExtractor/bifpn/.*/post/'

_Size = Tuple[int, int]


def propose(artifact: Artifact, kernels: Kernels) -> Optional[Proposal]:
    """Describe the single-shot detector of an artifact; None where it is none.

    Raises:
        Refusal: it has the head of one, and a network that is not known.
    """
    shapes, graph = kernels.shapes(), artifact.graph
    found = [] if graph is None else decoding.find_decodings(graph)
    decoded = max(found, key=lambda one: len(one.scales), default=None)
    head = heads.recognize(shapes, heads.CODE_SIZE if decoded is None else len(decoded.scales))
    if head is None or not any(
        name.startswith(f'{scope}/') for name in shapes for scope in extractors.scopes()
    ):
        return None
    num_maps = _count_maps(artifact, kernels, head)
    extractor = extractors.recognize(shapes, num_maps)
    kind = extractor.type
    field = head.config.WhichOneof('box_predictor_oneof') or ''
    proposal = Proposal(published.single_shot(kind, field), kind)
    ssd = proposal.config.model.ssd
    proposal.merge(_EXTRACTOR, extractor, 'names and shapes of all kernels')
    proposal.merge(f'{_WHERE}.box_predictor', head.config, f'kernels {head.codes[0]}, ...')
    if extractor.HasField('bifpn'):
        method, evidence = extractors.find_combination(kind, kernels)
        if evidence:
            proposal.set(f'{_EXTRACTOR}.bifpn.combine_method', method, evidence)
        ssd.feature_extractor.bifpn.combine_method = method
    parts = (('feature_extractor', _ADDED_LAYERS), (f'box_predictor.{field}', head.layers))
    for part, layers in parts:
        _read_hyperparams(f'{_WHERE}.{part}.conv_hyperparams', layers, kernels, proposal)
    if graph is None:
        published.add_single_shot(proposal, head.anchors[-1], num_maps)
    else:
        _read_padding(graph, kernels, proposal)
        with running.open_runner(artifact) as runner:
            _read_graph(artifact, graph, kernels, runner, head, decoded, proposal)
    classes = head.class_columns - int(ssd.add_background_class)
    evidence = f'{head.class_columns} class logits an anchor'
    proposal.set(f'{_WHERE}.num_classes', classes, evidence)
    return proposal


def _read_hyperparams(where: str, layers: str, kernels: Kernels, proposal: Proposal) -> None:
    before = _NECK_LAYERS if where.startswith(_EXTRACTOR) else ''
    kernels.read_style(where, layers, proposal, before)
    has_biases = any(
        layer.has_batch_norm and layer.bias is not None and re.search(layers, layer.name)
        for layer in kernels.layers
    )
    has_norm = kernels.epsilon(layers) is not None
    if has_norm and (has_biases or 'efficientnet' in proposal.network):
        evidence = 'biases before batch norms' if has_biases else 'no biases'
        proposal.set('force_use_bias', has_biases, evidence, where)


def _count_maps(artifact: Artifact, kernels: Kernels, head: heads.Head) -> int:
    """Return the number of maps that a head is applied to."""
    if not head.is_shared:
        return len(head.codes)
    names = (name.rpartition('/feature_')[2] for name in artifact.arrays if '/feature_' in name)
    maps = {name.partition('/')[0] for name in names}
    return len(maps) or max(1, len(_code_layers(kernels, head)))


def _code_layers(kernels: Kernels, head: heads.Head) -> List[str]:
    """Return the layers of box codes, in the order of the maps."""
    return [
        layer.name
        for scope in head.codes
        for layer in kernels.layers
        if kernels.scopes[layer.name] == scope and layer.op == 'Conv2D'
    ]


def _read_graph(
    artifact: Artifact,
    graph: Graph,
    kernels: Kernels,
    runner: running.Runner,
    head: heads.Head,
    decoded: Optional[decoding.BoxDecoding],
    proposal: Proposal,
) -> None:
    tensor = resizing.network_input(graph, runner)
    _read_resizer(graph, runner, tensor, proposal)
    device, known = device_op.find(graph), outputs.find(artifact)
    if device is not None:
        known = {fields.DETECTION_SCORES: device_op.scores(graph, device)}
    elif decoded is None:
        raise Refusal('its graph decodes no boxes, so its anchors are not known')
    layers = _code_layers(kernels, head)
    size, grids, boxes = decoding.measure(graph, runner, tensor, layers, decoded)
    if head.is_shared:
        grids.sort(reverse=True)  # as converters put the maps in any order
    if device is not None:
        boxes = device_op.read(graph, device, head.class_columns, proposal)
    elif decoded is not None:
        _set_coder(decoded, proposal)
    _read_anchors(head, kernels, boxes.astype(np.float64), grids, size, proposal)
    _read_scores(graph, known, device is None, proposal)
    if device is None:
        suppression = decoding.find_suppression(graph)
        outputs.read_suppression(suppression, runner, known, _SUPPRESSED, proposal)


def _read_padding(graph: Graph, kernels: Kernels, proposal: Proposal) -> None:
    """Read whether maps with odd sides are padded by the concatenation of zeros."""
    stacked = [layer.name for layer in kernels.layers if re.search(_STACKED, layer.name)]
    before = [graph.source(graph.inputs(name)[0]) for name in stacked]
    if before and all(graph.nodes[name].op == 'ConcatV2' for name in before):
        proposal.set(f'{_EXTRACTOR}.pad_stacked_maps', True, f'node {before[0]}')


def _read_resizer(graph: Graph, runner: running.Runner, tensor: str, proposal: Proposal) -> None:
    where = f'{_WHERE}.image_resizer'
    if runner.takes_pixels:
        resizing.read(runner, graph, tensor, where, proposal)
        return
    size = runner.accepted_size((0, 0))
    if not size[0]:
        raise Refusal('its input is that of the network, of any size')
    resizer = image_resizer_pb2.ImageResizer()
    resizer.fixed_shape_resizer.height, resizer.fixed_shape_resizer.width = size
    proposal.set(where, resizer, f'shape of {runner.input_name}')
    proposal.network_input = fields.PREPROCESSED
    proposal.unknown.append(
        'Its input is that of the network, so it does not tell how images of other sizes are '
        'resized, nor how pixels are normalized.'
    )


def _set_coder(decoded: decoding.BoxDecoding, proposal: Proposal) -> None:
    """Set the box coder, and the kind of boxes."""
    kind = 'faster_rcnn_box_coder'
    if len(decoded.scales) == rotated.SIZE:
        kind = 'rotated_box_coder'
        proposal.config.model.ssd.box_coder.Clear()
        evidence = f'{rotated.SIZE} codes of a box in {decoded.where}'
        proposal.set(f'{_WHERE}.box_type', 'ROTATED', evidence)
        del proposal.config.eval_config.metrics_set[:]  # those of axis-aligned boxes
    for name, scale in zip(_SCALES, decoded.scales):
        where, evidence = f'{_WHERE}.box_coder.{kind}.{name}', f'constants before {decoded.where}'
        proposal.set(where, scale, evidence)


def _read_anchors(
    head: heads.Head,
    kernels: Kernels,
    boxes: np.ndarray,
    grids: Sequence[_Size],
    size: _Size,
    proposal: Proposal,
) -> None:
    """Fit a generator to anchors [A, 4], or rotated ones [A, 5]."""
    is_rotated = boxes.shape[1] == rotated.SIZE
    counts = head.anchors if len(head.anchors) == len(grids) else [head.anchors[0]] * len(grids)
    fit = anchor_fitting.fit_rotated if is_rotated else anchor_fitting.fit
    fitted = fit(boxes, counts, grids, size)
    if fitted is None and not head.is_shared and not is_rotated:
        order = anchor_fitting.modern_order(boxes, counts, grids)
        fitted = None if order is None else fit(boxes[order], counts, grids, size)
        if fitted is not None:
            _reorder(kernels, counts, grids, order, proposal)
    if fitted is None:
        kind = 'rotated anchors' if is_rotated else 'anchors'
        raise Refusal(f'its {len(boxes)} {kind} are of no known generator')
    evidence = f'{len(boxes)} anchors that its graph computes'
    proposal.set(f'{_WHERE}.anchor_generator', fitted, evidence)


def _reorder(
    kernels: Kernels,
    counts: Sequence[int],
    grids: Sequence[_Size],
    order: np.ndarray,
    proposal: Proposal,
) -> None:
    """Give the outputs of the head the order of the published anchors.

    Args:
        kernels: changed in place.
        counts: number of anchors of a cell of each map.
        grids: rows and columns of each map.
        order: indices [A] of the anchors in the order of the published generator.
        proposal: compares scores in the order of the artifact.
    """
    start = 0
    for index, (count, (rows, columns)) in enumerate(zip(counts, grids)):
        places = order[start : start + count] - start
        start += count * rows * columns
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
    graph: Graph, known: Dict[str, str], slices_background: bool, proposal: Proposal
) -> None:
    scores = decoding.find_scores(graph, outputs.ends(known))
    proposal.set(f'{_SUPPRESSED}.score_converter', scores.converter, f'node {scores.tensor}')
    evidence = 'divisor before the conversion'
    proposal.set(f'{_SUPPRESSED}.logit_scale', scores.logit_scale, evidence)
    if slices_background:
        evidence = 'a slice leaves out the first column of scores'
        proposal.set(f'{_WHERE}.add_background_class', scores.background_column, evidence)
    outputs.add_compared(known, graph, scores, [fields.RAW_DETECTION_BOXES], proposal)
