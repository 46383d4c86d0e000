"""Accumulation of gradients over micro-batches, which makes the memory of a step smaller.

A step divides its batch into micro-batches. It computes the network and its gradients on one after
the other, and updates the variables once, by the mean. So everything outside of this module sees
one step of the whole batch: the global step, learning rates, hooks, the exchange between workers,
and checkpoints, which need no accumulators.

The graph has the network once for each micro-batch. A gate, an op without inputs, keeps them in
order: the tensors of a micro-batch wait for it, and it waits for the gradients before.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib.optimization import finite_updates, gradients
from estimator_lib.optimization.gradients import Gradient, Pair

tf1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class LossPart:
    """Part of the loss of a step, from one micro-batch; the loss is the sum of its parts.

    Attributes:
        loss: float32 scalar.
        gate: op that the tensors of the micro-batch wait for; None for the first one.
    """

    loss: tf.Tensor
    gate: Optional[tf.Operation] = None


def build(
    count: int, build_one: Callable[..., Dict[str, tf.Tensor]], batch: Sequence[Any]
) -> Tuple[Dict[str, tf.Tensor], List[LossPart]]:
    """Build the losses of a batch, micro-batch by micro-batch.

    Moving statistics change once in a step, by the mean of their changes in the micro-batches.

    Args:
        count: number of micro-batches.
        build_one: builds the network and its losses, which are means over the given examples;
            called with the elements of a micro-batch.
        batch: nested tensors, whose first dimension is a multiple of `count`.

    Returns:
        The losses by name: means over the micro-batches. And the parts of their sum; none for one
        micro-batch.
    """
    if count == 1:
        return build_one(*batch), []
    with tf1.name_scope('split_batch'):
        flat = [tf.split(tensor, count) for tensor in tf.nest.flatten(batch)]
    gates = [None, *(tf.no_op(name=f'gate_{index}') for index in range(1, count))]
    by_part = []
    for index, gate in enumerate(gates):
        tensors = [parts[index] for parts in flat]
        with tf1.name_scope(f'micro_batch_{index}') as scope:
            if gate is not None:
                with tf.control_dependencies([gate]):
                    tensors = [tf.identity(tensor) for tensor in tensors]
            shared = tf1.variable_scope(tf1.get_variable_scope(), reuse=True if index else None)
            # Entering a variable scope opens a name scope of its own, which is not wanted here.
            with shared, tf1.name_scope(scope):
                by_part.append(build_one(*tf.nest.pack_sequence_as(batch, tensors)))
        if index:
            _drop_regularization(scope)
    _in_all_replicas(lambda: _average_updates(count))
    with tf1.name_scope('micro_batches'):
        names = by_part[0]
        losses = {name: tf.add_n([part[name] for part in by_part]) / count for name in names}
        totals = [tf.add_n(list(part.values())) / count for part in by_part]
    return losses, [LossPart(total, gate) for total, gate in zip(totals, gates)]


def add_to_first(parts: Sequence[LossPart], loss: tf.Tensor) -> List[LossPart]:
    """Return the parts with a loss of no micro-batch, such as the regularization loss, added."""
    return [
        part if index else dataclasses.replace(part, loss=part.loss + loss)
        for index, part in enumerate(parts)
    ]


def compute_gradients(
    parts: Sequence[LossPart],
    variables: Sequence[tf.Variable],
    optimizer: tf.compat.v1.train.Optimizer,
    **options: Any,
) -> List[Pair]:
    """Compute the gradients of the sum of some parts, one part after the other.

    Args:
        parts: the parts of the loss.
        variables: variables to differentiate by.
        optimizer: see `gradients.compute`.
        **options: see `gradients.compute`.

    Raises:
        errors.ConfigError: the loss depends on none of the variables.
    """
    sums = gradients.compute(parts[0].loss, variables, optimizer, **options)
    for index, part in enumerate(parts[1:], 1):
        done = tf.nest.flatten([gradient for gradient, _ in sums], expand_composites=True)
        part.gate._add_control_inputs([tensor.op for tensor in done])
        variables = [variable for _, variable in sums]
        pairs = gradients.compute(part.loss, variables, optimizer, **options)
        by_variable = {variable.ref(): gradient for gradient, variable in pairs}
        with tf1.name_scope(f'accumulated_{index}'):
            # A variable of which only the regularization loss depends is not in `pairs`.
            sums = [(_add(total, by_variable.get(each.ref())), each) for total, each in sums]
    return sums


def _add(total: Gradient, gradient: Optional[Gradient]) -> Gradient:
    if gradient is None:
        return total
    if isinstance(total, tf.Tensor) and isinstance(gradient, tf.Tensor):
        with tf.device(total.device):
            return total + gradient
    if isinstance(total, tf.Tensor) or isinstance(gradient, tf.Tensor):
        return tf.convert_to_tensor(total) + tf.convert_to_tensor(gradient)
    return tf.IndexedSlices(
        tf.concat([total.values, gradient.values], axis=0),
        tf.concat([total.indices, gradient.indices], axis=0),
        total.dense_shape,
    )


def _drop_regularization(scope: str) -> None:
    """Remove the regularization losses of a name scope: those of the first micro-batch count."""
    losses = tf1.get_collection_ref(tf1.GraphKeys.REGULARIZATION_LOSSES)
    losses[:] = [loss for loss in losses if not getattr(loss, 'name', '').startswith(scope)]


def _in_all_replicas(function: Callable[[], None]) -> None:
    """Call a function once, when all replicas of this process have been built up to here."""
    if not tf.distribute.has_strategy():
        function()
        return
    tf.distribute.get_replica_context().merge_call(lambda strategy: function())


def _average_updates(count: int) -> None:
    """Replace the updates of each moving statistic by one with the mean of their values."""
    updates = tf1.get_collection_ref(tf1.GraphKeys.UPDATE_OPS)
    by_variable: Dict[Any, List[tf.Operation]] = collections.defaultdict(list)
    for update in dict.fromkeys(updates):
        for op in finite_updates.assignments([update]):
            by_variable[op.inputs[0].ref()].append(op)
    dropped = set()
    for ops in by_variable.values():
        # A layer that is applied several times has several updates in each micro-batch.
        each = len(ops) // count
        for index, op in enumerate(ops[:each]):
            with tf1.name_scope('mean_updates'), tf.device(op.device):
                mean = tf.add_n([other.inputs[1] for other in ops[index::each]]) / count
            op._update_input(1, mean)
        dropped.update(ops[each:])
    updates[:] = [
        update
        for update in updates
        if not dropped.intersection(finite_updates.assignments([update]))
    ]
