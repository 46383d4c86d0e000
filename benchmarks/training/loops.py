"""Measurement of both training loops: process start to first step, steps/s, memory.

    python -m benchmarks.training.loops [--steps=60] [--turns=3] \
        [--tasks=classification,detection] [--replicas=1] [--output=benchmark_loops.json]

The front door trains on the embedded demo, each time in a process of its own, by one loop and then
by the other; medians over the turns are given. Steps/s are those of the second half of the steps.
The models are the demo's for classification and detection, and the configs `demo_mask_rcnn` (two
stages, masks) and `demo_masks` (segmentation). With `--replicas=2` as many on the processor share
each batch.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from typing import Any, Dict, List, Sequence

from benchmarks import measuring, pipelines

LOOPS = ('ESTIMATOR', 'TF_FUNCTION')
# What each task trains: a demo of the package, or one of its configs.
_CONFIGS = {
    'classification': '',
    'detection': '',
    'two_stage': 'demo_mask_rcnn',
    'segmentation': 'demo_masks',
}


def write_config(task: str) -> str:
    """Write the config of a task on the embedded demo; return its path."""
    from google.protobuf import text_format

    from estimator_lib import config as config_lib
    from model_fns.cli import builtin_configs
    from model_fns.datasets import demo
    from protos import pipeline_pb2

    if _CONFIGS[task]:
        config = config_lib.load_pipeline_config(
            builtin_configs.resolve(f'builtin:{_CONFIGS[task]}')
        )
        pipelines.read_demo(config)
    else:
        config = text_format.Parse(
            demo.demo_pipeline_text(task), pipeline_pb2.TrainEvalPipelineConfig()
        )
    return config_lib.save_pipeline_config(config, tempfile.mkdtemp())


def measure(config_path: str, steps: int, settings: Sequence[str]) -> Dict[str, float]:
    """Measure one run in a process of its own.

    Args:
        config_path: of the model.
        steps: how many, at least 4.
        settings: fields of the config, as `--set` takes them.
    """
    half = steps // 2
    settings = [
        *settings,
        f'train_config.num_steps={2 * half}',
        f'train_config.progress.every_n_steps={half}',
        'train_config.progress.summary_every_n_steps=0',
    ]
    reached = measuring.train_apart(config_path, [f'--set={one}' for one in settings])
    first, middle, last = (reached[number] for number in (1, half, 2 * half))
    return {
        'first_step_seconds': first.seconds,
        'steps_per_second': half / (last.seconds - middle.seconds),
        'peak_memory_mib': last.peak_memory_mib,
    }


def replica_settings(count: int) -> List[str]:
    """Return the fields by which so many replicas on the processor share each batch."""
    if count == 1:
        return []
    fields = ('mode=MIRRORED', f'num_clones={count}', 'clone_on_cpu=true')
    return [f'train_config.cluster.{field}' for field in fields]


def compare(
    config_path: str, steps: int, turns: int, settings: Sequence[str] = ()
) -> Dict[str, float]:
    """Return medians of both loops, alternating; for `settings` see `measure`."""
    found: Dict[str, List[float]] = {}
    for _ in range(turns):
        for loop in LOOPS:
            measured = measure(config_path, steps, [f'train_config.loop={loop}', *settings])
            print(loop, measured, flush=True)
            for name, value in measured.items():
                found.setdefault(f'{loop.lower()}_{name}', []).append(value)
    return {name: statistics.median(values) for name, values in found.items()}


def main() -> None:
    """Run what the flags ask for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--steps', type=int, default=60)
    parser.add_argument('--turns', type=int, default=3)
    parser.add_argument('--replicas', type=int, default=1)
    parser.add_argument('--tasks', default=','.join(_CONFIGS))
    parser.add_argument('--output', default='benchmark_loops.json')
    options = parser.parse_args()
    if options.steps < 4:
        parser.error(f'--steps is {options.steps}; expected at least 4')
    if options.replicas < 1:
        parser.error(f'--replicas is {options.replicas}; expected at least 1')
    settings = replica_settings(options.replicas)
    measuring.quiet()
    results: Dict[str, Any] = {}
    for task in options.tasks.split(','):
        path = write_config(task)
        for name, value in compare(path, options.steps, options.turns, settings).items():
            results[f'{task}_{name}'] = value
    measuring.report(results, options.output)


if __name__ == '__main__':
    main()
