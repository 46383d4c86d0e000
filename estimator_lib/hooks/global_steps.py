"""The base of all hooks that need to know the global step."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow as tf

tf1 = tf.compat.v1


class GlobalStepHook(tf.estimator.SessionRunHook):
    """Follows the global step, which it fetches in each run.

    A subclass says what else to fetch (`fetches`, `run_options`), and what to do when a session
    begins (`session_begun`) and after each run (`step_done`).

    Attributes:
        step: the global step after the last run; before the first, that of the session's begin.
        sees_each_step: of a loop that runs several steps in one call: whether the hook is told of
            each, or of the last one of each call. A call ends wherever a hook of the second kind is
            to act (`function_loop.call_lengths`).
    """

    step = 0
    sees_each_step = True

    def begin(self) -> None:
        """Find the global step."""
        self._global_step = tf1.train.get_global_step()

    def after_create_session(self, session: tf1.Session, coord: Any) -> None:
        """Read where the session begins; it may replace another one that was lost."""
        del coord
        self.step = self.read_step(session)
        self.session_begun()

    def before_run(self, run_context: Any) -> tf.estimator.SessionRunArgs:
        """Fetch the global step, and what the subclass asks for."""
        del run_context
        options = self.run_options()
        return tf.estimator.SessionRunArgs((self._global_step, self.fetches()), options=options)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Count the step, and hand over what was fetched."""
        fetched, results = run_values.results
        self.step = step_after_run(int(fetched), self.step)
        self.step_done(run_context, run_values._replace(results=results))

    def follow_step(self, step: int) -> None:
        """Move to a step; called where `before_run` and `after_run` were not called for each."""
        self.step = step

    def read_step(self, session: tf1.Session) -> int:
        """Return the global step at this moment, by a run of its own."""
        return int(session.run(self._global_step))

    def fetches(self) -> Any:
        """What else to fetch in the coming run: nested tensors, the same ones in each run.

        A session prepares the graph anew for each set of fetches: a second set would cost more, at
        the first step that uses it, than all the numbers that it saves. Only what is expensive to
        compute is left out of some runs; the first one has it.
        """
        return ()

    def run_options(self) -> Optional[tf1.RunOptions]:
        """Options of the coming run."""
        return None

    def session_begun(self) -> None:
        """Called when a session begins; `step` is known."""

    def step_done(self, run_context: Any, run_values: Any) -> None:
        """Called after each run; `step` has counted it, and `results` are those of `fetches`."""


def step_after_run(fetched: int, last: int) -> int:
    """Return the global step after a run in which it was fetched.

    A fetch reads it before the run's update or, in a small graph, after it. On one machine the
    answer is exact; in a cluster, where others update it too, it may be behind by those.

    Args:
        fetched: what the run gave.
        last: what this function said of the run before, or the step at which the session began.
    """
    return fetched if fetched > last else fetched + 1
