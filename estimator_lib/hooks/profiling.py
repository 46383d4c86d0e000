"""The profile of one training step."""

from __future__ import annotations

import logging
import os
from typing import Any

import tensorflow as tf
from tensorflow.python.client import timeline

from estimator_lib.hooks import global_steps

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')


class ProfileHook(tf.estimator.SessionRunHook):
    """Traces one step with all its ops.

    Writes `model_dir/profile/trace_step_<n>.json` (for chrome://tracing) and run metadata that
    TensorBoard's graph page shows.

    Args:
        step: the global step after it; 1 or more. A run that resumes after it is not traced.
        model_dir: where the profile goes.
    """

    def __init__(self, step: int, model_dir: str):
        self._profile_step = step
        self._model_dir = model_dir
        self._done = False

    def begin(self) -> None:
        """Finds the global step."""
        self._global_step = tf1.train.get_global_step()

    def after_create_session(self, session: tf1.Session, coord: Any) -> None:
        """Finds where the session starts."""
        del coord
        self._step = int(session.run(self._global_step))
        self._done = self._done or self._step >= self._profile_step

    def before_run(self, run_context: Any) -> tf.estimator.SessionRunArgs:
        """Turns tracing on for the one step."""
        del run_context
        self._tracing = not self._done and self._step + 1 >= self._profile_step
        options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE) if self._tracing else None
        return tf.estimator.SessionRunArgs(self._global_step, options=options)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Writes the profile."""
        del run_context
        self._step = global_steps.step_after_run(int(run_values.results), self._step)
        if self._tracing:
            self._done = True
            self._write(run_values.run_metadata)

    def _write(self, metadata: tf1.RunMetadata) -> None:
        folder = os.path.join(self._model_dir, 'profile')
        tf.io.gfile.makedirs(folder)
        path = os.path.join(folder, f'trace_step_{self._step}.json')
        write_chrome_trace(metadata, path)
        writer = tf1.summary.FileWriterCache.get(self._model_dir)
        writer.add_run_metadata(metadata, f'step_{self._step}', self._step)
        writer.flush()
        log.info('the profile of step %d is in %s (open it in chrome://tracing)', self._step, path)


def write_chrome_trace(metadata: tf1.RunMetadata, path: str) -> None:
    """Writes what a traced run did as a file for chrome://tracing."""
    trace = timeline.Timeline(metadata.step_stats).generate_chrome_trace_format()
    with tf.io.gfile.GFile(path, 'w') as file:
        file.write(trace)
