"""Which global step a hook has seen."""

from __future__ import annotations


def step_after_run(fetched: int, last: int) -> int:
    """The global step after a run in which it was fetched.

    A fetch reads it before the run's update or, in a small graph, after it. On one machine the
    answer is exact; in a cluster, where others update it too, it may be behind by those.

    Args:
        fetched: what the run gave.
        last: what this function said of the run before, or the step at which the session began.
    """
    return fetched if fetched > last else fetched + 1
