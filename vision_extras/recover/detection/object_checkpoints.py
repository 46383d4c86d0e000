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
from estimator_lib.config.section import Section
from estimator_lib.optimization.partitioned import variable_name
from model_fns.detection.networks.feature_extractors import bifpn
from model_fns.detection.task import DetectionTask
from protos import center_net_pb2, pipeline_pb2
from vision_extras.recover.artifacts.reading import Artifact
from vision_extras.recover.detection import defaults, published_objects
from vision_extras.recover.facts import Proposal, Refusal
from vision_extras.recover.kernels import Kernels

tf1 = tf.compat.v1

_EXTRACTOR = 'model/_feature_extractor'
_PREDICTOR = 'model/_box_predictor'
_COMBINATIONS = f'{_EXTRACTOR}/_bifpn_stage/node_combine_op'
_HEADS = 'model/_prediction_head_dict'
_TOWERS = f'{_PREDICTOR}/_head_scope_conv_layers'
_NORMS = f'{_PREDICTOR}/_base_tower_layers_for_heads/box_encodings'
_CLASSES = (
    f'{_PREDICTOR}/_prediction_heads/class_predictions_with_background/_class_predictor_layers'
)
_CODE_SIZE = 4
_EVIDENCE = 'names of objects and shapes of all kernels'
_MIN_LEVEL = 3  # of all published pyramids
_FIRST_FILTERS = 32.0  # of MobileNets
_CENTER_HEADS = ('box.Soffset', 'box.Sscale', 'object_center')

_Config = pipeline_pb2.TrainEvalPipelineConfig


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
    for kind, config in _candidates(objects):
        match = _match(config, objects)
        tried[kind] = match.differences
        if not match.differences:
            kernels.arrays.update(match.arrays)
            return _describe(kind, config)
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


def _candidates(objects: Objects) -> Iterator[Tuple[str, _Config]]:
    """Yield types of feature extractors with their configs."""
    if objects.children(_HEADS):
        yield from _center_nets(objects)
    elif '_bifpn_stage' in objects.children(_EXTRACTOR):
        yield from _efficient_detectors(objects)
    elif '_fpn_features_generator' in objects.children(_EXTRACTOR):
        yield from _pyramids(objects)


def _pyramids(objects: Objects) -> Iterator[Tuple[str, _Config]]:
    features = f'{_EXTRACTOR}/_fpn_features_generator'
    first = objects.width(f'{_EXTRACTOR}/classification_backbone/layer_with_weights-0')
    for kind in published_objects.PYRAMIDS:
        config = defaults.build(kind, 'weight_shared_convolutional_box_predictor')
        extractor = config.model.ssd.feature_extractor
        if 'mobilenet' in kind:
            extractor.depth_multiplier = first / _FIRST_FILTERS
        width = objects.width(f'{features}/top_layers/0')
        extractor.fpn.additional_layer_depth = round(width / (extractor.depth_multiplier or 1.0))
        extractor.use_depthwise = any(
            objects.array(f'{features}/conv_layers/0/{place}/depthwise_kernel') is not None
            for place in (0, 1)
        )
        _set_shared_head(config, objects)
        levels = extractor.fpn
        levels.min_level, levels.max_level = _levels(objects)
        side = published_objects.side(kind, extractor.use_depthwise)
        fixed = config.model.ssd.image_resizer.fixed_shape_resizer
        fixed.height = fixed.width = side
        yield kind, config


def _efficient_detectors(objects: Objects) -> Iterator[Tuple[str, _Config]]:
    width = objects.width(f'{_TOWERS}/BoxPredictionTower/0')
    for kind, iterations, side in published_objects.EFFICIENT.get(width, ()):
        config = published_objects.efficient_detector(kind)
        levels = config.model.ssd.feature_extractor.bifpn
        levels.num_iterations, levels.num_filters = iterations, width
        if not _has_weights(objects):
            levels.combine_method = 'sum'
        _set_shared_head(config, objects)
        levels.min_level, levels.max_level = _levels(objects)
        keeping = config.model.ssd.image_resizer.keep_aspect_ratio_resizer
        keeping.min_dimension = keeping.max_dimension = side
        yield kind, config


def _has_weights(objects: Objects) -> bool:
    """Check whether a BiFPN weights the inputs of its nodes."""
    nodes = objects.children(_COMBINATIONS)
    path = f'bifpn_{bifpn.COMBINE_WEIGHTS}'
    return any(objects.array(f'{_COMBINATIONS}/{node}/{path}') is not None for node in nodes)


def _levels(objects: Objects) -> Tuple[int, int]:
    count = len([name for name in objects.children(_NORMS) if name.isdigit()])
    return _MIN_LEVEL, _MIN_LEVEL + max(count, 1) - 1


