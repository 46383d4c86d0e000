"""Measurement of the start of a run: seconds of its phases up to the first result.

    python -m benchmarks.training.run --phases [--models=ssd_mobilenet_v1,resnet_v1_50]

Each run is a new process, which records the time at the end of each phase. It is compared with a
bare one: the same graph, built by the same functions, in a plain session that initializes the
variables and runs a step; no Estimator, no hooks, no checkpoint. Seconds are by the clock, and of
the processor in the columns called `cpu`; the least of the turns counts.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from typing import Any, Callable, Dict, List

from benchmarks import measuring, recipes
from estimator_lib import tf_estimator

# In their order. What an Estimator and a plain session have both.
TRAINING = ('imports', 'config', 'input', 'network', 'gradients', 'session', 'first_run')
DEFAULT_MODELS = ['ssd_mobilenet_v1', 'resnet_v1_50', 'deeplab_mobilenet_v2']
MODES = ('evaluate', 'export', 'predict')


class Stopwatch:
    """Seconds of phases that follow one another.

    Args:
        started: `time.monotonic` when the process was started.
    """

    def __init__(self, started: float):
        self._last = measuring.Clocks(started, 0.0)
        self.phases: Dict[str, measuring.Clocks] = {}

    def ends(self, phase: str) -> None:
        """End a phase now, and begin the next one."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        now = measuring.Clocks(time.monotonic(), usage.ru_utime + usage.ru_stime)
        before = self.phases.get(phase, measuring.Clocks(0.0, 0.0))
        self.phases[phase] = measuring.Clocks(
            before.wall + now.wall - self._last.wall, before.cpu + now.cpu - self._last.cpu
        )
        self._last = now


def train(watch: Stopwatch, config_path: str) -> None:
    """Train by the engine, as the front door does, until the first step is done."""
    import run_train_eval

    run_train_eval._import_front_door()
    import tensorflow as tf

    from estimator_lib import config as config_lib
    from estimator_lib import training
    from model_fns import build_task

    watch.ends('imports')
    config = config_lib.load_pipeline_config(config_path)
    task = build_task(config)
    watch.ends('config')

    class Phases(tf.compat.v1.train.SessionRunHook):
        def begin(self) -> None:
            watch.ends('gradients')

        def after_create_session(self, session: Any, coord: Any) -> None:
            watch.ends('session')

        def after_run(self, run_context: Any, run_values: Any) -> None:
            watch.ends('first_run')
            run_context.request_stop()

    with tempfile.TemporaryDirectory() as model_dir, training.prepared_model_dir(config, model_dir):
        estimator = training.create_estimator(
            task, config, model_dir, graph_hook_fn=lambda: watch.ends('network')
        )
        input_fn = training.train_input_fn(task, config)

        def timed_input(input_context: Any = None, config: Any = None) -> Any:
            watch.ends('session')  # what an Estimator does before it has a graph
            batch = input_fn(input_context, config)
            watch.ends('input')
            return batch

        estimator.train(timed_input, hooks=[Phases()], max_steps=1)
        watch.ends('end')


def train_bare(watch: Stopwatch, config_path: str) -> None:
    """Train the same graph in a plain session."""
    import run_train_eval

    run_train_eval._import_front_door()
    import tensorflow as tf

    from estimator_lib import building, model_fn, training
    from estimator_lib import config as config_lib
    from model_fns import build_task

    watch.ends('imports')
    config = config_lib.load_pipeline_config(config_path)
    task = build_task(config)
    watch.ends('config')
    tf1 = tf.compat.v1
    with tf.Graph().as_default():
        tf1.set_random_seed(config.train_config.random_seed)
        tf1.train.create_global_step()
        features, labels = training.train_input_fn(task, config)()
        watch.ends('input')
        build = model_fn.create_model_fn(task, config, lambda: watch.ends('network'))
        spec = build(features, labels, tf_estimator.ModeKeys.TRAIN)
        watch.ends('gradients')
        with tf1.Session(config=building.create_session_config()) as session:
            measuring.initialize(session)
            watch.ends('session')
            session.run(spec.train_op)
            watch.ends('first_run')


