"""Hook that ends a training session after a signal."""

from __future__ import annotations

import logging
from typing import Any

import tensorflow as tf

from estimator_lib import tf_estimator
from estimator_lib.processes import preemption

log = logging.getLogger('estimator_lib')


class PreemptionHook(tf_estimator.SessionRunHook):
    """Hook that ends the session, which then saves, after the step in which a signal came."""

    def after_create_session(self, session: tf.compat.v1.Session, coord: Any) -> None:
        """Make signals wait for the end of a step."""
        del session, coord
        preemption.wait_for_step(True)

    # Without `sees_each_step`: in the loop of functions only the last step of a call can end it.
    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Request the end of the session after a signal."""
        del run_values
        if preemption.requested() and not run_context.stop_requested:
            log.info('told to end: this was the last step')
            run_context.request_stop()

    def end(self, session: tf.compat.v1.Session) -> None:
        """Handle signals at once again, as the session has ended."""
        del session
        preemption.wait_for_step(False)
