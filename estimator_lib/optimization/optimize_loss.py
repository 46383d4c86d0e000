"""The train op of one step, built from a loss."""

from __future__ import annotations

import collections
import logging
from typing import Callable, Counter, Dict, List, Mapping, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib import graph_state, texts
from estimator_lib.optimization import gradients as gradients_lib
from estimator_lib.optimization import layer_rates, trained_variables
from estimator_lib.optimization.accumulation import Accumulation
from estimator_lib.optimization.exchange import GradientExchange
from estimator_lib.optimization.finite_updates import FiniteUpdates
from estimator_lib.optimization.gradients import GradientPolicy
from estimator_lib.optimization.loss_scale import LossScale
from estimator_lib.optimization.moving_averages import MovingAverages
from estimator_lib.optimization.partitioned import variable_name, whole_name

log = logging.getLogger('estimator_lib')

_Treatment = Tuple[bool, float, float, str]  # is trained, factors of gradient and rate, decay


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
    micro_batches: Optional[Accumulation] = None,
) -> tf.Operation:
    """Build one training step: gradients, their processing by the policy, and the updates.

    Args:
        loss: float scalar, with the regularization loss.
        global_step: int64 scalar; grows by one at each step.
        optimizer: the result of `optimizers.create_optimizer` for the same config as the policy.
        variables: candidates for training; None: the trainable variables of the graph.
        policy: selection of variables, multipliers and clipping; None: all variables, neither.
        update_ops: ops to run before the variables change, even if none is trained; None: the
            graph's `UPDATE_OPS`.
        averages: the moving averages to keep; None: none.
        summarize_gradients: whether to write each gradient's histogram and norm for TensorBoard.
        exchange: exchange with workers on other machines; None: only this worker's gradients count.
        colocate_gradients: whether to compute an op's gradient on the device of the op.
        finite: skips the update of a step that is not finite; None: all updates are applied.
        loss_scale: scale of the loss in the backward pass; the gradients are divided by it at once.
            It needs `finite`. None: no scaling.
        micro_batches: the accumulation that has made `loss`; None: there is one batch.

    Returns:
        The train op.

    Raises:
        errors.ConfigError: a pattern of the policy matches nothing.
    """
    policy = policy or GradientPolicy()
    trained = select_variables(variables, policy)
    rates: Mapping[str, float] = {}
    if policy.layer_decay != 1 and trained:
        rates = layer_rates.compute_factors(loss, trained, policy.layer_decay)
        optimizer.set_factors(trained, rates)
    scaled = loss if loss_scale is None else loss_scale.multiply(loss)
    pairs = gradients_lib.compute(
        scaled, trained, optimizer, colocate_gradients_with_ops=colocate_gradients
    )
    factors = gradients_lib.policy_multipliers([variable for _, variable in pairs], policy)
    if not is_plain(policy) and not graph_state.replica_index():
        every = tf.compat.v1.trainable_variables() if variables is None else variables
        decays = getattr(optimizer, 'decays', None)
        lines = describe_variables(every, trained, policy, factors, rates, decays)
        log.info('%s', '\n'.join(lines))
    if micro_batches is not None:
        pairs = micro_batches.average(pairs)
    if loss_scale is not None:
        pairs = loss_scale.divide(pairs)
    if exchange is not None:
        pairs = exchange.average(pairs)
    if finite is not None:
        finite.watch(loss, pairs)
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    pairs = _process_in_replica(pairs, policy, factors, replicas, summarize_gradients)
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
    pairs: Sequence[gradients_lib.Pair],
    policy: GradientPolicy,
    factors: Mapping[str, float],
    replicas: int,
    summarize: bool,
) -> List[gradients_lib.Pair]:
    """Process the gradients of one of several replicas that share a batch."""
    if replicas == 1 or not (policy.clip_norm > 0 or summarize):
        return process_gradients(pairs, policy, summarize=summarize, factors=factors)
    # The norm is that of the whole batch's gradient, as on one device. The optimizer sums over the
    # replicas again, hence the factor.
    pairs = gradients_lib.sum_over_replicas(pairs)
    pairs = process_gradients(pairs, policy, summarize=summarize, factors=factors)
    return gradients_lib.multiply(pairs, {variable_name(v): 1.0 / replicas for _, v in pairs})


def select_variables(
    variables: Optional[Sequence[tf.Variable]], policy: GradientPolicy
) -> List[tf.Variable]:
    """Select the variables to train among the given ones; None: the graph's trainable ones."""
    if variables is None:
        variables = tf.compat.v1.trainable_variables()
    return trained_variables.select(
        variables,
        update_patterns=policy.update_patterns,
        freeze_patterns=policy.freeze_patterns,
        trainable_scopes=policy.trainable_scopes,
    )


