"""Measurement of a whole training step of several models, in float32 and with `use_bfloat16`.

    python -m benchmarks.steps [--models=resnet_v1_50,mobilenet_v2] [--turns=2]

The step is the engine's with all that it reads, in a plain session, see `benchmarks.recipes` for
models and batches. Each side runs in a process of its own, alternately; the least of all is
printed, by the clock and of the processor.
"""

from __future__ import annotations

import argparse
import json
from typing import Any, Dict, List

from benchmarks import measuring, recipes

DTYPES = ('float32', 'bfloat16')
DEFAULT_MODELS = [
    'ssd_mobilenet_v1',
    'ssdlite_mobilenet_v3_large',
    'mobilenet_v2',
    'resnet_v1_50',
    'deeplab_mobilenet_v3_large',
    'retinanet_resnet50',
]
_WARM_UP = 3
_RUNS = 4  # of which the least counts
_STEPS = 3  # of each


def measure_side(config: Any) -> measuring.Clocks:
    """Return seconds of a step in this process."""
    from model_fns import build_task

    with measuring.training_session(build_task(config), config) as (session, spec):
        measuring.seconds_per_run(session, spec.train_op, _WARM_UP)
        runs = [measuring.seconds_per_run(session, spec.train_op, _STEPS) for _ in range(_RUNS)]
    return least(runs)


def least(runs: List[measuring.Clocks]) -> measuring.Clocks:
    """Return the least of each clock."""
    return measuring.Clocks(*map(min, zip(*runs)))


def measure(names: List[str], turns: int) -> Dict[str, float]:
    """Return seconds of all sides, and bfloat16's by the clock over float32's."""
    results: Dict[str, float] = {}
    for name, _, found in recipes.measure_alternating(names, DTYPES, turns, _measure_apart):
        for dtype, runs in found.items():
            results[f'{name}/{dtype}'], results[f'{name}/{dtype}_cpu'] = least(runs)
        results[f'{name}/ratio'] = results[f'{name}/bfloat16'] / results[f'{name}/float32']
    return results


def _measure_apart(dtype: str, config_path: str) -> List[float]:
    return measuring.run_apart('steps', [f'--side={dtype}', f'--config={config_path}'])


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    recipes.add_arguments(parser, DEFAULT_MODELS)
    parser.add_argument('--turns', type=int, default=2, help='processes of each side')
    parser.add_argument('--output', default='benchmark_steps.json', help='where the JSON goes')
    parser.add_argument('--side', choices=DTYPES, help='one side, in this process')
    parser.add_argument('--config', help='of that side')
    arguments = parser.parse_args()
    measuring.quiet()
    if not arguments.side:
        measuring.report(measure(arguments.models, arguments.turns), arguments.output)
        return
    from estimator_lib import config as config_lib

    config = config_lib.load_pipeline_config(arguments.config)
    config.train_config.use_bfloat16 = arguments.side == 'bfloat16'
    print(json.dumps(measure_side(config)))


if __name__ == '__main__':
    main()
