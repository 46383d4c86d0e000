"""Paths of variables in published checkpoints of CenterNets, which are of TensorFlow 2.

Backbones and upsampling are Keras models, which number their layers with weights. Heads are in a
dictionary. Hourglasses have names for all of their objects.
"""

from __future__ import annotations

import re
from typing import Dict, Iterator, List, Sequence, Tuple

import tensorflow as tf

from estimator_lib.optimization.partitioned import variable_name
from model_fns.backbones import registry, resnet_v2
from model_fns.detection.architectures.center_net import extractors, heads
from model_fns.detection.networks import object_paths

CLASSIFICATION, DETECTION = 'classification', 'detection'

_EXTRACTOR = f'{object_paths.MODEL}_feature_extractor/'
_BASE = f'{_EXTRACTOR}_base_model/'
_UP = f'{_EXTRACTOR}_feature_extractor_model/'
_HOURGLASS = f'{_EXTRACTOR}_network/'
_HEADS = f'{object_paths.MODEL}_prediction_head_dict/'
_NORM = 'BatchNorm'


def map_model_paths(
    variables: Sequence[tf.Variable],
    extractor: extractors.Extractor,
    all_heads: Sequence[heads.Head],
    checkpoint_type: str,
) -> Dict[str, tf.Variable]:
    """Map paths of a checkpoint to the variables that it restores.

    Args:
        variables: variables of the model.
        extractor: its feature extractor.
        all_heads: all its heads.
        checkpoint_type: `CLASSIFICATION`: the backbone, from a checkpoint of a backbone only;
            `DETECTION`: the feature extractor; any other: all variables.

    Raises:
        errors.ConfigError: the path of a required variable is unknown.
    """
    scope = f'{extractors.SCOPE}/{extractor.base_scope}'
    if checkpoint_type == CLASSIFICATION:
        inside = [
            variable for variable in variables if variable_name(variable).startswith(f'{scope}/')
        ]
        named = base_layers(extractor.kind)
        rules = _numbered(scope, named, object_paths.CLASSIFIER)
        return object_paths.map_paths(inside if named else [], rules)
    rules = [*_extractor_rules(extractor, scope), *_head_rules(all_heads)]
    if checkpoint_type == DETECTION:
        variables = [
            variable
            for variable in variables
            if variable_name(variable).startswith(f'{extractors.SCOPE}/')
        ]
    return object_paths.map_paths(variables, rules)


def base_layers(kind: extractors.Kind) -> Tuple[str, ...]:
    """List the layers of a backbone, see `registry.Network.keras_layers`; none for an hourglass."""
    if kind.base_scope in extractors.BASIC_UNITS:
        return resnet_v2.basic_keras_layers(extractors.BASIC_UNITS[kind.base_scope])
    if not kind.network:
        return ()
    return registry.get_network(kind.network, task='detection').keras_layers


def _extractor_rules(extractor: extractors.Extractor, scope: str) -> object_paths.Rules:
    if extractor.kind.up is None:
        return _hourglass_rules(scope)
    up = tuple(_up_layers(extractor.kind.is_pyramid))
    return [
        *_numbered(scope, base_layers(extractor.kind), _BASE),
        # The backbone is the first layer of the upsampling model.
        *_numbered(extractors.SCOPE, up, _UP, first=1),
    ]


def _numbered(
    scope: str, named: Sequence[str], path: str, first: int = 0
) -> List[Tuple[str, object_paths.Place]]:
    """Build the rules of layers that Keras numbers.

    Args:
        scope: prefix of their scopes.
        named: names of the layers, in Keras's order.
        path: path of their model, ending with a slash.
        first: number of the first layer.
    """
    return [
        (re.escape(f'{scope}/{name}'), f'{path}layer_with_weights-{number}')
        for number, name in enumerate(named, start=first)
    ]


def _hourglass_rules(scope: str) -> object_paths.Rules:
    """Build the rules of an hourglass, whose scopes are the names of objects."""
    return [
        # The second convolution of a residual block consists of attributes of the block, `conv` and
        # `norm`. The others are objects with such attributes. The first match counts.
        (rf'{scope}/(.*)/conv/{_NORM}', rf'{_HOURGLASS}\1/norm'),
        (rf'{scope}/(.*)/conv', rf'{_HOURGLASS}\1/conv'),
        (rf'{scope}/(.*)/{_NORM}', rf'{_HOURGLASS}\1/norm'),
        (rf'{scope}/(.*)', rf'{_HOURGLASS}\1/conv'),
    ]


def _head_rules(all_heads: Sequence[heads.Head]) -> object_paths.Rules:
    """Build the rules of heads: a model for each head and map, with layers numbered from 0."""
    return [
        (
            rf'{heads.SCOPE}/{re.escape(head.name)}/output_(\d+)/{heads.layer_scope(number)}',
            rf'{_HEADS}{_escaped(head.name)}/\1/layer_with_weights-{number}',
        )
        for head in all_heads
        for number in range(len(head.filters) + 1)
    ]


def _escaped(key: str) -> str:
    """Escape a key of a dictionary for paths."""
    # As TensorFlow's checkpoints escape names of edges: first its own escape character.
    return key.replace('.', '..').replace('/', '.S')


def _up_layers(is_pyramid: bool) -> Iterator[str]:
    """Generate the layers of the upsampling, in Keras's order."""
    if is_pyramid:
        yield extractors.TOP
    for index in (1, 2, 3):
        if is_pyramid:
            yield f'{extractors.LATERAL}_{index}'
            with_norm = [extractors.SMOOTHING]
        else:
            with_norm = [extractors.CONV, extractors.TRANSPOSED]
        for layer in with_norm:
            yield f'{layer}_{index}'
            yield f'{layer}_{index}/{_NORM}'
