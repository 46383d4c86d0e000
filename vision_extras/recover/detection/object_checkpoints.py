"""Recognition of detectors in object-based checkpoints of TensorFlow 2.

The names of objects tell the kind of a detector. Candidates with its published settings are built,
and their variables are found by the paths that they have in such checkpoints.
"""

from __future__ import annotations

from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors, tf_estimator
from estimator_lib.checkpoints.object_graphs import ObjectGraph
from estimator_lib.optimization.partitioned import variable_name
from model_fns.detection.architectures.center_net import extractors
from model_fns.detection.architectures.center_net import objects as heads
from model_fns.detection.networks.feature_extractors import bifpn, extractor
from model_fns.detection.networks.feature_extractors.efficientnet import NECKS, TYPES
from model_fns.detection.task import DetectionTask
from protos import pipeline_pb2, ssd_pb2
from vision_extras.recover.artifacts.reading import Artifact
from vision_extras.recover.detection import center_nets, published
from vision_extras.recover.facts import Proposal, Refusal
from vision_extras.recover.kernels import Kernels

tf1 = tf.compat.v1

_EXTRACTOR = 'model/_feature_extractor'
_FEATURES = f'{_EXTRACTOR}/_fpn_features_generator'
_PREDICTOR = 'model/_box_predictor'
_COMBINATIONS = f'{_EXTRACTOR}/_bifpn_stage/node_combine_op'
_HEADS = 'model/_prediction_head_dict'
_TOWERS = f'{_PREDICTOR}/_head_scope_conv_layers'
_NORMS = f'{_PREDICTOR}/_base_tower_layers_for_heads/box_encodings'
_CLASSES = (
    f'{_PREDICTOR}/_prediction_heads/class_predictions_with_background/_class_predictor_layers'
)
_SHARED = 'weight_shared_convolutional_box_predictor'
_CODE_SIZE = 4
_EVIDENCE = 'names of objects and shapes of all kernels'
_MIN_LEVEL = 3  # of all published pyramids
_FIRST_FILTERS = 32.0  # of MobileNets
_CENTER_HEADS = {
    heads.CENTER: 'object_center',
    heads.SIZE: 'box.Sscale',
    heads.OFFSET: 'box.Soffset',
}


class _Match(NamedTuple):
    """Comparison of a candidate with a checkpoint.

    Attributes:
        arrays: by the names of our variables.
        differences: empty: all variables are in it, and all its kernels are of the model.
    """

    arrays: Dict[str, np.ndarray]
    differences: List[str]


def propose(artifact: Artifact, kernels: Kernels) -> Optional[Proposal]:
    """Describe the detector of an object-based checkpoint; None where it is none.

    Args:
        artifact: the artifact.
        kernels: get arrays by the names of our variables.

    Raises:
        Refusal: its detector is of no known kind.
    """
    if artifact.objects is None:
        return None
    objects = Objects(artifact, artifact.objects)
    tried: Dict[str, List[str]] = {}
    for proposal in _candidates(objects):
        match = _match(proposal.config, objects)
        tried[proposal.network] = match.differences
        if not match.differences:
            kernels.arrays.update(match.arrays)
            return proposal
    nearest = dict(sorted(tried.items(), key=lambda item: len(item[1]))[:3])
    raise Refusal(
        'it is an object-based checkpoint of TensorFlow 2 of no known detector; expected a '
        'single-shot detector with a feature pyramid, an EfficientDet or a CenterNet',
        nearest,
    )


class Objects:
    """Objects and arrays of a checkpoint.

    Args:
        artifact: the checkpoint.
        graph: its objects.
    """

    def __init__(self, artifact: Artifact, graph: ObjectGraph):
        self._arrays = artifact.arrays
        self._graph = graph

    def children(self, path: str) -> List[str]:
        """Return the names of what an object holds."""
        return self._graph.children(path)

    def array(self, path: str) -> Optional[np.ndarray]:
        """Return the value of a variable; None: there is none."""
        key = self._graph.find_key(path)
        return None if key is None else self._arrays.get(key)

    def width(self, path: str) -> int:
        """Return the number of outputs of a layer; 0: there is none."""
        for name in ('pointwise_kernel', 'kernel'):
            value = self.array(f'{path}/{name}')
            if value is not None:
                return int(value.shape[-1])
        return 0

    def layers(self, path: str) -> List[Tuple[int, ...]]:
        """Return the shapes of the kernels of a model of layers, in their order."""
        names = [name for name in self.children(path) if name.startswith('layer_with_weights')]
        places = (f'{path}/layer_with_weights-{number}/kernel' for number in range(len(names)))
        return [array.shape for array in map(self.array, places) if array is not None]


def _candidates(objects: Objects) -> Iterator[Proposal]:
    """Yield proposals of the kinds that the objects may be of."""
    if objects.children(_HEADS):
        yield from _center_nets(objects)
    elif '_bifpn_stage' in objects.children(_EXTRACTOR):
        yield from _efficient_detectors(objects)
    elif '_fpn_features_generator' in objects.children(_EXTRACTOR):
        yield from _pyramids(objects)


