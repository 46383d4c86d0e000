"""A run as it is compared: config, metrics of its last evaluation, curves, numbers per example."""

from __future__ import annotations

import dataclasses
import logging
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.analysis import example_files, files
from estimator_lib.checkpoints import evaluated
from estimator_lib.run_records import curves, results, results_table, run_file
from estimator_lib.run_records.results_table import Curve
from estimator_lib.run_records.training_events import TrainingCurves
from estimator_lib.task import Task
from estimator_lib.task_interfaces.analysis import Resampler
from protos import pipeline_pb2

log = logging.getLogger('estimator_lib')

_STEP = 'global_step'

Metrics = Mapping[str, Mapping[str, float]]


@dataclasses.dataclass(frozen=True)
class Run:
    """Run that is compared.

    Attributes:
        path: folder of the run.
        name: short name of the run in tables.
        config: its as-run config.
        task: its task.
        step: global step of its last evaluation.
        metrics: metrics of that evaluation, by evaluation set.
        table: all its evaluations.
        training: values of its training at all reported steps, by column of the table.
    """

    path: str
    name: str
    config: pipeline_pb2.TrainEvalPipelineConfig
    task: Task
    step: int
    metrics: Metrics
    table: results_table.Table
    training: Mapping[str, Curve] = dataclasses.field(default_factory=dict)

    def curve(self, column: str) -> Curve:
        """Return steps and values of a column, at all reported steps where they are known."""
        return curves.choose(column, self.table, self.training)

    def resampler(self, set_name: str) -> Optional[Tuple[np.ndarray, Resampler]]:
        """Return the names of the examples of an evaluation set, and metrics of samples of them.

        None: their numbers were not written.
        """
        further = '' if set_name == next(iter(self.metrics)) else set_name
        folder = files.analysis_folder(self.path, str(self.step), further)
        examples = example_files.read(os.path.join(folder, example_files.FILE))
        analysis = self.task.analysis
        if examples is None or analysis is None or analysis.create_resampler is None:
            return None
        return examples.names, analysis.create_resampler(examples.arrays)


def read_runs(
    paths: Sequence[str],
    configs: Sequence[pipeline_pb2.TrainEvalPipelineConfig],
    tasks: Sequence[Task],
) -> List[Run]:
    """Read the runs to compare.

    Args:
        paths: their folders.
        configs: their configs.
        tasks: their tasks.

    Raises:
        errors.UserError: a run has no evaluation, or the runs have different tasks or classes.
    """
    runs = []
    for path, name, config, task in zip(paths, short_names(paths), configs, tasks):
        table = results_table.read(os.path.join(path, results.RESULTS_FILE))
        step, metrics = _last_evaluation(path, table)
        training = TrainingCurves(path, curves.OF_TRAINING).read()
        runs.append(Run(path, name, config, task, step, metrics, table, training))
        unfinished = run_file.describe_last_start(path)
        if unfinished:
            log.warning('%s: %s', path, unfinished)
    for run in runs[1:]:
        _require_comparable(runs[0], run)
    return runs


def short_names(paths: Sequence[str]) -> List[str]:
    """Return the last parts of paths, as many as tell them apart."""
    parts = [path.rstrip('/').split('/') for path in paths]
    for count in range(1, max(map(len, parts))):
        names = ['/'.join(each[-count:]) for each in parts]
        if len(set(names)) == len(names):
            return names
    return list(paths)


def _last_evaluation(path: str, table: results_table.Table) -> Tuple[int, Metrics]:
    """Return step and metrics of `metrics.json`, else of the last line of `results.csv`."""
    content: Dict[str, Any] = dict(evaluated.read_file(os.path.join(path, evaluated.METRICS_FILE)))
    step = content.pop(_STEP, None)
    metrics: Metrics = {
        name: each for name, each in content.items() if isinstance(each, Mapping) and each
    }
    if isinstance(step, int) and metrics:
        return step, metrics
    for step in sorted(table.rows, reverse=True):
        metrics = _table_metrics(table, step)
        if metrics:
            return step, metrics
    missing = ''
    if not tf.io.gfile.isdir(path):
        missing = f': there is no such folder{errors.relative_to(path)}'
    raise errors.UserError(
        f'{path} has no evaluation{missing}; expected {evaluated.METRICS_FILE} or '
        f'{results.RESULTS_FILE} in it, which --mode=evaluate --model_dir={path} writes.'
    )


def _table_metrics(table: results_table.Table, step: int) -> Metrics:
    metrics: Dict[str, Dict[str, float]] = {}
    for column in table.columns:
        if not column.startswith(results_table.EVAL):
            continue
        set_name, _, name = column[len(results_table.EVAL) :].partition('/')
        steps, values = table.curve(column)
        if step in steps:
            metrics.setdefault(set_name, {})[name] = values[steps.index(step)]
    return metrics


def _require_comparable(first: Run, other: Run) -> None:
    if first.task.name != other.task.name:
        raise errors.UserError(
            f'{first.path} is a run of {first.task.name}, and {other.path} one of '
            f'{other.task.name}; expected runs of one task.'
        )
    if list(first.task.presentation.class_names) != list(other.task.presentation.class_names):
        raise errors.UserError(
            f'{first.path} has the classes {_listed(first)}, and {other.path} has '
            f'{_listed(other)}; expected runs with the same classes in the same order.'
        )
    if not first.metrics.keys() & other.metrics.keys():
        raise errors.UserError(
            f'{first.path} was evaluated on {", ".join(first.metrics)}, and {other.path} on '
            f'{", ".join(other.metrics)}; expected an evaluation set of the same name.'
        )


def _listed(run: Run) -> str:
    return errors.shortened(list(run.task.presentation.class_names)) or 'without names'
