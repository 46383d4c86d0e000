"""Accumulation of gradients over micro-batches, which makes the memory of a step smaller.

A step divides its batch into micro-batches. It computes the network and its gradients on one after
the other, and updates the variables once, by the mean. So everything outside of this module sees
one step of the whole batch: the global step, learning rates, hooks, the exchange between workers,
and checkpoints, which need no accumulators.

The graph has one loop over the micro-batches, see `micro_batches`.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

import tensorflow as tf

from estimator_lib import graph_state
from estimator_lib.optimization import finite_updates, micro_batches
from estimator_lib.optimization.gradients import Gradient, Pair
from estimator_lib.optimization.micro_batches import Share

tf1 = tf.compat.v1


class Accumulation:
    """Micro-batches of a step: the graph is that of the first one until `average` is called.

    Args:
        count: number of micro-batches.
        batch: nested tensors, whose first dimension is a multiple of `count`.

    Attributes:
        first: the first micro-batch, which the network reads.
    """

    def __init__(self, count: int, batch: Sequence[Any]):
        self._count = count
        self._batch = tf.nest.flatten(batch)
        with tf1.name_scope('first_micro_batch'):
            # The identity is the cut between batch and network: `micro_batches` stops at this op,
            # and gives its copies other inputs in place of its output.
            self._first = [tf.identity(tf.split(tensor, count)[0]) for tensor in self._batch]
            self._index = graph_state.begin_micro_batches()
        self.first = tf.nest.pack_sequence_as(batch, self._first)
        self._losses: List[tf.Tensor] = []

    def mean_losses(self, losses: Dict[str, tf.Tensor]) -> Dict[str, tf.Tensor]:
        """Return losses of the first micro-batch as tensors that `average` turns into means.

        Returns:
            float32 scalars.
        """
        with tf1.name_scope('mean_losses'):
            # `average` later gives these identities another input. So summaries, hooks and the
            # total, which have read a loss before, report the mean.
            means = {name: tf.identity(loss, name) for name, loss in losses.items()}
        self._losses += means.values()
        return means

    def average(self, pairs: Sequence[Pair]) -> List[Pair]:
        """Make losses, moving statistics and gradients means over the micro-batches.

        Moving statistics change once in a step, by the mean of their changes in the micro-batches.

        Args:
            pairs: gradients of the loss of the first micro-batch, with their variables.

        Returns:
            The mean gradients, with their variables.
        """
        gradients = [gradient for gradient, _ in pairs]
        own = [self._batch, self._first, self._losses, gradients]
        if not tf.distribute.has_strategy():
            means = self._average([own])[0]
        else:
            context = tf.distribute.get_replica_context()
            by_replica = context.merge_call(self._average_replicas, args=(own,))
            # The index counts the replicas of all workers, the list has those of this process.
            means = by_replica[graph_state.replica_index() % len(by_replica)]
        return [(mean, variable) for mean, (_, variable) in zip(means, pairs)]

    def _average_replicas(self, strategy: tf.distribute.Strategy, values: Any) -> Any:
        """Average over the micro-batches in one loop for all replicas of this process.

        Replicas that share statistics of a batch need each other's tensors.
        """

        def of_replica(replica: int) -> Any:
            def own(value: Any) -> Any:
                local = strategy.experimental_local_results(value)
                # A value that all replicas share has one local result.
                return local[replica % len(local)]

            return [[own(value) for value in each] for each in values]

        count = len(strategy.extended.worker_devices)
        return self._average([of_replica(replica) for replica in range(count)])

    def _average(self, replicas: Sequence[Any]) -> List[List[Gradient]]:
        """Replace losses and statistics by their means; return the mean gradients of replicas."""
        # A set would drop duplicates too, but in another order in each process.
        updates = finite_updates.assignments(
            dict.fromkeys(tf1.get_collection(tf1.GraphKeys.UPDATE_OPS))
        )
        losses = (loss.op for _, _, own, _ in replicas for loss in own)
        replaced = [*dict.fromkeys(losses), *updates]
        # The value is the last input: the only one of an identity, the one after the handle of an
        # assignment.
        outputs = [op.inputs[len(op.inputs) - 1] for op in replaced]
        for _, _, _, gradients in replicas:
            outputs += gradients
        shares = [Share(batch, first) for batch, first, _, _ in replicas]
        means = micro_batches.repeat(self._count, shares, self._index, outputs)
        for op, mean in zip(replaced, means):
            # TensorFlow has no public function that gives an op another input.
            op._update_input(len(op.inputs) - 1, mean)
        rest = iter(means[len(replaced) :])
        return [[next(rest) for _ in gradients] for _, _, _, gradients in replicas]
