"""Where published checkpoints of CenterNets have our variables.

These are of TensorFlow 2, whose programs name a variable by the objects that hold it. A model of
Keras counts its layers that have weights, in the order of their depth: convolutions and their batch
norms one each. The order is given here by rule; heads and hourglasses have names.
"""

from __future__ import annotations

import re
from typing import Callable, Iterator, Mapping, Optional, Sequence, Tuple

import tensorflow as tf

from model_fns.backbones import mobilenet_v2, resnet_v1, resnet_v2
from model_fns.detection.architectures.center_net import extractors, heads

# The kinds of checkpoint beside those of whole models.
CLASSIFICATION, DETECTION = 'classification', 'detection'

_MODEL = 'model'
_EXTRACTOR = f'{_MODEL}/_feature_extractor'
_BASE = f'{_EXTRACTOR}/_base_model'
_UP = f'{_EXTRACTOR}/_feature_extractor_model'
_HOURGLASS = f'{_EXTRACTOR}/_network'
_HEADS = f'{_MODEL}/_prediction_head_dict'
# The edge that programs give a classifier's checkpoint.
_CLASSIFIER = 'feature_extractor'
_NORM = 'BatchNorm'

# What Keras calls a layer's variables; those of batch norm have the same names.
_LEAVES = {
    'weights': 'kernel',
    'biases': 'bias',
    'depthwise_weights': 'depthwise_kernel',
    'pointwise_weights': 'pointwise_kernel',
}

# The name of a variable -> its path; None: it is not of the part that the function is for.
Rule = Callable[[str], Optional[str]]


def of_model(extractor: extractors.Extractor, of_heads: Sequence[heads.Head]) -> Rule:
    """From the names of a model's variables to their paths.

    Args:
        extractor: its feature extractor.
        of_heads: all of its heads.
    """
    scope = f'{extractors.SCOPE}/{extractor.base_scope}'
    if extractor.kind.up is None:
        parts = [_hourglass(scope)]
    else:
        base = tuple(_base_layers(extractor.base_scope))
        # The backbone is the first layer of the model that is the way up.
        parts = [
            _counted(scope, base, _BASE),
            _counted(extractors.SCOPE, tuple(_up_layers(extractor)), _UP, first=1),
        ]
    parts.append(_heads(of_heads))

    def path(name: str) -> Optional[str]:
        return next((found for found in (part(name) for part in parts) if found), None)

    return path


def of_type(
    path: Rule, variables: Sequence[tf.Variable], checkpoint_type: str
) -> Mapping[str, tf.Variable]:
    """The variables that a checkpoint gives, by their path in it.

    Args:
        path: from `of_model`.
        variables: of the model.
        checkpoint_type: `CLASSIFICATION`: the backbone of a checkpoint of that alone; `DETECTION`:
            the feature extractor; any other: all.
    """
    found = {}
    for variable in variables:
        where = path(variable.op.name)
        if where is None:
            continue
        if checkpoint_type == CLASSIFICATION:
            if where.startswith(f'{_BASE}/'):
                found[_CLASSIFIER + where[len(_BASE) :]] = variable
        elif checkpoint_type != DETECTION or where.startswith(f'{_EXTRACTOR}/'):
            found[where] = variable
    return found


def _counted(scope: str, layer_scopes: Tuple[str, ...], model: str, first: int = 0) -> Rule:
    """Layers of a model of Keras by their number.

    Args:
        scope: what the layers' scopes begin with.
        layer_scopes: of what holds variables, in Keras's order.
        model: the path of the model.
        first: the number of the first layer.
    """
    numbers = {f'{scope}/{one}': number for number, one in enumerate(layer_scopes, start=first)}

    def path(name: str) -> Optional[str]:
        holder, _, leaf = name.rpartition('/')
        if holder not in numbers:
            return None
        return f'{model}/layer_with_weights-{numbers[holder]}/{_LEAVES.get(leaf, leaf)}'

    return path


def _hourglass(scope: str) -> Rule:
    """Layers of an hourglass: the scopes are the objects' names, but for two kinds of them."""

    def path(name: str) -> Optional[str]:
        if not name.startswith(f'{scope}/'):
            return None
        layer, leaf = re.fullmatch(rf'(.*?)/((?:{_NORM}/)?\w+)', name[len(scope) + 1 :]).groups()
        # The second convolution of a residual block and its batch norm are the block's own.
        outer, _, last = layer.rpartition('/')
        owner = f'{outer}/' if last == 'conv' else f'{layer}/'
        if leaf.startswith(f'{_NORM}/'):
            return f'{_HOURGLASS}/{owner}norm/{leaf[len(_NORM) + 1 :]}'
        return f'{_HOURGLASS}/{owner}conv/{_LEAVES[leaf]}'

    return path


