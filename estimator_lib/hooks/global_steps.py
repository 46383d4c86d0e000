"""The base class of hooks that need the global step."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow as tf

from estimator_lib import tf_estimator

tf1 = tf.compat.v1


class GlobalStepHook(tf_estimator.SessionRunHook):
    """Hook that follows the global step, which it fetches in each run.

    A subclass may fetch more (`fetches`, `run_options`), and act when a session begins
    (`session_begun`) and after each run (`step_done`).

    Attributes:
        step: the global step after the last run; before the first run, that of the session's start.
        sees_each_step: for a loop that runs several steps in one call: whether the hook is called
            for each step, or for the last step of a call only. A call ends wherever a hook of the
            second kind acts (`function_loop.call_lengths`).
    """

    step = 0
    sees_each_step = True

    def begin(self) -> None:
        """Find the global step."""
        self._global_step = tf1.train.get_global_step()

    def after_create_session(self, session: tf1.Session, coord: Any) -> None:
        """Read the global step of the new session, which may replace a lost one."""
        del coord
        self.step = self.read_step(session)
        self.session_begun()

    def before_run(self, run_context: Any) -> tf_estimator.SessionRunArgs:
        """Fetch the global step, and the fetches of the subclass."""
        del run_context
        options = self.run_options()
        return tf_estimator.SessionRunArgs((self._global_step, self.fetches()), options=options)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Count the step, and pass the results to the subclass."""
        fetched, results = run_values.results
        self.step = step_after_run(int(fetched), self.step)
        self.step_done(run_context, run_values._replace(results=results))

    def follow_step(self, step: int) -> None:
        """Set the step, in a loop that does not call this hook for each step."""
        self.step = step

    def read_step(self, session: tf1.Session) -> int:
        """Read the present global step in a separate run."""
        return int(session.run(self._global_step))

    def fetches(self) -> Any:
        """Return further tensors to fetch: nested, and the same ones in each run.

        A session prepares its graph again for each new set of fetches, which costs more than
        fetching small tensors needlessly. So only tensors that are expensive to compute are left
        out of some runs; the first run has them.
        """
        return ()

    def run_options(self) -> Optional[tf1.RunOptions]:
        """Return the options of the coming run."""
        return None

    def session_begun(self) -> None:
        """Handle the beginning of a session; `step` is known."""

    def step_done(self, run_context: Any, run_values: Any) -> None:
        """Handle the end of a run; `step` has counted it, and `results` are those of `fetches`."""


class Period:
    """Steps at which a hook acts: the first one of a session, then the multiples of n.

    Example: with n = 10, a session that starts at step 7 acts at 8, 10, 20 and so on. Where a loop
    runs several steps in a call and passes 10, the hook acts at the end of the call, then at 20.

    Args:
        every_n_steps: n, from 1.
    """

    def __init__(self, every_n_steps: int):
        self._every_n_steps = every_n_steps
        self._next = 0

    def begin(self, step: int) -> None:
        """Start a session at a global step: the step after it is due."""
        self._next = step + 1

    def is_due(self, step: int) -> bool:
        """Return whether a step is due."""
        return step >= self._next

    def done(self, step: int) -> None:
        """Note that the hook has acted at a step."""
        # The next multiple, so that a resumed run reports at the same steps as one without a break.
        self._next = step - step % self._every_n_steps + self._every_n_steps


def step_after_run(fetched: int, last: int) -> int:
    """Return the global step after a run, given the value that the run fetched.

    A fetch reads the step before the run's update or, in a small graph, after it. On one machine
    the result is exact. In a cluster it may lack the updates of other workers.

    Args:
        fetched: the value that the run fetched.
        last: the result of this function for the run before, or the session's first step.
    """
    return fetched if fetched > last else fetched + 1
