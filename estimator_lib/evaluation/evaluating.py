"""Evaluating a checkpoint, and what follows from the numbers: exports, early stopping."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib.checkpoints import checkpoint_files, evaluated
from estimator_lib.data import corrupt_records, inputs
from estimator_lib.evaluation import early_stopping, evaluation_session
from estimator_lib.export import export_policies
from estimator_lib.graphs import evaluation, losses, task_checks
from estimator_lib.hooks import summaries
from estimator_lib.task import Task
from protos import eval_pb2, pipeline_pb2

log = logging.getLogger('estimator_lib')


@dataclasses.dataclass(frozen=True)
class EvaluationSet:
    """One set of examples that checkpoints are evaluated on.

    Attributes:
        name: of the set; its events are in `model_dir/eval_<name>`.
        input_fn: one pass over its examples.
        title: what people know it by: the reader's name, or its field and files.
    """

    name: str
    input_fn: inputs.RecordInput
    title: str


class Evaluator:
    """Evaluates checkpoints of one run.

    Args:
        task: gives the metrics their final form, and draws.
        config: how it is evaluated, how many examples are drawn, and where to.
        estimator: has the folders and the options of sessions.
        sets: what to evaluate on; exports and early stopping go by the first.
        exporters: told of each evaluation.
        stopping: told of each evaluation; None for never.
        graph_hook_fn: see `model_fn.create_model_fn`.

    Attributes:
        stopping: as given.
        last_step: of the last checkpoint that was evaluated; None before there is one.
        last_metrics: of it, by evaluation set.
    """

    def __init__(
        self,
        task: Task,
        config: pipeline_pb2.TrainEvalPipelineConfig,
        estimator: tf.estimator.Estimator,
        sets: Sequence[EvaluationSet],
        exporters: Sequence[export_policies.Exporter] = (),
        stopping: Optional[early_stopping.EarlyStopping] = None,
        graph_hook_fn: Optional[Callable[[], None]] = None,
    ):
        self._task = task
        self._eval_config = config.eval_config
        self._evaluation_fn = evaluation.create_evaluation_fn(task, config, graph_hook_fn)
        self._estimator = estimator
        self._sets = list(sets)
        self._exporters = list(exporters)
        self._sessions: Dict[str, evaluation_session.EvaluationSession] = {}
        self._pictures: Dict[str, summaries.ExamplePictures] = {}
        self.stopping = stopping
        self.last_step: Optional[int] = None
        self.last_metrics: Dict[str, Dict[str, float]] = {}

    def evaluate(self, checkpoint_path: str, is_final: bool = False) -> bool:
        """Evaluate one checkpoint on all sets, prints, saves, exports.

        Args:
            checkpoint_path: its prefix.
            is_final: whether training has ended with it.

        Returns:
            Whether training should stop.
        """
        step = checkpoint_files.step_of(checkpoint_path)
        if step != self.last_step:
            self.last_metrics = {
                one.name: self._evaluate_set(one, checkpoint_path) for one in self._sets
            }
            self.last_step = step
            evaluated.write(self._estimator.model_dir, step, self.last_metrics)
        first = self.last_metrics[self._sets[0].name]
        should_stop = self.stopping is not None and self.stopping.update(step, first)
        for exporter in self._exporters:
            exporter.export(step, checkpoint_path, first, is_final)
        return should_stop

    def _evaluate_set(self, one: EvaluationSet, checkpoint_path: str) -> Dict[str, float]:
        started = time.monotonic()
        values, first = self._values(one, checkpoint_path)
        metrics = finish_metrics(self._task, values)
        step = int(values['global_step'])
        eval_dir = self._estimator.eval_dir(one.name)
        summaries.write(eval_dir, step, metrics, self._task.draw_metrics(values))
        if one.name in self._pictures:
            self._pictures[one.name].write(step, self._task.worth_showing(metrics))
        seconds = time.monotonic() - started
        log_metrics(self._task, f'{one.title}, step {step}', metrics, seconds, first)
        return metrics

    def _values(self, one: EvaluationSet, checkpoint_path: str) -> Tuple[Dict[str, Any], float]:
        """What the metrics of one set come to, and the seconds to its first batch.

        The graph and the session are kept for the next checkpoint, but not after an error.
        """
        with explained(one.input_fn):
            session = self._sessions.pop(one.name, None)
            if session is None:
                session = evaluation_session.EvaluationSession(
                    self._evaluation_fn,
                    self._estimator.config,
                    one.input_fn,
                    self._hooks(one),
                )
            values = session.evaluate(checkpoint_path)
        self._sessions[one.name] = session
        return values, session.seconds_to_first_batch

    def _hooks(self, one: EvaluationSet) -> List[tf.estimator.SessionRunHook]:
        if not self._eval_config.num_visualizations:
            return []
        eval_dir = self._estimator.eval_dir(one.name)
        self._pictures[one.name] = create_pictures(self._task, self._eval_config, eval_dir)
        return [self._pictures[one.name]]


def create_pictures(
    task: Task, eval_config: eval_pb2.EvalConfig, eval_dir: str
) -> summaries.ExamplePictures:
    """Return the hook that draws the first examples of an evaluation.

    Args:
        task: draws.
        eval_config: how many, and where else to.
        eval_dir: of the events.
    """
    return summaries.ExamplePictures(
        task.draw,
        eval_dir,
        eval_config.num_visualizations,
        eval_config.visualization_export_dir,
        task.files,
    )


def log_metrics(
    task: Task, what: str, metrics: Mapping[str, float], seconds: float, first: float
) -> None:
    """Log what an evaluation came to.

    Args:
        task: names the metrics.
        what: was evaluated, and on what.
        metrics: by name.
        seconds: that it took.
        first: seconds to the first batch.
    """
    text = 'evaluation on %s, %.1f s (first batch after %.2f s)'
    log.info(text, what, seconds, first)
    for name in sorted(metrics):
        log.info('  %-48s %.6g', task.metric_title(name), metrics[name])


@contextlib.contextmanager
def explained(input_fn: inputs.RecordInput) -> Iterator[None]:
    """Turn TensorFlow's error about some record, or about memory, into one plain sentence.

    Args:
        input_fn: where the records come from.

    Raises:
        errors.UserError: in place of an error that is about one of them, or about memory.
    """
    try:
        yield
    except (*corrupt_records.SESSION_ERRORS, MemoryError) as error:
        found = input_fn.failure(error)
        if found is None:
            raise
        raise found from error


def finish_metrics(task: Task, values: Mapping[str, Any]) -> Dict[str, float]:
    """Return the scalars to report, from what `Estimator.evaluate` returned."""
    of_losses = set(losses.loss_metric_names(task))
    of_task = {
        name: value
        for name, value in values.items()
        if name not in of_losses and name != 'global_step'
    }
    metrics = task.finish_metrics(of_task)
    task_checks.require_known_metrics(task, metrics)
    metrics.update({name: float(value) for name, value in values.items() if name in of_losses})
    return metrics
