"""The files that a training run leaves beside its checkpoints: from its start to its end."""

from __future__ import annotations

import contextlib
import os
from typing import Iterator

import tensorflow as tf

from estimator_lib import config as config_lib
from estimator_lib import distribution, tf_estimator
from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.processes import preemption
from estimator_lib.run_records import hparams
from estimator_lib.run_records.run_file import FAILED, FINISHED, PREEMPTED, Readers, RunFile
from estimator_lib.task import Task
from protos import pipeline_pb2


class RunFiles:
    """Writer of the as-run config, the task's files, `run.json` and HParams.

    Args:
        task: the task that is trained.
        config: the config of the run.
        model_dir: the folder of the run.
        readers: the input readers by name, for `run.json`.
        plan: the plan of the run, for `run.json`.
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

    def write_start(self) -> None:
        """Write the files of the start.

        A cluster may open several sessions, each with a call; `run.json` has one entry of them.
        """
        config_lib.save_pipeline_config(self._config, self._model_dir)
        for name, text in self._task.asset_files().items():
            checkpoint_files.write_atomically(os.path.join(self._model_dir, name), text)
        if not self._run_file.has_begun:
            self._run_file.begin()
            hparams.write_start(self._model_dir, self._config)

    @contextlib.contextmanager
    def ended(self) -> Iterator[None]:
        """Write the end of the run, if the block has started it, at the end of the block."""
        try:
            yield
        except BaseException as error:
            # The folder may be gone, or the disk full: that is the error to report.
            with contextlib.suppress(tf.errors.OpError, OSError):
                self._write_end(PREEMPTED if isinstance(error, preemption.Preempted) else FAILED)
            raise
        self._write_end(FINISHED)

    def _write_end(self, status: str) -> None:
        if not self._run_file.has_begun:
            return
        self._run_file.end(status)
        if status != PREEMPTED:  # else the run continues later
            hparams.write_end(self._model_dir, status == FINISHED)


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
