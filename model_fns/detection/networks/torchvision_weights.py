"""Weights of torchvision's detectors on a ResNet-50 with a feature pyramid.

They are those of RetinaNet, of Faster R-CNN, and of Mask and Keypoint R-CNN, which have the names
of Faster R-CNN and a head more. The configs `torchvision_*` of the package build their networks.
What differs is converted here: the order of axes and of the sides of boxes, the factors of box
codes of the first stage, its single logit of an object, and the box of the background.
"""

from __future__ import annotations

import dataclasses
import os
import re
from typing import Any, Callable, Dict, Iterator, Mapping, Sequence, Tuple

import numpy as np

from model_fns.backbones.hub_weights import resnet
from model_fns.backbones.hub_weights.family import Family, Shape, Tensor, UnknownNameError

Convert = Callable[[np.ndarray], np.ndarray]
# Groups of a name that matches -> the scopes of our layers that have the tensor.
_Scopes = Callable[..., Tuple[str, ...]]

_BODY = 'backbone.body.'
_NETWORK = 'resnet_v1_5_50'
# torchvision has x before y, and width before height; here it is the other way round.
_SIDES = [1, 0, 3, 2]
# Factors of the box codes of the first stage here; torchvision has none.
# Its second stage has them too (bbox_reg_weights), and the config of RetinaNet has factors of 1.
_CODE_FACTORS = np.array([10.0, 10.0, 5.0, 5.0], np.float32)
_REGION_LEVELS = 5
_BINS = 7  # of a side of a box in the second stage
# Heads without a counterpart, whose variables keep their initial values, and counters.
_LEFT_OUT = re.compile(r'roi_heads\.mask_(?:head|predictor)\..*|.*\.num_batches_tracked')

# torchvision's norms have this epsilon like ours. For its first weights of COCO it sets it to 0.
_EPSILON = np.float32(1e-5)
_WITHOUT_EPSILON = re.compile(r'_coco-[0-9a-f]{8}\.\w+')


def swap_sides(values: np.ndarray) -> np.ndarray:
    """Reorder the outputs of boxes from x, y, width, height to y, x, height, width.

    Example: [1, 2, 3, 4] of one box become [2, 1, 4, 3].

    Args:
        values: [..., n * 4].
    """
    return values.reshape([*values.shape[:-1], -1, 4])[..., _SIDES].reshape(values.shape)


def scale_codes(values: np.ndarray) -> np.ndarray:
    """Reorder the outputs [..., n * 4] of boxes, and multiply them by the factors of codes."""
    boxes = swap_sides(values).reshape([*values.shape[:-1], -1, 4]) * _CODE_FACTORS
    return boxes.reshape(values.shape)


def add_background(values: np.ndarray) -> np.ndarray:
    """Put a logit of 0 before that of an object: their softmax is the sigmoid of the object's.

    Example: [5, 6] of two anchors become [0, 5, 0, 6].

    Args:
        values: [..., n].
    """
    return np.stack([np.zeros_like(values), values], -1).reshape([*values.shape[:-1], -1])


def drop_background(values: np.ndarray) -> np.ndarray:
    """Leave out the box of the background, which is the first of [..., classes * 4] outputs."""
    return swap_sides(values[..., 4:])


def bins_first(values: np.ndarray) -> np.ndarray:
    """Reorder the inputs [channels * bins, outputs] of a layer to [bins * channels, outputs]."""
    if values.ndim == 1:
        return values
    # PyTorch flattens channels, rows, columns. TensorFlow flattens rows, columns, channels.
    bins = values.reshape([-1, _BINS, _BINS, values.shape[-1]])
    return bins.transpose([1, 2, 0, 3]).reshape(values.shape)


def _same(values: np.ndarray) -> np.ndarray:
    return values


def _one(scope: str) -> _Scopes:
    return lambda *groups: (scope.format(*groups),)


def _next(scope: str) -> _Scopes:
    """Return the scopes of layers that are counted from 1."""
    return lambda number: (f'{scope}{int(number) + 1}',)


