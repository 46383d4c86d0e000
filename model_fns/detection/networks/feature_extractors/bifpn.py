"""BiFPN (Tan et al. 2020, "EfficientDet", section 3): a pyramid with paths in both directions.

It starts from a backbone's maps, and from coarser maps that are pooled from the last one. Each
iteration has one top-down and one bottom-up path. A node sums two or three maps at one level, with
learned weights, and ends with a separable convolution. Nodes are numbered in the order of creation,
and named by iteration, direction and level: `node_03_1_dn_lvl_5`. Variables of a node:

    input_<i>               for an input with other channels: a 1x1 convolution, with batch norm
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
# The weights of a node's inputs, which belong to no layer.
COMBINE_WEIGHTS = 'combine_weights'

# Avoids a division by 0 by the sum of the weights (section 3.3 of the paper).
_EPSILON = 1e-4

# Functions from the parameters [inputs] to factors of the inputs; None: there are no parameters.
COMBINATIONS: Registry[Optional[Callable[[tf.Tensor], tf.Tensor]]] = Registry('combine_method')
COMBINATIONS.add('sum', None)


@dataclasses.dataclass(frozen=True)
class BidirectionalPyramid:
    """Configuration of the neck.

    Attributes:
        iterations: number of iterations.
        depth: channels of every level.
        combine: one of `COMBINATIONS`.
        min_level: finest level; level L has a stride of 2^L pixels.
        max_level: coarsest level.
    """

    iterations: int
    depth: int
    combine: str = 'fast_attention'
    min_level: int = 3
    max_level: int = 7


class Node(NamedTuple):
    """Map that is computed from others.

    Attributes:
        name: name by iteration, direction and level; maps of the backbone have iteration 0.
        level: level of the map.
        inputs: names of the input maps; their levels differ by at most one.
    """

    name: str
    level: int
    inputs: Tuple[str, ...]


def map_name(iteration: int, direction: str, level: int) -> str:
    """Return the name of a map; a neck starts from `0_up_lvl_3` and the following levels."""
    return f'{iteration}_{direction}_lvl_{level}'


def plan(pyramid: BidirectionalPyramid, last_tapped: int) -> Tuple[Node, ...]:
    """List the nodes of a neck in order; the last one of each level is its output.

    Args:
        pyramid: configuration of the neck.
        last_tapped: the coarsest level of the backbone's maps.
    """
    least, most = pyramid.min_level, pyramid.max_level
    nodes = [
        Node(map_name(0, 'up', level), level, (map_name(0, 'up', level - 1),))
        for level in range(last_tapped + 1, most + 1)
    ]
    for iteration in range(1, pyramid.iterations + 1):
        # Maps of the previous iteration at each level; its bottom-up path excludes the finest
        # level.
        before = {level: map_name(iteration - 1, 'up', level) for level in range(least, most + 1)}
        if iteration > 1:
            before[least] = map_name(iteration - 1, 'dn', least)
        last = before[most]
        for level in range(most - 1, least - 1, -1):
            nodes.append(Node(map_name(iteration, 'dn', level), level, (before[level], last)))
            last = nodes[-1].name
        for level in range(least + 1, most + 1):
            down = (map_name(iteration, 'dn', level),) if level < most else ()
            up = Node(map_name(iteration, 'up', level), level, (before[level], *down, last))
            nodes.append(up)
            last = up.name
    return tuple(nodes)


def bifpn(
    maps: Mapping[int, tf.Tensor], pyramid: BidirectionalPyramid, style: layers.LayerStyle
) -> List[tf.Tensor]:
    """Build the neck, in the current scope.

    Args:
        maps: maps of the backbone by level, float32 [batch, height, width, channels]; each has half
            the size of the previous one.
        pyramid: configuration of the neck.
        style: style of all layers.

    Returns:
        Maps [batch, height, width, depth] of all levels, from fine to coarse.

    Raises:
        errors.ConfigError: `combine` is unknown.
    """
    known: Dict[str, tf.Tensor] = {
        map_name(0, 'up', level): features for level, features in maps.items()
    }
    levels = {map_name(0, 'up', level): level for level in maps}
    outputs: Dict[int, tf.Tensor] = {}
    with tf1.variable_scope(SCOPE):
        for number, node in enumerate(plan(pyramid, max(maps))):
            with tf1.variable_scope(f'node_{number:02d}_{node.name}'):
                inputs = [
                    _input(known[name], levels[name] - node.level, index, pyramid.depth, style)
                    for index, name in enumerate(node.inputs)
                ]
                output = inputs[0]
                # The coarse levels before the first iteration are only resampled, as published.
                if len(inputs) > 1:
                    output = _post(_combine(inputs, pyramid.combine, style), pyramid.depth, style)
            known[node.name], levels[node.name] = output, node.level
            outputs[node.level] = output
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
    """Convert an input of a node to the neck's channels and the node's size.

    Args:
        features: [batch, height, width, channels].
        level_step: level of the input minus that of the node.
        index: index of the input.
        depth: channels of the neck.
        style: style of the convolution.
    """
    if features.shape[-1] != depth:
        # Before resampling, as published. Each edge has its own convolution, even if two edges read
        # the same map of the backbone.
        linear = style.but(activation=None)
        features = layers.conv2d(features, depth, 1, linear, f'input_{index}')
    if level_step > 0:
        return layers.enlarge(features, 2**level_step)
    if level_step < 0:
        stride = 2**-level_step
        # A window of 3 for a stride of 2, as published, not one of 2.
        return tf.nn.max_pool2d(features, stride + 1, stride, 'SAME')
    return features


def _combine(inputs: Sequence[tf.Tensor], method: str, style: layers.LayerStyle) -> tf.Tensor:
    """Compute the weighted sum of a node's inputs, in its scope."""
    weigh = COMBINATIONS.get(method, 'combine_method')
    terms = list(inputs)
    if weigh is not None:
        # Not regularized, as published. The second dimension of 1 is that of published checkpoints.
        parameters = layers.variable(COMBINE_WEIGHTS, [len(inputs), 1], layers.ONES)
        factors = tf.unstack(weigh(tf.squeeze(parameters, [1])))
        terms = [layers.multiply(term, factor, style) for term, factor in zip(inputs, factors)]
    total = terms[0]
    for index, term in enumerate(terms[1:]):
        name = f'add_{index}' if index else 'add'
        total = layers.add(total, term, style, range_name=f'{name}/{layers.PLAIN_SUM}')
    return total


def _post(features: tf.Tensor, depth: int, style: layers.LayerStyle) -> tf.Tensor:
    """Apply the activation, then the separable convolution and batch norm."""
    # The published order: nothing follows batch norm, so outputs of nodes are unbounded.
    active = features if style.activation is None else style.activation(features)
    return layers.separable_conv2d(active, depth, 3, style.but(activation=None), 'post')
