"""Recognition of single-shot feature extractors by the names and shapes of their kernels."""

from __future__ import annotations

import collections
import functools
import re
from typing import Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.config.section import Section
from model_fns import layers
from model_fns.backbones.efficientnet import SIZES, list_blocks
from model_fns.detection import generations
from model_fns.detection.networks.feature_extractors import bifpn, extractor
from model_fns.detection.networks.feature_extractors.efficientnet import NECKS, TYPES
from protos import feature_pyramids_pb2, ssd_pb2
from vision_extras.recover import networks
from vision_extras.recover.kernels import Kernels, NetworkKernels, build_kernels

Shapes = Mapping[str, Tuple[int, ...]]
Config = ssd_pb2.SsdFeatureExtractor

_PUBLISHED_MIN_DEPTH = 16
_PUBLISHED_DEPTH = 256  # of pyramids
_UNSUPPORTED = 'mnasfpn'  # its neck has no settings that its kernels tell
_BUILD_SIDE = 320
_STYLE = 'regularizer { l2_regularizer { } } initializer { truncated_normal_initializer { } }'
_OTHER = re.compile(r'/(fpn|bifpn|toplayers|additional_layers)|bottom_up|Conv2d_\d+_\dx\d')
_PROJECTION = re.compile(r'/fpn/projection_\d+/weights$')
_LAST_TAPPED = (5, 4)  # levels of the backbones' last maps
_NODE = re.compile(rf'/{bifpn.SCOPE}/node_\d+_(\d+)_(?:up|dn)_lvl_(\d+)/post/pointwise_weights$')
_BLOCK = re.compile(r'/stack_(\d+)/block_(\d+)/')
_PASSED = ('Identity', 'ReadVariableOp', 'Squeeze', 'Reshape')
# By the type of the node that weights of inputs go to.
_COMBINATIONS = {'Relu': 'fast_attention', 'Softmax': 'attention'}
_PLAIN, _UNWEIGHTED = 'weighted_sum', 'sum'


def scopes() -> Sequence[str]:
    """Return the scopes that kernels of feature extractors begin with."""
    return (extractor.SCOPE, f'{generations.SECOND.scope}{extractor.SCOPE}')


def recognize(shapes: Shapes, num_maps: int) -> Config:
    """Find the feature extractor of an artifact; the config has no hyperparameters.

    Args:
        shapes: kernels of the artifact, with those of a feature extractor.
        num_maps: number of feature maps.

    Raises:
        Refusal: it is of no known network.
    """
    insides = (
        (scope, {name: shape for name, shape in shapes.items() if name.startswith(f'{scope}/')})
        for scope in scopes()
    )
    scope, found = next(each for each in insides if each[1])
    kinds = _kinds(found, scope)
    candidates = [each for kind in kinds for each in _settings(kind, found, num_maps)]
    width = _width(found)

    @functools.cache  # the one that is chosen is asked for again
    def build(index: int, factor: float) -> Tuple[Config, Optional[NetworkKernels]]:
        return _build(_scaled(candidates[index], factor, width), width)

    def builder(index: int) -> networks.Build:
        return lambda factor: build(index, factor)[1]

    index, match = networks.choose(
        found,
        [(each.type, builder(index)) for index, each in enumerate(candidates)],
        'the feature extractor is of no known network',
        lambda name: not _OTHER.search(name),
        # A network of another size may have the same kernels with a factor.
        lambda match: match.order == (0, False),
    )
    config, _ = build(index, match.factor)
    config.ClearField('conv_hyperparams')
    return config


def _kinds(found: Shapes, scope: str) -> Iterator[str]:
    """Yield the types of feature extractors whose scopes an artifact has."""
    has_pyramid = any('/fpn/' in name for name in found)
    for kind in extractor.extractor_types():
        if has_pyramid != ('_fpn' in kind) or _UNSUPPORTED in kind:
            continue
        try:
            candidate = extractor.get_extractor(kind)(
                extractor.Settings(style=layers.LayerStyle(), type_name=kind)
            )
        except errors.ConfigError:
            continue
        prefix = f'{candidate.scope}/{candidate.backbone_scope}/'
        is_inside = any(name.startswith(prefix) for name in found)
        if candidate.scope == scope and is_inside and (kind not in TYPES or _may_be(kind, found)):
            yield kind


