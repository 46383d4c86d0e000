"""State of the graph under construction, as layers and the engine share it.

Layers ask the engine for nothing else. It lives in the graph's collections and in the replica
context of a distribution strategy. This module imports TensorFlow only, so that a layer can be used
without the engine.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, FrozenSet

import tensorflow as tf

tf1 = tf.compat.v1

_STEP_GRAPH = 'is_step_graph'
_WORKER = 'worker_index'
# Followed by what such variables are called in messages. The collection holds the names of the
# variables: collections of other things than strings would not be saved with a graph.
_COMPANIONS = 'companions/'


def mark_step_graph() -> None:
    """Mark the current graph as that of the function of a training step."""
    tf1.add_to_collection(_STEP_GRAPH, True)


def is_step_graph() -> bool:
    """Return True in the graph of the function of a training step.

    That graph has collections, a seed and a global step, as a graph for sessions has.
    """
    return bool(tf1.get_collection(_STEP_GRAPH))


def remember_worker(index: int) -> None:
    """Store in the graph which worker builds it, for `index_in_step`.

    Args:
        index: 0 for the chief, and where there is one worker.
    """
    tf1.get_collection_ref(_WORKER)[:] = [index]


def index_in_step() -> int:
    """Return the index of the replica of a strategy, or of the worker, that builds the graph.

    The clones of one machine are parts of one worker.
    """
    if tf.distribute.has_strategy():
        return replica_index()
    return next(iter(tf1.get_collection(_WORKER)), 0)


def replica_index() -> int:
    """Return the index of the strategy's replica that is built; 0 outside of replicas."""
    context = tf.distribute.get_replica_context()
    if context is None or not tf.distribute.has_strategy():
        return 0
    return int(tf.get_static_value(context.replica_id_in_sync_group) or 0)


def num_replicas() -> int:
    """Return the number of a strategy's replicas that share a batch; 1 outside of replicas."""
    context = tf.distribute.get_replica_context()
    return 1 if context is None else context.num_replicas_in_sync


def reduce_over_replicas(values: tf.Tensor, op: tf.distribute.ReduceOp) -> tf.Tensor:
    """Return the sum or the mean of the values of all replicas, without a gradient of its own.

    Args:
        values: of one shape in all replicas.
        op: how to reduce them.
    """

    def reduce(strategy: tf.distribute.Strategy, values: Any) -> Any:
        return strategy.reduce(op, values, axis=None)

    return tf.distribute.get_replica_context().merge_call(reduce, args=(values,))


def sum_over_replicas(values: tf.Tensor) -> tf.Tensor:
    """Return the sum of the values of all replicas; gradients reach those of each.

    Args:
        values: of one shape in all replicas.
    """

    @tf.custom_gradient
    def with_gradient(values: tf.Tensor, total: tf.Tensor) -> Any:
        del values
        return tf.identity(total), lambda upstream: (
            reduce_over_replicas(upstream, tf.distribute.ReduceOp.SUM),
            None,
        )

    # The sum itself is outside: TensorFlow would look for the variables that it depends on, and
    # not find those of other replicas (`ReplicaContext.all_reduce` ends so in a TF1 graph).
    total = tf.stop_gradient(reduce_over_replicas(values, tf.distribute.ReduceOp.SUM))
    return with_gradient(values, total)


def add_regularization_loss(name: str, loss: Callable[[], tf.Tensor]) -> None:
    """Add a regularization loss to the graph's collection, once for each replica.

    Args:
        name: of the weights; a second loss of the same name is not built.
        loss: builds the loss, a scalar.
    """
    names = f'{tf1.GraphKeys.REGULARIZATION_LOSSES}_names_{replica_index()}'
    if name not in tf1.get_collection(names):
        tf1.add_to_collection(names, name)
        tf1.add_to_collection(tf1.GraphKeys.REGULARIZATION_LOSSES, loss())


def add_companion(name: str, kind: str) -> None:
    """Register a variable that is saved with the model and that a checkpoint may lack.

    Companions are statistics of a way of training, beside the weights. Where a checkpoint lacks
    them, a run that starts from it says so in one line, and gives them their initial values; an
    evaluation is refused.

    Args:
        name: of the variable, without `:0`.
        kind: what it is called in messages, in the plural: `quantization ranges`.
    """
    if name not in tf1.get_collection(_COMPANIONS + kind):
        tf1.add_to_collection(_COMPANIONS + kind, name)


def companions_by_kind(graph: tf.Graph) -> Dict[str, FrozenSet[str]]:
    """Return the names of a graph's companion variables, by what they are called in messages."""
    kinds = [name for name in graph.get_all_collection_keys() if str(name).startswith(_COMPANIONS)]
    return {kind[len(_COMPANIONS) :]: frozenset(graph.get_collection(kind)) for kind in kinds}


def companion_names(graph: tf.Graph) -> FrozenSet[str]:
    """Return the names of a graph's companion variables, of all kinds."""
    return frozenset().union(*companions_by_kind(graph).values())
