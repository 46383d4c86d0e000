"""Ops by which a session knows whether its variables have values."""

from __future__ import annotations

from typing import Dict, Optional

import tensorflow as tf

tf1 = tf.compat.v1


def always_ready() -> Dict[str, tf.Tensor]:
    """Return ops for a `Scaffold` that declare all variables ready.

    A process on its own has set or restored all of them itself, and a checkpoint that lacks one
    is refused when it is restored. The default, an op for each variable to ask and a preparation of
    the graph for each of two questions, takes half a second of each start of a detector.

    Returns:
        `ready_op` and `ready_for_local_init_op`: string [0], the names of variables without value.
        Nothing under a strategy: an Estimator's `if` on these tensors fails in its replicas, where
        AutoGraph takes it for a condition on their values.
    """
    if tf.distribute.has_strategy():
        return {}
    nothing = tf.constant([], tf.string, [0], name='variables_without_value')
    return {'ready_op': nothing, 'ready_for_local_init_op': nothing}


def live_step(session: tf1.Session) -> Optional[int]:
    """Return the global step of parameter servers whose variables all have values; else None."""
    graph = session.graph
    step = tf1.train.get_global_step(graph)
    questions = graph.get_collection(tf1.GraphKeys.READY_OP)
    if step is None or '/job:ps' not in step.device or not questions:
        return None
    return None if len(session.run(questions[0])) else int(session.run(step))
