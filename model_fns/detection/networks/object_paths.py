"""Where the variables of detectors stand in object-based checkpoints, which TensorFlow 2 writes.

There a layer's path is of the attributes of Python objects and of places in lists, which are data
here: a row for each kind of scope, a pattern and what takes its place. A list of layers has a
convolution, batch norm and activation each; so the second batch norm is its fifth.
"""

from __future__ import annotations

import re
from typing import Callable, Dict, Iterable, List, Optional, Sequence, Tuple, Union

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.optimization.partitioned import variable_name
from model_fns.backbones import registry
from model_fns.detection import generations
from model_fns.detection.networks.feature_extractors import bifpn

MODEL = 'model/'
# From the root of a classifier's checkpoint to its network.
CLASSIFIER = 'feature_extractor/'

_LEAVES = {
    'weights': 'kernel',
    'depthwise_weights': 'depthwise_kernel',
    'pointwise_weights': 'pointwise_kernel',
    'biases': 'bias',
    # Of a node, not of a layer of it.
    bifpn.COMBINE_WEIGHTS: f'bifpn_{bifpn.COMBINE_WEIGHTS}',
}
_BATCH_NORM = ('gamma', 'beta', 'moving_mean', 'moving_variance')

Place = Union[str, Callable[['re.Match[str]'], str]]
Rules = Sequence[Tuple[str, Place]]

# Boxes and classes, as heads of the second generation call them, by the scopes of the first.
_HEADS = {
    'BoxEncodingPredictor': ('box_encodings', '_box_encoder_layers'),
    'ClassPredictor': ('class_predictions_with_background', '_class_predictor_layers'),
}
_TOWERS = {
    'PredictionTower': 'box_encodings',
    'BoxPredictionTower': 'box_encodings',
    'ClassPredictionTower': 'class_predictions_with_background',
}
_TOWER = rf'WeightSharedConvolutionalBoxPredictor/({"|".join(_TOWERS)})/conv2d_(\d+)'


def require_objects(type_name: str, where: str) -> None:
    """Refuse a network of TensorFlow 1 for a checkpoint of TensorFlow 2.

    Args:
        type_name: of the feature extractor.
        where: the path of its config.

    Raises:
        errors.ConfigError: it is one.
    """
    if generations.of_type(type_name) is generations.FIRST:
        raise errors.ConfigError(
            f'{where}.type: {type_name!r} is a network of TensorFlow 1, and the checkpoint is '
            'object-based, of TensorFlow 2, whose networks compute something else with the same '
            f'weights; expected {generations.twin(type_name)!r}, where there is one.'
        )


def of_single_shot(
    variables: Sequence[tf.Variable],
    network: registry.Network,
    scope: str,
    pads: bool,
    drops: bool,
    checkpoint_type: str,
    last_layer: str = '',
) -> Dict[str, tf.Variable]:
    """Return a single-shot detector's variables by their paths.

    Args:
        variables: of the model.
        network: the backbone.
        scope: of the feature extractor.
        pads: whether convolutions are padded by layers of their own, which count in lists.
        drops: whether the heads for classes begin with dropout, which counts too.
        checkpoint_type: `full`, `detection` or `classification`.
        last_layer: see `FeatureExtractor.last_layer`.

    Raises:
        errors.ConfigError: of a wanted variable no path is known.
    """
    backbone = f'{scope}/{network.scope}'
    if checkpoint_type == 'classification':
        rules: Rules = backbone_rules(network, backbone, CLASSIFIER)
    else:
        extractor = f'{MODEL}_feature_extractor/'
        rules = [
            *_used_rules(network, backbone, f'{extractor}_efficientnet/', last_layer),
            *backbone_rules(network, backbone, f'{extractor}classification_backbone/'),
            *pyramid_rules(
                variables,
                f'{backbone}/fpn',
                f'{extractor}_fpn_features_generator/',
                f'{extractor}_coarse_feature_layers/',
                pads,
            ),
            *_stack_rules(backbone, f'{extractor}feature_map_generator/convolutions/', pads),
            *_node_rules(f'{scope}/{bifpn.SCOPE}', f'{extractor}_bifpn_stage/'),
        ]
    if checkpoint_type == 'full':
        return paths_of(variables, [*rules, *_head_rules(variables, drops)])
    inside = [one for one in variables if variable_name(one).startswith(f'{scope}/')]
    return paths_of(inside, rules, complete=checkpoint_type == 'detection')


