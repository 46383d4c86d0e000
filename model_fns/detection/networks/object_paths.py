"""Paths of the variables of detectors in object-based checkpoints, which TensorFlow 2 writes.

In these checkpoints the path of a layer consists of attributes of Python objects and indices in
lists. They are data here: each rule is a pattern of scopes and its replacement. A list of layers
repeats convolution, batch norm and activation, so the second batch norm is its fifth element.
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
# Path from the root of a classifier's checkpoint to its network.
CLASSIFIER = 'feature_extractor/'

_LEAVES = {
    'weights': 'kernel',
    'depthwise_weights': 'depthwise_kernel',
    'pointwise_weights': 'pointwise_kernel',
    'biases': 'bias',
    # A variable of a node, not of one of its layers.
    bifpn.COMBINE_WEIGHTS: f'bifpn_{bifpn.COMBINE_WEIGHTS}',
}
_BATCH_NORM = ('gamma', 'beta', 'moving_mean', 'moving_variance')

Place = Union[str, Callable[['re.Match[str]'], str]]
Rules = Sequence[Tuple[str, Place]]

# Names of boxes and classes in heads of the second generation, by the scopes of the first.
_HEADS = {
    'BoxEncodingPredictor': ('box_encodings', '_box_encoder_layers'),
    'ClassPredictor': ('class_predictions_with_background', '_class_predictor_layers'),
}
_TOWERS = {
    # A tower for both heads is saved as that of boxes. The one of classes exists, without
    # variables.
    'PredictionTower': 'box_encodings',
    'BoxPredictionTower': 'box_encodings',
    'ClassPredictionTower': 'class_predictions_with_background',
}
_TOWER = rf'WeightSharedConvolutionalBoxPredictor/({"|".join(_TOWERS)})/conv2d_(\d+)'


def require_objects(type_name: str, where: str) -> None:
    """Raise an error for a TensorFlow 1 network with a TensorFlow 2 checkpoint.

    Args:
        type_name: type of the feature extractor.
        where: path of its config.

    Raises:
        errors.ConfigError: the network is one of TensorFlow 1.
    """
    if generations.find_generation(type_name) is generations.FIRST:
        raise errors.ConfigError(
            f'{where}.type: {type_name!r} is a network of TensorFlow 1, and the checkpoint is '
            'object-based, of TensorFlow 2, whose networks compute something else with the same '
            f'weights; expected {generations.counterpart(type_name)!r}, where there is one.'
        )


def map_single_shot_paths(
    variables: Sequence[tf.Variable],
    network: registry.Network,
    scope: str,
    pads: bool,
    drops: bool,
    checkpoint_type: str,
    last_layer: str = '',
) -> Dict[str, tf.Variable]:
    """Map paths to the variables of a single-shot detector.

    Args:
        variables: variables of the model.
        network: the backbone.
        scope: scope of the feature extractor.
        pads: True: separate layers pad convolutions, and count in lists.
        drops: True: the heads for classes begin with dropout, which counts in lists too.
        checkpoint_type: `full`, `detection` or `classification`.
        last_layer: scope of the backbone's last used layer; empty: all layers are used.

    Raises:
        errors.ConfigError: the path of a required variable is unknown.
    """
    backbone = f'{scope}/{network.scope}'
    if checkpoint_type == 'classification':
        rules: Rules = backbone_rules(network, backbone, CLASSIFIER)
    else:
        extractor = f'{MODEL}_feature_extractor/'
        rules = [
            # A layer that two objects own has one key, by the shortest path. So the used layers are
            # under `_efficientnet`, and the rest under `classification_backbone`.
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
        return map_paths(variables, [*rules, *_head_rules(variables, drops)])
    inside = [variable for variable in variables if variable_name(variable).startswith(f'{scope}/')]
    return map_paths(inside, rules, complete=checkpoint_type == 'detection')


def map_paths(
    variables: Iterable[tf.Variable], rules: Rules, complete: bool = True
) -> Dict[str, tf.Variable]:
    """Map paths to variables by rules.

    Args:
        variables: variables of a model.
        rules: patterns of scopes of layers or batch norms, and their paths; the first match counts.
        complete: True: a variable that matches no rule is an error.

    Raises:
        errors.ConfigError: a variable matches no rule.
    """
    paths = {}
    for variable in variables:
        path = _path(variable_name(variable), rules)
        if path is not None:
            paths[path] = variable
        elif complete:
            raise errors.ConfigError(
                f'{variable_name(variable)}: the published checkpoints of TensorFlow 2 have no '
                'such layer, so this model has none of that kind; use one that names variables by '
                'scope.'
            )
    return paths


def backbone_rules(
    network: registry.Network,
    scope: str,
    path: str,
    first: str = '',
    renamed: Sequence[Tuple[str, str]] = (),
) -> Rules:
    """Build the rules of the layers of a network that Keras numbers.

    Args:
        network: the network.
        scope: scope of its variables.
        path: path of the network, ending with a slash.
        first: start of the scope of layer 0; empty: the first layer.
        renamed: pairs of a scope and its name in the whole network.
    """
    named = network.keras_layers
    start = next(index for index, name in enumerate(named) if name.startswith(first))
    rules = []
    for index, name in enumerate(named[start:]):
        for ours, whole in renamed:
            if name.startswith(f'{whole}/'):
                name = ours + name[len(whole) :]
        rules.append((re.escape(f'{scope}/{name}'), f'{path}layer_with_weights-{index}'))
    return rules


def _used_rules(network: registry.Network, scope: str, path: str, last: str) -> Rules:
    """Build the rules of the layers up to the last used one, for a separate object with these.

    Args:
        network: the network.
        scope: scope of its variables.
        path: path of the object, ending with a slash.
        last: scope of the last used layer.
    """
    if not last:
        return []
    return backbone_rules(network, scope, path)[: network.keras_layers.index(last) + 1]


def _node_rules(scope: str, path: str) -> Rules:
    """Build the rules of a BiFPN, with lists of inputs, sums and remaining layers of its nodes."""
    node = rf'{scope}/node_(\d+)_\w+'
    return [
        (
            rf'{node}/input_(\d+)(/BatchNorm)?',
            lambda match: (
                f'{path}node_input_blocks/{int(match[1])}/{match[2]}/1/{int(bool(match[3]))}'
            ),
        ),
        (node, lambda match: f'{path}node_combine_op/{int(match[1])}'),
        (
            rf'{node}/post(/BatchNorm)?',
            lambda match: f'{path}node_post_combine_block/{int(match[1])}/{2 if match[2] else 1}',
        ),
    ]


def pyramid_rules(
    variables: Iterable[tf.Variable], scope: str, path: str, coarse_path: str, pads: bool
) -> Rules:
    """Build the rules of a feature pyramid, whose lists begin with the coarsest tapped level.

    Args:
        variables: variables of the model.
        scope: scope of the pyramid.
        path: path of the top-down part, ending with a slash.
        coarse_path: path of the coarser levels, ending with a slash.
        pads: True: separate layers pad convolutions, and count in lists.
    """
    top = _largest(variables, rf'{scope}/projection_(\d+)/.*')
    coarse = rf'{scope}/bottom_up_(?:Conv2d_|block)(\d+)'
    first = _least(variables, rf'{coarse}/.*')
    place, norm = int(pads), 1 + int(pads)
    return [
        (rf'{scope}/projection_{top}', f'{path}top_layers/0'),
        (
            # Keras builds the pyramid from the coarsest level down: its list is in reverse order of
            # scopes.
            rf'{scope}/projection_(\d+)',
            lambda match: f'{path}residual_blocks/{top - 1 - int(match[1])}/0',
        ),
        (
            rf'{scope}/smoothing_(\d+)(/BatchNorm)?',
            lambda match: (
                f'{path}conv_layers/{top - 1 - int(match[1])}/{norm if match[2] else place}'
            ),
        ),
        (
            rf'{coarse}(/BatchNorm)?',
            lambda match: f'{coarse_path}{int(match[1]) - first}/{norm if match[2] else place}',
        ),
    ]


def _stack_rules(backbone: str, path: str, pads: bool) -> Rules:
    """Build the rules of maps stacked on a backbone: a 1x1 convolution, then a 3x3 one."""
    return [
        (
            rf'{backbone}/.*_1_Conv2d_(\d+)_1x1_\d+(/BatchNorm)?',
            # Elements 0 to 2 are the 1x1 convolution, its norm and activation. A padding layer
            # precedes the 3x3 convolution only.
            lambda match: f'{path}{match[1]}/{1 if match[2] else 0}',
        ),
        (
            rf'{backbone}/.*_2_Conv2d_(\d+)_\dx\d_s2_\d+(/BatchNorm)?',
            lambda match: f'{path}{match[1]}/{(4 if match[2] else 3) + int(pads)}',
        ),
    ]


def _head_rules(variables: Iterable[tf.Variable], drops: bool) -> Rules:
    """Build the rules of shared heads and of heads for each map."""
    predictor = f'{MODEL}_box_predictor/'
    shared = 'WeightSharedConvolutionalBoxPredictor'
    tower_norms = f'{predictor}_base_tower_layers_for_heads/'
    heads = f'{predictor}_prediction_heads/'
    boxes, classes = _HEADS['BoxEncodingPredictor'], _HEADS['ClassPredictor']
    return [
        (_TOWER, rf'{predictor}_head_scope_conv_layers/\1/\2'),
        (
            rf'{_TOWER}/BatchNorm/feature_(\d+)',
            lambda match: f'{tower_norms}{_TOWERS[match[1]]}/{match[3]}/{3 * int(match[2]) + 1}',
        ),
        (f'{shared}/BoxPredictor', f'{predictor}_box_prediction_head/{boxes[1]}/0'),
        (f'{shared}/ClassPredictor', f'{heads}{classes[0]}/{classes[1]}/{int(drops)}'),
        *own_head_rules(variables, heads, r'(?:BoxPredictor_(\d+)/)?', drops),
    ]


def two_stage_head_rules(
    variables: Iterable[tf.Variable], drops: bool, enlarged: Optional[int] = None
) -> Rules:
    """Build the rules of the heads of a two-stage detector.

    Args:
        variables: variables of the model.
        drops: True: the heads of the second stage have dropout, which counts in their lists, after
            the layer that flattens their input.
    """
    first = f'{MODEL}_first_stage_box_predictor'
    second = f'{MODEL}_mask_rcnn_box_predictor/'
    # Element 0 flattens the features.
    place = 1 + int(drops)

    def mask_place(match: re.Match[str]) -> str:
        index = int(match[1] or 0)
        late = enlarged is not None and index >= enlarged
        # Convolution, norm and activation are three elements, late enlargement is one.
        place = 3 * index + int(late) + int(bool(match[2]))
        return f'{second}_third_stage_heads/mask_predictions/_mask_predictor_layers/{place}'

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
        (r'SecondStageBoxPredictor/Conv(?:_(\d+))?(/BatchNorm)?', mask_place),
    ]


def own_head_rules(
    variables: Iterable[tf.Variable], path: str, scope: str, drops: bool = False
) -> Rules:
    """Build the rules of a head for each map: a 1x1 convolution, possibly after a depthwise one.

    Args:
        variables: variables of the model.
        path: path of the heads, ending with a slash.
        scope: pattern of the scope before that of a head; its group is the number of the map, 0 if
            there is none.
        drops: True: the heads for classes begin with dropout, which counts in lists too.
    """
    lite = any('Predictor_depthwise/' in variable_name(variable) for variable in variables)
    names = '|'.join(_HEADS)

    def place(match: re.Match[str]) -> str:
        kind, layers = _HEADS[match[2]]
        # A separable head is a depthwise convolution, its norm, its activation, then the 1x1
        # convolution.
        index = 3 if lite and not match[3] else int(bool(match[4]))
        index += int(drops and match[2] == 'ClassPredictor')
        return f'{path}{kind}/{match[1] or 0}/{layers}/{index}'

    return [(rf'{scope}({names})(_depthwise)?(/BatchNorm)?', place)]


def _path(name: str, rules: Rules) -> Optional[str]:
    scope, _, leaf = name.rpartition('/')
    leaf = leaf if leaf in _BATCH_NORM else _LEAVES.get(leaf, '')
    for pattern, place in rules if leaf else ():
        match = re.fullmatch(pattern, scope)
        if match:
            return f'{match.expand(place) if isinstance(place, str) else place(match)}/{leaf}'
    return None


def _numbers(variables: Iterable[tf.Variable], pattern: str) -> List[int]:
    matches = (re.fullmatch(pattern, variable_name(variable)) for variable in variables)
    return [int(match[1]) for match in matches if match]


def _largest(variables: Iterable[tf.Variable], pattern: str) -> int:
    return max(_numbers(variables, pattern), default=0)


def _least(variables: Iterable[tf.Variable], pattern: str) -> int:
    return min(_numbers(variables, pattern), default=0)
