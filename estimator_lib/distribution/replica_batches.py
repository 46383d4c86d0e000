"""Parts of a graph that are built once for all replicas of a strategy, such as metrics."""

from __future__ import annotations

import concurrent.futures
from typing import Any, Callable, Sequence

import tensorflow as tf

tf1 = tf.compat.v1


def build_once(build: Callable[..., Any], batch: Sequence[Any]) -> Any:
    """Build a part of the graph once, on the joined batches of this process's replicas.

    A metric has one state for the examples of all replicas. So its variables are created outside
    the strategy.

    Args:
        build: called with the elements of the joined batch.
        batch: nested tensors of this replica. The tensors of all replicas are joined along the
            first dimension; zeros pad other dimensions to the largest, as in a padded batch.

    Returns:
        The result of `build`, the same for all replicas.
    """
    context = tf.distribute.get_replica_context()
    if not tf.distribute.has_strategy() or context.num_replicas_in_sync == 1:
        return build(*batch)

    def build_merged(strategy: tf.distribute.Strategy, *batch: Any) -> Any:
        joined = tf.nest.map_structure(
            lambda values: _join(strategy.experimental_local_results(values)), batch
        )
        return _call_outside_of_strategies(lambda: build(*joined))

    return context.merge_call(build_merged, args=tuple(batch))


def _join(parts: Sequence[tf.Tensor]) -> tf.Tensor:
    if len(parts) == 1:
        return parts[0]
    if parts[0].shape.rank is None or not parts[0].shape[1:].is_fully_defined():
        sizes = tf.reduce_max([tf.shape(part)[1:] for part in parts], axis=0)
        parts = [_pad(part, sizes) for part in parts]
    return tf.concat(parts, axis=0)


def _pad(values: tf.Tensor, sizes: tf.Tensor) -> tf.Tensor:
    """Pad values with zeros at the end, to `sizes` in all dimensions but the first."""
    after = sizes - tf.shape(values)[1:]
    paddings = tf.pad(tf.stack([tf.zeros_like(after), after], axis=1), [[1, 0], [0, 0]])
    return tf.pad(values, paddings, constant_values=tf.zeros([], values.dtype))


def _call_outside_of_strategies(function: Callable[[], Any]) -> Any:
    """Call a function with the current graph in another thread, where no strategy is in scope."""
    # Scopes of strategies belong to a thread, and no call leaves one. The default graph belongs to
    # it too, so it is handed over.
    graph = tf1.get_default_graph()

    def call() -> Any:
        with graph.as_default():
            return function()

    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        return thread.submit(call).result()