def _half(scope: str, first: str) -> _Scopes:
    """Return the scopes of layers whose activations are counted too: `first`, then `scope` + n."""
    return lambda number: (f'{scope}{int(number) // 2}' if number != '0' else first,)


def _regions(layer: str) -> _Scopes:
    """Return the scopes of a layer that each level has for itself here."""
    return lambda: tuple(
        f'FirstStageBoxPredictor_{level}/{layer}' for level in range(_REGION_LEVELS)
    )


def _pyramid(scope: str) -> Tuple[Tuple[str, _Scopes, Convert], ...]:
    fpn = r'backbone\.fpn'
    # Files from before 2022 lack the last number.
    return (
        (rf'{fpn}\.inner_blocks\.(\d)(?:\.0)?', _next(f'{scope}/fpn/projection_'), _same),
        (rf'{fpn}\.layer_blocks\.(\d)(?:\.0)?', _next(f'{scope}/fpn/smoothing_'), _same),
        (rf'{fpn}\.extra_blocks\.p6', _one(f'{scope}/fpn/bottom_up_block5'), _same),
        (rf'{fpn}\.extra_blocks\.p7', _one(f'{scope}/fpn/bottom_up_block6'), _same),
    )


_SSD = f'FeatureExtractor/{_NETWORK}'
_FIRST = f'KerasFirstStageFeatureExtractor/{_NETWORK}'
_SECOND, _HEAD = 'KerasSecondStageFeatureExtractor', 'SecondStageBoxPredictor'
_SHARED = 'WeightSharedConvolutionalBoxPredictor'
_ROI = r'roi_heads'


def _tower(name: str, scope: str) -> Tuple[Tuple[str, _Scopes, Convert], ...]:
    start = rf'head\.{name}\.conv\.(\d)'
    return (
        (rf'{start}\.0', _one(f'{_SHARED}/{scope}/conv2d_{{}}'), _same),
        # Files from before 2022 count the activations.
        (start, _half(f'{_SHARED}/{scope}/conv2d_', f'{_SHARED}/{scope}/conv2d_0'), _same),
    )


# (pattern of a layer's name, scopes of our layers, conversion of its outputs)
_RETINA_NET = (
    *_pyramid(_SSD),
    *_tower('classification_head', 'ClassPredictionTower'),
    *_tower('regression_head', 'BoxPredictionTower'),
    (r'head\.classification_head\.cls_logits', _one(f'{_SHARED}/ClassPredictor'), _same),
    (r'head\.regression_head\.bbox_reg', _one(f'{_SHARED}/BoxPredictor'), swap_sides),
)
_FASTER_RCNN = (
    *_pyramid(_FIRST),
    (r'rpn\.head\.conv(?:\.0\.0)?', _one('Conv'), _same),
    (r'rpn\.head\.cls_logits', _regions('ClassPredictor'), add_background),
    (r'rpn\.head\.bbox_pred', _regions('BoxEncodingPredictor'), scale_codes),
    (rf'{_ROI}\.box_head\.fc6', _one(f'{_SECOND}/fully_connected'), bins_first),
    (rf'{_ROI}\.box_head\.fc7', _one(f'{_SECOND}/fully_connected_1'), _same),
    (rf'{_ROI}\.box_predictor\.cls_score', _one(f'{_HEAD}/ClassPredictor'), _same),
    (
        rf'{_ROI}\.box_predictor\.bbox_pred',
        _one(f'{_HEAD}/BoxEncodingPredictor'),
        drop_background,
    ),
    (
        rf'{_ROI}\.keypoint_head\.(\d+)',
        _half(f'{_HEAD}/KeypointPredictor/Conv_', f'{_HEAD}/KeypointPredictor/Conv'),
        _same,
    ),
    (
        rf'{_ROI}\.keypoint_predictor\.kps_score_lowres',
        _one(f'{_HEAD}/KeypointPredictor/Conv2d_transpose'),
        _same,
    ),
)


