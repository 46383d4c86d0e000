"""Recognition of two-stage detectors (Faster R-CNN, Mask R-CNN and R-FCN of TensorFlow 1)."""

from __future__ import annotations

import math
from typing import Dict, List, Optional, Sequence, Set, Tuple

import numpy as np

from estimator_lib.config.section import Section
from model_fns.backbones import registry
from model_fns.detection import fields, generations
from model_fns.detection.architectures.faster_rcnn import extractors
from model_fns.detection.boxes import anchors
from protos import anchors_pb2, faster_rcnn_pb2, input_reader_pb2, pipeline_pb2
from vision_extras.recover import bases
from vision_extras.recover.artifacts import running
from vision_extras.recover.artifacts.graphs import Graph, first_layer_input
from vision_extras.recover.artifacts.reading import Artifact
from vision_extras.recover.detection import decoding, outputs, resizing
from vision_extras.recover.detection.two_stages import (
    published_sizes,
    region_pyramids,
    second_stages,
)
from vision_extras.recover.facts import Proposal, Refusal
from vision_extras.recover.kernels import Kernels

_WHERE = 'model.faster_rcnn'
_FIRST, _SECOND = 'FirstStageFeatureExtractor', 'SecondStageFeatureExtractor'
_REGION_FEATURES = 'Conv/weights'
_CODE_SIZE = 4
_PASSED = ('Identity', 'IdentityN', 'StopGradient')
_BASE = 256.0  # pixels of an anchor of scale 1, as published
_IMAGE = (160, 224)
_BORDER = 0.01  # in pixels
_TOLERANCE = 0.01  # in pixels
# (scales, aspect ratios) of published configs.
_PUBLISHED = (
    (published_sizes.SCALES, published_sizes.RATIOS),
    (published_sizes.SCALES[1:], published_sizes.RATIOS),
)
# What does not change what a detector computes.
_TRAINING = (
    'first_stage_box_predictor_conv_hyperparams',
    'first_stage_localization_loss_weight',
    'second_stage_localization_loss_weight',
    'second_stage_box_predictor',
)
_STYLE = ('conv_hyperparams', 'batch_norm_trainable', 'override_base_feature_extractor_hyperparams')


