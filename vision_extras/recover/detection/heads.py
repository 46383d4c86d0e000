"""Recognition of the heads of single-shot detectors by their kernels."""

from __future__ import annotations

import re
from typing import List, Mapping, NamedTuple, Optional, Sequence, Tuple

from protos import box_predictors_pb2
from vision_extras.recover.facts import Refusal

Shapes = Mapping[str, Tuple[int, ...]]

CODE_SIZE = 4
_SHARED = 'WeightSharedConvolutionalBoxPredictor'
_MAP = re.compile(r'^BoxPredictor(?:_(\d+))?/')


class Head(NamedTuple):
    """Head of a single-shot detector.

    Attributes:
        config: without hyperparameters.
        class_columns: number of class logits of an anchor.
        anchors: number of anchors of a cell of each feature map; of a shared head one number for
            any number of maps.
        layers: part of the names of the layers that have hyperparameters.
        codes: scopes of the layers of box codes, in the order of the maps; of a shared head one.
    """

    config: box_predictors_pb2.BoxPredictor
    class_columns: int
    anchors: Sequence[int]
    layers: str
    codes: Sequence[str]

    @property
    def is_shared(self) -> bool:
        """Whether all maps have the same head."""
        return self.config.HasField('weight_shared_convolutional_box_predictor')


def recognize(shapes: Shapes, code_size: int = CODE_SIZE) -> Optional[Head]:
    """Read the head from kernels; None where there is none.

    Args:
        shapes: kernels of the artifact.
        code_size: number of values of a box code.

    Raises:
        Refusal: boxes have other codes.
    """
    if any(name.startswith(f'{_SHARED}/') for name in shapes):
        return _shared(shapes, code_size)
    return _separate(shapes, code_size) if any(map(_MAP.match, shapes)) else None


def _separate(shapes: Shapes, code_size: int) -> Optional[Head]:
    maps = sorted({int(match.group(1) or 0) for match in map(_MAP.match, shapes) if match})
    is_single = any(name.startswith('BoxPredictor/') for name in shapes)
    scopes = ['BoxPredictor'] if is_single else [f'BoxPredictor_{index}' for index in maps]
    boxes = [shapes.get(f'{each}/BoxEncodingPredictor/weights') for each in scopes]
    classes = [shapes.get(f'{each}/ClassPredictor/weights') for each in scopes]
    if None in boxes or None in classes:
        return None
    anchors = [_count_anchors(box[-1], one[-1], code_size) for box, one in zip(boxes, classes)]
    config = box_predictors_pb2.BoxPredictor()
    head = config.convolutional_box_predictor
    depthwise = shapes.get(f'{scopes[0]}/ClassPredictor_depthwise/depthwise_weights')
    head.kernel_size = (depthwise or classes[0])[0]
    head.use_depthwise = depthwise is not None
    before = (re.match(rf'{scopes[0]}/Conv2d_\d+_1x1_(\d+)/weights$', name) for name in shapes)
    depths = [int(match.group(1)) for match in before if match]
    head.num_layers_before_predictor = len(depths)
    if depths:
        head.min_depth, head.max_depth = min(depths), max(depths)
    codes = [f'{scope}/BoxEncodingPredictor' for scope in scopes]
    return Head(config, classes[0][-1] // anchors[0], anchors, r'^BoxPredictor', codes)


def _shared(shapes: Shapes, code_size: int) -> Optional[Head]:
    start = len(_SHARED) + 1
    inside = {n[start:]: shape for n, shape in shapes.items() if n.startswith(f'{_SHARED}/')}
    boxes, classes, spatial = (
        next((inside[name] for name in names if name in inside), None)
        for names in (
            ('BoxPredictor/pointwise_weights', 'BoxPredictor/weights'),
            ('ClassPredictor/pointwise_weights', 'ClassPredictor/weights'),
            ('ClassPredictor/depthwise_weights', 'ClassPredictor/weights'),
        )
    )
    if boxes is None or classes is None or spatial is None:
        return None
    towers: List[str] = [name for name in inside if re.search(r'Tower/conv2d_\d+/', name)]
    config = box_predictors_pb2.BoxPredictor()
    head = config.weight_shared_convolutional_box_predictor
    head.use_depthwise = any('depthwise_weights' in name for name in inside)
    head.kernel_size = spatial[0]
    head.num_layers_before_predictor = len({re.sub(r'.*conv2d_|/.*', '', n) for n in towers})
    head.share_prediction_tower = bool(towers) and towers[0].startswith('PredictionTower')
    widths = [inside[name][-1] for name in towers if not name.endswith('depthwise_weights')]
    if widths:
        head.depth = widths[0]
    count = _count_anchors(boxes[-1], classes[-1], code_size)
    codes = [f'{_SHARED}/BoxPredictor']
    return Head(config, classes[-1] // count, [count], rf'^{_SHARED}.*Tower', codes)


def _count_anchors(codes: int, scores: int, size: int) -> int:
    """Return the number of anchors of a cell by the numbers of box codes and class logits."""
    count = codes // size
    if not count or codes % size or scores % count:
        raise Refusal(
            f'its {codes} codes of boxes and {scores} class logits of a cell are not {size} codes '
            'and as many logits of each anchor; a checkpoint of rotated boxes is not supported'
        )
    return count
