"""Time of a training step on this machine, for runs that are given minutes."""

from __future__ import annotations

import tempfile
import time
from typing import Any, List

import numpy as np

from estimator_lib import building, tf_estimator
from estimator_lib.data import inputs
from estimator_lib.task import Task
from protos import input_reader_pb2, pipeline_pb2

SECONDS = 20.0  # of measuring
_WARM_UP = 6  # steps in which kernels are chosen and examples are decoded for the first time
_MOST_STEPS = 300
_EXAMPLES = 4  # batches that are trained on: decoding belongs to the first epoch only
_NEVER = 1_000_000


class _StepTimer(tf_estimator.SessionRunHook):
    """Hook that times steps, and ends training after some seconds."""

    def __init__(self, seconds: float):
        self.ends: List[float] = []
        self._seconds = seconds

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Note the time, and ask for the end when the seconds are over."""
        self.ends.append(time.perf_counter())
        timed = self.ends[_WARM_UP:]
        if timed and timed[-1] - timed[0] >= self._seconds:
            run_context.request_stop()


def measure(task: Task, config: pipeline_pb2.TrainEvalPipelineConfig) -> float:
    """Train for `SECONDS` in a folder of its own, and return the seconds of a step.

    It is the median of the steps, so that a moment of other work counts little.

    Args:
        task: the task of the config.
        config: a valid pipeline config; its number of steps does not matter.
    """
    short = pipeline_pb2.TrainEvalPipelineConfig()
    short.CopyFrom(config)
    train = short.train_config
    train.num_steps = _WARM_UP + _MOST_STEPS
    train.checkpoints.save_every_n_steps = _NEVER
    for name in ('fine_tune_checkpoint', 'repeat_factor_threshold'):
        train.ClearField(name)
    reader = short.train_input_reader
    reader.ClearField('num_epochs')
    count = inputs.count_records(inputs.input_files(reader))
    reader.sample_1_of_n_examples = max(1, count // (_EXAMPLES * train.batch_size))
    if reader.cache == input_reader_pb2.InputReader.NONE:
        reader.cache = input_reader_pb2.InputReader.MEMORY
    timer = _StepTimer(SECONDS)
    with tempfile.TemporaryDirectory() as folder:
        building.create_estimator(task, short, folder).train(
            building.train_input_fn(task, short), hooks=[timer], max_steps=train.num_steps
        )
    return float(np.median(np.diff(timer.ends[_WARM_UP:])))
