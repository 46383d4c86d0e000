"""Variables of a model: their initial values, and their regularization losses.

Initial values depend on the graph's seed and the variable's name, by stateless ops, so that a
network draws the same numbers whatever was built before it.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Callable, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib import graph_state
from model_fns.layers import forward_pass

tf1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class Initializer:
    """Distribution of the initial value of a weight.

    Attributes:
        kind: `truncated_normal`, `normal`, `uniform` or `constant`.
        scale: the standard deviation, the half width of the interval, or the constant.
        mean: center of the distribution.
        fan: None, or `in`, `out` or `avg`: scale is then a factor f, and the standard deviation is
            sqrt(f / n) (1.3 f for the truncated normal, to make up for the cut tails), the half
            width sqrt(3 f / n), where n counts a weight's inputs, outputs or their mean.
    """

    kind: str = 'uniform'
    scale: float = 1.0
    mean: float = 0.0
    fan: Optional[str] = 'avg'

    def __call__(self, shape: Sequence[int], seed: Tuple[int, int]) -> tf.Tensor:
        """Return a float32 tensor of that shape, a function of the seed."""
        width = self._width(shape)
        if self.kind == 'constant':
            return tf.constant(self.scale, tf.float32, list(shape))
        # Not `tf.random.stateless_*`, whose algorithm depends on the device.
        draw = {
            'truncated_normal': tf.raw_ops.StatelessTruncatedNormal,
            'normal': tf.raw_ops.StatelessRandomNormal,
            'uniform': tf.raw_ops.StatelessRandomUniform,
        }[self.kind]
        value = draw(shape=list(shape), seed=list(seed))
        if self.kind == 'uniform':
            return value * (2.0 * width) + (self.mean - width)
        return value * width + self.mean if self.mean else value * width

    def _width(self, shape: Sequence[int]) -> float:
        if self.fan is None:
            return self.scale
        receptive = math.prod(shape[:-2])
        fan_in = receptive * (shape[-2] if len(shape) > 1 else shape[-1])
        fan_out = receptive * shape[-1]
        n = {'in': fan_in, 'out': fan_out, 'avg': (fan_in + fan_out) / 2.0}[self.fan]
        # `variance_scaling_initializer` of TF-Slim rounds 1 / 0.8796^2 = 1.2924 to 1.3.
        factor = {'truncated_normal': 1.3, 'normal': 1.0, 'uniform': 3.0}[self.kind]
        return math.sqrt(factor * self.scale / max(1.0, n))


XAVIER = Initializer('uniform', 1.0, fan='avg')
ZEROS = Initializer('constant', 0.0, fan=None)
ONES = Initializer('constant', 1.0, fan=None)


# What cutting the tails off beyond two standard deviations leaves of a standard deviation of 1.
# The constant of Keras: `scipy.stats.truncnorm.std(a=-2, b=2)`.
TRUNCATED_STDDEV = 0.87962566103423978


def truncated_normal(stddev: float, mean: float = 0.0) -> Initializer:
    """Return a normal distribution, redrawn beyond two standard deviations."""
    return Initializer('truncated_normal', stddev, mean, fan=None)


def scaled_normal(factor: float, fan: str) -> Initializer:
    """Return a truncated normal whose deviation is sqrt(factor / n), see `Initializer`."""
    return Initializer('truncated_normal', factor / (1.3 * TRUNCATED_STDDEV**2), fan=fan)


HE_NORMAL = scaled_normal(2.0, 'in')  # He et al. 2015.


@dataclasses.dataclass(frozen=True)
class Regularizer:
    """A weight's contribution to the loss: `weight` * sum(w^2) / 2, or `weight` * sum(|w|)."""

    kind: str  # 'l1' or 'l2'
    weight: float

    def __call__(self, value: tf.Tensor) -> tf.Tensor:
        """Return the regularization loss of one weight tensor, a scalar."""
        if self.kind == 'l1':
            return tf.reduce_sum(tf.abs(value)) * self.weight
        return tf.nn.l2_loss(value) * self.weight


