"""Measurement of the share of a training step's time that it waits for its input.

    python -m benchmarks.input.waiting [--model=ssd_mobilenet_v1_coco] [--batch_size=32]
        [--calls=1,2,4] [--cache=NONE,MEMORY]

The images are those of `benchmarks.input.stages`. For each number of examples that are decoded at
a time the training graph runs in a session of its own; the sides are measured alternately, and the
median of the turns is printed as a table. The seconds of a step's waiting are those that a run's
progress line has. A busy machine waits for longer: run it alone.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
import tempfile
import time
from typing import Any, Dict, Iterable, List, NamedTuple, Tuple

from benchmarks import measuring, scenes
from benchmarks.input import stages

_MORE_STEPS = 3  # than a pass, before any is measured


class Waiting(NamedTuple):
    """Measurement of some steps.

    Attributes:
        share: of the steps' time that they waited for their input.
        step_seconds: of a step.
    """

    share: float
    step_seconds: float


def summarize_steps(steps: Iterable[Tuple[float, float]]) -> Waiting:
    """Sum up steps of (seconds, seconds of waiting) each."""
    seconds, waited = zip(*steps)
    return Waiting(sum(waited) / sum(seconds), sum(seconds) / len(seconds))


def measure_side(config: Any, calls: int, steps: int) -> Waiting:
    """Measure the waiting of a training graph that decodes `calls` examples at a time."""
    from estimator_lib.data import inputs, reader_state
    from model_fns import build_task

    reading = dataclasses.replace(stages.plan(config), num_parallel_calls=calls)
    record_input = inputs.RecordInput(reading)
    waiting: List[Any] = []

    def input_fn() -> Any:
        features, labels = record_input()
        waiting.append(features[reader_state.READER]['wait_seconds'])
        return features, labels

    measured = []
    with measuring.training_session(build_task(config), config, input_fn=input_fn) as (
        session,
        spec,
    ):
        # Whatever is kept has been once these steps are over.
        passes = -(-stages.RECORDS // config.train_config.batch_size)
        for _ in range(_MORE_STEPS + passes):
            session.run(spec.train_op)
        for _ in range(steps):
            started = time.perf_counter()
            _, waited = session.run([spec.train_op, waiting[0]])
            measured.append((time.perf_counter() - started, float(waited)))
    return summarize_steps(measured)


def measure(
    config: Any, folder: str, calls: List[int], caches: List[str], steps: int, turns: int
) -> Dict[str, float]:
    """Return the medians of all sides, measured alternately.

    Args:
        config: of the model.
        folder: where `cache: FILE` writes.
        calls: examples that are decoded at a time.
        caches: values of `input_reader.cache`.
        steps: of a turn.
        turns: how many.
    """
    found: Dict[str, List[Waiting]] = {}
    for _ in range(turns):
        for cache in caches:
            stages.keep(config, cache, folder)
            for number in calls:
                side = f'cache_{cache.lower()}_calls_{number}'
                found.setdefault(side, []).append(measure_side(config, number, steps))
    results: Dict[str, float] = {}
    for side, each in found.items():
        results[f'{side}_waiting_share'] = statistics.median(one.share for one in each)
        results[f'{side}_step_seconds'] = statistics.median(one.step_seconds for one in each)
    return results


def table(results: Dict[str, float], calls: List[int], caches: List[str]) -> str:
    """Return the results as a table of Markdown."""
    lines = [
        '| cache | decoded at a time | waiting, % of a step | step, s |',
        '| --- | --- | --- | --- |',
    ]
    for cache in caches:
        for number in calls:
            side = f'cache_{cache.lower()}_calls_{number}'
            share, seconds = results[f'{side}_waiting_share'], results[f'{side}_step_seconds']
            lines.append(f'| {cache} | {number} | {100 * share:.1f} | {seconds:.3f} |')
    return '\n'.join(lines)


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--model', default='ssd_mobilenet_v1_coco', help='a config of shared/')
    parser.add_argument('--batch_size', type=int, default=32, help='images of a batch')
    parser.add_argument('--calls', default='1,2,4', help='examples that are decoded at a time')
    parser.add_argument('--cache', default='NONE,MEMORY', help='what is kept of a pass')
    parser.add_argument('--steps', type=int, default=10, help='of a turn')
    parser.add_argument('--turns', type=int, default=3, help='of which the median counts')
    parser.add_argument('--output', default='benchmark_waiting.json', help='where the JSON goes')
    arguments = parser.parse_args()
    measuring.quiet()
    calls = [int(number) for number in arguments.calls.split(',')]
    caches = arguments.cache.split(',')
    with tempfile.TemporaryDirectory() as folder:
        paths = scenes.write_records(folder, stages.RECORDS)
        config = scenes.load_config(arguments.model, paths, len(scenes.CLASSES))
        config.train_config.batch_size = arguments.batch_size
        kept = os.path.join(folder, 'kept')
        results = measure(config, kept, calls, caches, arguments.steps, arguments.turns)
    print(table(results, calls, caches))
    head = {'model': arguments.model, 'batch_size': arguments.batch_size}
    measuring.report({**head, **results}, arguments.output)


if __name__ == '__main__':
    main()
