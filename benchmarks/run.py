"""Measures the engine: start-up, steps, input, memory. Prints a table and writes JSON.

    python -m benchmarks.run [--pipeline_config_path=FILE] [--output=benchmark.json]

Without a config it measures the embedded demo. Machines are noisy: what is compared is measured in
turns within one process, and medians over the turns are given.
"""

from __future__ import annotations

import argparse
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
from typing import Any, Dict, List, Mapping

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def measure_start(config_path: str, repeats: int) -> Dict[str, float]:
    """Seconds from process start to the first finished step, and the process's peak memory."""
    seconds, memory = [], []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as model_dir:
            started = time.monotonic()
            process = subprocess.Popen(
                [
                    sys.executable,
                    os.path.join(ROOT, 'run_train_eval.py'),
                    f'--model_dir={model_dir}',
                    f'--pipeline_config_path={config_path}',
                    '--num_train_steps=2',
                    '--mode=train',
                ],
                stderr=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                text=True,
            )
            for line in process.stderr:
                if re.search(r'\bstep 1/', line):
                    seconds.append(time.monotonic() - started)
                    memory.append(_peak_memory_of(process.pid))
            if process.wait() != 0 or not memory:
                raise RuntimeError(f'the run ended with status {process.returncode}')
    return {
        'start_to_first_step_seconds': statistics.median(seconds),
        'peak_memory_mib': statistics.median(memory),
    }


def _peak_memory_of(pid: int) -> float:
    """High-water mark of a living process's resident memory, in MiB."""
    with open(f'/proc/{pid}/status') as status:
        for line in status:
            if line.startswith('VmHWM'):
                return int(line.split()[1]) / 1024
    return float('nan')


def measure_steps(config_path: str, steps: int, turns: int) -> Dict[str, float]:
    """Steps/s of the Estimator, and of a bare `session.run` loop on the same graph and input."""
    import tensorflow as tf

    from estimator_lib import config as config_lib
    from estimator_lib import training
    from model_fns import build_task

    config = config_lib.load_pipeline_config(config_path)
    task = build_task(config)
    engine: List[float] = []
    bare: List[float] = []
    for _ in range(turns):
        with tempfile.TemporaryDirectory() as model_dir:
            estimator = training.create_estimator(task, config, model_dir)
            timer = create_timer(steps)
            estimator.train(
                training.train_input_fn(task, config), max_steps=2 * steps, hooks=[timer]
            )
            engine.append(timer.steps_per_second)
        with tempfile.TemporaryDirectory() as model_dir, tf.Graph().as_default():
            bare.append(_bare_steps_per_second(task, config, model_dir, steps))
    ratios = [of_engine / of_bare for of_engine, of_bare in zip(engine, bare)]
    return {
        'engine_steps_per_second': statistics.median(engine),
        'bare_steps_per_second': statistics.median(bare),
        'engine_over_bare': statistics.median(ratios),
        'examples_per_second': statistics.median(engine) * config.train_config.batch_size,
    }


def _bare_steps_per_second(task: Any, config: Any, model_dir: str, steps: int) -> float:
    """The second half of `2 * steps` runs of the train op in a plain session."""
    import tensorflow as tf

    from estimator_lib import model_fn, training

    tf1 = tf.compat.v1
    tf1.set_random_seed(config.train_config.random_seed)
    tf1.train.create_global_step()
    features, labels = training.train_input_fn(task, config)()
    spec = model_fn.create_model_fn(task, config)(
        features,
        labels,
        tf.estimator.ModeKeys.TRAIN,
        {},
        training.create_run_config(config, model_dir),
    )
    session_config = training.create_session_config(config.train_config.use_bfloat16)
    with tf1.Session(config=session_config) as session:
        session.run(tf1.global_variables_initializer())
        session.run([tf1.local_variables_initializer(), tf1.tables_initializer()])
        for step in range(2 * steps):
            if step == steps:
                started = time.perf_counter()
            session.run(spec.train_op)
        return steps / (time.perf_counter() - started)


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


def measure_input(config_path: str, batches: int) -> Dict[str, float]:
    """Examples/s of the training input alone."""
    import tensorflow as tf

    from estimator_lib import config as config_lib
    from estimator_lib import inputs, training
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
            session.run(tf1.global_variables_initializer())
            session.run([tf1.local_variables_initializer(), tf1.tables_initializer()])
            for batch in range(2 * batches):
                if batch == batches:
                    started = time.perf_counter()
                session.run(fetched)
            seconds = time.perf_counter() - started
    return {'input_examples_per_second': batches * config.train_config.batch_size / seconds}


def _demo_config() -> str:
    from model_fns.datasets import demo

    path = os.path.join(tempfile.mkdtemp(), 'pipeline.config')
    with open(path, 'w') as file:
        file.write(demo.demo_pipeline_text())
    return path


def quiet() -> None:
    """No lines of TensorFlow's build, and none of a run's progress."""
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
    from estimator_lib import logs

    logs.configure(logging.WARNING)


def report(results: Mapping[str, Any], path: str) -> None:
    """Prints a table, and writes the same as JSON."""
    for name, value in results.items():
        print(f'{name:34s} {value:12.3f}' if isinstance(value, float) else f'{name:34s} {value}')
    with open(path, 'w') as file:
        json.dump(dict(results), file, indent=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--pipeline_config_path', help='left out: the embedded demo')
    parser.add_argument('--output', default='benchmark.json', help='where the JSON goes')
    parser.add_argument('--steps', type=int, default=60, help='timed steps of each turn')
    parser.add_argument('--turns', type=int, default=3, help='how often each side is measured')
    arguments = parser.parse_args()
    quiet()
    config_path = arguments.pipeline_config_path or _demo_config()
    results: Dict[str, float] = {}
    results.update(measure_start(config_path, arguments.turns))
    results.update(measure_steps(config_path, arguments.steps, arguments.turns))
    results.update(measure_input(config_path, arguments.steps))
    results['benchmark_peak_memory_mib'] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    report(results, arguments.output)


if __name__ == '__main__':
    main()
