"""State of the graph under construction, which layers and the engine share.

Layers need nothing else of the engine. The state is in the graph's collections and in the replica
context of a distribution strategy. This module imports TensorFlow only, so that a layer can be used
without the engine.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, FrozenSet, List, Mapping, Optional

import tensorflow as tf

tf1 = tf.compat.v1

_STEP_GRAPH = 'is_step_graph'
_WORKER = 'worker_index'
_MICRO_BATCH = 'micro_batch_index'
_DRAWS = 'names_of_draws'
_END_POINTS = 'end_points'
# Prefix of collections, followed by the kind of the variables. They hold the names of the
# variables, because only strings are saved with a graph.
_COMPANIONS = 'companions/'


def mark_step_graph() -> None:
    """Mark the current graph as that of the function of a training step."""
    tf1.add_to_collection(_STEP_GRAPH, True)


def is_step_graph() -> bool:
    """Return whether this is the graph of the function of a training step.

    That graph has collections, a seed and a global step, as a graph for sessions has.
    """
    return bool(tf1.get_collection(_STEP_GRAPH))


def remember_worker(index: int) -> None:
    """Store the worker's index in the graph, for `index_in_step`.

    Args:
        index: index of the worker; 0 for the chief, and for a single worker.
    """
    tf1.get_collection_ref(_WORKER)[:] = [index]


def index_in_step() -> int:
    """Return the index of the replica of a strategy, or of the worker, whose graph is built.

    The clones of one machine are parts of one worker.
    """
    if tf.distribute.has_strategy():
        return replica_index()
    return next(iter(tf1.get_collection(_WORKER)), 0)


def begin_micro_batches() -> tf.Tensor:
    """Make the graph one of a micro-batch; return `micro_batch`, which is 0 unless it is fed.

    Returns:
        int64 scalar.
    """
    number = micro_batch()
    if number is None:
        number = tf1.placeholder_with_default(tf.constant(0, tf.int64), [], _MICRO_BATCH)
        tf1.add_to_collection(_MICRO_BATCH, number)
    return number


def micro_batch() -> Optional[tf.Tensor]:
    """Return the index of the micro-batch that the graph computes; None in a step of one batch.

    It is one int64 scalar for all replicas.
    """
    return next(iter(tf1.get_collection(_MICRO_BATCH)), None)


def draw_names() -> List[str]:
    """Return the names of the random draws of this replica so far, for layers to add theirs."""
    return tf1.get_collection_ref(f'{_DRAWS}_{replica_index()}')


def remember_end_points(end_points: Mapping[str, tf.Tensor]) -> None:
    """Store the end points of a network in training, for `pop_end_points`.

    Those of the first network of the graph stay: of the first device, scale and micro-batch.

    Args:
        end_points: [batch, ...] each, activations by name.
    """
    stored = tf1.get_collection_ref(_END_POINTS)
    if not stored:
        stored.append(dict(end_points))


def pop_end_points() -> Dict[str, tf.Tensor]:
    """Remove the stored end points from the graph, and return them: [batch, ...] each."""
    stored = tf1.get_collection_ref(_END_POINTS)
    return stored.pop() if stored else {}


def replica_index() -> int:
    """Return the index of the replica of a strategy whose graph is built; 0 outside replicas."""
    context = tf.distribute.get_replica_context()
    if context is None or not tf.distribute.has_strategy():
        return 0
    return int(tf.get_static_value(context.replica_id_in_sync_group) or 0)


def num_replicas() -> int:
    """Return the number of replicas of a strategy; 1 outside replicas and strategies."""
    context = tf.distribute.get_replica_context()
    return 1 if context is None else context.num_replicas_in_sync


def reduce_over_replicas(values: tf.Tensor, op: tf.distribute.ReduceOp) -> tf.Tensor:
    """Reduce the values of all replicas to their sum or mean, without a gradient.

    Args:
        values: values of this replica, with the same shape in all replicas.
        op: the reduction.
    """

    def reduce(strategy: tf.distribute.Strategy, values: Any) -> Any:
        return strategy.reduce(op, values, axis=None)

    return tf.distribute.get_replica_context().merge_call(reduce, args=(values,))


def sum_over_replicas(values: tf.Tensor) -> tf.Tensor:
    """Sum the values of all replicas; gradients flow back to the values of each replica.

    Args:
        values: values of this replica, with the same shape in all replicas.
    """

    @tf.custom_gradient
    def with_gradient(values: tf.Tensor, total: tf.Tensor) -> Any:
        del values
        return tf.identity(total), lambda upstream: (
            reduce_over_replicas(upstream, tf.distribute.ReduceOp.SUM),
            None,
        )

    # The sum is computed outside the custom gradient. Inside, TensorFlow would look for variables
    # that it depends on, and not find those of other replicas (`all_reduce` fails for this reason).
    total = tf.stop_gradient(reduce_over_replicas(values, tf.distribute.ReduceOp.SUM))
    return with_gradient(values, total)


def add_regularization_loss(name: str, loss: Callable[[], tf.Tensor]) -> None:
    """Add a regularization loss to the graph's collection, once for each replica.

    Args:
        name: name of the weights; a second loss of the same name is not built.
        loss: builds the loss, a scalar.
    """
    names = f'{tf1.GraphKeys.REGULARIZATION_LOSSES}_names_{replica_index()}'
    if name not in tf1.get_collection(names):
        tf1.add_to_collection(names, name)
        tf1.add_to_collection(tf1.GraphKeys.REGULARIZATION_LOSSES, loss())


def add_companion(name: str, kind: str) -> None:
    """Register a variable that is saved with the model and that a checkpoint may lack.

    Companions are statistics of a training method, stored beside the weights. A run that starts
    from a checkpoint without them logs one line, and uses their initial values. An evaluation is
    refused.

    Args:
        name: name of the variable, without `:0`.
        kind: the plural in messages, as `quantization ranges`.
    """
    if name not in tf1.get_collection(_COMPANIONS + kind):
        tf1.add_to_collection(_COMPANIONS + kind, name)


def companions_by_kind(graph: tf.Graph) -> Dict[str, FrozenSet[str]]:
    """Return the names of a graph's companion variables, by their kind."""
    kinds = [name for name in graph.get_all_collection_keys() if str(name).startswith(_COMPANIONS)]
    return {kind[len(_COMPANIONS) :]: frozenset(graph.get_collection(kind)) for kind in kinds}


def companion_names(graph: tf.Graph) -> FrozenSet[str]:
    """Return the names of a graph's companion variables, of all kinds."""
    return frozenset().union(*companions_by_kind(graph).values())
