"""The profile of one training step."""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import json
import logging
import os
import tempfile
from typing import Any, Iterator, Optional, Union

import tensorflow as tf
from tensorflow.python.client import timeline

from estimator_lib.hooks import global_steps, summaries

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')


@dataclasses.dataclass
class ChromeTrace:
    """The trace of a step without a session.

    Attributes:
        content: the content of a file for chrome://tracing.
    """

    content: bytes = b''


class ProfileHook(global_steps.GlobalStepHook):
    """Hook that traces one step with all its ops.

    It writes `model_dir/profile/trace_step_<n>.json` (for chrome://tracing). For a session's step
    it also writes run metadata, which TensorBoard's graph page shows.

    Args:
        step: the global step after the traced step, at least 1. A run that resumes later is not
            traced.
        model_dir: the folder of the run.
    """

    def __init__(self, step: int, model_dir: str):
        self._profile_step = step
        self._model_dir = model_dir
        self._done = False

    def session_begun(self) -> None:
        """Check whether the step is still to come."""
        # A session that replaces a lost one must not trace a second time.
        self._done = self._done or self.step >= self._profile_step

    def run_options(self) -> Optional[tf1.RunOptions]:
        """Turn tracing on for the one step."""
        self._tracing = not self._done and self.step + 1 >= self._profile_step
        return tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE) if self._tracing else None

    def step_done(self, run_context: Any, run_values: Any) -> None:
        """Write the profile."""
        del run_context
        if self._tracing:
            self._done = True
            self._write(run_values.run_metadata)

    def _write(self, metadata: Union[tf1.RunMetadata, ChromeTrace]) -> None:
        folder = os.path.join(self._model_dir, 'profile')
        tf.io.gfile.makedirs(folder)
        path = os.path.join(folder, f'trace_step_{self.step}.json')
        if isinstance(metadata, ChromeTrace):
            with tf.io.gfile.GFile(path, 'wb') as file:
                file.write(metadata.content)
        else:
            write_chrome_trace(metadata, path)
            writer = summaries.get_writer(self._model_dir)
            writer.add_run_metadata(metadata, f'step_{self.step}', self.step)
            writer.flush()
        log.info('the profile of step %d is in %s (open it in chrome://tracing)', self.step, path)


@contextlib.contextmanager
def traced() -> Iterator[ChromeTrace]:
    """Trace the block without a session; the yielded trace is filled at the end of the block."""
    trace = ChromeTrace()
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        try:
            yield trace
        finally:
            tf.profiler.experimental.stop()
        files = glob.glob(os.path.join(folder, '**', '*.xplane.pb'), recursive=True)
        trace.content = b''.join(map(_chrome_trace, files))


def _chrome_trace(path: str) -> bytes:
    """Convert a file of TensorFlow's profiler to the format of chrome://tracing."""
    # TensorFlow 2.15 and 2.21 have this module; the one in `tensorflow.core.profiler` is gone in
    # 2.21.
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    with tf.io.gfile.GFile(path, 'rb') as file:
        space = xplane_pb2.XSpace.FromString(file.read())
    events = []
    for process, plane in enumerate(space.planes):
        names = {
            number: event.display_name or event.name
            for number, event in plane.event_metadata.items()
        }
        for line in plane.lines:
            events += [
                {
                    'ph': 'X',
                    'name': names.get(event.metadata_id, ''),
                    'pid': process,
                    'tid': line.id,
                    'ts': line.timestamp_ns / 1e3 + event.offset_ps / 1e6,  # microseconds
                    'dur': event.duration_ps / 1e6,
                }
                for event in line.events
            ]
    return json.dumps({'traceEvents': events}).encode()


def write_chrome_trace(metadata: tf1.RunMetadata, path: str) -> None:
    """Write the trace of a session's run as a file for chrome://tracing."""
    trace = timeline.Timeline(metadata.step_stats).generate_chrome_trace_format()
    with tf.io.gfile.GFile(path, 'w') as file:
        file.write(trace)
