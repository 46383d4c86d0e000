"""From a loss to the op that trains one step."""

from __future__ import annotations

from typing import List, Optional, Sequence

import tensorflow as tf

from estimator_lib.optimization import gradients as gradients_lib
from estimator_lib.optimization import trained_variables
from estimator_lib.optimization.exchange import GradientExchange
from estimator_lib.optimization.finite_updates import FiniteUpdates
from estimator_lib.optimization.gradients import GradientPolicy
from estimator_lib.optimization.loss_scale import LossScale
from estimator_lib.optimization.moving_averages import MovingAverages
from estimator_lib.optimization.partitioned import variable_name


def optimize_loss(
    loss: tf.Tensor,
    *,
    global_step: tf.Variable,
    optimizer: tf.compat.v1.train.Optimizer,
    variables: Optional[Sequence[tf.Variable]] = None,
    policy: Optional[GradientPolicy] = None,
    update_ops: Optional[Sequence[tf.Operation]] = None,
    averages: Optional[MovingAverages] = None,
    summarize_gradients: bool = False,
    exchange: Optional[GradientExchange] = None,
    colocate_gradients: bool = False,
    finite: Optional[FiniteUpdates] = None,
    loss_scale: Optional[LossScale] = None,
) -> tf.Operation:
    """Return one training step: gradients, then what the policy asks, then the updates.

    Args:
        loss: float scalar, regularisation included.
        global_step: int64 scalar; grows by one at each step.
        optimizer: from `optimizers.create_optimizer`.
        variables: what could be trained; None: the trainable variables of the graph.
        policy: what is trained, multipliers and clipping; None: all variables, neither.
        update_ops: what runs before the variables change, whether any are trained or not; None:
            the graph's `UPDATE_OPS`.
        averages: which moving averages of variables are kept; None: none.
        summarize_gradients: whether TensorBoard gets each gradient's histogram and norm.
        exchange: with workers on other machines; None: this one's gradients make the step.
        colocate_gradients: whether an op's gradient is computed on the device of the op.
        finite: leaves out the update of a step that is not finite; None: all are applied.
        loss_scale: what the loss is multiplied by for the gradients alone: all else sees them as
            they are without it. Needs `finite`. None: nothing.

    Returns:
        The train op.

    Raises:
        errors.ConfigError: a pattern of the policy matches nothing.
    """
    policy = policy or GradientPolicy()
    trained = select_variables(variables, policy)
    pairs = gradients_lib.compute(
        loss if loss_scale is None else loss_scale.multiply(loss),
        trained,
        optimizer,
        colocate_gradients_with_ops=colocate_gradients,
    )
    if loss_scale is not None:
        pairs = loss_scale.divide(pairs)
    if exchange is not None:
        pairs = exchange.average(pairs)
    if finite is not None:
        finite.watch(loss, pairs)
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    pairs = _process_in_replica(pairs, policy, replicas, summarize_gradients)
    update = apply_gradients(
        pairs,
        global_step=global_step,
        optimizer=optimizer,
        update_ops=update_ops,
        averages=averages,
        finite=finite,
    )
    if loss_scale is not None:
        update = tf.group(update, loss_scale.update(finite.is_finite))
    return update if exchange is None else exchange.finish(update)


def _process_in_replica(
    pairs: Sequence[gradients_lib.Pair], policy: GradientPolicy, replicas: int, summarize: bool
) -> List[gradients_lib.Pair]:
    """`process_gradients`, of one of several replicas that share a batch."""
    if replicas == 1 or not (policy.clip_norm > 0 or summarize):
        return process_gradients(pairs, policy, summarize=summarize)
    # A norm is that of the whole batch's gradient, as on one device; the optimizer sums over the
    # replicas once more.
    pairs = gradients_lib.sum_over_replicas(pairs)
    pairs = process_gradients(pairs, policy, summarize=summarize)
    return gradients_lib.multiply(pairs, {variable_name(v): 1.0 / replicas for _, v in pairs})


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
    """Multiply, then clips.

    Args:
        pairs: gradients (summed over replicas, where there are several) and variables.
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
    global_step: Optional[tf.Variable],
    optimizer: tf.compat.v1.train.Optimizer,
    update_ops: Optional[Sequence[tf.Operation]] = None,
    averages: Optional[MovingAverages] = None,
    finite: Optional[FiniteUpdates] = None,
) -> tf.Operation:
    """Return the op that runs `update_ops`, then changes the variables, then moves their averages.

    Args:
        pairs: what the optimizer is given; may be empty.
        global_step: grows by one; None: no step is counted.
        optimizer: who changes the variables.
        update_ops: None: the graph's `UPDATE_OPS`.
        averages: which moving averages of variables are kept; None: none.
        finite: see `optimize_loss`; has watched the step.
    """
    if update_ops is None:
        update_ops = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS)
    if finite is not None:
        finite.guard(update_ops)
    # One node to wait for: each of the optimizer's many ops gets a control edge to what is here.
    with tf.control_dependencies([tf.group(*update_ops)] if update_ops else []):
        if pairs and finite is not None:
            step = finite.apply(optimizer.apply_gradients, pairs)
            with tf.control_dependencies([step]):
                step = tf.group([] if global_step is None else global_step.assign_add(1))
        elif pairs:
            step = optimizer.apply_gradients(pairs, global_step=global_step)
        else:
            step = tf.group([] if global_step is None else global_step.assign_add(1))
    if averages is None:
        return tf.group(step)
    with tf.control_dependencies([step]), tf.name_scope('moving_averages'):
        weight = 1.0 if finite is None else finite.weight()
        return averages.update([variable for _, variable in pairs], global_step, weight)


def _summarize(
    before: Sequence[gradients_lib.Pair],
    after: Sequence[gradients_lib.Pair],
    norm: tf.Tensor,
) -> None:
    summary = tf.compat.v1.summary
    for gradient, variable in before:
        values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
        summary.histogram(f'gradients/{variable_name(variable)}', values)
        summary.scalar(f'gradient_norm/{variable_name(variable)}', tf.norm(values))
    summary.scalar('global_norm/gradient_norm', norm)
    if after is not before:
        summary.scalar('global_norm/clipped_gradient_norm', gradients_lib.global_norm(after))