def _pyramids(objects: Objects) -> Iterator[Proposal]:
    first = objects.width(f'{_EXTRACTOR}/classification_backbone/layer_with_weights-0')
    width = objects.width(f'{_FEATURES}/top_layers/0')
    for kind in extractor.extractor_types():
        if not kind.endswith('_fpn_keras'):
            continue
        part = ssd_pb2.SsdFeatureExtractor(type=kind)
        if 'mobilenet' in kind:
            part.depth_multiplier = first / _FIRST_FILTERS
        part.fpn.additional_layer_depth = round(width / (part.depth_multiplier or 1.0))
        part.use_depthwise = any(
            objects.array(f'{_FEATURES}/conv_layers/0/{place}/depthwise_kernel') is not None
            for place in (0, 1)
        )
        yield _single_shot(part, 'fpn', objects)


def _efficient_detectors(objects: Objects) -> Iterator[Proposal]:
    width = objects.width(f'{_TOWERS}/BoxPredictionTower/0')
    nodes = (f'{_COMBINATIONS}/{node}' for node in objects.children(_COMBINATIONS))
    weights = f'bifpn_{bifpn.COMBINE_WEIGHTS}'
    has_weights = any(objects.array(f'{node}/{weights}') is not None for node in nodes)
    for kind, network in TYPES.items():
        if NECKS[network].depth == width:
            part = ssd_pb2.SsdFeatureExtractor(type=kind)
            part.bifpn.num_iterations, part.bifpn.num_filters = NECKS[network].iterations, width
            if not has_weights:
                part.bifpn.combine_method = 'sum'
            yield _single_shot(part, 'bifpn', objects)


def _single_shot(part: ssd_pb2.SsdFeatureExtractor, pyramid: str, objects: Objects) -> Proposal:
    """Describe a detector with a feature extractor and the head that all maps share."""
    levels, count = getattr(part, pyramid), sum(map(str.isdigit, objects.children(_NORMS)))
    levels.min_level, levels.max_level = _MIN_LEVEL, _MIN_LEVEL + max(count, 1) - 1
    proposal = Proposal(published.single_shot(part.type, _SHARED), part.type)
    proposal.merge('model.ssd.feature_extractor', part, _EVIDENCE)
    towers = objects.children(_TOWERS)
    tower = f'{_TOWERS}/{towers[0]}' if towers else ''
    values = {
        'share_prediction_tower': towers == ['PredictionTower'],
        'num_layers_before_predictor': len(objects.children(tower)) if tower else 0,
        'use_depthwise': objects.array(f'{tower}/0/depthwise_kernel') is not None,
        'depth': objects.width(f'{tower}/0'),
    }
    for name, value in values.items():
        if value or name != 'depth':
            proposal.set(f'model.ssd.box_predictor.{_SHARED}.{name}', value, _EVIDENCE)
    boxes = objects.width(f'{_PREDICTOR}/_box_prediction_head/_box_encoder_layers/0')
    classes, anchors = objects.width(f'{_CLASSES}/0'), boxes // _CODE_SIZE
    published.add_single_shot(proposal, anchors, count)
    columns = classes // anchors - int(proposal.config.model.ssd.add_background_class)
    proposal.set('model.ssd.num_classes', columns, _EVIDENCE)
    return proposal


def _center_nets(objects: Objects) -> Iterator[Proposal]:
    others = set(objects.children(_HEADS)) - set(_CENTER_HEADS.values())
    if others:
        raise Refusal(f'it is a CenterNet with {errors.shortened(sorted(others), 3)} besides boxes')
    layers = {name: objects.layers(f'{_HEADS}/{path}/0') for name, path in _CENTER_HEADS.items()}
    is_hourglass = '_network' in objects.children(_EXTRACTOR)
    for kind in extractors.EXTRACTORS:
        if layers[heads.CENTER] and is_hourglass == kind.startswith('hourglass'):
            proposal = center_nets.describe(kind, layers)
            proposal.unknown.append(published.UNKNOWN)
            yield proposal


def _match(config: pipeline_pb2.TrainEvalPipelineConfig, objects: Objects) -> _Match:
    """Find the variables of a config's model in a checkpoint."""
    try:
        task = DetectionTask.from_config(config)
        with tf.Graph().as_default():
            features = task.serving_features(tf.zeros([1, 64, 64, 3], tf.uint8))
            task.predict(features, tf_estimator.ModeKeys.PREDICT)
            paths = task.checkpoints.object_paths(tf1.global_variables(), None)
            shapes = {
                path: (variable_name(each), tuple(each.shape.as_list()))
                for path, each in paths.items()
            }
    except errors.ConfigError as error:
        return _Match({}, [str(error)])
    arrays: Dict[str, np.ndarray] = {}
    differences = []
    for path, (name, shape) in shapes.items():
        value = objects.array(path)
        if value is None:
            differences.append(f'{path} {list(shape)} is missing')
        elif tuple(value.shape) != shape:
            differences.append(f'{path} is {list(value.shape)}; expected {list(shape)}')
        else:
            arrays[name] = value
    return _Match(arrays, differences)
