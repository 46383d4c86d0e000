"""Cells from architecture search, and the dropping of their operations in training.

A cell (Zoph et al. 2018, "Learning Transferable Architectures for Scalable Image Recognition",
section 3) takes two feature maps: the current one and the one before it. These are its first two
states; each further state is the sum of an operation on one state and another on the same or
another state. Variables of a cell:

    1x1/weights, beginning_bn              the current map's projection
    comb_iter_<i>/{left,right}/...         the operations of sum i
    cell_output/reduction_<i>/...          the projection of a state that has other channels
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib import errors
from model_fns import layers
from model_fns.backbones import registry
from model_fns.layers import forward_pass

tf1 = tf.compat.v1

# States that a cell begins with; only operations on these stride.
CURRENT, PREVIOUS = 0, 1


class Term(NamedTuple):
    """One operation on one state.

    Attributes:
        operation: `separable` (two separable convolutions), `atrous` (one convolution at rate 2),
            `max_pool`, `avg_pool`, or `identity`.
        size: of its kernel.
        state: `CURRENT`, `PREVIOUS`, or the i-th sum as i + 2.
    """

    operation: str
    size: int
    state: int


@dataclasses.dataclass(frozen=True)
class Cell:
    """A searched cell.

    Attributes:
        sums: what is summed, in order.
        outputs: the states that the result has side by side.
    """

    sums: Tuple[Tuple[Term, Term], ...]
    outputs: Tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class DropPath:
    """Random dropping of whole operations (Zoph et al. 2018, appendix A.7).

    The probability to keep an operation falls linearly from 1, over the steps of training, to a
    least one that falls linearly over the cells.

    Attributes:
        keep_prob: of the last cell, after the last step.
        steps: of training, until the probabilities are the least.
        cells: how many there are.
    """

    keep_prob: float
    steps: int
    cells: int

    @classmethod
    def published(
        cls, options: registry.Options, keep_prob: float, steps: int, cells: int
    ) -> DropPath:
        """Return the published path dropping of a network, with the changes of the options.

        Raises:
            errors.ConfigError: steps for a probability that stays 1.
        """
        keep_prob = options.get('drop_path_keep_prob', keep_prob)
        if keep_prob >= 1.0 and options.drop_path_steps is not None:
            raise errors.ConfigError(
                f'drop_path_steps: got {options.drop_path_steps} with a drop_path_keep_prob of '
                f'{keep_prob:g}, which drops nothing; expected the one unset, or the other less '
                'than 1.'
            )
        return cls(keep_prob, int(options.get('drop_path_steps', steps)), cells)

    def factors(self, cell: int, count: int, batch: tf.Tensor) -> List[tf.Tensor]:
        """Draw the factors on the outputs of the operations of one cell, in training.

        They depend on the seed, the variable scope and the global step, as dropout does.

        Args:
            cell: number of the cell, from 0.
            count: how many operations it has.
            batch: how many examples there are, an int32 scalar.

        Returns:
            For each operation float32 [batch, 1, 1, 1]: 0, or one over the probability.
        """
        with tf1.name_scope('drop_path'):
            # slim counts stem and reduction cells too: `cell` runs over all of them.
            least = 1.0 - (cell + 1) / self.cells * (1.0 - self.keep_prob)
            done = tf.cast(forward_pass.global_step(), tf.float32) / self.steps
            keep = 1.0 - tf.minimum(1.0, done) * (1.0 - least)
            seed = forward_pass.step_seed('drop_path')
            uniform = tf.random.stateless_uniform([count, batch, 1, 1, 1], seed)
            return tf.unstack(tf.where(uniform < keep, 1.0 / keep, 0.0))


class Place(NamedTuple):
    """A cell's place in a network.

    Attributes:
        number: of the cell, from 0.
        channels: of each of its states.
        stride: of the operations on its first two states.
    """

    number: int
    channels: int
    stride: int


def build_cell(
    cell: Cell,
    current: tf.Tensor,
    previous: tf.Tensor,
    place: Place,
    style: layers.LayerStyle,
    drop_path: DropPath,
) -> tf.Tensor:
    """Build a cell in the current variable scope.

    Args:
        cell: its operations.
        current: [batch, height, width, channels].
        previous: the same size.
        place: its place in the network.
        style: of all layers.
        drop_path: of the operations, in training.

    Returns:
        [batch, height', width', channels'], not activated.
    """
    # Convolutions have their ReLU before them, not behind: as published, so sums stay linear.
    projected = conv(style.activation(current), place.channels, 1, style, '1x1', 'beginning_bn')
    states = _States([projected, previous], style)
    terms = [term for pair in cell.sums for term in pair]
    factors = _factors(terms, place.number, current, style, drop_path)
    results: List[tf.Tensor] = []
    for index, term in enumerate(terms):
        side = 'right' if index % 2 else 'left'
        with tf1.variable_scope(f'comb_iter_{index // 2}/{side}'):
            value = _operate(term, states, place, style)
        factor = factors.get(index)
        results.append(value if factor is None else layers.multiply(value, factor, style))
        if side == 'right':
            name = f'comb_iter_{index // 2}/{layers.PLAIN_SUM}'
            states.values.append(layers.add(*results[-2:], style, range_name=name))
    return layers.concat(_outputs(cell, states.values, place.channels, style), style)


def conv(
    inputs: tf.Tensor,
    channels: int,
    size: layers.Size,
    style: layers.LayerStyle,
    scope: str,
    norm_scope: Optional[str],
    **how: Any,
) -> tf.Tensor:
    """Build a convolution without biases, then batch norm in a scope beside it; no activation.

    Args:
        inputs: [batch, height, width, channels].
        channels: of the result.
        size: of the kernel.
        style: of the layer.
        scope: of the convolution.
        norm_scope: of batch norm; None: there is none.
        **how: further arguments of `layers.conv2d`.
    """
    linear = style.linear()
    outputs = layers.conv2d(inputs, channels, size, linear, scope, use_bias=False, **how)
    return outputs if norm_scope is None else norm(outputs, style, norm_scope)


def norm(inputs: tf.Tensor, style: layers.LayerStyle, scope: str) -> tf.Tensor:
    """Apply the style's batch norm: [batch, height, width, channels]."""
    return layers.batch_norm(inputs, style.batch_norm, style.is_training, scope)


def map_size(features: tf.Tensor) -> Sequence[object]:
    """Return height and width of [batch, height, width, channels].

    Returns:
        Ints; int32 scalars where they are not static.
    """
    dynamic = tf.shape(features)
    known = features.shape.as_list()
    return [dynamic[axis] if known[axis] is None else known[axis] for axis in (1, 2)]


class _States:
    """The states of a cell, and their activations, each computed once."""

    def __init__(self, values: List[tf.Tensor], style: layers.LayerStyle):
        self.values = values
        self._style = style
        self._active: Dict[int, tf.Tensor] = {}

    def active(self, index: int) -> tf.Tensor:
        if index not in self._active:
            self._active[index] = self._style.activation(self.values[index])
        return self._active[index]


def _factors(
    terms: Sequence[Term],
    number: int,
    current: tf.Tensor,
    style: layers.LayerStyle,
    drop_path: DropPath,
) -> Dict[int, tf.Tensor]:
    """Return the factor of each operation that may be dropped; all of a cell are drawn at once."""
    # Without draws a network that drops nothing has the same graph in training as published.
    if not style.is_training or drop_path.keep_prob >= 1.0:
        return {}
    # slim never drops its operation `none`, even where it has a 1x1 convolution.
    droppable = [index for index, term in enumerate(terms) if term.operation != 'identity']
    factors = drop_path.factors(number, len(droppable), tf.shape(current)[0])
    return dict(zip(droppable, factors))


def _outputs(
    cell: Cell, values: Sequence[tf.Tensor], channels: int, style: layers.LayerStyle
) -> List[tf.Tensor]:
    """Return the states of the result, projected to `channels` where they have others."""
    outputs = []
    for index in cell.outputs:
        value = values[index]
        if value.shape[-1] != channels:
            with tf1.variable_scope(f'cell_output/reduction_{index}'):
                value = conv(value, channels, 1, style, 'path_conv', 'path_bn')
        outputs.append(value)
    return outputs


def _operate(term: Term, states: _States, place: Place, style: layers.LayerStyle) -> tf.Tensor:
    """Build an operation in the current variable scope; it has the place's channels."""
    # Sums within the cell have the reduced size already.
    stride = place.stride if term.state in (CURRENT, PREVIOUS) else 1
    size, channels = term.size, place.channels
    if term.operation == 'separable':
        return _separable(states.active(term.state), size, stride, channels, style)
    if term.operation == 'atrous':
        return _atrous(states.active(term.state), size, stride, channels, style)
    # Pools and identities read the state without a ReLU, convolutions with it.
    value = states.values[term.state]
    has_channels = value.shape[-1] == channels
    if term.operation == 'identity':
        if stride == 1 and has_channels:
            return value
        return conv(states.active(term.state), channels, 1, style, '1x1', 'bn_1', stride=stride)
    pool = {'max_pool': tf.nn.max_pool2d, 'avg_pool': tf.nn.avg_pool2d}[term.operation]
    # TensorFlow's mean leaves the padding out; ports to PyTorch count it at stride 2, which moved
    # logits of NASNet by up to 6.5 where they reach 94.
    pooled = pool(value, size, stride, 'SAME')
    return pooled if has_channels else conv(pooled, channels, 1, style, '1x1', 'bn_1')


def _separable(
    active: tf.Tensor, size: int, stride: int, channels: int, style: layers.LayerStyle
) -> tf.Tensor:
    outputs = active
    for index in (1, 2):
        name = f'{size}x{size}_{index}'
        outputs = layers.separable_conv2d(
            outputs if index == 1 else style.activation(outputs),
            channels,
            size,
            style.linear(),
            f'separable_{name}',
            stride=stride if index == 1 else 1,
            use_bias=False,
        )
        outputs = norm(outputs, style, f'bn_sep_{name}')
    return outputs


def _atrous(
    active: tf.Tensor, size: int, stride: int, channels: int, style: layers.LayerStyle
) -> tf.Tensor:
    """Build an atrous convolution; at stride 2 it is a plain one on a resized map."""
    if stride == 2:
        # DeepLab's scale_dimension at 0.5. TensorFlow has no convolution with a stride and a rate.
        active = layers.resize(active, *((side - 1) // 2 + 1 for side in map_size(active)))
    scopes = f'atrous_{size}x{size}', f'bn_atr_{size}x{size}'
    return conv(active, channels, size, style, *scopes, rate=1 if stride == 2 else 2)