def _set_shared_head(config: _Config, objects: Objects) -> None:
    """Set the head that all maps share, its number of classes, and the anchors."""
    ssd = config.model.ssd
    head = ssd.box_predictor.weight_shared_convolutional_box_predictor
    towers = objects.children(_TOWERS)
    tower = f'{_TOWERS}/{towers[0]}' if towers else ''
    head.share_prediction_tower = towers == ['PredictionTower']
    head.num_layers_before_predictor = len(objects.children(tower)) if tower else 0
    head.depth = objects.width(f'{tower}/0') or head.depth
    head.use_depthwise = objects.array(f'{tower}/0/depthwise_kernel') is not None
    boxes = objects.width(f'{_PREDICTOR}/_box_prediction_head/_box_encoder_layers/0')
    classes = objects.width(f'{_CLASSES}/0')
    anchors = boxes // _CODE_SIZE
    octaves, left = divmod(anchors, len(published_objects.RATIOS))
    if not octaves or left or classes % anchors:
        raise Refusal(
            f'a checkpoint tells no anchors, and its {anchors} anchors of a cell are not several '
            f'scales of {len(published_objects.RATIOS)} published aspect ratios'
        )
    multiscale = ssd.anchor_generator.multiscale_anchor_generator
    multiscale.min_level, multiscale.max_level = _levels(objects)
    multiscale.anchor_scale, multiscale.scales_per_octave = 4.0, octaves
    multiscale.aspect_ratios.extend(published_objects.RATIOS)
    published_objects.set_suppression(ssd)
    ssd.num_classes = classes // anchors - int(ssd.add_background_class)


def _center_nets(objects: Objects) -> Iterator[Tuple[str, _Config]]:
    others = set(objects.children(_HEADS)) - set(_CENTER_HEADS)
    if others:
        raise Refusal(f'it is a CenterNet with {errors.shortened(sorted(others), 3)} besides boxes')
    classes = objects.width(f'{_HEADS}/object_center/0/layer_with_weights-1')
    is_hourglass = '_network' in objects.children(_EXTRACTOR)
    for kind in published_objects.HOURGLASSES if is_hourglass else published_objects.CENTER_NETS:
        config = published_objects.center_net(kind)
        model = config.model.center_net
        model.num_classes = classes
        task = model.object_detection_task
        heads = (
            task.offset_head_params,
            task.scale_head_params,
            model.object_center_params.center_head_params,
        )
        for name, head in zip(_CENTER_HEADS, heads):
            _set_center_head(head, f'{_HEADS}/{name}/0', objects)
        yield kind, config


def _set_center_head(
    head: center_net_pb2.CenterNet.PredictionHeadParams, path: str, objects: Objects
) -> None:
    """Set the layers of a head of a CenterNet before the last."""
    layers = [name for name in objects.children(path) if name.startswith('layer_with_weights')]
    kernels = [objects.array(f'{path}/layer_with_weights-{n}/kernel') for n in range(len(layers))]
    known = [kernel for kernel in kernels[:-1] if kernel is not None]
    head.num_filters.extend(kernel.shape[-1] for kernel in known)
    head.kernel_sizes.extend(kernel.shape[0] for kernel in known)


def _match(config: _Config, objects: Objects) -> _Match:
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


def _describe(kind: str, config: _Config) -> Proposal:
    proposal = Proposal(config, kind)
    model = Section(config).child(f'model.{config.model.WhichOneof("model")}')
    proposal.learn(model.at('num_classes'), model.message.num_classes, _EVIDENCE)
    if config.model.HasField('ssd'):
        extractor = config.model.ssd.feature_extractor
        pyramid = extractor.WhichOneof('feature_pyramid_oneof') or ''
        levels = model.child(f'feature_extractor.{pyramid}')
        for name in ('min_level', 'max_level', 'num_iterations', 'num_filters', 'combine_method'):
            if name in levels.message.DESCRIPTOR.fields_by_name:
                proposal.learn(levels.at(name), getattr(levels.message, name), _EVIDENCE)
        head = model.child('box_predictor.weight_shared_convolutional_box_predictor')
        for name in (
            'depth', 'num_layers_before_predictor', 'share_prediction_tower', 'use_depthwise'
        ):  # fmt: skip
            proposal.learn(head.at(name), getattr(head.message, name), _EVIDENCE)
    proposal.learn(model.at('feature_extractor.type'), kind, _EVIDENCE)
    proposal.unknown.append(
        'A checkpoint tells neither the size of images, nor anchors, normalization, activations '
        'and suppression: they are the published ones.'
    )
    return proposal
