"""Measurement of a whole training step of several models, in float32 and with `use_bfloat16`.

    python -m benchmarks.steps [--models=resnet_v1_50,mobilenet_v2] [--turns=3] [--batch_size=1]
    python -m benchmarks.steps --sides=float32,tensorflow_kernels

The step is the engine's with all that it reads, in a plain session, see `benchmarks.recipes` for
models and batches. Each side runs in a process of its own, alternately; the least of all is
printed, by the clock and of the processor.
"""

from __future__ import annotations

import argparse
import json
from typing import Any, Dict, List

from benchmarks import measuring, recipes
from estimator_lib import environment

DTYPES = ('float32', 'bfloat16')
# Float32 without oneDNN's kernels.
OWN_KERNELS = 'tensorflow_kernels'
SIDES = (*DTYPES, OWN_KERNELS)
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
    return measuring.least(runs)


def measure(
    names: List[str], sides: List[str], turns: int, batch_size: int = 0
) -> Dict[str, float]:
    """Return seconds of two sides, and the second's by the clock over the first's.

    Args:
        names: of recipes.
        sides: two of `SIDES`.
        turns: processes of each side.
        batch_size: images of a step; 0: the recipe's.
    """
    results: Dict[str, float] = {}
    for name, _, found in recipes.measure_alternating(
        names, sides, turns, _measure_apart, batch_size
    ):
        for side, runs in found.items():
            results[f'{name}/{side}'], results[f'{name}/{side}_cpu'] = measuring.least(runs)
        first, second = (results[f'{name}/{side}'] for side in sides)
        results[f'{name}/ratio'] = second / first
    return results


def _measure_apart(side: str, config_path: str) -> List[float]:
    variables = {environment.KERNELS: '0'} if side == OWN_KERNELS else {}
    arguments = [f'--side={side}', f'--config={config_path}']
    return measuring.run_apart('benchmarks.steps', arguments, variables=variables)


def _two_sides(text: str) -> List[str]:
    sides = text.split(',')
    if len(sides) != 2 or not set(sides) <= set(SIDES):
        raise argparse.ArgumentTypeError(f'{text}; expected two of {", ".join(SIDES)}')
    return sides


def main() -> None:
    """Run the benchmark from the command line."""
    parser = measuring.create_parser(__doc__, 'steps')
    recipes.add_arguments(parser, DEFAULT_MODELS)
    parser.add_argument('--sides', type=_two_sides, default=[*DTYPES], help='two, by comma')
    parser.add_argument('--batch_size', type=int, default=0, help="0: the recipe's")
    parser.add_argument('--side', choices=SIDES, help='one side, in this process')
    parser.add_argument('--config', help='of that side')
    arguments = parser.parse_args()
    measuring.quiet()
    if not arguments.side:
        results = measure(arguments.models, arguments.sides, arguments.turns, arguments.batch_size)
        measuring.report(results, arguments.output)
        return
    from estimator_lib import config as config_lib

    config = config_lib.load_pipeline_config(arguments.config)
    config.train_config.use_bfloat16 = arguments.side == 'bfloat16'
    print(json.dumps(measure_side(config)))


if __name__ == '__main__':
    main()