def _heads(of_heads: Sequence[heads.Head]) -> Rule:
    """Heads are in a dictionary, each a list of small models, one for each feature map."""
    known = {f'{heads.SCOPE}/{one.name}/': one for one in of_heads}
    pattern = re.compile(r'output_(\d+)/conv_(\d+)/(\w+)')

    def path(name: str) -> Optional[str]:
        for scope, head in known.items():
            found = pattern.fullmatch(name[len(scope) :]) if name.startswith(scope) else None
            if found:
                index, layer, leaf = found.groups()
                key = head.name.replace('.', '..').replace('/', '.S')
                number = int(layer) - 1
                return f'{_HEADS}/{key}/{index}/layer_with_weights-{number}/{_LEAVES[leaf]}'
        return None

    return path


def _up_layers(extractor: extractors.Extractor) -> Iterator[str]:
    """The layers of the way up, in Keras's order."""
    if extractor.kind.is_pyramid:
        yield extractors.TOP
        for index in (1, 2, 3):
            yield f'{extractors.LATERAL}_{index}'
            yield from _with_norm(f'{extractors.SMOOTHING}_{index}')
        return
    for index in (1, 2, 3):
        yield from _with_norm(f'{extractors.CONV}_{index}')
        yield from _with_norm(f'{extractors.TRANSPOSED}_{index}')


def _base_layers(scope: str) -> Iterator[str]:
    """The layers of a backbone, in Keras's order."""
    if scope == mobilenet_v2.SCOPE:
        yield from _of_mobilenet_v2()
    elif scope in resnet_v2.ARCHITECTURES:
        yield from _preactivated(resnet_v2.ARCHITECTURES[scope], 'bottleneck_v2', 3)
    elif scope in extractors.BASIC_UNITS:
        yield from _preactivated(extractors.BASIC_UNITS[scope], 'basic_v2', 2)
    else:
        yield from _of_resnet_v1(resnet_v1.ARCHITECTURES[scope].units)


def _with_norm(*layers: str) -> Iterator[str]:
    for layer in layers:
        yield layer
        yield f'{layer}/{_NORM}'


def _units(counts: Sequence[int], unit: str) -> Iterator[Tuple[bool, str]]:
    """Whether a unit is the first of its block, and its scope."""
    for block, count in enumerate(counts, start=1):
        for index in range(1, count + 1):
            yield index == 1, f'block{block}/unit_{index}/{unit}'


def _of_resnet_v1(counts: Sequence[int]) -> Iterator[str]:
    """A projection is as deep as the last convolution, and before it."""
    yield from _with_norm('conv1')
    for is_first, scope in _units(counts, 'bottleneck_v1'):
        yield from _with_norm(f'{scope}/conv1', f'{scope}/conv2')
        last = ('shortcut', 'conv3') if is_first else ('conv3',)
        yield from (f'{scope}/{one}' for one in last)
        yield from (f'{scope}/{one}/{_NORM}' for one in last)


def _preactivated(counts: Sequence[int], unit: str, convolutions: int) -> Iterator[str]:
    """The last of three convolutions is as deep as a projection, and behind it; of two it is not.

    Args:
        counts: of the units of each block.
        unit: the units' scope.
        convolutions: of a unit; two have batch norm.
    """
    yield 'conv1'
    for is_first, scope in _units(counts, unit):
        yield f'{scope}/preact'
        yield from _with_norm(f'{scope}/conv1', f'{scope}/conv2')
        if is_first:
            yield f'{scope}/shortcut'
        if convolutions == 3:
            yield f'{scope}/conv3'
    yield 'postnorm'


def _of_mobilenet_v2() -> Iterator[str]:
    yield from _with_norm('Conv')
    for block in range(17):
        scope = f'expanded_conv_{block}' if block else 'expanded_conv'
        parts = ('expand', 'depthwise', 'project') if block else ('depthwise', 'project')
        yield from _with_norm(*(f'{scope}/{part}' for part in parts))
    yield from _with_norm('Conv_1')
