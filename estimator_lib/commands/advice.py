"""Suggestions at the end of a run: what to change for a better model."""

from __future__ import annotations

import os
from typing import List, Mapping

from estimator_lib.config import metric_choices
from estimator_lib.drawing import figures
from estimator_lib.evaluation import evaluating
from estimator_lib.run_records import results, results_table
from estimator_lib.run_records.results_table import EVAL, Curve
from estimator_lib.task import Task
from protos import pipeline_pb2

_MOST = 4  # suggestions
_LEAST_EVALUATIONS = 4  # of a curve that shows a trend
_EARLY = 2 / 3  # the part of a run that later evaluations are compared with
_RISE, _FALL = 0.03, 0.1  # changes that count, as parts of the metric


def find_advice(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    model_dir: str,
    metrics: Mapping[str, Mapping[str, float]],
) -> List[str]:
    """Return suggestions for the next run, the most important first.

    Args:
        task: knows the meaning of the metrics.
        config: names the main metric.
        model_dir: the folder of the run, with its table of results.
        metrics: the metrics of the last evaluation by set.
    """
    found: List[str] = []
    with figures.tolerated('suggestions for the next run'):
        table = results_table.read(os.path.join(model_dir, results.RESULTS_FILE))
        for name, last in list(metrics.items())[:1]:
            metric = evaluating.main_metric(task, config, last)
            if metric:
                higher = metric_choices.direction(config, metric)
                curve = table.curve(f'{EVAL}{name}/{metric}')
                found += advise_on_curve(
                    curve, task.presentation.metric_title(metric), higher is not False
                )
            if task.analysis is not None:
                found += task.analysis.create_analyzer().advise(last)
    return found[:_MOST]


def advise_on_curve(curve: Curve, title: str, higher_is_better: bool = True) -> List[str]:
    """Return a suggestion about the length of a run.

    The evaluations after two thirds of the steps are compared with those before: a best value of
    0.5 until step 200 of 300, and 0.55 after it, is a rise by 9 %.

    Args:
        curve: steps and values of the main metric.
        title: its name.
        higher_is_better: whether larger values are better.
    """
    steps, values = curve
    if len(steps) < _LEAST_EVALUATIONS:
        return []
    best = max if higher_is_better else min
    early = [value for step, value in zip(steps, values) if step <= _EARLY * steps[-1]]
    # Never empty: the last step is beyond the fraction.
    late = values[len(early) :]
    if not early:
        return []
    gain = (best(late) - best(early)) * (1 if higher_is_better else -1)
    if gain > _RISE * abs(best(late)):
        return [
            f'more steps: {title} still gets better, from {best(early):.3g} to {best(late):.3g} in '
            'the last third of the run (train_config.num_steps or length)'
        ]
    overall, last = best(values), values[-1]
    if gain < 0 and abs(overall - last) > _FALL * abs(overall):
        step = steps[values.index(overall)]
        return [
            f'fewer steps, or more images and augmentation: {title} was best at step {step} '
            f'({overall:.3g}), and is {last:.3g} now'
        ]
    return []
