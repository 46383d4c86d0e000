"""Values that the replicas of a distribution strategy compute together."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import tensorflow as tf

from estimator_lib import graph_state
from estimator_lib.optimization import gradients, partitioned
from estimator_lib.task_interfaces.tensors import Tensors

tf1 = tf.compat.v1


def regularization_loss() -> Optional[tf.Tensor]:
    """Return the sum of this replica's `REGULARIZATION_LOSSES`; None where there are none.

    The replicas of one process build one graph, and add to one collection. A regularization loss is
    a function of the weights of one replica, and counts for that replica. When only the first
    replica has added losses, they are multiplied by the number of replicas. So the mean over the
    replicas, and the sum of their gradients, are those of one device.

    Returns:
        float32 scalar.
    """
    losses = tf1.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)
    context = tf.distribute.get_replica_context()
    if not losses:
        return None
    if not tf.distribute.has_strategy() or context.num_replicas_in_sync == 1:
        return tf.add_n(losses)

    @tf.autograph.experimental.do_not_convert
    def divide(strategy: tf.distribute.Strategy, replica_id: Any) -> List[tf.Tensor]:
        count = len(strategy.experimental_local_results(replica_id))
        return _regularization_by_replica(count)

    # The entries of `tf.compat.v1.get_variable(regularizer=...)` are functions, not tensors.
    functions = [loss for loss in losses if not isinstance(loss, tf.Tensor)]
    of_variables = [tf.convert_to_tensor(function) for function in functions]
    by_replica = context.merge_call(divide, args=(context.replica_id_in_sync_group,))
    return tf.add_n([*of_variables, by_replica[graph_state.replica_index() % len(by_replica)]])


def _regularization_by_replica(count: int) -> List[tf.Tensor]:
    """Return the sum of the regularization losses of each replica of this process."""
    by_replica: List[List[tf.Tensor]] = [[] for _ in range(count)]
    replicas = _replicas_of_handles()
    for loss in tf1.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES):
        if isinstance(loss, tf.Tensor):
            owners = {replicas[op] for op in gradients.ancestors([loss]) if op in replicas}
            by_replica[min(owners, default=0)].append(loss)
    factor = 1.0 if any(by_replica[1:]) else float(count)
    first = factor * tf.add_n([tf.zeros([]), *by_replica[0]])
    return [first, *(tf.add_n([tf.zeros([]), *each]) for each in by_replica[1:])]


def _replicas_of_handles() -> Dict[tf.Operation, int]:
    """Return the index of the replica of this process by the op that holds a variable."""
    graph = tf1.get_default_graph()
    replicas = {}
    for variable in tf1.global_variables():
        for replica, component in enumerate(partitioned.components(variable)):
            handle = component.handle
            if partitioned.is_eager(component):
                handle = graph.capture(handle)
            replicas[handle.op] = replica
    return replicas


def mean_over_replicas(losses: Tensors) -> Tensors:
    """Compute the losses of the whole batch for reports: the means over the replicas.

    Without a strategy the losses are those of the whole batch already.

    Args:
        losses: float scalars of this replica by name.
    """
    context = tf.distribute.get_replica_context()
    if not tf.distribute.has_strategy() or context.num_replicas_in_sync == 1:
        return losses

    # One tensor needs one message only.
    stacked = tf.stop_gradient(tf.stack(list(losses.values())))
    means = graph_state.reduce_over_replicas(stacked, tf.distribute.ReduceOp.MEAN)
    return dict(zip(losses, tf.unstack(means, len(losses))))


def gather_in_process(values: tf.Tensor) -> tf.Tensor:
    """Join the values of all replicas of this process along the batch dimension.

    Args:
        values: [batch, ...]: values of this replica.
    """
    if not tf.distribute.has_strategy():
        return values

    def join(strategy: tf.distribute.Strategy, values: Any) -> tf.Tensor:
        return tf.concat(strategy.experimental_local_results(values), axis=0)

    return tf.distribute.get_replica_context().merge_call(join, args=(values,))
