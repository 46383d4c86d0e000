"""The evaluator of checkpoints, which also updates exports and early stopping."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import os
import time
from concurrent import futures
from typing import (
    Any,
    Callable,
    Container,
    Dict,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np

from estimator_lib import environment, tf_estimator
from estimator_lib.analysis import collecting, label_samples
from estimator_lib.analysis import files as analysis_files
from estimator_lib.checkpoints import checkpoint_files, class_match, evaluated
from estimator_lib.data import corrupt_records, epochs, inputs
from estimator_lib.drawing import figures, sheets
from estimator_lib.evaluation import early_stopping, evaluation_session, tiles
from estimator_lib.evaluation.evaluated_predictor import EvaluatedPredictor
from estimator_lib.export import export_policies, exported_model
from estimator_lib.graphs import evaluation, losses, task_checks
from estimator_lib.hooks import summaries
from estimator_lib.run_records import results
from estimator_lib.task import Task
from protos import eval_pb2, pipeline_pb2

log = logging.getLogger('estimator_lib')


@dataclasses.dataclass(frozen=True)
class EvaluationSet:
    """One set of examples for evaluations.

    Attributes:
        name: the name of the set; its events are in `model_dir/eval_<name>`.
        input_fn: one pass over its examples.
        title: the name of the set in messages: the reader's name, or its field and files.
    """

    name: str
    input_fn: inputs.RecordInput
    title: str


class Evaluator:
    """Evaluator of the checkpoints of one run.

    Args:
        task: finishes the metrics, and draws pictures.
        config: has the metrics, and the number and folder of pictures.
        estimator: has the folders and the options of sessions.
        sets: the evaluation sets; exports and early stopping use the metrics of the first.
        exporters: called after each evaluation.
        stopping: updated after each evaluation; None for no early stopping.
        graph_hook_fn: changes the graph, as in `model_fn.create_model_fn`.
        analyze_from: evaluations of this step and later ones, and that of the last checkpoint, are
            analyzed, see `estimator_lib.analysis`; None: none is.

    Attributes:
        last_step: step of the checkpoint evaluated last; None before the first evaluation.
        last_metrics: its metrics by evaluation set.
    """

    def __init__(
        self,
        task: Task,
        config: pipeline_pb2.TrainEvalPipelineConfig,
        estimator: tf_estimator.Estimator,
        sets: Sequence[EvaluationSet],
        exporters: Sequence[export_policies.Exporter] = (),
        stopping: Optional[early_stopping.EarlyStopping] = None,
        graph_hook_fn: Optional[Callable[[], None]] = None,
        analyze_from: Optional[float] = None,
    ):
        self._task = task
        self._config = config
        self._eval_config = config.eval_config
        self._evaluation_fn = evaluation.create_evaluation_fn(task, config, graph_hook_fn)
        self._estimator = estimator
        self._sets = list(sets)
        self._exporters = list(exporters)
        tiles.check(task, config.eval_config)
        self._tiling = tiles.from_config(config.eval_config)
        self._graph_hook_fn = graph_hook_fn
        self._sessions: Dict[str, evaluation_session.Passes] = {}
        self._pictures: Dict[str, summaries.ExamplePictures] = {}
        self._results = results.Results(
            estimator.model_dir,
            main_metrics(task, config),
            epochs.known_examples(config.train_input_reader) / config.train_config.batch_size,
        )
        self._collectors: Dict[str, collecting.Collector] = {}
        self._analyze_from = None if task.analysis is None else analyze_from
        self._analyzed_step: Optional[int] = None
        self._labels: Optional[futures.Future[Optional[label_samples.DrawnLabels]]] = None
        self._stopping = stopping
        self.last_step: Optional[int] = None
        self.last_metrics: Dict[str, Dict[str, float]] = {}

    def evaluate(self, checkpoint_path: str, is_final: bool = False) -> bool:
        """Evaluate one checkpoint on all sets, log and save the metrics, and export.

        Args:
            checkpoint_path: the prefix of the checkpoint.
            is_final: whether the checkpoint is the last one of training.

        Returns:
            Whether training should stop.

        Raises:
            errors.ConfigError: the checkpoint was trained with another order of classes.
        """
        class_match.require_same_classes(self._task.checkpoints, checkpoint_path)
        step = checkpoint_files.checkpoint_step(checkpoint_path)
        first = self._analyze_from
        analyzes = first is not None and (is_final or step >= first)
        # Early stopping may tell only after an evaluation that it was the last one.
        if step != self.last_step or (analyzes and step != self._analyzed_step):
            for collector in self._collectors.values():
                collector.enabled = analyzes
            self._analyzed_step = step if analyzes else None
            if self._tiling is not None:
                self._tile_predictor.restore(checkpoint_path)
            self.last_metrics = {
                each.name: self._evaluate_set(each, checkpoint_path, step) for each in self._sets
            }
            self.last_step = step
            evaluated.write(self._estimator.model_dir, step, self.last_metrics)
            self._results.add(checkpoint_path, step, self.last_metrics)
        if is_final:
            self._results.draw()
        else:
            self._results.draw_if_due()
        metrics = self.last_metrics[self._sets[0].name]
        # Before the exports (commit c695b74f): early stopping has counted the evaluation even where
        # an export fails, or the process is killed in it.
        should_stop = self._stopping is not None and self._stopping.update(step, metrics)
        for exporter in self._exporters:
            exporter.export(step, checkpoint_path, metrics, is_final)
        environment.release_free_memory()
        return should_stop

    def has_stopped(self) -> bool:
        """Return whether early stopping has ended the run, in an earlier start too."""
        step = checkpoint_files.latest_step(self._estimator.model_dir)
        if self._stopping is None or not self._stopping.should_stop(step):
            return False
        log.info('early stopping has ended this run, at step %d', step)
        return True

    def draw_results(self) -> None:
        """Draw the curves of the evaluations so far, see `run_records.results`."""
        self._results.draw()

    def _evaluate_set(
        self, examples: EvaluationSet, checkpoint_path: str, step: int
    ) -> Dict[str, float]:
        started = time.monotonic()
        values, first = self._values(examples, checkpoint_path)
        metrics = finish_metrics(self._task, values)
        eval_dir = self._estimator.eval_dir(examples.name)
        rate = {name: values[name] for name in [evaluation.LEARNING_RATE] if name in values}
        summaries.write(eval_dir, step, {**metrics, **rate}, draw_metrics(self._task, values))
        if examples.name in self._pictures:
            pictures = self._pictures[examples.name]
            pictures.write(step, self._task.presentation.worth_showing(metrics))
            sheets.write(os.path.join(eval_dir, sheets.FOLDER), step, pictures.drawn)
        seconds = time.monotonic() - started
        log_metrics(self._task, f'{examples.title}, step {step}', metrics, seconds, first)
        if examples.name in self._collectors:
            further = '' if examples is self._sets[0] else examples.name
            write_analysis(
                self._task,
                self._collectors[examples.name],
                analysis_files.analysis_folder(self._estimator.model_dir, str(step), further),
                metrics,
                f'{examples.title}, step {step}',
                None if self._labels is None else self._labels.result(),
            )
        return metrics

    def _values(
        self, examples: EvaluationSet, checkpoint_path: str
    ) -> Tuple[Dict[str, Any], float]:
        """Compute the metrics of one set, and the seconds to its first batch.

        The graph and the session are kept for the next checkpoint, unless an error occurs.
        """
        with explained(examples.input_fn):
            session = self._sessions.pop(examples.name, None) or self._create_session(examples)
            if self._analyzed_step is not None and self._labels is None:
                # Building the graph takes all of Python; the network leaves time to it.
                self._labels = label_samples.start_drawing(self._task, self._config)
            values = session.evaluate(checkpoint_path)
        self._sessions[examples.name] = session
        return values, session.seconds_to_first_batch

    def _create_session(self, examples: EvaluationSet) -> evaluation_session.Passes:
        common = examples.input_fn, self._estimator.config, self._hooks(examples)
        if self._tiling is None:
            return evaluation_session.EvaluationSession(self._evaluation_fn, *common)
        tiled = EvaluatedPredictor(self._task, self._tile_predictor, self._tiling)
        return evaluation_session.FileSession(self._task, tiled, *common)

    @functools.cached_property
    def _tile_predictor(self) -> exported_model.RestoringPredictor:
        return exported_model.RestoringPredictor(self._task, self._config, self._graph_hook_fn)

    def _hooks(self, examples: EvaluationSet) -> List[tf_estimator.SessionRunHook]:
        hooks: List[tf_estimator.SessionRunHook] = []
        if self._eval_config.num_visualizations:
            eval_dir = self._estimator.eval_dir(examples.name)
            pictures = create_pictures(self._task, self._eval_config, eval_dir)
            self._pictures[examples.name] = pictures
            hooks.append(pictures)
        if self._analyze_from is not None:
            collector = collecting.Collector(self._task.analysis, examples.input_fn.locate)
            collector.enabled = self._analyzed_step is not None
            self._collectors[examples.name] = collector
            hooks.append(collector)
        return hooks


def main_metrics(task: Task, config: pipeline_pb2.TrainEvalPipelineConfig) -> List[str]:
    """Return the names of the metrics, those that the config names first."""
    chosen = (config.export_config.best.metric, config.train_config.early_stopping.metric)
    return [*dict.fromkeys(name for name in (*chosen, *task.metric_names()) if name)]


def main_metric(
    task: Task, config: pipeline_pb2.TrainEvalPipelineConfig, metrics: Container[str]
) -> str:
    """Return the first of `main_metrics` that an evaluation reports; '' without one."""
    return next((name for name in main_metrics(task, config) if name in metrics), '')


def create_pictures(
    task: Task, eval_config: eval_pb2.EvalConfig, eval_dir: str
) -> summaries.ExamplePictures:
    """Create the hook that draws the first examples of an evaluation.

    Args:
        task: draws the pictures.
        eval_config: has the number of pictures, and a further folder for them.
        eval_dir: the folder of the events.
    """
    return summaries.ExamplePictures(
        task.presentation.draw,
        eval_dir,
        eval_config.num_visualizations,
        eval_config.visualization_export_dir,
        task.presentation.files,
    )


def write_analysis(
    task: Task,
    collector: collecting.Collector,
    folder: str,
    metrics: Mapping[str, float],
    subtitle: str,
    labels: Optional[label_samples.DrawnLabels] = None,
) -> None:
    """Write the analysis of an evaluation, if there was one.

    Args:
        task: draws the worst examples.
        collector: the hook of the evaluation.
        folder: path of the folder to write; an older one is replaced.
        metrics: metrics of the evaluation by name.
        subtitle: description of the examples and of the evaluated model.
        labels: labels of the data; None: they are not drawn.
    """
    started = time.monotonic()
    analyzed = collector.finish(metrics)
    if analyzed is None:
        return
    shown = task.presentation.worth_showing(metrics)
    path = analysis_files.write(
        folder,
        analyzed,
        lambda each: task.presentation.draw(
            each.features, each.outputs, each.labels or None, shown
        ),
        {task.presentation.metric_title(name): value for name, value in metrics.items()},
        f'{task.name.capitalize()}: analysis of an evaluation',
        f'{subtitle}, {analyzed.count} examples',
        labels,
    )
    log.info('analysis, %.1f s: %s', time.monotonic() - started, path)


def log_metrics(
    task: Task, what: str, metrics: Mapping[str, float], seconds: float, first: float
) -> None:
    """Log the metrics of an evaluation.

    Args:
        task: has the titles of the metrics.
        what: description of the examples and of the evaluated model.
        metrics: the metrics by name.
        seconds: duration of the evaluation.
        first: seconds to the first batch.
    """
    text = 'evaluation on %s, %.1f s (first batch after %.2f s)'
    log.info(text, what, seconds, first)
    for name in sorted(metrics):
        log.info('  %-48s %.6g', task.presentation.metric_title(name), metrics[name])


def draw_metrics(task: Task, values: Mapping[str, Any]) -> Dict[str, np.ndarray]:
    """Return the pictures of the metrics by tag; none, with a warning, where drawing fails.

    Args:
        task: draws them, uint8 [height, width, 3] each.
        values: results of `Estimator.evaluate` by name.
    """
    with figures.tolerated('pictures of the metrics'):
        return task.presentation.draw_metrics(values)
    return {}


@contextlib.contextmanager
def explained(input_fn: inputs.RecordInput) -> Iterator[None]:
    """Convert TensorFlow's errors about a record, or a lack of memory, to plain messages.

    Args:
        input_fn: the source of the records.

    Raises:
        errors.UserError: replaces an error about a record, or a lack of memory.
    """
    try:
        yield
    except (*corrupt_records.SESSION_ERRORS, MemoryError) as error:
        failure = input_fn.failure(error)
        if failure is None:
            raise
        raise failure from error


def finish_metrics(task: Task, values: Mapping[str, Any]) -> Dict[str, float]:
    """Return the scalars to report, given the result of `Estimator.evaluate`."""
    loss_names = set(losses.loss_metric_names(task))
    task_values = {
        name: value
        for name, value in values.items()
        if name not in loss_names and name not in ('global_step', evaluation.LEARNING_RATE)
    }
    metrics = task.finish_metrics(task_values)
    task_checks.require_known_metrics(task, metrics)
    metrics.update({name: float(value) for name, value in values.items() if name in loss_names})
    return metrics
