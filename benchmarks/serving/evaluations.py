"""Measurement of evaluations that follow each other in one process: seconds, numbers, memory.

    python -m benchmarks.serving.evaluations [--model=ssd_mobilenet_v1_coco] [--evaluations=20]

The same checkpoint is evaluated by `Estimator.evaluate`, which builds a graph each time, and in an
`EvaluationSession`, which keeps it. Reported are the seconds of each to its first batch, the
largest difference between their metrics, and what the process has grown by (MiB) from the second
evaluation in the kept session to the last, and in the second half of that. Allocators fill their
pools at first: of 300 evaluations of a tiny detector the first 20 grew by 4 MiB, the last 200 by
1.1 MiB. Python objects do not grow.
"""

from __future__ import annotations

import argparse
import gc
import os
import tempfile
import time
from typing import Any, Dict

import numpy as np

from benchmarks import measuring, scenes


def resident_bytes() -> int:
    """Return the memory that this process holds now."""
    with open('/proc/self/statm', encoding='ascii') as file:
        return int(file.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')


def rebuilt(estimator: Any, input_fn: Any, checkpoint: str) -> Dict[str, Any]:
    """Evaluate with a new graph; return the metrics and the seconds to the first batch."""
    import tensorflow as tf

    class FirstBatch(tf.compat.v1.train.SessionRunHook):
        seconds = 0.0

        def after_run(self, run_context: Any, run_values: Any) -> None:
            self.seconds = self.seconds or time.monotonic() - started

    first, started = FirstBatch(), time.monotonic()
    metrics = estimator.evaluate(input_fn, checkpoint_path=checkpoint, hooks=[first])
    return {'metrics': metrics, 'seconds': first.seconds}


def difference(one: Dict[str, Any], other: Dict[str, Any]) -> float:
    """Return the largest difference of two evaluations in a metric; NaN is equal to NaN."""
    pairs = ((np.nan_to_num(one[name]), np.nan_to_num(other[name])) for name in one)
    return max(float(np.max(np.abs(a - b), initial=0.0)) for a, b in pairs)


def measure(config: Any, model_dir: str, evaluations: int) -> Dict[str, float]:
    """Measure evaluations with new graphs, and in a session that is kept.

    Args:
        config: `TrainEvalPipelineConfig`.
        model_dir: has the checkpoint of step 1.
        evaluations: how many in the kept session, at least 2.
    """
    from estimator_lib import training
    from estimator_lib.evaluation import evaluating, evaluation_session, evaluators
    from estimator_lib.graphs import evaluation
    from model_fns import build_task

    task = build_task(config)
    estimator = training.create_estimator(task, config, model_dir)
    input_fn = evaluators.evaluation_sets(task, config)[0].input_fn
    checkpoint = os.path.join(model_dir, 'model.ckpt-1')
    before = [rebuilt(estimator, input_fn, checkpoint) for _ in range(2)]
    build = evaluation.create_evaluation_fn(task, config)
    session = evaluation_session.EvaluationSession(build, estimator.config, input_fn)
    seconds, differences, memory, objects = [], [], [], []
    for _ in range(evaluations):
        metrics = evaluating.finish_metrics(task, session.evaluate(checkpoint))
        seconds.append(session.seconds_to_first_batch)
        differences.append(difference(before[0]['metrics'], metrics))
        memory.append(resident_bytes())
        gc.collect()
        objects.append(len(gc.get_objects()))
    return {
        'first_rebuilt_seconds': before[0]['seconds'],
        'second_rebuilt_seconds': before[1]['seconds'],
        'first_kept_seconds': seconds[0],
        'second_kept_seconds': seconds[1],
        'times_faster': seconds[0] / seconds[1],
        'largest_difference': max(differences),
        'growth_mebibytes': (memory[-1] - memory[1]) / 2**20,
        'growth_of_second_half_mebibytes': (memory[-1] - memory[evaluations // 2]) / 2**20,
        'growth_in_python_objects': objects[-1] - objects[evaluations // 2],
    }


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--model', default='ssd_mobilenet_v1_coco', help='a config of shared/')
    parser.add_argument('--images', type=int, default=16, help='of an evaluation')
    parser.add_argument('--evaluations', type=int, default=20, help='in the kept session')
    parser.add_argument('--output', default='benchmark_evaluations.json', help='the JSON')
    arguments = parser.parse_args()
    measuring.quiet()
    with tempfile.TemporaryDirectory() as folder:
        paths = scenes.write_records(folder, arguments.images)
        config = scenes.load_config(arguments.model, paths, 3)
        model_dir = os.path.join(folder, 'run')
        scenes.train_one_step(config, model_dir)
        results = measure(config, model_dir, arguments.evaluations)
    measuring.report(results, arguments.output)


if __name__ == '__main__':
    main()
