"""From a loss to the op that trains one step."""

from __future__ import annotations

import dataclasses
import math
from typing import List, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.optimization import gradients as gradients_lib
from estimator_lib.optimization import moving_averages, trained_variables
from protos import train_pb2


@dataclasses.dataclass(frozen=True)
class GradientPolicy:
    """Which variables are trained, and what their gradients go through, in this order.

    Patterns are regular expressions that match from the start of a variable's name.

    Attributes:
        update_patterns: only variables that match one of these are trained; empty: all.
        freeze_patterns: variables that match one of these are not.
        trainable_scopes: only variables whose names begin with one of these are; empty: all.
        bias_multiplier: factor on the gradients of variables named `.../biases`.
        pattern_multipliers: (pattern, factor) on the gradients of variables that match.
        last_layer_scopes: name parts of the layers that depend on the classes.
        last_layer_multiplier: factor on the gradients of variables whose names contain one of them.
        clip_norm: the largest norm; 0: no clipping.
        clip_each: whether it bounds each gradient, in place of all together as one vector.
    """

    update_patterns: Tuple[str, ...] = ()
    freeze_patterns: Tuple[str, ...] = ()
    trainable_scopes: Tuple[str, ...] = ()
    bias_multiplier: float = 1.0
    pattern_multipliers: Tuple[Tuple[str, float], ...] = ()
    last_layer_scopes: Tuple[str, ...] = ()
    last_layer_multiplier: float = 1.0
    clip_norm: float = 0.0
    clip_each: bool = False

    @classmethod
    def from_config(
        cls, config: train_pb2.TrainConfig, last_layer_scopes: Sequence[str] = ()
    ) -> GradientPolicy:
        """What a training config asks for.

        Args:
            config: the training config.
            last_layer_scopes: `Task.last_layer_scopes()`.

        Raises:
            errors.ConfigError: a factor or norm is out of its range.
        """
        for field in (
            'bias_grad_multiplier',
            'last_layer_gradient_multiplier',
            'gradient_clipping_by_norm',
        ):
            _require_at_least_zero(field, getattr(config, field))
        for item in config.gradient_multipliers:
            field = f'gradient_multipliers {item.variable_pattern!r}'
            _require_at_least_zero(field, item.multiplier)
        return cls(
            update_patterns=tuple(config.update_trainable_variables),
            freeze_patterns=tuple(config.freeze_variables),
            trainable_scopes=tuple(config.trainable_scopes),
            # 0, the published default, means that biases are like the rest, not that they stay.
            bias_multiplier=config.bias_grad_multiplier or 1.0,
            pattern_multipliers=tuple(
                (item.variable_pattern, item.multiplier) for item in config.gradient_multipliers
            ),
            last_layer_scopes=tuple(last_layer_scopes),
            last_layer_multiplier=config.last_layer_gradient_multiplier,
            clip_norm=config.gradient_clipping_by_norm,
            clip_each=config.gradient_clipping == train_pb2.NORM_PER_VARIABLE,
        )


def optimize_loss(
    loss: tf.Tensor,
    *,
    global_step: tf.Variable,
    optimizer: tf.compat.v1.train.Optimizer,
    learning_rate: tf.Tensor,
    variables: Optional[Sequence[tf.Variable]] = None,
    policy: Optional[GradientPolicy] = None,
    update_ops: Optional[Sequence[tf.Operation]] = None,
    moving_average_decay: Optional[float] = None,
    summarize_gradients: bool = False,
) -> tf.Operation:
    """One training step: gradients, then what the policy asks, then the updates.

    Args:
        loss: float scalar, regularisation included.
        global_step: int64 scalar; grows by one at each step.
        optimizer: from `optimizers.create_optimizer`.
        learning_rate: float32 scalar, for TensorBoard.
        variables: what could be trained; None: the trainable variables of the graph.
        policy: what is trained, multipliers and clipping; None: all variables, neither.
        update_ops: what runs before the variables change, whether any are trained or not; None:
            the graph's `UPDATE_OPS`.
        moving_average_decay: of averages of what is trained; None: no averages.
        summarize_gradients: whether TensorBoard gets each gradient's histogram and norm.

    Returns:
        The train op.

    Raises:
        errors.ConfigError: a pattern of the policy matches nothing.
    """
    policy = policy or GradientPolicy()
    trained = select_variables(variables, policy)
    pairs = gradients_lib.compute(loss, trained, optimizer)
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    if replicas > 1 and (policy.clip_norm > 0 or summarize_gradients):
        # A norm is that of the whole batch's gradient, as on one device; the optimizer sums over
        # the replicas once more.
        pairs = gradients_lib.sum_over_replicas(pairs)
        pairs = process_gradients(pairs, policy, summarize=summarize_gradients)
        shares = {trained_variables.name_of(v): 1.0 / replicas for _, v in pairs}
        pairs = gradients_lib.multiply(pairs, shares)
    else:
        pairs = process_gradients(pairs, policy, summarize=summarize_gradients)
    tf.compat.v1.summary.scalar('learning_rate', learning_rate)
    return apply_gradients(
        pairs,
        global_step=global_step,
        optimizer=optimizer,
        update_ops=update_ops,
        moving_average_decay=moving_average_decay,
    )


