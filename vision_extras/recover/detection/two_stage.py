"""Recognition of two-stage detectors (Faster R-CNN, Mask R-CNN and R-FCN of TensorFlow 1)."""

from __future__ import annotations

import re
from typing import List, Mapping, Optional, Set, Tuple

from model_fns.backbones import registry
from model_fns.detection import fields
from model_fns.detection.architectures.faster_rcnn import extractors
from protos import input_reader_pb2
from vision_extras.recover import bases
from vision_extras.recover.artifacts import running
from vision_extras.recover.artifacts.graphs import Graph
from vision_extras.recover.artifacts.reading import Artifact
from vision_extras.recover.detection import (
    anchor_fitting,
    decoding,
    outputs,
    published,
    region_pyramids,
    resizing,
    second_stages,
)
from vision_extras.recover.facts import Proposal, Refusal
from vision_extras.recover.kernels import Kernels

_WHERE = 'model.faster_rcnn'
_EXTRACTOR = f'{_WHERE}.feature_extractor'
_FIRST, _SECOND = extractors.FIRST_SCOPE, extractors.SECOND_SCOPE
_CODES = re.compile(r'^FirstStageBoxPredictor(?:_(\d+))?/BoxEncodingPredictor/weights$')
_REGION_FEATURES = 'Conv/weights'
_CODE_SIZE = 4
_PASSED = ('Identity', 'IdentityN', 'StopGradient')
# What does not change what a detector computes.
_TRAINING = (
    'first_stage_box_predictor_conv_hyperparams',
    'first_stage_localization_loss_weight',
    'second_stage_localization_loss_weight',
    'second_stage_box_predictor',
)
_STYLE = ('conv_hyperparams', 'batch_norm_trainable', 'override_base_feature_extractor_hyperparams')
# Types by the channels of the first layer of a MobileNet.
_NARROW = {24: '_075', 16: '_050', 8: '_025'}


