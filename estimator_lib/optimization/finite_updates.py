"""Protection of variables from steps whose loss or gradients are not finite."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator, Sequence

import tensorflow as tf

from estimator_lib.optimization.gradients import Pair

# By type of assignment: the value with which it leaves the variable unchanged.
_NEUTRAL = {
    # A raw op, because only the handle is at hand here, not the object of the variable.
    'AssignVariableOp': lambda handle, value: tf.raw_ops.ReadVariableOp(
        resource=handle, dtype=value.dtype
    ),
    'AssignAddVariableOp': lambda handle, value: tf.zeros_like(value),
    'AssignSubVariableOp': lambda handle, value: tf.zeros_like(value),
}


class FiniteUpdates:
    """Guard that changes variables only in steps whose loss and gradients are finite.

    Under a distribution strategy, the losses and gradients of all replicas must be finite.

    In other steps batch-norm statistics, optimizer slots and moving averages do not change either;
    only the global step counts on. (Statistics that a layer updates in place, before the loss is
    known, do change.)

    Attributes:
        is_finite: bool scalar: whether the step is finite; set by `watch`.
    """

    is_finite: tf.Tensor

    def watch(self, loss: tf.Tensor, pairs: Sequence[Pair]) -> None:
        """Check the loss and the gradients of a step.

        Args:
            loss: float scalar.
            pairs: the gradients for the optimizer, with their variables.
        """
        with tf.name_scope('is_finite'):
            tensors = [loss, *(_values(gradient) for gradient, _ in pairs)]
            # Not a global norm: squares of finite gradients overflow float32 from 1.8e19 on.
            checks = [tf.reduce_all(tf.math.is_finite(tensor)) for tensor in tensors]
            self.is_finite = _holds_everywhere(tf.reduce_all(tf.stack(checks)))

    def guard(self, update_ops: Iterable[Any]) -> None:
        """Rewrite assignments so that they change nothing in a step that is not finite.

        Args:
            update_ops: assignments to resource variables, or groups of them.
        """
        for op in assignments(update_ops):
            handle, value = op.inputs
            with tf.name_scope('finite_updates'), tf.device(op.device):
                kept = tf.where(self.is_finite, value, _NEUTRAL[op.type](handle, value))
            # Changed in place, as layers and groups refer to the assignment itself.
            op._update_input(1, kept)

    def apply(
        self, update: Callable[[Sequence[Pair]], tf.Operation], pairs: Sequence[Pair]
    ) -> tf.Operation:
        """Build an update that runs only in a finite step.

        Args:
            update: `apply_gradients` of an optimizer; with several replicas, of the first one's.
            pairs: the arguments of `update`.
        """
        # The update itself depends on the loss and the gradients: when a hook sees a NaN, the
        # optimizer would already have applied its gradient.
        if tf.distribute.get_strategy().num_replicas_in_sync == 1:
            return tf.cond(self.is_finite, lambda: tf.group(update(pairs)), tf.no_op).op

        # An optimizer synchronizes the replicas, which is not possible inside a condition. So the
        # replicas are synchronized around the condition.
        def apply(strategy: tf.distribute.Strategy, pairs: Sequence[Pair]) -> tf.Operation:
            def update_all() -> tf.Operation:
                updates = strategy.extended.call_for_each_replica(update, args=(pairs,))
                return tf.group(strategy.experimental_local_results(updates))

            return tf.cond(self.is_finite, update_all, tf.no_op).op

        return tf.distribute.get_replica_context().merge_call(apply, args=(list(pairs),))

    def weight(self) -> tf.Tensor:
        """Return 1 in a finite step, else 0: float32 scalar."""
        return tf.cast(self.is_finite, tf.float32)


def _holds_everywhere(holds: tf.Tensor) -> tf.Tensor:
    """Return whether a condition holds on all replicas: the same bool scalar on each."""
    if tf.distribute.get_strategy().num_replicas_in_sync == 1:
        return holds

    def reduce(strategy: tf.distribute.Strategy, failures: Any) -> tf.Tensor:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, failures, axis=None)

    # Strategies reduce by SUM and MEAN, so failures are counted, as floats.
    failures = tf.cast(~holds, tf.float32)
    return tf.distribute.get_replica_context().merge_call(reduce, args=(failures,)) < 0.5


def _values(gradient: Any) -> tf.Tensor:
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def assignments(update_ops: Iterable[Any]) -> Iterator[tf.Operation]:
    """Yield the assignments among some ops, and behind ops that group or forward them."""
    waiting, seen = [getattr(each, 'op', each) for each in update_ops], set()
    while waiting:
        op = waiting.pop()
        if op in seen:
            continue
        seen.add(op)
        if op.type in _NEUTRAL:
            yield op
        # A group is a NoOp. An assignment that returns the new value is behind a ReadVariableOp.
        elif op.type in ('NoOp', 'Identity', 'ReadVariableOp'):
            waiting += [*op.control_inputs, *(tensor.op for tensor in op.inputs)]
