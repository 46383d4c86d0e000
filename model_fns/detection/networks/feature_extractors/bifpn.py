"""BiFPN (Tan et al. 2020, "EfficientDet", section 3): a pyramid that sums downwards and upwards.

It starts from a backbone's maps, and from coarser ones that are pooled of the last. Each of its
iterations goes down once and up once; a node of it sums two or three maps at one level, each with a
weight that is learned, and ends in a separable convolution. Nodes are numbered in the order in
which they are made, and named by iteration, direction and level: `node_03_1_dn_lvl_5`. Variables of
a node:

    input_<i>               of an input with other channels: a 1x1 convolution, with batch norm
    combine_weights         [inputs, 1]
    post                    the separable convolution, with batch norm
"""

from __future__ import annotations

import dataclasses
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib.registry import Registry
from model_fns import layers

tf1 = tf.compat.v1

SCOPE = 'bifpn'
# The weights of a node's inputs, which are no layer's.
COMBINE_WEIGHTS = 'combine_weights'

# Kept away from 0 in a division by the sum of the weights (section 3.3 of the paper).
_EPSILON = 1e-4

# (the inputs' parameters [inputs]) -> what the inputs are multiplied by; None: there are no
# parameters.
COMBINATIONS: Registry[Optional[Callable[[tf.Tensor], tf.Tensor]]] = Registry('combine_method')
COMBINATIONS.add('sum', None)


@dataclasses.dataclass(frozen=True)
class BidirectionalPyramid:
    """What a config says of the neck.

    Attributes:
        iterations: how often down and up.
        depth: channels of every level.
        combine: one of `COMBINATIONS`.
        min_level: the finest; level L has a stride of 2^L pixels.
        max_level: the coarsest.
    """

    iterations: int
    depth: int
    combine: str = 'fast_attention'
    min_level: int = 3
    max_level: int = 7


class Node(NamedTuple):
    """One map that is made of others.

    Attributes:
        name: by iteration, direction and level; that of a map of the backbone is of iteration 0.
        level: its own.
        inputs: names of the maps that it is made of; each is one level away at most.
    """

    name: str
    level: int
    inputs: Tuple[str, ...]


def name_of(iteration: int, direction: str, level: int) -> str:
    """The name of a map: `0_up_lvl_3` to the last of the backbone's are where a neck starts."""
    return f'{iteration}_{direction}_lvl_{level}'


def plan(pyramid: BidirectionalPyramid, last_tapped: int) -> Tuple[Node, ...]:
    """Return the nodes of a neck in their order; the last one of each level is its output.

    Args:
        pyramid: what the neck is.
        last_tapped: the coarsest level of the backbone's maps.
    """
    least, most = pyramid.min_level, pyramid.max_level
    nodes = [
        Node(name_of(0, 'up', level), level, (name_of(0, 'up', level - 1),))
        for level in range(last_tapped + 1, most + 1)
    ]
    for iteration in range(1, pyramid.iterations + 1):
        # What the iteration before has left at each level: it has not gone up to the finest.
        before = {level: name_of(iteration - 1, 'up', level) for level in range(least, most + 1)}
        if iteration > 1:
            before[least] = name_of(iteration - 1, 'dn', least)
        last = before[most]
        for level in range(most - 1, least - 1, -1):
            nodes.append(Node(name_of(iteration, 'dn', level), level, (before[level], last)))
            last = nodes[-1].name
        for level in range(least + 1, most + 1):
            down = (name_of(iteration, 'dn', level),) if level < most else ()
            up = Node(name_of(iteration, 'up', level), level, (before[level], *down, last))
            nodes.append(up)
            last = up.name
    return tuple(nodes)


def bifpn(
    maps: Mapping[int, tf.Tensor], pyramid: BidirectionalPyramid, style: layers.LayerStyle
) -> List[tf.Tensor]:
    """Build the neck, in the current scope.

    Args:
        maps: of the backbone by level, float32 [batch, height, width, channels]; each is half the
            size of the one before, down to the coarsest level that is made of them.
        pyramid: what the neck is.
        style: of all layers.

    Returns:
        Maps [batch, height, width, depth] of all levels, from fine to coarse.

    Raises:
        errors.ConfigError: there is no such `combine`.
    """
    known: Dict[str, tf.Tensor] = {name_of(0, 'up', level): one for level, one in maps.items()}
    levels = {name_of(0, 'up', level): level for level in maps}
    outputs: Dict[int, tf.Tensor] = {}
    with tf1.variable_scope(SCOPE):
        for number, node in enumerate(plan(pyramid, max(maps))):
            with tf1.variable_scope(f'node_{number:02d}_{node.name}'):
                inputs = [
                    _input(known[name], levels[name] - node.level, index, pyramid.depth, style)
                    for index, name in enumerate(node.inputs)
                ]
                made = inputs[0]
                if len(inputs) > 1:
                    made = _post(_combine(inputs, pyramid.combine, style), pyramid.depth, style)
            known[node.name], levels[node.name] = made, node.level
            outputs[node.level] = made
    return [outputs[level] for level in range(pyramid.min_level, pyramid.max_level + 1)]


@COMBINATIONS.register('fast_attention')
def _fast_attention(parameters: tf.Tensor) -> tf.Tensor:
    positive = tf.nn.relu(parameters)
    return positive / (tf.reduce_sum(positive) + _EPSILON)


@COMBINATIONS.register('attention')
def _attention(parameters: tf.Tensor) -> tf.Tensor:
    return tf.nn.softmax(parameters)


@COMBINATIONS.register('weighted_sum')
def _weighted_sum(parameters: tf.Tensor) -> tf.Tensor:
    return parameters


def _input(
    features: tf.Tensor, level_step: int, index: int, depth: int, style: layers.LayerStyle
) -> tf.Tensor:
    """Return an input of a node with the neck's channels, at the node's size.

    Args:
        features: [batch, height, width, channels].
        level_step: its level minus the node's.
        index: which input it is.
        depth: channels of the neck.
        style: of the convolution.
    """
    if features.shape[-1] != depth:
        linear = style.but(activation=None)
        features = layers.conv2d(features, depth, 1, linear, f'input_{index}')
    if level_step > 0:
        return layers.enlarge(features, 2**level_step)
    if level_step < 0:
        stride = 2**-level_step
        return tf.nn.max_pool2d(features, stride + 1, stride, 'SAME')
    return features


def _combine(inputs: Sequence[tf.Tensor], method: str, style: layers.LayerStyle) -> tf.Tensor:
    """Return the sum of a node's inputs, in its scope."""
    weigh = COMBINATIONS.get(method, 'combine_method')
    terms = list(inputs)
    if weigh is not None:
        parameters = layers.variable(COMBINE_WEIGHTS, [len(inputs), 1], layers.ONES)
        factors = tf.unstack(weigh(tf.squeeze(parameters, [1])))
        terms = [layers.multiply(one, factor, style) for one, factor in zip(inputs, factors)]
    total = terms[0]
    for index, term in enumerate(terms[1:]):
        name = f'add_{index}' if index else 'add'
        total = layers.add(total, term, style, range_name=f'{name}/{layers.PLAIN_SUM}')
    return total


def _post(features: tf.Tensor, depth: int, style: layers.LayerStyle) -> tf.Tensor:
    """Activation first, then the convolution and batch norm."""
    active = features if style.activation is None else style.activation(features)
    return layers.separable_conv2d(active, depth, 3, style.but(activation=None), 'post')