def import_tensorflow(watch: Stopwatch, config_path: str) -> None:
    """Import TensorFlow alone."""
    del config_path
    import tensorflow

    assert tensorflow.__version__
    watch.ends('imports')


_SIDES: Dict[str, Callable[[Stopwatch, str], None]] = {
    'engine': train,
    'bare': train_bare,
    'tensorflow': import_tensorflow,
}


def measure_side(side: str, config_path: str) -> Dict[str, List[float]]:
    """Measure the phases of a new process: (wall seconds, processor seconds) by name."""
    return measuring.run_apart(
        'benchmarks.training.phases', [side, config_path, str(time.monotonic())]
    )


def measure(names: List[str], turns: int) -> Dict[str, float]:
    """Return the least seconds of each phase of each model, measured alternately."""
    results: Dict[str, float] = {}
    for name, path, found in recipes.measure_alternating(names, _SIDES, turns, measure_side):
        results.update(_summary(name, found))
        results.update(measure_modes(name, path, os.path.dirname(path), turns))
    return results


def _summary(name: str, found: Dict[str, List[Dict[str, List[float]]]]) -> Dict[str, float]:
    """Compute the least seconds of the phases and of their sum, and the ratio of both sides."""
    results: Dict[str, float] = {}
    for side, runs in found.items():
        phases = [phase for phase in TRAINING if phase in runs[0]]
        for index, clock in enumerate(('', '_cpu')):
            for phase in phases:
                results[f'{name}/{side}/{phase}{clock}'] = min(run[phase][index] for run in runs)
            results[f'{name}/{side}/all{clock}'] = min(
                sum(run[phase][index] for phase in phases) for run in runs
            )
    for clock in ('', '_cpu'):
        ratio = results[f'{name}/engine/all{clock}'] / results[f'{name}/bare/all{clock}']
        results[f'{name}/engine_over_bare{clock}'] = ratio
    return results


def measure_modes(name: str, config_path: str, folder: str, turns: int) -> Dict[str, float]:
    """Return seconds of whole processes of the other modes, on a few images."""
    model_dir = os.path.join(folder, 'model')
    door = measuring.front_door('--verbosity=-1')
    model = [f'--model_dir={model_dir}', f'--pipeline_config_path={config_path}']
    few = ['--config_override=eval_config { num_examples: 8 batch_size: 8 }']
    measuring.run_process([*door, *model, '--mode=train', '--num_train_steps=1'])
    exports = os.path.join(folder, 'export')
    images = os.path.join(folder, 'images')
    _write_image(images)
    commands = {
        'evaluate': [*door, *model, *few, '--mode=evaluate'],
        'export': [*door, *model, '--mode=export', f'--export_dir={exports}'],
        'predict': [
            *door, '--mode=predict', f'--saved_model_dir={exports}', f'--images={images}',
            f'--output_dir={os.path.join(folder, "predicted")}',
        ],
    }  # fmt: skip
    results: Dict[str, float] = {}
    for mode, command in commands.items():
        times = [measuring.run_process(command) for _ in range(turns)]
        results[f'{name}/{mode}'], results[f'{name}/{mode}_cpu'] = measuring.least(times)
    return results


def _write_image(folder: str) -> None:
    import numpy as np
    from PIL import Image

    os.mkdir(folder)
    pixels = np.random.default_rng(1).integers(0, 256, [240, 320, 3], np.uint8)
    Image.fromarray(pixels).save(os.path.join(folder, 'one.jpg'))


def main() -> None:
    """Run one side in this process; see `measure_side`."""
    side, config_path, started = sys.argv[1:]
    watch = Stopwatch(float(started))
    from estimator_lib import logs

    logs.configure(30)
    _SIDES[side](watch, config_path)
    print(json.dumps(watch.phases))


if __name__ == '__main__':
    main()
