"""Ops that tell a session whether its variables have values."""

from __future__ import annotations

from typing import Dict, Optional

import tensorflow as tf

tf1 = tf.compat.v1


def always_ready() -> Dict[str, tf.Tensor]:
    """Return ops for a `Scaffold` that declare all variables ready.

    A single process has initialized or restored all variables itself, and the restore refuses a
    checkpoint that lacks one. The default ops check each variable, and the session prepares the
    graph for two such runs. That takes half a second of each start of a detector.

    Returns:
        `ready_op` and `ready_for_local_init_op`: string [0], the names of variables without value.
        Empty under a strategy: there AutoGraph would convert an Estimator's `if` on these tensors
        to a condition on their values, which fails in replicas.
    """
    if tf.distribute.has_strategy():
        return {}
    nothing = tf.constant([], tf.string, [0], name='variables_without_value')
    return {'ready_op': nothing, 'ready_for_local_init_op': nothing}


def live_step(session: tf1.Session) -> Optional[int]:
    """Return the global step on parameter servers if all variables have values; else None."""
    graph = session.graph
    step = tf1.train.get_global_step(graph)
    ready_ops = graph.get_collection(tf1.GraphKeys.READY_OP)
    if step is None or '/job:ps' not in step.device or not ready_ops:
        return None
    return None if len(session.run(ready_ops[0])) else int(session.run(step))