def select_variables(
    variables: Optional[Sequence[tf.Variable]], policy: GradientPolicy
) -> List[tf.Variable]:
    """What is trained of the given variables; None: of the graph's trainable ones."""
    if variables is None:
        variables = tf.compat.v1.trainable_variables()
    return trained_variables.select(
        variables,
        update_patterns=policy.update_patterns,
        freeze_patterns=policy.freeze_patterns,
        trainable_scopes=policy.trainable_scopes,
    )


def process_gradients(
    pairs: Sequence[gradients_lib.Pair], policy: GradientPolicy, *, summarize: bool = False
) -> List[gradients_lib.Pair]:
    """Multiplies, then clips.

    Args:
        pairs: gradients (summed over towers, where there are several) and variables.
        policy: the factors and bounds.
        summarize: whether TensorBoard gets the gradients as they are before clipping, and the
            global norm before and after.
    """
    with tf.name_scope('gradients_processed'):
        factors = gradients_lib.multipliers(
            [variable for _, variable in pairs],
            bias_multiplier=policy.bias_multiplier,
            pattern_multipliers=policy.pattern_multipliers,
            last_layer_scopes=policy.last_layer_scopes,
            last_layer_multiplier=policy.last_layer_multiplier,
        )
        multiplied = gradients_lib.multiply(pairs, factors)
        norm = gradients_lib.global_norm(multiplied) if summarize and multiplied else None
        if policy.clip_norm <= 0:
            clipped = multiplied
        elif policy.clip_each:
            clipped = gradients_lib.clip_each(multiplied, policy.clip_norm)
        else:
            clipped = gradients_lib.clip_by_global_norm(multiplied, policy.clip_norm, norm)
    if norm is not None:
        _summarize(multiplied, clipped, norm)
    return clipped


def apply_gradients(
    pairs: Sequence[gradients_lib.Pair],
    *,
    global_step: tf.Variable,
    optimizer: tf.compat.v1.train.Optimizer,
    update_ops: Optional[Sequence[tf.Operation]] = None,
    moving_average_decay: Optional[float] = None,
) -> tf.Operation:
    """The op that runs `update_ops`, then changes the variables, then moves their averages.

    Args:
        pairs: what the optimizer is given; may be empty.
        global_step: grows by one.
        optimizer: who changes the variables.
        update_ops: None: the graph's `UPDATE_OPS`.
        moving_average_decay: of averages of the variables in `pairs`; None: no averages.
    """
    if update_ops is None:
        update_ops = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS)
    # One node to wait for: each of the optimizer's many ops gets a control edge to what is here.
    with tf.control_dependencies([tf.group(*update_ops)] if update_ops else []):
        if not pairs:
            return tf.group(global_step.assign_add(1))
        step = optimizer.apply_gradients(pairs, global_step=global_step)
    if moving_average_decay is None:
        return tf.group(step)
    with tf.control_dependencies([step]), tf.name_scope('moving_averages'):
        variables = [variable for _, variable in pairs]
        return moving_averages.update(variables, moving_average_decay)


def _summarize(
    before: Sequence[gradients_lib.Pair],
    after: Sequence[gradients_lib.Pair],
    norm: tf.Tensor,
) -> None:
    summary = tf.compat.v1.summary
    for gradient, variable in before:
        values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
        summary.histogram(f'gradients/{trained_variables.name_of(variable)}', values)
    for name, value in gradients_lib.norms(before).items():
        summary.scalar(f'gradient_norm/{name}', value)
    summary.scalar('global_norm/gradient_norm', norm)
    if after is not before:
        summary.scalar('global_norm/clipped_gradient_norm', gradients_lib.global_norm(after))


def _require_at_least_zero(field: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise errors.ConfigError(
            f'train_config.{field} is {value}; expected a finite number of at least 0.'
        )