def l2(weight: float) -> Optional[Regularizer]:
    """Return the L2 regularizer of that weight; None for 0."""
    return Regularizer('l2', weight) if weight else None


def variable(
    name: str,
    shape: Sequence[int],
    initializer: Initializer,
    regularizer: Optional[Regularizer] = None,
    trainable: bool = True,
) -> tf.Variable:
    """Return a float32 variable of the model in the current variable scope.

    Args:
        name: its name in the scope.
        shape: its static shape.
        initializer: draws the initial value.
        regularizer: its loss is added to the regularization losses of the replica or the forward
            pass, once however often the variable is used.
        trainable: else it is a statistic: the replicas of a distribution strategy keep one each,
            and what is saved is that of the first, as of the first of several clones.
    """
    scope = tf1.get_variable_scope().name
    full_name = f'{scope}/{name}' if scope else name
    one_pass = forward_pass.current()
    if one_pass is None:
        # The seeded name has its slash at the root too. Both branches draw by it, and so start
        # equal.
        created = _graph_variable(name, f'{scope}/{name}', shape, initializer, trainable)
    else:
        seed = forward_pass.fixed_seed(f'{scope}/{name}')
        created = one_pass.store.variable(
            full_name, shape, lambda: initializer(shape, seed), trainable
        )
    if regularizer is not None:
        forward_pass.add_regularization_loss(full_name, lambda: regularizer(created))
    return created


def companion(name: str, initial_value: float, kind: str) -> tf.Variable:
    """Return a float32 scalar that layers keep beside the model: it is saved, and never averaged.

    Args:
        name: its whole name, whatever the current variable scope is.
        initial_value: its value before the first step.
        kind: what such scalars are called in messages, see `graph_state.add_companion`.
    """
    one_pass = forward_pass.current()
    if one_pass is not None:
        return one_pass.store.variable(name, [], lambda: tf.constant(initial_value), False)
    forward_pass.require_graph()
    graph_state.add_companion(name, kind)
    scope, _, last = name.rpartition('/')
    # A scope object is entered as it is, where its name would be joined to the current scope's.
    whole = tf1.VariableScope(tf1.AUTO_REUSE, scope)
    with tf1.variable_scope(whole, auxiliary_name_scope=False):
        return tf1.get_variable(
            last,
            shape=[],
            dtype=tf.float32,
            initializer=tf1.constant_initializer(initial_value),
            trainable=False,
            collections=[tf1.GraphKeys.GLOBAL_VARIABLES],
            **forward_pass.STATISTIC,
        )


def _graph_variable(
    name: str, seeded_name: str, shape: Sequence[int], initializer: Initializer, trainable: bool
) -> tf.Variable:
    forward_pass.require_graph()
    return tf1.get_variable(
        name,
        shape=list(shape),
        dtype=tf.float32,
        initializer=_sliced_initializer(initializer, forward_pass.fixed_seed(seeded_name)),
        trainable=trainable,
        collections=[tf1.GraphKeys.GLOBAL_VARIABLES, tf1.GraphKeys.MODEL_VARIABLES],
        **({} if trainable else forward_pass.STATISTIC),
    )


def _sliced_initializer(
    initializer: Initializer, seed: Tuple[int, int]
) -> Callable[..., tf.Tensor]:
    """Return an initializer for `get_variable`, also of the parts of a variable."""

    def create(shape: Sequence[int], dtype: tf.DType = tf.float32, partition_info=None):
        del dtype
        # A partitioned variable asks for each part: slices of one draw make it equal to a whole
        # one.
        if partition_info is None:
            return initializer(shape, seed)
        value = initializer(partition_info.full_shape, seed)
        return tf.slice(value, partition_info.var_offset, shape)

    return create
