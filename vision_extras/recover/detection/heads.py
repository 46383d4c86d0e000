"""Recognition of the heads of single-shot detectors by their kernels."""

from __future__ import annotations

import dataclasses
import re
from typing import List, Mapping, Optional, Sequence, Tuple

from estimator_lib.config.section import Section
from protos import box_predictors_pb2
from vision_extras.recover.facts import Proposal, Refusal

Shapes = Mapping[str, Tuple[int, ...]]

CODE_SIZE = 4
_SHARED = 'WeightSharedConvolutionalBoxPredictor'
_MAP = re.compile(r'^BoxPredictor(?:_(\d+))?/')
_WHERE = 'model.ssd.box_predictor'


@dataclasses.dataclass(frozen=True)
class Head:
    """Head of a single-shot detector.

    Attributes:
        config: without hyperparameters.
        class_columns: number of class logits of an anchor.
        anchors: number of anchors of a cell of each feature map; empty: the same for all maps, and
            their number is not known from the kernels.
        anchors_of_all: number of anchors of a cell, where it is the same for all maps.
        layers: part of the names of the layers that have hyperparameters.
        code_size: number of values of a box code.
    """

    config: box_predictors_pb2.BoxPredictor
    class_columns: int
    anchors: Sequence[int]
    anchors_of_all: int
    layers: str
    code_size: int = CODE_SIZE


def recognize(shapes: Shapes, proposal: Proposal, code_size: int = CODE_SIZE) -> Optional[Head]:
    """Read the head from kernels; None where there is none.

    Args:
        shapes: kernels of the artifact.
        proposal: learns what is read.
        code_size: number of values of a box code.

    Raises:
        Refusal: boxes have other codes.
    """
    if any(name.startswith(f'{_SHARED}/') for name in shapes):
        return _shared(shapes, proposal, code_size)
    if any(_MAP.match(name) for name in shapes):
        return _separate(shapes, proposal, code_size)
    return None


def _separate(shapes: Shapes, proposal: Proposal, code_size: int) -> Optional[Head]:
    maps = sorted({int(match.group(1) or 0) for match in map(_MAP.match, shapes) if match})
    is_single = any(name.startswith('BoxPredictor/') for name in shapes)
    prefixes = ['BoxPredictor'] if is_single else [f'BoxPredictor_{index}' for index in maps]
    boxes = [shapes.get(f'{each}/BoxEncodingPredictor/weights') for each in prefixes]
    classes = [shapes.get(f'{each}/ClassPredictor/weights') for each in prefixes]
    if None in boxes or None in classes:
        return None
    anchors = [
        _count_anchors(box[-1], scores[-1], code_size) for box, scores in zip(boxes, classes)
    ]
    config = box_predictors_pb2.BoxPredictor()
    section = Section(config, _WHERE).child('convolutional_box_predictor')
    head = section.message
    evidence = f'kernels {prefixes[0]}/...'
    depthwise = shapes.get(f'{prefixes[0]}/ClassPredictor_depthwise/depthwise_weights')
    head.kernel_size = (depthwise or classes[0])[0]
    head.use_depthwise = depthwise is not None
    before = [
        re.search(r'/Conv2d_(\d+)_1x1_(\d+)/weights$', name)
        for name in shapes
        if name.startswith(f'{prefixes[0]}/')
    ]
    depths = [int(match.group(2)) for match in before if match]
    head.num_layers_before_predictor = len(depths)
    if depths:
        proposal.set(section, 'min_depth', min(depths), evidence)
        proposal.set(section, 'max_depth', max(depths), evidence)
    for name in ('kernel_size', 'use_depthwise', 'num_layers_before_predictor'):
        proposal.learn(section.at(name), getattr(head, name), evidence)
    columns = classes[0][-1] // anchors[0]
    if code_size == CODE_SIZE:
        proposal.learn(section.at('box_code_size'), head.box_code_size, evidence)
    return Head(config, columns, anchors, 0, r'^BoxPredictor', code_size)


def _shared(shapes: Shapes, proposal: Proposal, code_size: int) -> Optional[Head]:
    inside = {
        name[len(_SHARED) + 1 :]: shape
        for name, shape in shapes.items()
        if name.startswith(f'{_SHARED}/')
    }
    boxes, classes = (
        _either(inside, f'{scope}/pointwise_weights', f'{scope}/weights')
        for scope in ('BoxPredictor', 'ClassPredictor')
    )
    if boxes is None or classes is None:
        return None
    towers: List[str] = [name for name in inside if re.search(r'Tower/conv2d_\d+/', name)]
    config = box_predictors_pb2.BoxPredictor()
    section = Section(config, _WHERE).child('weight_shared_convolutional_box_predictor')
    head = section.message
    evidence = f'kernels {_SHARED}/...'
    head.use_depthwise = any('depthwise_weights' in name for name in inside)
    spatial = _either(inside, 'ClassPredictor/depthwise_weights', 'ClassPredictor/weights')
    head.kernel_size = (spatial or classes)[0]
    indices = {
        int(match.group(1))
        for match in (re.search(r'conv2d_(\d+)/', name) for name in towers)
        if match
    }
    head.num_layers_before_predictor = len(indices)
    head.share_prediction_tower = bool(towers) and towers[0].startswith('PredictionTower')
    widths = [inside[name][-1] for name in towers if not name.endswith('depthwise_weights')]
    if widths:
        proposal.set(section, 'depth', widths[0], evidence)
    for name in (
        'kernel_size', 'use_depthwise', 'num_layers_before_predictor', 'share_prediction_tower'
    ):  # fmt: skip
        proposal.learn(section.at(name), getattr(head, name), evidence)
    if code_size == CODE_SIZE:
        proposal.learn(section.at('box_code_size'), head.box_code_size, evidence)
    count = _count_anchors(boxes[-1], classes[-1], code_size)
    return Head(config, classes[-1] // count, [], count, rf'^{_SHARED}.*Tower', code_size)


def _count_anchors(codes: int, scores: int, size: int) -> int:
    """Return the number of anchors of a cell by the numbers of box codes and class logits."""
    count = codes // size
    if not count or codes % size or scores % count:
        raise Refusal(
            f'its {codes} codes of boxes and {scores} class logits of a cell are not {size} codes '
            'and as many logits of each anchor; a checkpoint of rotated boxes is not supported'
        )
    return count


def _either(shapes: Shapes, *names: str) -> Optional[Tuple[int, ...]]:
    return next((shapes[name] for name in names if name in shapes), None)
