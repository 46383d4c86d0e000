"""Shared parts of all measurements: arguments, stopwatches, processes, tables."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
)

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
T = TypeVar('T')


def create_parser(doc: Optional[str], output: str) -> argparse.ArgumentParser:
    """Return a parser of a command's arguments, with `--output`.

    Args:
        doc: of the command's module, whose first line describes it.
        output: the file of its results, without `benchmark_` and `.json`.
    """
    parser = argparse.ArgumentParser(description=(doc or '').partition('\n')[0])
    path = f'benchmark_{output}.json'
    parser.add_argument('--output', default=path, help='where the JSON goes')
    return parser


def names_of(known: Sequence[str]) -> Callable[[str], List[str]]:
    """Return a type of arguments: some known names, separated by commas."""

    def read(text: str) -> List[str]:
        names = text.split(',')
        unknown = sorted(set(names) - set(known))
        if unknown:
            raise argparse.ArgumentTypeError(
                f'{", ".join(unknown)}; expected some of {", ".join(known)}'
            )
        return names

    return read


def quiet() -> None:
    """Turn the progress lines of runs off."""
    from estimator_lib import logs

    logs.configure(logging.WARNING)


class Clocks(NamedTuple):
    """Seconds by the clock, and of the processor by all threads of a process."""

    wall: float
    cpu: float


def clocks() -> Clocks:
    """Return the time."""
    return Clocks(time.perf_counter(), time.process_time())


def timed(run: Callable[[], Any]) -> Clocks:
    """Return the time that a call takes."""
    started = clocks()
    run()
    return Clocks(*(end - start for start, end in zip(started, clocks())))


def least(times: Sequence[Sequence[float]]) -> Clocks:
    """Return the least of each clock."""
    return Clocks(*map(min, zip(*times)))


def alternate(sides: Mapping[str, Callable[[], T]], turns: int) -> Dict[str, List[T]]:
    """Call functions one after the other, so that each has what else the machine does.

    Args:
        sides: the functions, by name.
        turns: how often each is called.

    Returns:
        What each function returned, turn by turn.
    """
    results: Dict[str, List[T]] = {name: [] for name in sides}
    for _ in range(turns):
        for name, run in sides.items():
            results[name].append(run())
    return results


def repeated(session: Any, fetches: Any, runs: int) -> Callable[[], None]:
    """Return a function that runs a session so many times."""

    def run() -> None:
        for _ in range(runs):
            session.run(fetches)

    return run


def seconds_per_run(session: Any, fetches: Any, runs: int) -> Clocks:
    """Return the mean time of a run of a session, by both clocks."""
    return Clocks(*(each / runs for each in timed(repeated(session, fetches, runs))))


def runs_per_second(session: Any, fetches: Any, runs: int) -> float:
    """Return the rate of the second half of `2 * runs` runs of a session; the first warms up."""
    return 1 / [seconds_per_run(session, fetches, runs) for _ in range(2)][1].wall


def engine_rate(config: Any, steps: int) -> float:
    """Measure steps/s of a training run, after as many steps to warm up.

    Args:
        config: `TrainEvalPipelineConfig`.
        steps: the number of timed steps.
    """
    from estimator_lib import training
    from model_fns import build_task

    task = build_task(config)
    with tempfile.TemporaryDirectory() as model_dir:
        estimator = training.create_estimator(task, config, model_dir)
        timer = create_timer(steps)
        estimator.train(training.train_input_fn(task, config), max_steps=2 * steps, hooks=[timer])
    return timer.steps_per_second


def create_timer(steps: int) -> Any:
    """Return a hook that times the second half of `2 * steps` steps."""
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


def set_threads(session_config: Any, threads: int) -> Any:
    """Set the number of threads in session options.

    `tf.config.threading` has no effect on sessions that are created with options. A process has one
    pool of threads, and its first session determines the size.

    Args:
        session_config: `tf.compat.v1.ConfigProto`; changed in place, and returned.
        threads: of an op; ops then run one at a time. 0: as TensorFlow chooses.
    """
    if threads:
        session_config.intra_op_parallelism_threads = threads
        session_config.inter_op_parallelism_threads = 1
    return session_config


@contextlib.contextmanager
def training_session(
    task: Any, config: Any, threads: int = 0, input_fn: Optional[Callable[[], Any]] = None
) -> Iterator[Tuple[Any, Any]]:
    """Yield a plain session of a task's training graph, initialized.

    Args:
        task: the task to train.
        config: `TrainEvalPipelineConfig`.
        threads: see `set_threads`.
        input_fn: returns features and labels; None: those of the config's reader.

    Yields:
        The session and the `EstimatorSpec`; its graph is the default one.
    """
    import tensorflow as tf

    from estimator_lib import model_fn, tf_estimator, training
    from estimator_lib.distribution import mixed_precision

    tf1 = tf.compat.v1
    with tf.Graph().as_default() as graph, tempfile.TemporaryDirectory() as model_dir:
        tf1.set_random_seed(config.train_config.random_seed)
        tf1.train.create_global_step()
        features, labels = (input_fn or training.train_input_fn(task, config))()
        run_config = training.create_run_config(config, model_dir)
        spec = model_fn.create_model_fn(task, config)(
            features, labels, tf_estimator.ModeKeys.TRAIN, {}, run_config
        )
        session_config = set_threads(run_config.session_config, threads)
        # A plain session runs no hooks, and one of them applies the choice of float32 ops.
        mixed_precision.apply(graph)
        try:
            with tf1.Session(config=session_config) as session:
                initialize(session, spec.scaffold.init_feed_dict)
                yield session, spec
        finally:
            mixed_precision.restore()


def initialize(session: Any, feed: Optional[Mapping[Any, Any]] = None) -> None:
    """Give all variables and tables of a session's graph their initial values.

    Args:
        session: of the graph.
        feed: what the engine feeds to that end, where it does.
    """
    import tensorflow as tf

    tf1 = tf.compat.v1
    session.run(tf1.global_variables_initializer(), feed)
    session.run([tf1.local_variables_initializer(), tf1.tables_initializer()])


class ProcessError(RuntimeError):
    """Failure of a process that was started for a measurement.

    Args:
        what: became of it.
        said: its lines on stderr.
    """

    def __init__(self, what: str, said: Sequence[str] = ()):
        super().__init__('\n'.join([what, *said[-10:]]))
        self.summary = ': '.join([what, *said[-1:]])


def run_apart(
    module: str,
    arguments: Sequence[str],
    timeout: Optional[float] = None,
    python: str = sys.executable,
    variables: Optional[Mapping[str, str]] = None,
) -> Any:
    """Run a module's command in a new process, whose memory nothing else has used.

    Args:
        module: its whole name, such as 'benchmarks.steps'.
        arguments: of the command.
        timeout: seconds that it may take; None: as many as it wants.
        python: that runs it.
        variables: added to the environment.

    Returns:
        What the last line that it prints says in JSON.

    Raises:
        ProcessError: it took longer, or ended with another status than 0.
    """
    environment = {
        **os.environ,
        'TF_CPP_MIN_LOG_LEVEL': '3',
        'PYTHONPATH': ROOT,
        **(variables or {}),
    }
    command = [python, '-m', module, *arguments]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=timeout
        )
    except subprocess.TimeoutExpired:
        raise ProcessError(f'not done after {timeout:g} s') from None
    if done.returncode:
        raise ProcessError(f'status {done.returncode}', done.stderr.strip().splitlines())
    return json.loads(done.stdout.splitlines()[-1])


def run_process(command: Sequence[str], **options: Any) -> Clocks:
    """Run a command; return the time that it and its children take.

    Args:
        command: program and arguments.
        options: of `subprocess.run`; without them what the command prints to stdout is dropped.

    Raises:
        subprocess.CalledProcessError: the command failed.
    """
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, check=True, **(options or {'stdout': subprocess.DEVNULL}))
    wall, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Clocks(wall, cpu)


def front_door(*flags: str) -> List[str]:
    """Return the command of the front door."""
    return [sys.executable, os.path.join(ROOT, 'run_train_eval.py'), *flags]


class Reached(NamedTuple):
    """A reported step of a run.

    Attributes:
        seconds: since the process was started.
        peak_memory_mib: of the process so far.
    """

    seconds: float
    peak_memory_mib: float


def train_apart(config_path: str, flags: Sequence[str]) -> Dict[int, Reached]:
    """Train a model by the front door, in a process and a folder of its own.

    Args:
        config_path: of the model.
        flags: of the front door, beside those that name the config, the mode and the folder.

    Returns:
        The steps that the run reported, by their numbers.

    Raises:
        ProcessError: the run failed.
    """
    found: Dict[int, Reached] = {}
    said: List[str] = []
    with tempfile.TemporaryDirectory() as model_dir:
        started = time.monotonic()
        process = subprocess.Popen(
            front_door(
                f'--model_dir={model_dir}',
                f'--pipeline_config_path={config_path}',
                '--mode=train',
                *flags,
            ),
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        for line in process.stderr:
            seconds = time.monotonic() - started
            said.append(line.rstrip())
            step = re.search(r'\bstep (\d+)/', line)
            if step:
                found[int(step[1])] = Reached(seconds, peak_memory_mib(process.pid))
        if process.wait():
            raise ProcessError(f'status {process.returncode}', said)
    return found


def measure_start(config_path: str, repeats: int) -> Dict[str, float]:
    """Measure seconds from process start to the first finished step, and the peak memory."""
    first = [train_apart(config_path, ['--num_train_steps=2'])[1] for _ in range(repeats)]
    return {
        'start_to_first_step_seconds': statistics.median(one.seconds for one in first),
        'peak_memory_mib': statistics.median(one.peak_memory_mib for one in first),
    }


def measure_input(config_path: str, batches: int) -> Dict[str, float]:
    """Measure examples/s of the training input alone."""
    import tensorflow as tf

    from estimator_lib import config as config_lib
    from estimator_lib import training
    from estimator_lib.data import inputs
    from model_fns import build_task

    tf1 = tf.compat.v1
    config = config_lib.load_pipeline_config(config_path)
    task = build_task(config)
    with tf.Graph().as_default():
        tf1.train.create_global_step()
        features, labels = training.train_input_fn(task, config)()
        features, _ = inputs.pop_reader_state(features)
        fetched = tf.group(*tf.nest.flatten([features, labels]))
        with tf1.Session() as session:
            initialize(session)
            rate = runs_per_second(session, fetched, batches)
    return {'input_examples_per_second': rate * config.train_config.batch_size}


def peak_memory_mib(pid: Any = 'self') -> float:
    """Return the high-water mark of a running process's resident memory, in MiB."""
    with open(f'/proc/{pid}/status') as status:
        for line in status:
            if line.startswith('VmHWM'):
                return int(line.split()[1]) / 1024
    return float('nan')


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ['---'] * len(head), *rows]
    return '\n'.join(f'| {" | ".join(cells)} |' for cells in lines)


def report(results: Mapping[str, Any], path: str) -> None:
    """Print a table, and write the same as JSON."""
    for name, value in results.items():
        print(f'{name:34s} {value:12.3f}' if isinstance(value, float) else f'{name:34s} {value}')
    with open(path, 'w') as file:
        json.dump(dict(results), file, indent=2)