def describe_variables(
    variables: Sequence[tf.Variable],
    trained: Sequence[tf.Variable],
    policy: GradientPolicy,
    factors: Mapping[str, float],
    rates: Mapping[str, float],
    decays: Optional[Callable[[tf.Variable], bool]] = None,
) -> List[str]:
    """Return a line for each treatment of variables, and for variables that two patterns name.

    Every variable is in one line: frozen, or trained with the factors on its gradient
    (`gradient_multipliers`, `bias_grad_multiplier`, `last_layer_gradient_multiplier`) and on its
    learning rate (`layer_decay`), with or without the decay of an AdamW.

    Args:
        variables: the trainable variables.
        trained: those that `trained_variables.select` has chosen.
        policy: what the config says of them.
        factors: on the gradients by name, from `gradients.policy_multipliers`.
        rates: factors on the learning rate by name, see `layer_rates`; empty: all are 1.
        decays: returns whether a variable decays; None: the optimizer decays none.
    """
    sizes: Dict[str, int] = collections.Counter()
    decay: Dict[str, str] = {}
    for variable in variables:
        sizes[whole_name(variable)] += variable.shape.num_elements() or 0
        decay[whole_name(variable)] = ('yes' if decays(variable) else 'no') if decays else ''
    names = {whole_name(variable) for variable in trained}
    groups: Dict[_Treatment, List[str]] = collections.defaultdict(list)
    for name in sizes:
        is_trained = name in names
        rate = rates.get(name, 1.0) if is_trained else 0.0
        own = decay[name] if is_trained else ''
        groups[is_trained, factors.get(name, 1.0), rate, own].append(name)
    lines = [f'variables  parameters  gradient x  rate x{"  decay" if decays else ""}']
    for (is_trained, factor, rate, own), members in sorted(groups.items(), reverse=True):
        total = sum(sizes[name] for name in members)
        cells = f'{factor:10.4g}  {rate:6.4g}' if is_trained else f'{"frozen":>18}'
        cells += f'  {own:>5}' if decays else ''
        example = f'{members[0]}{", ..." if len(members) > 1 else ""}'
        lines.append(f'{len(members):9,}  {total:10,}  {cells}  {example}')
    twice = _named_twice(policy, sorted(names))
    if twice:
        count = texts.counted(len(twice), 'variable')
        lines.append(f'{count} in several gradient_multipliers, whose factors multiply: {twice[0]}')
    return lines


def _named_twice(policy: GradientPolicy, names: Sequence[str]) -> List[str]:
    """Return the variables that several patterns with a factor match."""
    counts: Counter[str] = collections.Counter()
    for pattern, _ in policy.pattern_multipliers:
        counts.update(trained_variables.match_names(pattern, names))
    return [name for name in names if counts[name] > 1]


def is_plain(policy: GradientPolicy) -> bool:
    """Return whether no field of the config treats any variable differently."""
    return policy == GradientPolicy(
        clip_norm=policy.clip_norm,
        clip_each=policy.clip_each,
        last_layer_scopes=policy.last_layer_scopes,
    )


def process_gradients(
    pairs: Sequence[gradients_lib.Pair],
    policy: GradientPolicy,
    *,
    summarize: bool = False,
    factors: Optional[Mapping[str, float]] = None,
) -> List[gradients_lib.Pair]:
    """Multiply gradients by their factors, then clip them.

    Args:
        pairs: gradients (summed over replicas, where there are several) and variables.
        policy: the factors and bounds.
        summarize: whether to write summaries of the gradients before clipping, and of the global
            norm before and after.
        factors: on the gradients by name; None: from `gradients.policy_multipliers`.
    """
    with tf.name_scope('gradients_processed'):
        if factors is None:
            factors = gradients_lib.policy_multipliers([variable for _, variable in pairs], policy)
        # Factors first, then the norm: the order of `tf.contrib.layers.optimize_loss` and of the
        # Object Detection API's trainer.py.
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
    """Return the op that runs `update_ops`, then updates the variables, then their averages.

    Args:
        pairs: gradients and variables for the optimizer; may be empty.
        global_step: variable that grows by one; None: no step is counted.
        optimizer: updates the variables.
        update_ops: ops to run first; None: the graph's `UPDATE_OPS`.
        averages: the moving averages to keep; None: none.
        finite: skips the update of a step that is not finite; it has watched the step.
    """
    if update_ops is None:
        update_ops = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS)
    if finite is not None:
        finite.guard(update_ops)
    # A group is one node: each of the optimizer's many ops gets a control edge to it.
    with tf.control_dependencies([tf.group(*update_ops)] if update_ops else []):
        if pairs and finite is not None:
            # Without `global_step`, which counts in a skipped step too: else a run whose steps are
            # all skipped would never end.
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
    # The names of `tf.contrib.layers.optimize_loss`, whose curves published runs have.
    summary.scalar('global_norm/gradient_norm', norm)
    # Without clipping it is the same list.
    if after is not before:
        summary.scalar('global_norm/clipped_gradient_norm', gradients_lib.global_norm(after))
