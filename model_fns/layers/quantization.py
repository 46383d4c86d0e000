"""Quantization-aware training: simulated 8-bit arithmetic (Jacob et al. 2018, section 3).

A `LayerStyle` may have a `Quantization`. Layers then round their weights and their outputs to the
255 or 256 values of a range, by TensorFlow's `FakeQuantWithMinMaxVars`. Its ranges contain 0
exactly, and gradients pass through it unchanged.

Ranges are variables `<scope>/min` and `<scope>/max`, float32 scalars named as in the published
system: after the scope of the rounded op, which is not always that of the layer's variables (see
`Quantization.names`). Ranges of weights are those of the values at each step. Ranges of activations
are averages over steps, corrected for their start at 0, with two more scalars for each end:
`<scope>/<scope>/min/{biased,local_step}`. Training updates them from the first step, even before it
rounds. Evaluation and prediction only read them, and always round.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Optional, Tuple, Union

import tensorflow as tf

from model_fns.layers import forward_pass, weights
from protos import graph_rewriter_pb2

tf1 = tf.compat.v1

# The last part of the names of ranges.
# Those of `contrib.quantize` of TensorFlow 1.15, which published checkpoints have.
WEIGHTS = 'weights_quant'
OUTPUTS = 'act_quant'
BEFORE_SUM = 'conv_quant'
SUM = 'post_activation_bypass_quant'
# After the op, which was `Add` before TensorFlow 1.15.
PLAIN_SUM = 'activation_AddV2_quant'
PRODUCT = 'activation_Mul_quant'
GATED = f'mul/{PRODUCT}'

RANGES = 'quantization ranges'  # what their variables are called in messages

_BITS = 8
_ENDLESS = 1e30  # beyond all values, and finite in units of a range's steps
_DECAY = 0.999  # of the averages of ranges
# What ranges hold before their first step, which overwrites it.
# `contrib.quantize` has 6 too: the upper end of a ReLU6.
_BOUND = 6.0


def from_config(config: graph_rewriter_pb2.GraphRewriter) -> Optional[Quantization]:
    """Return the quantization of layers; None: there is none.

    Args:
        config: the `graph_rewriter` of a pipeline config.
    """
    if not config.HasField('quantization'):
        return None
    settings = config.quantization
    return Quantization(
        delay=settings.delay,
        freeze_batch_norm_delay=(
            settings.freeze_bn_delay if settings.HasField('freeze_bn_delay') else None
        ),
        symmetric=settings.symmetric,
    )


@dataclasses.dataclass(frozen=True)
class _Name:
    """A scope of variables, and the scope in the names of ranges; see `Quantization.named`."""

    ours: str
    theirs: str
    shares_weights: bool


@dataclasses.dataclass(frozen=True)
class Quantization:
    """Settings of quantized layers.

    Attributes:
        delay: the step, counted from 1, at which training begins to round; 0 and 1: the first.
        freeze_batch_norm_delay: the step from which folded batch norm uses its moving statistics
            instead of the batch's, without updates; None: never.
        symmetric: ranges are symmetric about 0.
        names: replacements of the beginning of the names of ranges, the innermost last.
        output: the last part of the name of the range of a layer's output.
        gate: the name of the range of the bounded term in a hard swish or hard sigmoid, in the
            scope above the layer's.
    """

    delay: int = 0
    freeze_batch_norm_delay: Optional[int] = None
    symmetric: bool = False
    names: Tuple[_Name, ...] = ()
    output: str = OUTPUTS
    gate: str = OUTPUTS

    def but(self, **changes: Any) -> Quantization:
        """Return the same with some attributes changed."""
        return dataclasses.replace(self, **changes)

    def named(self, scope: str, shares_weights: bool = False) -> Quantization:
        """Return the same for layers in the current variable scope, with other names of ranges.

        Args:
            scope: the whole scope that replaces the current one in the names.
            shares_weights: whether the layers share their variables with layers that are named
                after the current scope. Weights without folded batch norm then have one range,
                named after that scope.
        """
        current = tf1.get_variable_scope().name
        return self.but(names=(*self.names, _Name(current, scope, shares_weights)))

    def range_name(self, part: str, of_variable: bool = False) -> str:
        """Return the name of a range of a layer in the current variable scope.

        Args:
            part: the last part of it.
            of_variable: whether the rounded tensor is a variable itself.
        """
        scope = tf1.get_variable_scope().name
        # From the inside out: a name of an outer scope holds for what an inner one made of it.
        for name in reversed(self.names):
            if of_variable and name.shares_weights:
                continue
            if not name.ours or f'{scope}/'.startswith(f'{name.ours}/'):
                scope = _joined(name.theirs, scope[len(name.ours) :].lstrip('/'))
        return _joined(scope, part)

    def is_active(self, is_training: bool) -> Optional[tf.Tensor]:
        """Return whether this pass rounds, a bool scalar; None: it does, whatever the step is."""
        return _reached(self.delay) if is_training and self.delay > 1 else None

    def freezes_batch_norm(self) -> Optional[tf.Tensor]:
        """Return whether this step uses moving statistics, a bool scalar; None: none does."""
        delay = self.freeze_batch_norm_delay
        return None if delay is None else _reached(delay)


def quantize_weights(
    values: Union[tf.Variable, tf.Tensor],
    settings: Quantization,
    is_training: bool,
    is_folded: bool = True,
) -> tf.Tensor:
    """Round the weights of a layer in the current scope to 255 values of their own range.

    Args:
        values: of any shape, float32, what the layer multiplies by.
        settings: when rounding begins, and the names of the ranges.
        is_training: whether the range is that of the values, and is stored; else the stored one.
        is_folded: whether batch norm is folded into them; else they are the variable itself.
    """
    scope = settings.range_name(WEIGHTS, of_variable=not is_folded)
    values = tf.convert_to_tensor(values)
    low, high = _ends(scope, -_BOUND)
    if not is_training:
        # Narrow: without the lowest of 256 values, products of int8 may be added in pairs in 16
        # bits (Jacob et al. 2018, section 3 and appendix B).
        return _rounded(values, low, high, None, narrow=True)
    ends = [tf.stop_gradient(end) for end in _value_range(values, settings, narrow=True)]
    with tf.control_dependencies(
        [one.assign(end, read_value=False) for one, end in zip((low, high), ends)]
    ):
        return _rounded(values, *ends, settings.is_active(True), narrow=True)


def quantize_outputs(
    values: tf.Tensor,
    settings: Quantization,
    is_training: bool,
    scope: str,
    at_least_0: bool = False,
) -> tf.Tensor:
    """Round activations to 256 values of the average of their ranges.

    Args:
        values: of any shape, float32.
        settings: when rounding begins, and the names of the ranges.
        is_training: whether the average moves.
        scope: name of the range.
        at_least_0: whether no value is below 0, as after a ReLU.
    """
    # As published: only ranges of that name start at 0.
    low, high = _ends(scope, 0.0 if scope.endswith(OUTPUTS) else -_BOUND)
    if not is_training:
        return _rounded(values, low, high, None)
    current = tf.stack(_value_range(values, settings, False, at_least_0))
    # `assign_moving_average` of TensorFlow 1 corrects for the start at 0 by these two float32
    # scalars, and repeats the scope in their names.
    names = [f'{scope}/{scope}/{end}' for end in ('min', 'max')]
    biased = [_scalar(f'{name}/biased', 0.0) for name in names]
    counts = [_scalar(f'{name}/local_step', 0.0) for name in names]
    # Both ends at once: these are many small ops.
    old, steps = tf.stack(biased), tf.stack(counts)
    # Ranges move from the first step, before rounding begins, as published: with a delay they are
    # averages of many steps when it begins.
    change = (old - current) * (1.0 - _DECAY)
    # A step whose values are not finite is left out of the average, which would stay infinite.
    is_finite = tf.math.is_finite(change)
    change = tf.where(is_finite, change, tf.zeros_like(change))
    counted = tf.cast(is_finite, tf.float32)
    averages = (old - change) / (1.0 - tf.pow(_DECAY, steps + counted))
    ends, changes = tf.unstack(tf.stop_gradient(averages)), tf.unstack(change)
    with tf.control_dependencies([steps]):
        # Differences, so that no update of a worker on a parameter server is lost.
        updates = [
            count.assign_add(one, read_value=False)
            for count, one in zip(counts, tf.unstack(counted))
        ]
    updates += [one.assign_sub(by, read_value=False) for one, by in zip(biased, changes)]
    updates += [one.assign(end, read_value=False) for one, end in zip((low, high), ends)]
    with tf.control_dependencies(updates):
        return _rounded(values, *ends, settings.is_active(True))


def _value_range(
    values: tf.Tensor, settings: Quantization, narrow: bool, at_least_0: bool = False
) -> Tuple[tf.Tensor, tf.Tensor]:
    """Return the range of a tensor, widened to hold 0."""
    low = tf.constant(0.0) if at_least_0 else tf.reduce_min(values)
    high = tf.reduce_max(values)
    if settings.symmetric:
        # Ratio of the lower end to the upper: a full range has one more value below 0.
        ratio = -1.0 if narrow else -(2**_BITS - 2) / 2**_BITS
        low, high = tf.minimum(low, high / ratio), tf.maximum(high, low * ratio)
    # 0 has to be exact, because padding adds zeros (Jacob et al. 2018, section 2.1).
    return tf.minimum(low, 0.0), tf.maximum(high, 0.0)


def _ends(scope: str, first_low: float) -> Tuple[tf.Variable, tf.Variable]:
    return _scalar(f'{scope}/min', first_low), _scalar(f'{scope}/max', _BOUND)


def _scalar(name: str, initial_value: float) -> tf.Variable:
    return weights.companion(name, initial_value, RANGES)


def _rounded(
    values: tf.Tensor,
    low: Union[tf.Variable, tf.Tensor],
    high: Union[tf.Variable, tf.Tensor],
    active: Optional[tf.Tensor],
    narrow: bool = False,
) -> tf.Tensor:
    """Return values rounded in a range, where `active` holds."""
    settings = {'num_bits': _BITS, 'narrow_range': narrow}
    if active is None:
        return tf.quantization.fake_quant_with_min_max_vars(values, low, high, **settings)

    @tf.custom_gradient
    def rounded(values: tf.Tensor) -> Any:
        result = _where_active(
            active,
            values,
            lambda inputs: tf.raw_ops.FakeQuantWithMinMaxVars(
                inputs=inputs, min=low, max=high, **settings
            ),
        )

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            # A range that holds every number passes all of it: no branch, and few ops.
            return tf.raw_ops.FakeQuantWithMinMaxVarsGradient(
                gradients=upstream,
                inputs=values,
                min=tf.where(active, low, -_ENDLESS),
                max=tf.where(active, high, _ENDLESS),
                **settings,
            ).backprops_wrt_input

        return result, gradient

    return rounded(values)


def _where_active(
    active: tf.Tensor, values: tf.Tensor, function: Callable[[tf.Tensor], tf.Tensor]
) -> tf.Tensor:
    """Return a function of values where `active` holds, else the values."""
    if forward_pass.current() is not None:
        return tf.cond(active, lambda: function(values), lambda: tf.identity(values))
    # What a session makes of `tf.cond`, without its two functions: a network has hundreds of these.
    off, on = tf.raw_ops.Switch(data=values, pred=active)
    merged = tf.raw_ops.Merge(inputs=[off, function(on)]).output
    return tf.ensure_shape(merged, values.shape)


def _reached(delay: int) -> tf.Tensor:
    return forward_pass.global_step() + 1 >= delay


def _joined(*parts: str) -> str:
    return '/'.join(part for part in parts if part)