def propose(artifact: Artifact, kernels: Kernels) -> Optional[Proposal]:
    """Describe the two-stage detector of an artifact; None where it is none.

    Raises:
        Refusal: it is one of a kind that is not supported.
    """
    shapes = kernels.shapes()
    regions = region_pyramids.region_codes(shapes)
    if not regions or _REGION_FEATURES not in shapes:
        return None
    if any('Attention' in name or 'ContextFeature' in name for name in shapes):
        raise Refusal('it attends to features of other images, which is not supported')
    config = bases.load('bccd_faster_rcnn', 'detection')
    proposal = Proposal(config, '')
    model, has_pyramid = config.model.faster_rcnn, region_pyramids.has_pyramid(shapes)
    bases.keep(model, (*_TRAINING, 'feature_extractor'))
    bases.keep(model.feature_extractor, _STYLE if has_pyramid else ())
    if has_pyramid:
        region_pyramids.read_kernels(config, kernels, proposal)
    else:
        _read_type(model, shapes, proposal)
    _read_region_features(model, kernels, proposal)
    second_stages.recognize(model, kernels, artifact.graph, proposal)
    if second_stages.has_masks(model):
        for reader in (config.train_input_reader, *config.eval_input_reader):
            reader.load_instance_masks = True
            reader.mask_type = input_reader_pb2.PNG_MASKS
        config.eval_config.metrics_set.append('coco_mask_metrics')
    if second_stages.has_keypoints(model):
        _set_keypoint_readers(config, proposal)
    if artifact.graph is None:
        if has_pyramid:
            raise Refusal('a checkpoint of a two-stage detector with a pyramid tells no anchors')
        published_sizes.set_all(model, shapes[regions[0]][-1] // _CODE_SIZE, proposal)
    else:
        _read_graph(model, artifact, artifact.graph, kernels, proposal)
    return proposal


def _set_keypoint_readers(config: pipeline_pb2.TrainEvalPipelineConfig, proposal: Proposal) -> None:
    head = config.model.faster_rcnn.second_stage_box_predictor.mask_rcnn_box_predictor
    for reader in (config.train_input_reader, *config.eval_input_reader):
        reader.num_keypoints = head.keypoint_head.num_keypoints
    del config.train_config.data_augmentation_options[:]
    proposal.unknown.append(
        'It does not tell which keypoints change places in a mirrored image, so no images are '
        'mirrored in training.'
    )


def _read_graph(
    model: faster_rcnn_pb2.FasterRcnn,
    artifact: Artifact,
    graph: Graph,
    kernels: Kernels,
    proposal: Proposal,
) -> None:
    first_stage = _first_stage(graph)
    with running.open_runner(artifact) as runner:
        tensor = first_layer_input(graph, runner.input_name)
        if tensor is None or not runner.takes_pixels:
            raise Refusal('its input is not pixels, so the size of images is not known')
        where = f'{_WHERE}.image_resizer'
        resizer = resizing.recognize(runner, graph, tensor, where, proposal)
        if resizer is None:
            raise Refusal('its network has no input of images that could be computed')
        model.image_resizer.CopyFrom(resizer)
        if generations.has_pyramid(model.feature_extractor.type):
            region_pyramids.read_regions(model, graph, runner, tensor, proposal)
        else:
            _read_regions(model, graph, runner, tensor, proposal)
        if second_stages.has_masks(model):
            second_stages.read_mask_size(model, graph, runner, proposal)
    _read_first_suppression(model, graph, first_stage, proposal)
    if not second_stages.is_position_sensitive(model):
        _read_crops(model, graph, proposal)
    _read_scores(model, artifact, graph, first_stage, proposal)


def _read_type(
    model: faster_rcnn_pb2.FasterRcnn, shapes: Dict[str, Tuple[int, ...]], proposal: Proposal
) -> None:
    kind, evidence = _type(shapes), 'names and shapes of all kernels'
    proposal.network = kind
    where = f'{_WHERE}.feature_extractor.type'
    model.feature_extractor.type = proposal.learn(where, kind, evidence)


def _read_region_features(
    model: faster_rcnn_pb2.FasterRcnn, kernels: Kernels, proposal: Proposal
) -> None:
    shapes = kernels.shapes()
    evidence = f'kernel {_REGION_FEATURES}'
    size, depth = shapes[_REGION_FEATURES][0], shapes[_REGION_FEATURES][-1]
    section = Section(model, _WHERE)
    proposal.set(section, 'first_stage_box_predictor_kernel_size', size, evidence)
    proposal.set(section, 'first_stage_box_predictor_depth', depth, evidence)
    layer = next((each for each in kernels.layers if each.weights_name == _REGION_FEATURES), None)
    rate = None if layer is None or kernels.graph is None else kernels.graph.rate(layer.name)
    if rate is not None:
        evidence = f'dilation of {_REGION_FEATURES}'
        proposal.set(section, 'first_stage_atrous_rate', rate, evidence)


def _type(shapes: Dict[str, Tuple[int, ...]]) -> str:
    """Return the type of the feature extractor."""
    for kind in extractors.EXTRACTORS:
        extractor = extractors.EXTRACTORS.get(kind)
        if kind.endswith('_keras'):
            continue
        network = registry.get_network(extractor.network, task='detection')
        inside = [name for name in shapes if name.startswith(f'{_FIRST}/{network.scope}/')]
        if inside and not kind.startswith('faster_rcnn_mobilenet'):
            return kind
        if inside:
            width = shapes[f'{_FIRST}/{network.scope}/Conv2d_0/weights'][-1]
            return {24: f'{kind}_075', 16: f'{kind}_050', 8: f'{kind}_025'}.get(width, kind)
    raise Refusal('the feature extractor is of no known network')


def _read_regions(
    model: faster_rcnn_pb2.FasterRcnn,
    graph: Graph,
    runner: running.Runner,
    tensor: str,
    proposal: Proposal,
) -> None:
    """Read the anchors, the stride and the suppression of the first stage."""
    found = decoding.find_decodings(graph)
    if not found:
        raise Refusal('its graph decodes no boxes, so its anchors are not known')
    image = runner.test_image(_IMAGE)
    fetches = {'input': tensor, **dict(zip(('y', 'x', 'h', 'w'), found[0].anchors))}
    values = runner.run(fetches, image)
    boxes = np.stack([np.ravel(values[key]) for key in ('y', 'x', 'h', 'w')], axis=1)
    count = _count(graph)
    grid = model.first_stage_anchor_generator.grid_anchor_generator
    first, steps, rows = _cells(boxes, count)
    # Anchors may be clipped to the image, so they are measured from the center of the first cell.
    sizes = 2 * (boxes[:count, :2] + boxes[:count, 2:] / 2 - first)
    scales = _merged([math.sqrt(max(h * w, 0.0)) / _BASE for h, w in sizes])
    ratios = _merged([float(w / max(h, 1.0)) for h, w in sizes])
    # Anchors that are much larger than the image cannot be measured.
    for candidate in ((scales, ratios), *_PUBLISHED):
        del grid.scales[:], grid.aspect_ratios[:]
        grid.scales.extend(dict.fromkeys(candidate[0]))
        grid.aspect_ratios.extend(dict.fromkeys(candidate[1]))
        grid.height_stride, grid.width_stride = (round(step) for step in steps)
        grid.height_offset, grid.width_offset = (round(each) for each in first)
        if _produces(model.first_stage_anchor_generator, boxes, rows, values['input'].shape[1:3]):
            break
    else:
        raise Refusal(f'its {count} anchors of a cell are not every scale with every ratio')
    evidence = f'{len(boxes)} anchors that its graph computes, {count} a cell'
    proposal.learn(f'{_WHERE}.first_stage_anchor_generator', 'grid_anchor_generator', evidence)
    pixels = values['input'].shape[1] / rows
    stride = 8 if pixels < 12 else 16
    where = f'{_WHERE}.feature_extractor.first_stage_features_stride'
    model.feature_extractor.first_stage_features_stride = proposal.learn(
        where, stride, f'{pixels:.1f} rows of pixels a row of anchors'
    )


def _read_first_suppression(
    model: faster_rcnn_pb2.FasterRcnn, graph: Graph, first_stage: Set[str], proposal: Proposal
) -> None:
    suppression = decoding.find_suppression(graph, first_stage)
    if suppression is None:
        return
    evidence = f'input of {suppression.where}'
    if suppression.iou_threshold is not None:
        value = float(f'{suppression.iou_threshold:.6g}')
        where = f'{_WHERE}.first_stage_nms_iou_threshold'
        model.first_stage_nms_iou_threshold = proposal.learn(where, value, evidence)
    if suppression.max_per_class is not None:
        where = f'{_WHERE}.first_stage_max_proposals'
        model.first_stage_max_proposals = proposal.learn(where, suppression.max_per_class, evidence)
        model.second_stage_batch_size = min(
            model.second_stage_batch_size, model.first_stage_max_proposals
        )
    if suppression.score_threshold is not None and suppression.score_threshold >= 0:
        where = f'{_WHERE}.first_stage_nms_score_threshold'
        value = float(f'{suppression.score_threshold:.6g}')
        model.first_stage_nms_score_threshold = proposal.learn(where, value, evidence)


def _produces(
    config: anchors_pb2.AnchorGenerator, boxes: np.ndarray, rows: int, image_size: Sequence[int]
) -> bool:
    """Check whether a generator produces anchors, as they are or clipped to the image.

    Args:
        config: of the generator.
        boxes: [A, 4]: center y, center x, height, width in pixels.
        rows: of the feature map.
        image_size: (height, width).
    """
    generator = anchors.build_anchor_generator(Section(config, 'first_stage_anchor_generator'))
    columns = len(boxes) // (rows * generator.anchors_per_location()[0])
    made = generator.generate([(rows, columns)], (int(image_size[0]), int(image_size[1])))
    if made.shape != boxes.shape:
        return False
    expected = np.concatenate(
        [boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], axis=1
    )
    clipped = np.clip(made, 0, np.tile(np.asarray(image_size, np.float32), 2))
    return any(np.abs(each - expected).max() < _TOLERANCE for each in (made, clipped))


def _cells(boxes: np.ndarray, count: int) -> Tuple[np.ndarray, np.ndarray, int]:
    """Return the center of the first cell, the distance between cells, and the number of rows.

    Args:
        boxes: [A, 4]: center y, center x, height, width; clipped at the border of the image.
        count: number of anchors of a cell.
    """
    smallest = int(np.argmin(boxes[:count, 2:].prod(axis=1)))
    centers, sizes = boxes[smallest::count, :2], boxes[smallest::count, 2:]
    lows, highs = centers - sizes / 2, centers + sizes / 2
    first, steps, rows = [], [], 1
    for axis in (0, 1):
        # Clipping moves the lower sides of the first boxes to 0, and leaves the others.
        places = np.array(sorted(set(np.round(lows[:, axis], 2))))
        inside = places[places > _BORDER]
        steps.append(float(np.median(np.diff(inside))) if len(inside) > 1 else 16.0)
        first.append(float(highs[0, axis] - sizes[:, axis].max() / 2))
        if axis == 0:
            rows = len(set(np.round(centers[:, 0], 2)))
    return np.array(first), np.array(steps), rows


def _merged(values: List[float]) -> List[float]:
    """Replace values by the first one that is almost equal, or by a short number."""
    known: List[float] = []
    for value in values:
        short = round(value, 4)
        value = short if abs(short - value) <= 2e-6 * value else float(np.float32(value))
        near = next((each for each in known if abs(each - value) < 1e-3 * max(1.0, each)), None)
        known.append(value if near is None else near)
    return known


def _count(graph: Graph) -> int:
    layers = {layer.weights_name: layer for layer in graph.layers()}
    shapes = {name: layer.weights.shape for name, layer in layers.items()}
    return shapes[region_pyramids.region_codes(shapes)[0]][-1] // _CODE_SIZE


def _crops(graph: Graph) -> List[str]:
    """Return the nodes that crop features, those of proposals first, those of detections last."""
    crops = graph.find_ops('CropAndResize')
    before = {name: len(list(graph.ancestors([name]))) for name in crops}
    return sorted(crops, key=lambda name: before[name])


def _first_crops(graph: Graph) -> str:
    """Return the node that crops the features of proposals; empty: there is none."""
    return next(iter(_crops(graph)), '')


def _first_stage(graph: Graph) -> Set[str]:
    """Return the nodes that the crops of proposals depend on."""
    crops = _first_crops(graph)
    return set(graph.ancestors([crops])) if crops else set()


def _read_crops(model: faster_rcnn_pb2.FasterRcnn, graph: Graph, proposal: Proposal) -> None:
    crops = _first_crops(graph)
    if not crops:
        raise Refusal('its graph has no node CropAndResize, so the size of crops is not known')
    size, samples = _crop_size(graph, crops)
    if samples:
        where, evidence = f'{_WHERE}.roi_align.samples_per_side', f'node AvgPool after {crops}'
        model.roi_align.samples_per_side = proposal.learn(where, samples, evidence)
    where = f'{_WHERE}.initial_crop_size'
    model.initial_crop_size = proposal.learn(where, size, f'input of {crops}')
    if generations.has_pyramid(model.feature_extractor.type) and model.number_of_stages > 2:
        last = _crops(graph)[-1]
        where, evidence = f'{_WHERE}.instance_crop_size', f'input of {last}'
        model.instance_crop_size = proposal.learn(where, _crop_size(graph, last)[0], evidence)
    model.maxpool_kernel_size = model.maxpool_stride = 1
    for name in graph.find_ops('MaxPool'):
        if crops in set(graph.ancestors([name])) and _SECOND not in name:
            node = graph.nodes[name]
            model.maxpool_kernel_size = int(node.attr['ksize'].list.i[1])
            model.maxpool_stride = int(node.attr['strides'].list.i[1])
            evidence = f'attributes of {name}'
            break
    else:
        evidence = 'no node MaxPool after the crops'
    for field in ('maxpool_kernel_size', 'maxpool_stride'):
        proposal.learn(f'{_WHERE}.{field}', getattr(model, field), evidence)


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
    model: faster_rcnn_pb2.FasterRcnn,
    artifact: Artifact,
    graph: Graph,
    first_stage: Set[str],
    proposal: Proposal,
) -> None:
    """Read the conversion of scores and the suppression of the second stage."""
    known = outputs.find(artifact)
    proposal.counts[fields.RAW_DETECTION_SCORES] = fields.NUM_PROPOSALS
    section = Section(model, _WHERE).child('second_stage_post_processing')
    scores = decoding.find_scores(graph, outputs.ends(known))
    section.message.score_converter = outputs.CONVERTERS[scores.converter]
    proposal.learn(section.at('score_converter'), scores.converter, f'node {scores.tensor}')
    suppression = decoding.find_suppression(graph, set(graph.nodes) - first_stage)
    with running.open_runner(artifact) as runner:
        outputs.read_suppression(
            suppression,
            runner,
            known,
            section.child('batch_non_max_suppression'),
            proposal,
        )
    outputs.add_compared(known, graph, scores, [], proposal)
    if second_stages.has_masks(model) and fields.DETECTION_MASKS in known:
        proposal.outputs[fields.DETECTION_MASKS] = known[fields.DETECTION_MASKS]
        proposal.counts[fields.DETECTION_MASKS] = fields.NUM_DETECTIONS
    instances = fields.DETECTION_KEYPOINT_SCORES
    if second_stages.has_keypoints(model) and instances in known:
        proposal.outputs[instances] = known[instances]
        proposal.counts[instances] = fields.NUM_DETECTIONS