def paths_of(
    variables: Iterable[tf.Variable], rules: Rules, complete: bool = True
) -> Dict[str, tf.Variable]:
    """Return variables by their paths.

    Args:
        variables: of a model.
        rules: a pattern of the scope of a layer or batch norm, and its path; the first that fits.
        complete: whether a variable that no rule fits is an error.

    Raises:
        errors.ConfigError: there is one.
    """
    found = {}
    for variable in variables:
        path = _path(variable_name(variable), rules)
        if path is not None:
            found[path] = variable
        elif complete:
            raise errors.ConfigError(
                f'{variable_name(variable)}: the published checkpoints of TensorFlow 2 have no '
                'such layer, so this model has none of that kind; use one that names variables by '
                'scope.'
            )
    return found


def backbone_rules(network: registry.Network, scope: str, path: str, first: str = '') -> Rules:
    """Of the layers of a network that Keras numbers.

    Args:
        network: which.
        scope: of its variables.
        path: of the network, with a slash at its end.
        first: the start of the scope of the layer that is numbered 0; empty: of the first one.
    """
    named = network.keras_layers
    start = next(index for index, name in enumerate(named) if name.startswith(first))
    return [
        (re.escape(f'{scope}/{name}'), f'{path}layer_with_weights-{index}')
        for index, name in enumerate(named[start:])
    ]


def _used_rules(network: registry.Network, scope: str, path: str, last: str) -> Rules:
    """Of the layers up to that of a scope, where an object of their own has these.

    Args:
        network: which.
        scope: of its variables.
        path: of that object, with a slash at its end.
        last: see `FeatureExtractor.last_layer`.
    """
    if not last:
        return []
    return backbone_rules(network, scope, path)[: network.keras_layers.index(last) + 1]


def _node_rules(scope: str, path: str) -> Rules:
    """Of a BiFPN, which has a list of its nodes' inputs, one of their sums and one of the rest."""
    node = rf'{scope}/node_(\d+)_\w+'
    return [
        (
            rf'{node}/input_(\d+)(/BatchNorm)?',
            lambda found: (
                f'{path}node_input_blocks/{int(found[1])}/{found[2]}/1/{int(bool(found[3]))}'
            ),
        ),
        (node, lambda found: f'{path}node_combine_op/{int(found[1])}'),
        (
            rf'{node}/post(/BatchNorm)?',
            lambda found: f'{path}node_post_combine_block/{int(found[1])}/{2 if found[2] else 1}',
        ),
    ]


def pyramid_rules(
    variables: Iterable[tf.Variable], scope: str, path: str, coarse_path: str, pads: bool
) -> Rules:
    """Of a feature pyramid: lists begin with the coarsest of the levels that the backbone has.

    Args:
        variables: of the model.
        scope: of the pyramid.
        path: of its way down, with a slash at its end.
        coarse_path: of the levels above, with a slash at its end.
        pads: see `of_single_shot`.
    """
    top = _largest(variables, rf'{scope}/projection_(\d+)/.*')
    coarse = rf'{scope}/bottom_up_(?:Conv2d_|block)(\d+)'
    first = _least(variables, rf'{coarse}/.*')
    place, norm = int(pads), 1 + int(pads)
    return [
        (rf'{scope}/projection_{top}', f'{path}top_layers/0'),
        (
            rf'{scope}/projection_(\d+)',
            lambda found: f'{path}residual_blocks/{top - 1 - int(found[1])}/0',
        ),
        (
            rf'{scope}/smoothing_(\d+)(/BatchNorm)?',
            lambda found: (
                f'{path}conv_layers/{top - 1 - int(found[1])}/{norm if found[2] else place}'
            ),
        ),
        (
            rf'{coarse}(/BatchNorm)?',
            lambda found: f'{coarse_path}{int(found[1]) - first}/{norm if found[2] else place}',
        ),
    ]


def _stack_rules(backbone: str, path: str, pads: bool) -> Rules:
    """Of maps stacked on a backbone, numbered among all maps: a 1x1 convolution, then a 3x3 one."""
    return [
        (
            rf'{backbone}/.*_1_Conv2d_(\d+)_1x1_\d+(/BatchNorm)?',
            lambda found: f'{path}{found[1]}/{1 if found[2] else 0}',
        ),
        (
            rf'{backbone}/.*_2_Conv2d_(\d+)_\dx\d_s2_\d+(/BatchNorm)?',
            lambda found: f'{path}{found[1]}/{(4 if found[2] else 3) + int(pads)}',
        ),
    ]


