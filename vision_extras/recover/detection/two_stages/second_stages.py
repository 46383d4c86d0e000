"""Recognition of the second stages of detectors: boxes, masks, position-sensitive maps."""

from __future__ import annotations

import math
import re
from typing import Dict, List, Mapping, Optional, Tuple

from estimator_lib.config.section import Section
from protos import faster_rcnn_pb2, hyperparams_pb2
from vision_extras.recover.artifacts import running
from vision_extras.recover.artifacts.graphs import Graph, Layer
from vision_extras.recover.facts import Proposal, Refusal
from vision_extras.recover.kernels import Kernels

Shapes = Mapping[str, Tuple[int, ...]]

SCOPE = 'SecondStageBoxPredictor'
CLASSES = f'{SCOPE}/ClassPredictor/weights'
BOXES = f'{SCOPE}/BoxEncodingPredictor/weights'
_CLASS_MAPS = f'{SCOPE}/class_predictions/weights'
_BOX_MAPS = f'{SCOPE}/refined_locations/weights'
_REDUCED = f'{SCOPE}/reduce_depth/weights'
_MASKS = re.compile(rf'^{SCOPE}/Conv(?:_(\d+))?/weights$')
_KEYPOINTS = f'{SCOPE}/KeypointPredictor'
_WHERE = 'model.faster_rcnn'
_HEAD = 'second_stage_box_predictor.mask_rcnn_box_predictor'
_CODE_SIZE = 4
_IMAGE = (160, 224)
_ACTIVATIONS = {
    'Relu6': hyperparams_pb2.Hyperparams.RELU_6,
    'Relu': hyperparams_pb2.Hyperparams.RELU,
}


def recognize(
    model: faster_rcnn_pb2.FasterRcnn, kernels: Kernels, graph: Optional[Graph], proposal: Proposal
) -> None:
    """Read the head of the second stage, and of masks.

    Args:
        model: changed in place.
        kernels: of the artifact.
        graph: of the artifact; None for a checkpoint.
        proposal: learns what is read.

    Raises:
        Refusal: the head is of another kind.
    """
    shapes = kernels.shapes()
    if _CLASS_MAPS in shapes and _BOX_MAPS in shapes:
        _read_maps(model, kernels, graph, proposal)
    elif CLASSES in shapes and BOXES in shapes:
        _read_boxes(model, shapes, proposal)
        _read_masks(model, kernels, proposal)
        _read_keypoints(model, kernels, proposal)
    else:
        raise Refusal('its second stage is neither that of Faster R-CNN nor of R-FCN')


def is_position_sensitive(model: faster_rcnn_pb2.FasterRcnn) -> bool:
    """Check whether the head is that of R-FCN."""
    return model.second_stage_box_predictor.HasField('rfcn_box_predictor')


def has_masks(model: faster_rcnn_pb2.FasterRcnn) -> bool:
    """Check whether the model predicts masks."""
    return model.second_stage_box_predictor.mask_rcnn_box_predictor.predict_instance_masks


def has_keypoints(model: faster_rcnn_pb2.FasterRcnn) -> bool:
    """Check whether the model predicts keypoints."""
    return model.second_stage_box_predictor.mask_rcnn_box_predictor.predict_keypoints


def set_activation(
    section: Section[hyperparams_pb2.Hyperparams], kernels: Kernels, part: str, proposal: Proposal
) -> None:
    """Set the activation of layers by the nodes after them.

    Args:
        section: changed in place.
        kernels: of the artifact.
        part: regular expression for names of layers.
        proposal: learns the activation.
    """
    activation = kernels.activation(part)
    if activation in _ACTIVATIONS:
        section.message.activation = _ACTIVATIONS[activation]
        proposal.learn(section.at('activation'), activation, f'node type {activation}')


def _read_boxes(model: faster_rcnn_pb2.FasterRcnn, shapes: Shapes, proposal: Proposal) -> None:
    classes = shapes[CLASSES][-1] - 1
    model.num_classes = proposal.learn(f'{_WHERE}.num_classes', classes, f'kernel {CLASSES}')
    head = Section(model, _WHERE).child(_HEAD)
    codes = shapes[BOXES][-1]
    if codes == _CODE_SIZE and classes > 1:
        proposal.set(head, 'share_box_across_classes', True, f'kernel {BOXES}')
    elif codes != _CODE_SIZE * classes:
        raise Refusal(
            f'its {codes} values of boxes are not {_CODE_SIZE} for each of {classes} classes; '
            'rotated boxes of two stages are not supported'
        )


def _read_masks(model: faster_rcnn_pb2.FasterRcnn, kernels: Kernels, proposal: Proposal) -> None:
    shapes = kernels.shapes()
    found = {
        int(match.group(1) or 0): match.group(0) for match in map(_MASKS.match, shapes) if match
    }
    model.number_of_stages = 2
    if not found:
        proposal.learn(f'{_WHERE}.number_of_stages', 2, 'no kernels of masks')
        return
    names = [found[number] for number in sorted(found)]
    model.number_of_stages = proposal.learn(f'{_WHERE}.number_of_stages', 3, f'kernel {names[-1]}')
    model.second_stage_mask_prediction_loss_weight = 4.0
    head = Section(model, _WHERE).child(_HEAD)
    head.message.conv_hyperparams.CopyFrom(model.first_stage_box_predictor_conv_hyperparams)
    proposal.set(head, 'predict_instance_masks', True, f'kernel {names[-1]}')
    count = shapes[names[-1]][-1]
    if count not in (1, model.num_classes):
        raise Refusal(f'its {count} masks of a box are neither 1 nor {model.num_classes}, a class')
    is_agnostic = count == 1 and model.num_classes > 1
    proposal.set(head, 'masks_are_class_agnostic', is_agnostic, f'kernel {names[-1]}')
    if len(names) > 1:
        depth = shapes[names[0]][-1]
        proposal.set(head, 'mask_prediction_conv_depth', depth, f'kernel {names[0]}')
    evidence = f'kernels {SCOPE}/Conv...'
    proposal.set(head, 'mask_prediction_num_conv_layers', len(names), evidence)
    layers = rf'^{SCOPE}(_\d+)?/Conv/'
    set_activation(head.child('conv_hyperparams'), kernels, layers, proposal)