def _settings(kind: str, found: Shapes, num_maps: int) -> Iterator[Config]:
    """Yield the configs that a type may have, without a factor, the usual first."""
    narrow = '/project/weights' if kind in TYPES else '/weights'
    widths = [shape[-1] for name, shape in found.items() if name.endswith(narrow)]
    config = Config(type=kind, depth_multiplier=1.0)
    text_format.Parse(_STYLE, config.conv_hyperparams)
    config.min_depth = min([*widths, _width(found) or _PUBLISHED_MIN_DEPTH, _PUBLISHED_MIN_DEPTH])
    if kind in TYPES:
        config.bifpn.MergeFrom(_neck(found))
        yield config
        return
    if any(name.endswith('/depthwise_weights') and _OTHER.search(name) for name in found):
        config.use_depthwise = True
    if '_fpn' not in kind:
        if num_maps != config.num_layers:
            config.num_layers = num_maps
        yield config
        return
    projections = sum(bool(_PROJECTION.search(name)) for name in found)
    for min_level in (3, 4, 2, 5):
        if projections not in [min(num_maps, last - min_level + 1) for last in _LAST_TAPPED]:
            continue
        config.fpn.min_level, config.fpn.max_level = min_level, min_level + num_maps - 1
        copied = Config()
        copied.CopyFrom(config)
        yield copied


def _width(shapes: Shapes) -> int:
    """Return the channels of a pyramid; 0: there is none."""
    parts = ('fpn/projection', '/post/pointwise_weights')
    return next((s[-1] for name, s in shapes.items() if any(part in name for part in parts)), 0)


def _scaled(config: Config, factor: float, width: int) -> List[Config]:
    """Return configs with a factor whose pyramids may have a width, the usual first."""
    scaled = extractor.Settings(layers.LayerStyle(), min_depth=config.min_depth)
    pyramid = next((name for name in ('fpn', 'bifpn') if config.HasField(name)), '')
    # The factor holds for a pyramid too, but not for all.
    usual = [round(width / factor), width]
    usual = [_PUBLISHED_DEPTH, *usual] if pyramid == 'fpn' else usual
    results = []
    for depth in dict.fromkeys(usual):
        if depth == width or max(int(depth * factor), scaled.min_depth) == width:
            copied = Config()
            copied.CopyFrom(config)
            copied.depth_multiplier = factor
            if pyramid:
                name = 'num_filters' if pyramid == 'bifpn' else 'additional_layer_depth'
                setattr(getattr(copied, pyramid), name, depth)
            results.append(copied)
    return results


def _build(configs: Sequence[Config], width: int) -> Tuple[Config, Optional[NetworkKernels]]:
    """Build the first of some configs whose pyramid has a width; without one the last.

    Returns:
        The config, and the kernels of its network; None: it cannot have these settings.
    """
    for config in configs:
        network = _kernels(config)
        if network is None or _width(network.shapes) == width:
            break
    return config, network


def _kernels(config: Config) -> Optional[NetworkKernels]:
    # The sides of the maps of a BiFPN must be halved up to the coarsest level.
    side = 2**config.bifpn.max_level if config.HasField('bifpn') else _BUILD_SIDE
    section = Section(config, extractor.WHERE)
    return build_kernels(
        lambda: extractor.build_feature_extractor(section, is_training=False).extract(
            tf.zeros([1, side, side, 3])
        )
    )


def _neck(shapes: Shapes) -> feature_pyramids_pb2.BidirectionalFeaturePyramidNetworks:
    """Read the iterations and the levels of a BiFPN."""
    matches = [match for match in map(_NODE.search, shapes) if match]
    iterations, levels = ([int(match.group(number)) for match in matches] for number in (1, 2))
    return feature_pyramids_pb2.BidirectionalFeaturePyramidNetworks(
        num_iterations=max(iterations), min_level=min(levels), max_level=max(levels)
    )


def _may_be(kind: str, shapes: Shapes) -> bool:
    """Check whether an EfficientDet has as many blocks as kernels say."""
    counts = _count_blocks(shapes)
    own = _count_blocks(f'/{block.name}/' for block in list_blocks(SIZES[TYPES[kind]]))
    has_neck = any(map(_NODE.search, shapes))
    # The last stack may be used in part.
    return has_neck and all(own.get(n) == counts[n] for n in counts if n != max(counts))


def _count_blocks(names: Iterable[str]) -> Dict[int, int]:
    """Return the numbers of the blocks of each stack that names are of."""
    places = {match.groups() for match in map(_BLOCK.search, names) if match}
    return dict(collections.Counter(int(stack) for stack, _ in places))


def find_combination(kind: str, kernels: Kernels) -> Tuple[str, str]:
    """Return the combination of the inputs of a BiFPN's nodes, and what tells it.

    Args:
        kind: type of an EfficientDet.
        kernels: of the artifact.
    """
    ending = f'/{bifpn.COMBINE_WEIGHTS}'
    name = next((each for each in kernels.arrays if each.endswith(ending)), None)
    if name is None:
        return _UNWEIGHTED, f'no variables {bifpn.COMBINE_WEIGHTS}'
    graph = kernels.graph
    users = [name] if graph is not None and name in graph.nodes else []
    while graph is not None and users:
        for following in graph.consumers(users.pop()):
            op = graph.nodes[following].op
            if op not in _PASSED:
                return _COMBINATIONS.get(op, _PLAIN), f'node {following} of type {op}'
            users.append(following)
    return NECKS[TYPES[kind]].combine, ''