def _head_rules(variables: Iterable[tf.Variable], drops: bool) -> Rules:
    """Of the heads for all maps and for a map each."""
    predictor = f'{MODEL}_box_predictor/'
    shared = 'WeightSharedConvolutionalBoxPredictor'
    tower_norms = f'{predictor}_base_tower_layers_for_heads/'
    heads = f'{predictor}_prediction_heads/'
    boxes, classes = _HEADS['BoxEncodingPredictor'], _HEADS['ClassPredictor']
    return [
        (_TOWER, rf'{predictor}_head_scope_conv_layers/\1/\2'),
        (
            rf'{_TOWER}/BatchNorm/feature_(\d+)',
            lambda found: f'{tower_norms}{_TOWERS[found[1]]}/{found[3]}/{3 * int(found[2]) + 1}',
        ),
        (f'{shared}/BoxPredictor', f'{predictor}_box_prediction_head/{boxes[1]}/0'),
        (f'{shared}/ClassPredictor', f'{heads}{classes[0]}/{classes[1]}/{int(drops)}'),
        *own_head_rules(variables, heads, r'(?:BoxPredictor_(\d+)/)?', drops),
    ]


def two_stage_head_rules(variables: Iterable[tf.Variable], drops: bool) -> Rules:
    """Of the heads of a two-stage detector.

    Args:
        variables: of the model.
        drops: whether the second stage's heads have dropout, which counts in their lists, behind
            what flattens their input.
    """
    first = f'{MODEL}_first_stage_box_predictor'
    second = f'{MODEL}_mask_rcnn_box_predictor/'
    place = 1 + int(drops)
    return [
        ('Conv', f'{first}_first_conv/layer_with_weights-0'),
        ('Conv/BatchNorm', f'{first}_first_conv/layer_with_weights-1'),
        *own_head_rules(
            variables, f'{first}/_prediction_heads/', r'FirstStageBoxPredictor(?:_(\d+))?/'
        ),
        (
            'SecondStageBoxPredictor/BoxEncodingPredictor',
            f'{second}_box_prediction_head/_box_encoder_layers/{place}',
        ),
        (
            'SecondStageBoxPredictor/ClassPredictor',
            f'{second}_class_prediction_head/_class_predictor_layers/{place}',
        ),
    ]


def own_head_rules(
    variables: Iterable[tf.Variable], path: str, scope: str, drops: bool = False
) -> Rules:
    """Of a head for each map: a 1x1 convolution, with a depthwise one before it or without.

    Args:
        variables: of the model.
        path: of the heads, with a slash at its end.
        scope: a pattern of what stands before a head's; its group is the number of the map, 0 where
            there is none.
        drops: see `of_single_shot`.
    """
    lite = any('Predictor_depthwise/' in variable_name(variable) for variable in variables)
    names = '|'.join(_HEADS)

    def place(found: re.Match[str]) -> str:
        kind, layers = _HEADS[found[2]]
        index = 3 if lite and not found[3] else int(bool(found[4]))
        index += int(drops and found[2] == 'ClassPredictor')
        return f'{path}{kind}/{found[1] or 0}/{layers}/{index}'

    return [(rf'{scope}({names})(_depthwise)?(/BatchNorm)?', place)]


def _path(name: str, rules: Rules) -> Optional[str]:
    scope, _, leaf = name.rpartition('/')
    leaf = leaf if leaf in _BATCH_NORM else _LEAVES.get(leaf, '')
    for pattern, place in rules if leaf else ():
        found = re.fullmatch(pattern, scope)
        if found:
            return f'{found.expand(place) if isinstance(place, str) else place(found)}/{leaf}'
    return None


def _numbers(variables: Iterable[tf.Variable], pattern: str) -> List[int]:
    found = (re.fullmatch(pattern, variable_name(variable)) for variable in variables)
    return [int(one[1]) for one in found if one]


def _largest(variables: Iterable[tf.Variable], pattern: str) -> int:
    return max(_numbers(variables, pattern), default=0)


def _least(variables: Iterable[tf.Variable], pattern: str) -> int:
    return min(_numbers(variables, pattern), default=0)
