"""The files that a training run leaves beside its checkpoints: from its start to its end."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Iterator

import tensorflow as tf

from estimator_lib import config as config_lib
from estimator_lib import distribution, tf_estimator
from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.processes import preemption
from estimator_lib.run_records import hparams, listeners
from estimator_lib.run_records.run_file import FAILED, FINISHED, PREEMPTED, Readers, RunFile
from estimator_lib.task import Task
from protos import pipeline_pb2

tf1 = tf.compat.v1

# From this status on, a process was told to end, by a signal or because another task is gone, and
# is started again.
# 128 plus the number of the signal is the status of shells and Kubernetes.
_TOLD_TO_END = 128


class RunFiles:
    """Writer of the as-run config, the task's files, `run.json` and HParams.

    Args:
        task: the task that is trained.
        config: the config of the run.
        model_dir: the folder of the run.
        readers: the input readers by name, for `run.json`.
        plan: the plan of the run, for `run.json`.

    Attributes:
        listeners: the listeners of the run, see `listeners`; none before the start.
    """

    def __init__(
        self,
        task: Task,
        config: pipeline_pb2.TrainEvalPipelineConfig,
        model_dir: str,
        readers: Readers,
        plan: distribution.Plan,
    ):
        self._task = task
        self._config = config
        self._model_dir = model_dir
        self._run_file = RunFile(model_dir, config, readers, plan)
        self.listeners = listeners.Listeners(model_dir, ())

    def write_start(self) -> None:
        """Write the files of the start.

        A cluster may open several sessions, each with a call; `run.json` has one entry of them.
        """
        config_lib.save_pipeline_config(self._config, self._model_dir)
        for name, text in self._task.checkpoints.asset_files.items():
            checkpoint_files.write_atomically(os.path.join(self._model_dir, name), text)
        if not self._run_file.has_begun:
            self._run_file.begin()
            self.listeners = listeners.Listeners(self._model_dir, listeners.find_listeners())
            self.listeners.start(hparams.changed_fields(self._config))
            hparams.write_start(self._model_dir, self._config)

    def note_step(self, step: int) -> None:
        """Write the step from which the first session of this start trains."""
        self._run_file.note_first_step(step)

    @contextlib.contextmanager
    def ended(self) -> Iterator[None]:
        """Write the end of the run, if the block has started it, at the end of the block.

        A process that ends at once in the block, see `preemption.end_process`, writes it too.
        """
        with preemption.called_before_end(self._write_sudden_end):
            try:
                yield
            except BaseException as error:
                # The folder may be gone, or the disk full: that is the error to report.
                with contextlib.suppress(tf.errors.OpError, OSError):
                    self._write_end(_status(getattr(error, 'exit_status', 1)))
                raise
            self._write_end(FINISHED)

    def _write_end(self, status: str) -> None:
        if not self._run_file.has_begun:
            return
        with preemption.deferred():
            self._run_file.end(status)
            if status != PREEMPTED:  # else the run continues later
                hparams.write_end(self._model_dir, status == FINISHED)
        self.listeners.end(status)

    def _write_sudden_end(self, exit_status: int) -> None:
        if self._run_file.has_begun:
            self._run_file.end(_status(exit_status))
            self.listeners.end(_status(exit_status), polls=False)


def _status(exit_status: int) -> str:
    """Return how a start ended, by the status of its process."""
    if exit_status >= _TOLD_TO_END:
        return PREEMPTED
    return FAILED if exit_status else FINISHED


class RunFilesHook(tf_estimator.SessionRunHook):
    """Hook that writes the files of the start once the graph is built.

    The folder of another model has been refused before, so its config is not overwritten.

    Args:
        files: the files to write.
    """

    sees_each_step = True  # it fetches nothing, so calls may have several steps

    def __init__(self, files: RunFiles):
        self._files = files

    def begin(self) -> None:
        """Write the files."""
        self._files.write_start()
        self._step = tf1.train.get_global_step()

    def after_create_session(self, session: tf1.Session, coord: Any) -> None:
        """Note the step, which parameter servers may have brought further than a checkpoint."""
        del coord
        self._files.note_step(int(session.run(self._step)))

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Tell listeners of what is new, every few seconds."""
        del run_context, run_values
        self._files.listeners.poll_if_due()
