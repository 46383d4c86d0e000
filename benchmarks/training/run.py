"""Measurement of the engine: start-up, steps, input, memory; as a table and as JSON.

    python -m benchmarks.training.run [--pipeline_config_path=FILE] [--output=FILE]
    python -m benchmarks.training.run --phases [--models=ssd_mobilenet_v1,resnet_v1_50]

Without a config it measures the embedded demo. Machines are noisy: compared sides are measured
alternately within one process, and medians over the turns are given.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from typing import Dict

from benchmarks import measuring, recipes
from benchmarks.training import phases


def measure_steps(config_path: str, steps: int, turns: int) -> Dict[str, float]:
    """Measure steps/s of the Estimator, and of a plain `session.run` loop on the same graph."""
    from estimator_lib import config as config_lib
    from model_fns import build_task

    config = config_lib.load_pipeline_config(config_path)
    task = build_task(config)

    def measure_bare() -> float:
        with measuring.training_session(task, config) as (session, spec):
            return measuring.runs_per_second(session, spec.train_op, steps)

    sides = {'engine': lambda: measuring.engine_rate(config, steps), 'bare': measure_bare}
    rates = measuring.alternate(sides, turns)
    ratios = [engine / bare for engine, bare in zip(*rates.values())]
    median = {side: statistics.median(values) for side, values in rates.items()}
    return {
        'engine_steps_per_second': median['engine'],
        'bare_steps_per_second': median['bare'],
        'engine_over_bare': statistics.median(ratios),
        'examples_per_second': median['engine'] * config.train_config.batch_size,
    }


def _demo_config() -> str:
    from model_fns.datasets import demo

    path = os.path.join(tempfile.mkdtemp(), 'pipeline.config')
    with open(path, 'w') as file:
        file.write(demo.demo_pipeline_text())
    return path


def main() -> None:
    parser = measuring.create_parser(__doc__, 'training')
    parser.add_argument('--pipeline_config_path', help='left out: the embedded demo')
    parser.add_argument('--steps', type=int, default=60, help='timed steps of each turn')
    parser.add_argument(
        '--phases', action='store_true', help='instead: the start of a run, phase by phase'
    )
    recipes.add_arguments(parser, phases.DEFAULT_MODELS)
    arguments = parser.parse_args()
    measuring.quiet()
    if arguments.phases:
        measuring.report(phases.measure(arguments.models, arguments.turns), arguments.output)
        return
    config_path = arguments.pipeline_config_path or _demo_config()
    results: Dict[str, float] = {}
    results.update(measuring.measure_start(config_path, arguments.turns))
    results.update(measure_steps(config_path, arguments.steps, arguments.turns))
    results.update(measuring.measure_input(config_path, arguments.steps))
    results['benchmark_peak_memory_mib'] = measuring.peak_memory_mib()
    measuring.report(results, arguments.output)


if __name__ == '__main__':
    main()
