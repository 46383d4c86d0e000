"""What all measurements share: a quiet TensorFlow, stopwatches, tables."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import tempfile
import time
from typing import Any, Iterator, Mapping, NamedTuple, Tuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def quiet() -> None:
    """No lines of a run's progress."""
    from estimator_lib import logs

    logs.configure(logging.WARNING)


class Clocks(NamedTuple):
    """Seconds since some moment: by the clock, and of this process's threads."""

    wall: float
    cpu: float


def clocks() -> Clocks:
    """The time."""
    return Clocks(time.perf_counter(), time.process_time())


def runs_per_second(session: Any, fetches: Any, runs: int) -> float:
    """The rate of the second half of `2 * runs` runs of a session; the first warms up."""
    for index in range(2 * runs):
        if index == runs:
            started = time.perf_counter()
        session.run(fetches)
    return runs / (time.perf_counter() - started)


def seconds_per_run(session: Any, fetches: Any, runs: int) -> Clocks:
    """What one run of a session takes, by both clocks, the mean of some runs."""
    started = clocks()
    for _ in range(runs):
        session.run(fetches)
    return Clocks(*((end - start) / runs for start, end in zip(started, clocks())))


def create_timer(steps: int) -> Any:
    """A hook that times the second half of `2 * steps` steps."""
    import tensorflow as tf

    class Timer(tf.compat.v1.train.SessionRunHook):
        count = 0
        started = 0.0
        steps_per_second = 0.0

        def after_run(self, run_context: Any, run_values: Any) -> None:
            self.count += 1
            if self.count == steps:
                self.started = time.perf_counter()
            if self.count == 2 * steps:
                self.steps_per_second = steps / (time.perf_counter() - self.started)

    return Timer()


@contextlib.contextmanager
def training_session(task: Any, config: Any) -> Iterator[Tuple[Any, Any]]:
    """A task's training graph, initialised, in a plain session.

    Args:
        task: what is trained.
        config: `TrainEvalPipelineConfig`.

    Yields:
        The session and the `EstimatorSpec`; its graph is the default one.
    """
    import tensorflow as tf

    from estimator_lib import model_fn, training

    tf1 = tf.compat.v1
    with tf.Graph().as_default(), tempfile.TemporaryDirectory() as model_dir:
        tf1.set_random_seed(config.train_config.random_seed)
        tf1.train.create_global_step()
        features, labels = training.train_input_fn(task, config)()
        run_config = training.create_run_config(config, model_dir)
        spec = model_fn.create_model_fn(task, config)(
            features, labels, tf.estimator.ModeKeys.TRAIN, {}, run_config
        )
        with tf1.Session(config=run_config.session_config) as session:
            initialize(session)
            yield session, spec


def initialize(session: Any) -> None:
    """Gives all variables and tables of a session's graph their first values."""
    import tensorflow as tf

    tf1 = tf.compat.v1
    session.run(tf1.global_variables_initializer())
    session.run([tf1.local_variables_initializer(), tf1.tables_initializer()])


def peak_memory_mib(pid: Any = 'self') -> float:
    """High-water mark of a living process's resident memory, in MiB."""
    with open(f'/proc/{pid}/status') as status:
        for line in status:
            if line.startswith('VmHWM'):
                return int(line.split()[1]) / 1024
    return float('nan')


def forget_peak_memory() -> None:
    """Lets `peak_memory_mib` of this process start again from what it holds now."""
    with open('/proc/self/clear_refs', 'w') as file:
        file.write('5')


def report(results: Mapping[str, Any], path: str) -> None:
    """Prints a table, and writes the same as JSON."""
    for name, value in results.items():
        print(f'{name:34s} {value:12.3f}' if isinstance(value, float) else f'{name:34s} {value}')
    with open(path, 'w') as file:
        json.dump(dict(results), file, indent=2)
