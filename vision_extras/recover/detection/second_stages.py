"""Recognition of the second stages of detectors: boxes, masks, position-sensitive maps."""

from __future__ import annotations

import math
import re
from typing import Optional

from protos import box_predictors_pb2
from vision_extras.recover.artifacts import running
from vision_extras.recover.artifacts.graphs import Graph
from vision_extras.recover.facts import Proposal, Refusal
from vision_extras.recover.kernels import Kernels

SCOPE = 'SecondStageBoxPredictor'
_CLASSES, _BOXES, _CLASS_MAPS, _BOX_MAPS, _REDUCED = (
    f'{SCOPE}/{name}/weights'
    for name in (
        'ClassPredictor',
        'BoxEncodingPredictor',
        'class_predictions',
        'refined_locations',
        'reduce_depth',
    )
)
_MASKS = re.compile(rf'^{SCOPE}/Conv(?:_(\d+))?/weights$')
_KEYPOINTS = f'{SCOPE}/KeypointPredictor'
_KEYPOINT_LAYERS = re.compile(rf'^{_KEYPOINTS}/Conv(_\d+)?/weights$')
_KEYPOINT_END = f'{_KEYPOINTS}/Conv2d_transpose/weights'
_WHERE = 'model.faster_rcnn'
_PREDICTOR = f'{_WHERE}.second_stage_box_predictor'
_HEAD = f'{_PREDICTOR}.mask_rcnn_box_predictor'
_RFCN = f'{_PREDICTOR}.rfcn_box_predictor'
_CODE_SIZE = 4
_IMAGE = (160, 224)


def recognize(kernels: Kernels, graph: Optional[Graph], proposal: Proposal) -> None:
    """Read the head of the second stage, and of masks and keypoints.

    Args:
        kernels: of the artifact.
        graph: of the artifact; None for a checkpoint.
        proposal: changed in place.

    Raises:
        Refusal: the head is of another kind.
    """
    shapes = kernels.shapes()
    if _CLASS_MAPS in shapes and _BOX_MAPS in shapes:
        _read_maps(kernels, graph, proposal)
    elif _CLASSES in shapes and _BOXES in shapes:
        _read_boxes(kernels, proposal)
        _read_masks(kernels, proposal)
        _read_keypoints(kernels, proposal)
    else:
        raise Refusal('its second stage is neither that of Faster R-CNN nor of R-FCN')


def _read_boxes(kernels: Kernels, proposal: Proposal) -> None:
    shapes = kernels.shapes()
    classes, codes = shapes[_CLASSES][-1] - 1, shapes[_BOXES][-1]
    proposal.set(f'{_WHERE}.num_classes', classes, f'kernel {_CLASSES}')
    if codes == _CODE_SIZE and classes > 1:
        proposal.set(f'{_HEAD}.share_box_across_classes', True, f'kernel {_BOXES}')
    elif codes != _CODE_SIZE * classes:
        raise Refusal(
            f'its {codes} values of boxes are not {_CODE_SIZE} for each of {classes} classes; '
            'rotated boxes of two stages are not supported'
        )


def _read_masks(kernels: Kernels, proposal: Proposal) -> None:
    shapes, model = kernels.shapes(), proposal.config.model.faster_rcnn
    matches = [match for match in map(_MASKS.match, shapes) if match]
    names = [match.group(0) for match in sorted(matches, key=lambda one: int(one.group(1) or 0))]
    evidence = f'kernel {names[-1]}' if names else 'no kernels of masks'
    proposal.set(f'{_WHERE}.number_of_stages', 3 if names else 2, evidence)
    if not names:
        return
    count = shapes[names[-1]][-1]
    if count not in (1, model.num_classes):
        raise Refusal(f'its {count} masks of a box are neither 1 nor {model.num_classes}, a class')
    model.second_stage_mask_prediction_loss_weight = 4.0
    head = box_predictors_pb2.MaskRCNNBoxPredictor(
        predict_instance_masks=True,
        masks_are_class_agnostic=count == 1 and model.num_classes > 1,
        mask_prediction_num_conv_layers=len(names),
    )
    if len(names) > 1:
        head.mask_prediction_conv_depth = shapes[names[0]][-1]
    proposal.merge(_HEAD, head, f'kernels {SCOPE}/Conv...')
    _set_hyperparams(_HEAD, rf'^{SCOPE}(_\d+)?/Conv/', kernels, proposal)


