"""Steps whose loss or gradients are not finite, and that are to change nothing."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator, Sequence

import tensorflow as tf

from estimator_lib.optimization.gradients import Pair

# What an assignment is given in place of its value, so that the variable stays as it is.
_NEUTRAL = {
    'AssignVariableOp': lambda handle, value: tf.raw_ops.ReadVariableOp(
        resource=handle, dtype=value.dtype
    ),
    'AssignAddVariableOp': lambda handle, value: tf.zeros_like(value),
    'AssignSubVariableOp': lambda handle, value: tf.zeros_like(value),
}


class FiniteUpdates:
    """Lets a step change variables only when its loss and all its gradients are finite.

    Under a distribution strategy of several replicas, when those of all replicas are.

    Batch-norm statistics, optimizer slots and moving averages stay as they are as well; the global
    step counts on. (Statistics that a layer updates in place, before the loss is known, do not.)

    Attributes:
        is_finite: bool scalar, of the step; set by `watch`.
    """

    is_finite: tf.Tensor

    def watch(self, loss: tf.Tensor, pairs: Sequence[Pair]) -> None:
        """Look at a step.

        Args:
            loss: float scalar.
            pairs: what the optimizer will be given.
        """
        with tf.name_scope('is_finite'):
            tensors = [loss, *(_values(gradient) for gradient, _ in pairs)]
            found = [tf.reduce_all(tf.math.is_finite(one)) for one in tensors]
            self.is_finite = _on_all_replicas(tf.reduce_all(tf.stack(found)))

    def guard(self, update_ops: Iterable[Any]) -> None:
        """Rewrite assignments of the graph so that they change nothing in such a step.

        Args:
            update_ops: assignments to resource variables, or groups of them.
        """
        for op in _assignments(update_ops):
            handle, value = op.inputs
            with tf.name_scope('finite_updates'), tf.device(op.device):
                kept = tf.where(self.is_finite, value, _NEUTRAL[op.type](handle, value))
            op._update_input(1, kept)

    def apply(
        self, update: Callable[[Sequence[Pair]], tf.Operation], pairs: Sequence[Pair]
    ) -> tf.Operation:
        """Build an update that runs only in a finite step.

        Args:
            update: `apply_gradients` of an optimizer; with several replicas, the first one's.
            pairs: what it is given.
        """
        if tf.distribute.get_strategy().num_replicas_in_sync == 1:
            return tf.cond(self.is_finite, lambda: tf.group(update(pairs)), tf.no_op).op

        # An optimizer has the replicas meet, which they cannot inside of a condition: so they meet
        # around it.
        def apply(strategy: tf.distribute.Strategy, pairs: Sequence[Pair]) -> tf.Operation:
            def of_all() -> tf.Operation:
                updates = strategy.extended.call_for_each_replica(update, args=(pairs,))
                return tf.group(strategy.experimental_local_results(updates))

            return tf.cond(self.is_finite, of_all, tf.no_op).op

        return tf.distribute.get_replica_context().merge_call(apply, args=(list(pairs),))

    def weight(self) -> tf.Tensor:
        """1 in a finite step, else 0: float32 scalar."""
        return tf.cast(self.is_finite, tf.float32)


def _on_all_replicas(holds: tf.Tensor) -> tf.Tensor:
    """Whether something holds on all replicas of a strategy: the same bool scalar on each."""
    if tf.distribute.get_strategy().num_replicas_in_sync == 1:
        return holds

    def reduce(strategy: tf.distribute.Strategy, failures: Any) -> tf.Tensor:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, failures, axis=None)

    failures = tf.cast(~holds, tf.float32)
    return tf.distribute.get_replica_context().merge_call(reduce, args=(failures,)) < 0.5


def _values(gradient: Any) -> tf.Tensor:
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def _assignments(update_ops: Iterable[Any]) -> Iterator[tf.Operation]:
    """Yield the assignments among some ops, and in what only groups or passes them on."""
    waiting, seen = [getattr(one, 'op', one) for one in update_ops], set()
    while waiting:
        op = waiting.pop()
        if op in seen:
            continue
        seen.add(op)
        if op.type in _NEUTRAL:
            yield op
        elif op.type in ('NoOp', 'Identity', 'ReadVariableOp'):
            waiting += [*op.control_inputs, *(one.op for one in op.inputs)]
