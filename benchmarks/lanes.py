"""Measurement of two TensorFlows beside each other: steps, the first step, an export.

    python -m benchmarks.lanes --other_python=.venv-newest/bin/python [--turns=3]

This Python and the other one run the same configs, records and export, each time in a new process,
alternately. The least of all turns counts. A ratio is of the other TensorFlow to this one: below 1,
the other is faster. `cpu` is of the processor, all else by the clock.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from typing import Dict, List, Sequence

import numpy as np

from benchmarks import measuring, recipes, steps
from benchmarks.serving import exports

_EXPORT = 'folded'  # of `exports.write_exports`: what a run exports
_LOADER = 'session'
_REPORTED = ('one_image_ms', 'one_image_cpu_ms', 'first_answer_seconds')


def measure(
    pythons: Dict[str, str], names: List[str], model: str, turns: int, runs: int
) -> Dict[str, float]:
    """Return the least figures of both sides, and their ratios.

    Args:
        pythons: the programs, by the name of the side; ratios are of the second to the first.
        names: of recipes whose training is measured.
        model: a published config whose export is measured.
        turns: how often each side is measured.
        runs: requests of one image in a turn.
    """
    results: Dict[str, float] = {}

    def measure_one(side: str, path: str) -> Dict[str, float]:
        return measure_training(pythons[side], path)

    for name, _, found in recipes.measure_alternating(names, pythons, turns, measure_one):
        results.update(compare(name, found))
    with tempfile.TemporaryDirectory() as folder:
        path = exports.write_exports(model, folder)[_EXPORT]
        requests = os.path.join(folder, 'requests.npy')
        np.save(requests, np.array(exports.requests(_EXPORT)))
        served: Dict[str, List[Dict[str, float]]] = {side: [] for side in pythons}
        for _ in range(turns):
            for side, python in pythons.items():
                found_here = exports.measure_export(path, _LOADER, requests, runs, python)
                served[side].append({name: found_here[name] for name in _REPORTED})
    results.update(compare(f'export of {model}', served))
    return results


def measure_training(python: str, config_path: str) -> Dict[str, float]:
    """Return seconds of a step in both precisions, and from the start to the first step."""
    found: Dict[str, float] = {}
    for dtype in steps.DTYPES:
        arguments = [f'--side={dtype}', f'--config={config_path}']
        seconds = measuring.run_apart('benchmarks.steps', arguments, python=python)
        found[dtype], found[f'{dtype}_cpu'] = seconds
    first = measuring.train_apart(config_path, ['--num_train_steps=2'], python)[1]
    found['first_step'] = first.seconds
    return found


def compare(name: str, found: Dict[str, List[Dict[str, float]]]) -> Dict[str, float]:
    """Return the least of each figure, by side, and the second side's over the first's.

    Args:
        name: of what was measured.
        found: the figures of each turn, by side.
    """
    results: Dict[str, float] = {}
    for figure in next(iter(found.values()))[0]:
        least = {side: min(turn[figure] for turn in turns) for side, turns in found.items()}
        results.update({f'{name}/{figure}/{side}': value for side, value in least.items()})
        first, second = least.values()
        results[f'{name}/{figure}/ratio'] = second / first
    return results


def tensorflow_version(python: str) -> str:
    """Return the version of TensorFlow that a Python has."""
    code = 'from estimator_lib import environment; print(environment.tensorflow_version())'
    done = subprocess.run(
        [python, '-c', code], cwd=measuring.ROOT, capture_output=True, text=True, check=True
    )
    return f'TensorFlow {done.stdout.strip()}'


def main(arguments: Sequence[str] = ()) -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    recipes.add_arguments(parser, steps.DEFAULT_MODELS)
    parser.add_argument('--other_python', required=True, help='of an environment with another')
    parser.add_argument('--export', default='ssd_mobilenet_v1_coco', help='a config of shared/')
    parser.add_argument('--turns', type=int, default=3, help='processes of each side')
    parser.add_argument('--runs', type=int, default=200, help='requests of one image in a turn')
    parser.add_argument('--output', default='benchmark_lanes.json', help='where the JSON goes')
    values = parser.parse_args(arguments or None)
    measuring.quiet()
    programs = (sys.executable, values.other_python)
    pythons = {tensorflow_version(python): python for python in programs}
    if len(pythons) < 2:
        parser.error(f'--other_python: it has {next(iter(pythons))} too; expected another')
    results = measure(pythons, values.models, values.export, values.turns, values.runs)
    measuring.report(results, values.output)


if __name__ == '__main__':
    main()