def _read_keypoints(kernels: Kernels, proposal: Proposal) -> None:
    shapes = kernels.shapes()
    layers = sorted(filter(_KEYPOINT_LAYERS.match, shapes))
    if _KEYPOINT_END not in shapes or not layers:
        return
    proposal.config.model.faster_rcnn.number_of_stages = 3
    head = box_predictors_pb2.MaskRCNNBoxPredictor(predict_keypoints=True)
    # Kernels of transposed convolutions have the outputs before the inputs.
    head.keypoint_head.num_keypoints = shapes[_KEYPOINT_END][2]
    head.keypoint_head.depth = shapes[layers[0]][-1]
    head.keypoint_head.num_conv_layers = len(layers)
    proposal.merge(_HEAD, head, f'kernels {_KEYPOINTS}/...')
    part = rf'^{SCOPE}(_\d+)?/KeypointPredictor/Conv/'
    _set_hyperparams(f'{_HEAD}.keypoint_head', part, kernels, proposal)


def _set_hyperparams(where: str, layers: str, kernels: Kernels, proposal: Proposal) -> None:
    """Set hyperparameters: those of the first stage, with the activation of the layers."""
    model, where = proposal.config.model.faster_rcnn, f'{where}.conv_hyperparams'
    proposal.at(where).CopyFrom(model.first_stage_box_predictor_conv_hyperparams)
    kernels.read_style(where, layers, proposal)


def read_mask_size(graph: Graph, runner: running.Runner, proposal: Proposal) -> None:
    """Read the size of masks, and where features are enlarged, from the sizes of features.

    Args:
        graph: of the artifact.
        runner: of the artifact.
        proposal: changed in place.
    """
    numbered = {}
    for layer in graph.layers():
        match = _MASKS.match(layer.weights_name)
        if match:
            numbered[int(match.group(1) or 0)] = layer.name
    if not numbered:
        raise Refusal('its graph does not tell the size of masks')
    first, last = numbered[min(numbered)], numbered[max(numbered)]
    fetches = {'first': graph.input_tensor(first), 'last': f'{last}:0'}
    values = runner.run(fetches, runner.test_image(_IMAGE))
    before, after = (values[key].shape[1:3] for key in ('first', 'last'))
    evidence = f'size of the output of {last}'
    proposal.set(f'{_HEAD}.mask_height', after[0], evidence)
    proposal.set(f'{_HEAD}.mask_width', after[1], evidence)
    if before != after:
        evidence = f'features of {before[0]}x{before[1]} become {after[0]}x{after[1]}'
        proposal.set(f'{_HEAD}.convolve_then_upsample_masks', True, evidence)
        # One more convolution follows the enlargement.
        proposal.at(_HEAD).mask_prediction_num_conv_layers -= 1


def _read_maps(kernels: Kernels, graph: Optional[Graph], proposal: Proposal) -> None:
    shapes = kernels.shapes()
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
    proposal.set(f'{_WHERE}.num_classes', codes // (_CODE_SIZE * bins), evidence)
    proposal.at(_PREDICTOR).Clear()
    head = proposal.at(_RFCN)
    head.crop_height = head.crop_width = 18
    for name in ('num_spatial_bins_height', 'num_spatial_bins_width'):
        proposal.set(f'{_RFCN}.{name}', side, evidence)
    if _REDUCED in shapes:
        proposal.set(f'{_RFCN}.depth', shapes[_REDUCED][-1], f'kernel {_REDUCED}')
    _set_hyperparams(_RFCN, 'reduce_depth', kernels, proposal)
    if graph is None:
        return
    crops = graph.find_ops('CropAndResize')
    size = graph.constant(graph.inputs(crops[0])[3]) if crops else None
    if size is None:
        raise Refusal('its graph has no node CropAndResize, so the size of crops is not known')
    evidence = f'{side} bins, input of {crops[0]}'
    for name, cells in zip(('crop_height', 'crop_width'), size.ravel()):
        proposal.set(f'{_RFCN}.{name}', int(cells) * side, evidence)