@dataclasses.dataclass(frozen=True)
class Detector(Family):
    """Family of detectors.

    Attributes:
        backbone: scope of the backbone.
        layers: rules of all other layers.
        config: of the package, which builds the network.
        task: of `run-train-eval --data`.
        drops_epsilon: whether the weights are for norms without an epsilon.
    """

    backbone: str = ''
    layers: Tuple[Tuple[str, _Scopes, Convert], ...] = ()
    config: str = ''
    task: str = 'detection'
    drops_epsilon: bool = False

    def map_tensors(self, shapes: Mapping[str, Shape]) -> Dict[str, Tensor]:
        """Return the tensors of a file by the names of our variables.

        Raises:
            UnknownNameError: a tensor is not of the detector; its argument is the name.
        """
        body = {
            name[len(_BODY) :]: shape for name, shape in shapes.items() if name.startswith(_BODY)
        }
        mapped = {}
        for name, tensor in resnet.RESNET.map_tensors(body).items():
            is_variance = name.endswith('/moving_variance')
            convert = _less_epsilon if is_variance and self.drops_epsilon else tensor.convert
            own = name.replace(_NETWORK, self.backbone, 1)
            source = f'{_BODY}{tensor.source}'
            mapped[own] = dataclasses.replace(tensor, source=source, convert=convert)
        for name, shape in shapes.items():
            if not name.startswith(_BODY) and not _LEFT_OUT.fullmatch(name):
                mapped.update(self._map_layer(name, shape))
        return mapped

    def _map_layer(self, name: str, shape: Shape) -> Iterator[Tuple[str, Tensor]]:
        module, _, last = name.rpartition('.')
        leaf = {'weight': 'weights', 'bias': 'biases'}.get(last)
        # The same order serves transposed convolutions: PyTorch has [in, out, h, w] there,
        # TensorFlow [h, w, out, in].
        axes = {1: (0,), 2: (1, 0), 4: (2, 3, 1, 0)}.get(len(shape))
        for pattern, find_scopes, convert in self.layers:
            match = re.fullmatch(pattern, module)
            if match and leaf and axes:
                new = convert(np.broadcast_to(np.float32(0.0), [shape[axis] for axis in axes]))
                for scope in find_scopes(*match.groups()):
                    yield f'{scope}/{leaf}', Tensor(name, axes, new.shape, convert=convert)
                return
        raise UnknownNameError(name)


def _less_epsilon(variance: np.ndarray) -> np.ndarray:
    # Batch norm here adds it again, so that the divisor is torchvision's.
    return variance - _EPSILON


def _detector(name: str, signature: str, models: Sequence[str], **fields: Any) -> Detector:
    return Detector(
        name=name,
        signature=('backbone.body.conv1.weight', signature),
        networks=dict.fromkeys(models, fields['config']),
        tags={},
        scopes=lambda modules: {},
        origin='torchvision',
        **fields,
    )


_FAMILIES: Tuple[Detector, ...] = (
    _detector(
        'RetinaNet',
        'head.classification_head.cls_logits.weight',
        ['retinanet_resnet50_fpn'],
        config='torchvision_retinanet_resnet50',
        backbone=_SSD,
        layers=_RETINA_NET,
    ),
    # A Keypoint R-CNN has all names of a Faster R-CNN, so it comes first.
    _detector(
        'Keypoint R-CNN',
        'roi_heads.keypoint_head.0.weight',
        ['keypointrcnn_resnet50_fpn'],
        config='torchvision_keypoint_rcnn_resnet50',
        task='keypoints',
        backbone=_FIRST,
        layers=_FASTER_RCNN,
    ),
    _detector(
        'Faster R-CNN',
        'roi_heads.box_head.fc6.weight',
        ['fasterrcnn_resnet50_fpn', 'maskrcnn_resnet50_fpn'],
        config='torchvision_faster_rcnn_resnet50',
        backbone=_FIRST,
        layers=_FASTER_RCNN,
    ),
)


def families(path: str) -> Tuple[Detector, ...]:
    """Return the detectors that a file may be of; its name tells whether norms have an epsilon."""
    drops = _WITHOUT_EPSILON.search(os.path.basename(path)) is not None
    return tuple(dataclasses.replace(family, drops_epsilon=drops) for family in _FAMILIES)
