"""Times of the ops of a graph, from TensorFlow's own trace of a session's runs."""

from __future__ import annotations

import collections
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple


class Op(NamedTuple):
    """An op of a graph that runs: its name, and its kind as the kernel is called."""

    name: str
    kind: str


def trace(
    session: Any,
    fetches: Any,
    runs: int = 3,
    warm_up: int = 2,
    feed: Optional[Mapping[Any, Any]] = None,
) -> Dict[Op, float]:
    """Return milliseconds of each op, the least of some runs.

    Args:
        session: of `tf.compat.v1`.
        fetches: what a step computes.
        runs: how many are traced.
        warm_up: how many go before, untraced.
        feed: what each run is given.
    """
    import tensorflow as tf

    tf1 = tf.compat.v1
    for _ in range(warm_up):
        session.run(fetches, feed)
    least: Dict[Op, float] = {}
    for _ in range(runs):
        metadata = tf1.RunMetadata()
        options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
        session.run(fetches, feed, options=options, run_metadata=metadata)
        for op, milliseconds in _run_times(metadata).items():
            least[op] = min(least.get(op, milliseconds), milliseconds)
    return least


def _run_times(metadata: Any) -> Dict[Op, float]:
    found: Dict[Op, float] = collections.defaultdict(float)
    for device in metadata.step_stats.dev_stats:
        for node in device.node_stats:
            # As in "name = Kind(inputs)".
            kind = node.timeline_label.partition(' = ')[2].partition('(')[0]
            took = node.op_end_rel_micros - node.op_start_rel_micros
            found[Op(node.node_name, kind or node.node_name)] += took / 1000
    return dict(found)


def sum_kinds(ops: Mapping[Op, float]) -> Dict[str, Tuple[float, int]]:
    """Return milliseconds, and how many ops there are, of each kind, costliest first."""
    found: Dict[str, Tuple[float, int]] = {}
    for op, took in ops.items():
        total, count = found.get(op.kind, (0.0, 0))
        found[op.kind] = (total + took, count + 1)
    return dict(sorted(found.items(), key=lambda item: -item[1][0]))


def costliest(ops: Mapping[Op, float], count: int = 10) -> Sequence[Tuple[Op, float]]:
    """Return the ops that take longest."""
    return sorted(ops.items(), key=lambda item: -item[1])[:count]