def propose(artifact: Artifact, kernels: Kernels) -> Optional[Proposal]:
    """Describe the two-stage detector of an artifact; None where it is none.

    Raises:
        Refusal: it is one of a kind that is not supported.
    """
    shapes, graph = kernels.shapes(), artifact.graph
    regions = region_codes(shapes)
    if not regions or _REGION_FEATURES not in shapes:
        return None
    if any('Attention' in name or 'ContextFeature' in name for name in shapes):
        raise Refusal('it attends to features of other images, which is not supported')
    proposal = Proposal(bases.load('bccd_faster_rcnn', 'detection'), '')
    model, has_pyramid = proposal.at(_WHERE), region_pyramids.has_pyramid(shapes)
    bases.keep(model, (*_TRAINING, 'feature_extractor'))
    bases.keep(model.feature_extractor, _STYLE if has_pyramid else ())
    if has_pyramid:
        region_pyramids.read(kernels, len(regions), proposal)
    else:
        proposal.network = _type(shapes)
        evidence = 'names and shapes of all kernels'
        proposal.set(f'{_EXTRACTOR}.type', proposal.network, evidence)
    _read_region_features(kernels, proposal)
    second_stages.recognize(kernels, graph, proposal)
    _set_readers(proposal)
    if graph is not None:
        _read_graph(artifact, graph, kernels, regions, proposal)
    elif has_pyramid:
        raise Refusal('a checkpoint of a two-stage detector with a pyramid tells no anchors')
    else:
        published.add_two_stages(proposal, shapes[regions[0]][-1] // _CODE_SIZE)
    return proposal


def region_codes(shapes: Mapping[str, Tuple[int, ...]]) -> List[str]:
    """Return the kernels of box codes of the first stage, one for each feature map."""
    matches = [match for match in map(_CODES.match, shapes) if match]
    return [match.group(0) for match in sorted(matches, key=lambda one: int(one.group(1) or 0))]


def _set_readers(proposal: Proposal) -> None:
    """Let readers load the masks and keypoints of a model."""
    config = proposal.config
    head = config.model.faster_rcnn.second_stage_box_predictor.mask_rcnn_box_predictor
    for reader in (config.train_input_reader, *config.eval_input_reader):
        if head.predict_instance_masks:
            reader.load_instance_masks, reader.mask_type = True, input_reader_pb2.PNG_MASKS
        if head.predict_keypoints:
            reader.num_keypoints = head.keypoint_head.num_keypoints
    if head.predict_instance_masks:
        config.eval_config.metrics_set.append('coco_mask_metrics')
    if head.predict_keypoints:
        del config.train_config.data_augmentation_options[:]
        proposal.unknown.append(
            'It does not tell which keypoints change places in a mirrored image, so no images are '
            'mirrored in training.'
        )


def _read_graph(
    artifact: Artifact, graph: Graph, kernels: Kernels, regions: List[str], proposal: Proposal
) -> None:
    crops = graph.find_ops('CropAndResize')
    before = {name: set(graph.ancestors([name])) for name in crops}
    # Those of proposals first, those of detections last.
    crops.sort(key=lambda name: len(before[name]))
    head = proposal.at(_WHERE).second_stage_box_predictor
    with running.open_runner(artifact) as runner:
        tensor = resizing.network_input(graph, runner, needs_pixels=True)
        resizing.read(runner, graph, tensor, f'{_WHERE}.image_resizer', proposal)
        _read_regions(graph, kernels, regions, runner, tensor, proposal)
        if head.mask_rcnn_box_predictor.predict_instance_masks:
            second_stages.read_mask_size(graph, runner, proposal)
        first_stage = before[crops[0]] if crops else set()
        _read_first_suppression(graph, first_stage, proposal)
        if not head.HasField('rfcn_box_predictor'):
            _read_crops(graph, crops, before, proposal)
        _read_scores(artifact, graph, set(graph.nodes) - first_stage, runner, proposal)


def _read_region_features(kernels: Kernels, proposal: Proposal) -> None:
    size, *_, depth = kernels.shapes()[_REGION_FEATURES]
    where, evidence = f'{_WHERE}.first_stage', f'kernel {_REGION_FEATURES}'
    proposal.set(f'{where}_box_predictor_kernel_size', size, evidence)
    proposal.set(f'{where}_box_predictor_depth', depth, evidence)
    layer = next((each for each in kernels.layers if each.weights_name == _REGION_FEATURES), None)
    rate = None if layer is None or kernels.graph is None else kernels.graph.rate(layer.name)
    if rate is not None:
        proposal.set(f'{where}_atrous_rate', rate, f'dilation of {_REGION_FEATURES}')


def _type(shapes: Mapping[str, Tuple[int, ...]]) -> str:
    """Return the type of the feature extractor."""
    for kind in extractors.EXTRACTORS:
        network = registry.get_network(extractors.EXTRACTORS.get(kind).network, task='detection')
        scope = f'{_FIRST}/{network.scope}/'
        if kind.endswith('_keras') or not any(name.startswith(scope) for name in shapes):
            continue
        if kind.startswith('faster_rcnn_mobilenet'):
            return kind + _NARROW.get(shapes[f'{scope}Conv2d_0/weights'][-1], '')
        return kind
    raise Refusal('the feature extractor is of no known network')


def _read_regions(
    graph: Graph,
    kernels: Kernels,
    regions: List[str],
    runner: running.Runner,
    tensor: str,
    proposal: Proposal,
) -> None:
    """Read the anchors of the first stage, its stride, and the padding of images."""
    found = decoding.find_decodings(graph)
    if not found:
        raise Refusal('its graph decodes no boxes, so its anchors are not known')
    layers = {layer.weights_name: layer.name for layer in kernels.layers}
    names = [layers[name] for name in regions]
    size, grids, boxes = decoding.measure(graph, runner, tensor, names, found[0])
    count = kernels.shapes()[regions[0]][-1] // _CODE_SIZE
    fitted = anchor_fitting.fit(boxes, [count] * len(grids), grids, size, in_pixels=True)
    if fitted is None:
        raise Refusal(f'its {count} anchors of a cell are not every scale with every ratio')
    evidence = f'{len(boxes)} anchors that its graph computes, {count} a cell'
    proposal.set(f'{_WHERE}.first_stage_anchor_generator', fitted, evidence)
    if proposal.at(_EXTRACTOR).HasField('fpn'):
        region_pyramids.read_padding(grids[0], size, proposal)
        return
    pixels = size[0] / grids[0][0]
    evidence = f'{pixels:.1f} rows of pixels a row of anchors'
    proposal.set(f'{_EXTRACTOR}.first_stage_features_stride', 8 if pixels < 12 else 16, evidence)


def _read_first_suppression(graph: Graph, first_stage: Set[str], proposal: Proposal) -> None:
    suppression = decoding.find_suppression(graph, first_stage)
    if suppression is None:
        return
    where, evidence = f'{_WHERE}.first_stage', f'input of {suppression.where}'
    score, most = suppression.score_threshold, suppression.max_per_class
    if suppression.iou_threshold is not None:
        proposal.set(f'{where}_nms_iou_threshold', suppression.iou_threshold, evidence)
    if most is not None:
        proposal.set(f'{where}_max_proposals', most, evidence)
        model = proposal.at(_WHERE)
        model.second_stage_batch_size = min(model.second_stage_batch_size, most)
    if score is not None and score >= 0:
        proposal.set(f'{where}_nms_score_threshold', score, evidence)


def _read_crops(
    graph: Graph, crops: List[str], before: Mapping[str, Set[str]], proposal: Proposal
) -> None:
    if not crops:
        raise Refusal('its graph has no node CropAndResize, so the size of crops is not known')
    size, samples = _crop_size(graph, crops[0])
    evidence = f'input of {crops[0]}'
    if samples:
        proposal.set(f'{_WHERE}.roi_align.samples_per_side', samples, f'AvgPool of {crops[0]}')
    proposal.set(f'{_WHERE}.initial_crop_size', size, evidence)
    model = proposal.at(_WHERE)
    if model.feature_extractor.HasField('fpn') and model.number_of_stages > 2:
        size = _crop_size(graph, crops[-1])[0]
        proposal.set(f'{_WHERE}.instance_crop_size', size, f'input of {crops[-1]}')
    kernel, stride, evidence = 1, 1, 'no node MaxPool after the crops'
    for name in graph.find_ops('MaxPool'):
        if _SECOND not in name and crops[0] in set(graph.ancestors([name])):
            attributes, evidence = graph.nodes[name].attr, f'attributes of {name}'
            kernel, stride = (int(attributes[key].list.i[1]) for key in ('ksize', 'strides'))
            break
    proposal.set(f'{_WHERE}.maxpool_kernel_size', kernel, evidence)
    proposal.set(f'{_WHERE}.maxpool_stride', stride, evidence)


def _crop_size(graph: Graph, crops: str) -> Tuple[int, int]:
    """Return the size of crops, and the samples along the side of a bin; 0: crops are samples."""
    size = graph.constant(graph.inputs(crops)[3])
    if size is None:
        raise Refusal('the size of its crops is no constant')
    side = int(size.ravel()[0])
    users = list(graph.consumers(crops))
    while users:
        name = users.pop()
        if graph.nodes[name].op in _PASSED:
            users += graph.consumers(name)
        elif graph.nodes[name].op == 'AvgPool':
            samples = int(graph.nodes[name].attr['ksize'].list.i[1])
            return side // samples, samples
    return side, 0


def _read_scores(
    artifact: Artifact,
    graph: Graph,
    second_stage: Set[str],
    runner: running.Runner,
    proposal: Proposal,
) -> None:
    """Read the conversion of scores and the suppression of the second stage."""
    known = outputs.find(artifact)
    proposal.counts[fields.RAW_DETECTION_SCORES] = fields.NUM_PROPOSALS
    where = f'{_WHERE}.second_stage_post_processing'
    scores = decoding.find_scores(graph, outputs.ends(known))
    proposal.set('score_converter', scores.converter, f'node {scores.tensor}', where)
    suppression = decoding.find_suppression(graph, second_stage)
    outputs.read_suppression(suppression, runner, known, where, proposal)
    outputs.add_compared(known, graph, scores, [], proposal)
    head = proposal.at(_WHERE).second_stage_box_predictor.mask_rcnn_box_predictor
    for has, output in (
        (head.predict_instance_masks, fields.DETECTION_MASKS),
        (head.predict_keypoints, fields.DETECTION_KEYPOINT_SCORES),
    ):
        if has and output in known:
            proposal.outputs[output] = known[output]
            proposal.counts[output] = fields.NUM_DETECTIONS