def _read_keypoints(
    model: faster_rcnn_pb2.FasterRcnn, kernels: Kernels, proposal: Proposal
) -> None:
    shapes = kernels.shapes()
    last = f'{_KEYPOINTS}/Conv2d_transpose/weights'
    layers = sorted(name for name in shapes if name.startswith(f'{_KEYPOINTS}/Conv/') or
                    re.match(rf'{_KEYPOINTS}/Conv_\d+/', name))  # fmt: skip
    if last not in shapes or not layers:
        return
    model.number_of_stages = 3
    predictor = Section(model, _WHERE).child(_HEAD)
    head = predictor.child('keypoint_head')
    head.message.conv_hyperparams.CopyFrom(model.first_stage_box_predictor_conv_hyperparams)
    proposal.set(predictor, 'predict_keypoints', True, f'kernel {last}')
    # Kernels of transposed convolutions have the outputs before the inputs.
    proposal.set(head, 'num_keypoints', shapes[last][2], f'kernel {last}')
    proposal.set(head, 'depth', shapes[layers[0]][-1], f'kernel {layers[0]}')
    proposal.set(head, 'num_conv_layers', len(layers), f'kernels {_KEYPOINTS}/Conv...')
    part = rf'^{SCOPE}(_\d+)?/KeypointPredictor/Conv/'
    set_activation(head.child('conv_hyperparams'), kernels, part, proposal)


def read_mask_size(
    model: faster_rcnn_pb2.FasterRcnn, graph: Graph, runner: running.Runner, proposal: Proposal
) -> None:
    """Read the size of masks, and where features are enlarged, from the sizes of features.

    Args:
        model: changed in place.
        graph: of the artifact.
        runner: of the artifact.
        proposal: learns what is read.
    """
    layers: Dict[str, Layer] = {}
    for layer in graph.layers():
        if _MASKS.match(layer.weights_name):
            layers[layer.weights_name] = layer
    numbered = sorted(layers, key=lambda name: int((_MASKS.match(name) or [0, 0])[1] or 0))
    if not numbered:
        raise Refusal('its graph does not tell the size of masks')
    first, last = layers[numbered[0]].name, layers[numbered[-1]].name
    fetches = {'first': f'{graph.inputs(first)[0]}:0', 'last': f'{last}:0'}
    values = runner.run(fetches, runner.test_image(_IMAGE))
    before, after = (values[key].shape[1:3] for key in ('first', 'last'))
    head = Section(model, _WHERE).child(_HEAD)
    evidence = f'size of the output of {last}'
    proposal.set(head, 'mask_height', after[0], evidence)
    proposal.set(head, 'mask_width', after[1], evidence)
    if before != after:
        evidence = f'features of {before[0]}x{before[1]} become {after[0]}x{after[1]}'
        proposal.set(head, 'convolve_then_upsample_masks', True, evidence)
        # One more convolution follows the enlargement.
        head.message.mask_prediction_num_conv_layers -= 1


def _read_maps(
    model: faster_rcnn_pb2.FasterRcnn, kernels: Kernels, graph: Optional[Graph], proposal: Proposal
) -> None:
    shapes = kernels.shapes()
    model.second_stage_box_predictor.Clear()
    section = Section(model, _WHERE).child('second_stage_box_predictor.rfcn_box_predictor')
    head = section.message
    head.conv_hyperparams.CopyFrom(model.first_stage_box_predictor_conv_hyperparams)
    head.crop_height = head.crop_width = 18
    codes, classes = shapes[_BOX_MAPS][-1], shapes[_CLASS_MAPS][-1]
    # With n bins and c classes there are 4nc codes and n(c + 1) scores.
    bins = classes - codes // _CODE_SIZE
    side = math.isqrt(max(bins, 0))
    if not side or side * side != bins or codes % (_CODE_SIZE * bins):
        raise Refusal(
            f'its {codes} codes and {classes} scores are not those of as many rows as columns of '
            'bins'
        )
    evidence = f'kernels {_BOX_MAPS} and {_CLASS_MAPS}'
    count = codes // (_CODE_SIZE * bins)
    model.num_classes = proposal.learn(f'{_WHERE}.num_classes', count, evidence)
    for name in ('num_spatial_bins_height', 'num_spatial_bins_width'):
        proposal.set(section, name, side, evidence)
    if _REDUCED in shapes:
        proposal.set(section, 'depth', shapes[_REDUCED][-1], f'kernel {_REDUCED}')
    set_activation(section.child('conv_hyperparams'), kernels, 'reduce_depth', proposal)
    if graph is None:
        return
    crops = graph.find_ops('CropAndResize')
    size = graph.constant(graph.inputs(crops[0])[3]) if crops else None
    if size is None:
        raise Refusal('its graph has no node CropAndResize, so the size of crops is not known')
    sides: List[int] = [int(each) * side for each in size.ravel()]
    evidence = f'{side} bins, input of {crops[0]}'
    proposal.set(section, 'crop_height', sides[0], evidence)
    proposal.set(section, 'crop_width', sides[1], evidence)
