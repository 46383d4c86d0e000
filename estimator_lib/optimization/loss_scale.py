"""Loss scaling, which keeps small gradients from becoming zero in float16.

The smallest positive float16 is 6e-8, and gradients are often smaller. So the loss is multiplied by
a scale, and the gradients are divided by it before any use (Micikevicius et al. 2018, "Mixed
Precision Training", section 3.2). With a scale that is too large, gradients are infinite or NaN.
Such a step changes no variable, and the scale is halved. After many steps without one it is
doubled.
"""

from __future__ import annotations

from typing import List, Sequence

import tensorflow as tf

from estimator_lib.optimization.gradients import Pair, map_values

tf1 = tf.compat.v1

SCOPE = 'loss_scale'  # the variables' names start with it

# All are powers of 2: multiplying and dividing by them rounds nothing.
# The initial factor and the steps until it grows are those of the LossScaleOptimizer of Keras.
_FIRST = 2.0**15
_LEAST = 1.0
_MOST = 2.0**24
GROWTH_STEPS = 2000


class LossScale:
    """The factor on the loss of one training graph, kept in its checkpoint.

    Call `multiply`, `divide` and `update` in this order, once in a graph (in each replica of a
    distribution strategy, which then share the scale).

    Args:
        fixed: a constant scale. 0: the scale begins with 2**15. Each step whose gradients are not
            finite halves it, to at least 1. `growth_steps` consecutive finite steps double it, to
            at most 2**24.
        growth_steps: number of steps, at least 1.

    Attributes:
        value: float32 scalar: the scale of the step; set by `multiply`.
    """

    value: tf.Tensor

    def __init__(self, fixed: float = 0.0, growth_steps: int = GROWTH_STEPS):
        self._fixed = fixed
        self._growth_steps = growth_steps

    def multiply(self, loss: tf.Tensor) -> tf.Tensor:
        """Multiply the loss by the scale.

        Args:
            loss: float32 scalar.
        """
        if self._fixed:
            self.value = tf.constant(self._fixed, tf.float32, name=f'{SCOPE}/fixed')
        else:
            self._scale = _variable('scale', tf.float32, _FIRST)
            self._finite_steps = _variable('finite_steps', tf.int64, 0)
            # Read once, so that the step uses one scale even if the next one is written early.
            self.value = self._scale.read_value()
        return loss * self.value

    def divide(self, pairs: Sequence[Pair]) -> List[Pair]:
        """Divide the gradients of the scaled loss by the scale; infinities stay."""
        with tf.name_scope(f'{SCOPE}/divide'):
            # One division in place of one for each number; exact for powers of 2.
            inverse = 1.0 / self.value
            return [
                (map_values(gradient, lambda values: values * inverse), variable)
                for gradient, variable in pairs
            ]

    def is_expected(self, is_finite: tf.Tensor) -> tf.Tensor:
        """Return whether a step is finite, or a smaller scale may fix it.

        Args:
            is_finite: bool scalar: whether all gradients of the step are finite.

        Returns:
            bool scalar; False means that gradients are not finite even at the smallest scale.
        """
        # A fixed scale cannot shrink: each of its steps that is not finite counts as a failure.
        return is_finite | (self.value > (self._fixed or _LEAST))

    def update(self, is_finite: tf.Tensor) -> tf.Operation:
        """Return the op that sets the scale of the next step.

        Args:
            is_finite: bool scalar: whether the gradients of all replicas are finite.
        """
        if self._fixed:
            return tf.no_op()
        with tf.name_scope(f'{SCOPE}/update'):
            # Keras's LossScaleOptimizer counts likewise: only consecutive finite steps, and from 0
            # after each change of the scale.
            count = self._finite_steps.read_value() + 1
            grows = is_finite & (count >= self._growth_steps)
            halved = tf.maximum(self.value / 2.0, _LEAST)
            doubled = tf.where(grows, tf.minimum(self.value * 2.0, _MOST), self.value)
            counts = is_finite & ~grows
            return tf.group(
                self._scale.assign(tf.where(is_finite, doubled, halved), read_value=False),
                self._finite_steps.assign(
                    tf.where(counts, count, tf.zeros_like(count)), read_value=False
                ),
            )


def is_of_loss_scale(name: str) -> bool:
    """Return whether a variable name is one of a `LossScale`."""
    return name.startswith(f'{SCOPE}/')


def _variable(name: str, dtype: tf.DType, value: float) -> tf.Variable:
    return tf1.get_variable(
        f'{SCOPE}/{name}',
        [],
        dtype,
        tf1.constant_initializer(value),
        trainable=False,
        use_resource=True,
        # All replicas compute the same value, because they share `is_finite`.
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
    )
