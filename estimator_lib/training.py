"""Training, evaluation and export, on one machine or as a task of a cluster."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import tempfile
from typing import Dict, Iterator, List, Optional, Sequence

import tensorflow as tf

from estimator_lib import building, distribution, errors, logs, tf_estimator

# Programs that call `tf.estimator` themselves take these parts from here, see docs/python.md.
from estimator_lib.building import (
    Trainer,
    create_estimator,
    create_run_config,
    create_trainer,
    eval_input_fn,
    train_input_fn,
)
from estimator_lib.checkpoints import checkpoint_files, model_dirs, plain_paths, run_folder
from estimator_lib.cluster import run_lock, running
from estimator_lib.config import metric_choices
from estimator_lib.data import inputs
from estimator_lib.evaluation import (
    evaluating,
    evaluators,
    file_evaluation,
    scheduling,
    tiles,
    watching,
)
from estimator_lib.evaluation.evaluated_predictor import EvaluatedPredictor
from estimator_lib.export import export_policies, exported_model, serving
from estimator_lib.export.exported_file import ExportedFile, FilePredictor
from estimator_lib.export.writers import GraphHook
from estimator_lib.hooks import progress, summaries
from estimator_lib.processes import preemption
from estimator_lib.run_records import cool_down, resumed_rates, run_files
from estimator_lib.task import Task
from estimator_lib.task_interfaces import agreement
from protos import pipeline_pb2

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')

Metrics = Dict[str, Dict[str, float]]  # by evaluation set
__all__ = [
    'Metrics',
    'Trainer',
    'create_estimator',
    'create_run_config',
    'create_trainer',
    'eval_input_fn',
    'evaluate',
    'evaluate_checkpoints',
    'evaluate_file',
    'measure_file',
    'prepared_model_dir',
    'train_and_evaluate',
    'train_input_fn',
]


def train_and_evaluate(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    model_dir: str,
    *,
    evaluate: bool = True,
    eval_training_data: int = 0,
    graph_hook_fn: GraphHook = None,
    hooks: Sequence[tf_estimator.SessionRunHook] = (),
    saving_listeners: Sequence[tf_estimator.CheckpointSaverListener] = (),
    exporters: Sequence[tf_estimator.Exporter] = (),
) -> Metrics:
    """Train until `train_config.num_steps`, evaluate on the way and at the end, and export.

    A `model_dir` with checkpoints of the same model is resumed. Under `TF_CONFIG` this process does
    the work of its task of the cluster.

    Args:
        task: the task to train.
        config: the pipeline config.
        model_dir: the folder of all files of the run; it is created if needed.
        evaluate: False to train only, whatever `eval_config.schedule` says.
        eval_training_data: n: evaluate every n-th training example as well; 0: none.
        graph_hook_fn: changes all graphs, as in `model_fn.create_model_fn`.
        hooks: further hooks of the training of every worker; `docs/loops.md` says what they may do
            under `loop: TF_FUNCTION`.
        saving_listeners: listeners of the chief's checkpoints, called before the evaluations.
        exporters: called after each evaluation with the metrics of the first evaluation set, to
            write to `model_dir/export/<name>`.

    Returns:
        The metrics of the last evaluation, by evaluation set; empty where there was none.

    Raises:
        errors.UserError: config, data, checkpoint or cluster cannot be used, a hook needs a session
            where there is none, or exporters would not be called or share a folder.
        preemption.Preempted: in a `preemption_guard`, the process was told to end; the checkpoint
            is saved.
    """
    model_dir = plain_paths.plain_path(model_dir, create=True)
    task_of_cluster = distribution.read_tf_config()
    plan = distribution.create_plan(config, task_of_cluster)
    distribution.require_own_batches(plan, task.across_replicas())
    for field in distribution.idle_fields(plan, config.train_config):
        log.warning('%s has no effect: training uses %s', field, plan.mode.value)
    evaluators.check(task, config)
    writes = task_of_cluster is None or task_of_cluster.is_chief
    if writes:
        # These records are read without TensorFlow, whose devices cannot be divided among replicas
        # once they have started (commit c99f09ed).
        for warning in inputs.check_first_examples(task, config.train_input_reader):
            log.warning('%s', warning)
    evaluate = evaluate and config.eval_config.schedule.enabled and bool(config.eval_input_reader)
    if evaluate:
        task.checks.check_evaluation()
    extras = _Extensions(tuple(hooks), tuple(saving_listeners), tuple(exporters))
    export_policies.check_exporters(extras.exporters, config.export_config, evaluate)
    readers = {'train': config.train_input_reader, **evaluators.eval_readers(config)}
    files = run_files.RunFiles(task, config, model_dir, readers, plan)
    run = _Run(
        task, config, model_dir, plan, evaluate, eval_training_data, graph_hook_fn, extras, files
    )
    suffix = '' if task_of_cluster is None else '_' + task_of_cluster.name.replace(':', '_')
    log_file = os.path.join(model_dir, f'log{suffix}.txt')
    # The lock comes first: a second run in the folder is refused before it writes to the log.
    with prepared_model_dir(config, model_dir, writes), logs.also_in_file(log_file), files.ended():
        if writes:
            cool_down.go_back(config, model_dir)
            jump = resumed_rates.find_jump(config, model_dir)
            if jump is not None:
                log.warning('%s', jump)
        if task_of_cluster is not None:
            return running.run_task(
                task_of_cluster,
                config,
                model_dir,
                building.create_session_config(
                    False, config.train_config.per_process_gpu_memory_fraction
                ),
                run.cluster_parts(),
            )
        evaluator = run.evaluator()
        run.train(evaluator)
        return run.finish(evaluator)


def evaluate(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    model_dir: str,
    checkpoint_path: Optional[str] = None,
    eval_training_data: int = 0,
    graph_hook_fn: GraphHook = None,
    analyze: bool = False,
) -> Metrics:
    """Evaluate one checkpoint, by default the latest of `model_dir`.

    With `analyze` it also writes `model_dir/analysis/<step>/`, where the task has an analysis.

    Returns:
        The metrics, by evaluation set; also written to `model_dir/metrics.json` and as events.
    """
    with run_folder.explained_removal(model_dir), summaries.writers_closed(model_dir):
        evaluator = evaluating.Evaluator(
            task,
            config,
            create_estimator(task, config, model_dir, graph_hook_fn, trains=False),
            evaluators.evaluation_sets(task, config, eval_training_data),
            graph_hook_fn=graph_hook_fn,
            analyze_from=0 if analyze else None,
        )
        evaluator.evaluate(checkpoint_files.resolve_checkpoint(checkpoint_path or model_dir))
        evaluator.draw_results()
    return evaluator.last_metrics


def evaluate_file(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    path: str,
    model_dir: Optional[str] = None,
    eval_training_data: int = 0,
    analyze: bool = False,
    predictor: Optional[exported_model.Predictor] = None,
) -> Metrics:
    """Evaluate a file of a model.

    Args:
        task: the task of the file's model.
        config: has the evaluation sets and metrics.
        path: the path of the file.
        model_dir: folder for events, pictures and `<file>.metrics.json`; None: none are written.
        eval_training_data: n: evaluate every n-th training example as well; 0: none.
        analyze: write `model_dir/analysis/<file>/` too, where the task has an analysis.
        predictor: runs the file on whole images; None: it is a `.tflite` or `.onnx` file of an
            export, and takes what the task prepares.

    Returns:
        The metrics of a checkpoint, without losses, by evaluation set.

    Raises:
        errors.UserError: the file cannot be run, or its model does not belong to the task.
    """
    tiling = tiles.from_config(config.eval_config)
    tiles.check(task, config.eval_config)
    if tiling is not None and predictor is None:
        predictor = FilePredictor(task, path)
    file: file_evaluation.EvaluatedFile
    if predictor is None:
        file = ExportedFile(task, path)
        takes_images = file.takes_images
    else:
        file = EvaluatedPredictor(task, predictor, tiling)
        takes_images = tiling is None  # by tiles each input of `evaluation_sets` has images
    task = serving.with_requests(task) if takes_images else task
    return file_evaluation.evaluate_file(
        task,
        config.eval_config,
        file,
        evaluators.evaluation_sets(task, config, eval_training_data),
        create_run_config(config, model_dir, trains=False),
        model_dir,
        analyze,
    )


def measure_file(
    task: Task, config: pipeline_pb2.TrainEvalPipelineConfig, checkpoint: str, path: str
) -> agreement.MetricPair:
    """Evaluate a checkpoint and a file of it on the first evaluation set, by the main metric.

    Args:
        task: the task of both.
        config: has the evaluation set, and may choose the metric (`export_config.best`).
        checkpoint: its prefix.
        path: of the `.tflite` or `.onnx` file.

    Raises:
        errors.UserError: one cannot be evaluated, or no metric of the file has a direction.
    """
    first = type(config)()
    first.CopyFrom(config)
    del first.eval_input_reader[1:]
    first.eval_config.num_visualizations = 0
    (values,) = evaluate_file(task, first, path).values()
    name = evaluating.main_metric(task, config, values)
    is_higher = metric_choices.direction(config, name)
    if is_higher is None:
        raise errors.ConfigError(
            f'--max_loss: whether larger values of the metric {name!r} are better is not known; '
            'expected export_config.best with metric and higher_is_better.'
        )
    # Not in the run's folder, whose metrics.json and results.csv are of its own evaluations.
    with tempfile.TemporaryDirectory() as folder:
        (expected,) = evaluate(task, first, folder, checkpoint).values()
    return agreement.MetricPair(name, is_higher, expected[name], values[name])


def evaluate_checkpoints(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    model_dir: str,
    checkpoint_dir: str,
    *,
    run_once: bool = False,
    max_retries: int = 0,
    eval_training_data: int = 0,
    poll_seconds: float = 5.0,
    idle_seconds: float = 600.0,
    graph_hook_fn: GraphHook = None,
) -> Metrics:
    """Evaluate the checkpoints of a folder as another process writes them.

    Evaluation ends with the checkpoint of step `train_config.num_steps`, or when no new checkpoint
    comes for `idle_seconds`.

    Args:
        task: the task of the model.
        config: has the evaluation sets and metrics.
        model_dir: the folder of events and metrics.
        checkpoint_dir: the folder of the checkpoints. One that is deleted early is skipped.
        run_once: True to evaluate only the present latest checkpoint.
        max_retries: number of further attempts after a failure; negative: no limit.
        eval_training_data: n: evaluate every n-th training example as well; 0: none.
        poll_seconds: seconds between two looks into the folder, and between two attempts.
        idle_seconds: seconds without a new checkpoint after which evaluation ends.
        graph_hook_fn: changes the graph, as in `model_fn.create_model_fn`.

    Returns:
        The metrics of the last evaluation, by evaluation set.
    """
    evaluator = evaluating.Evaluator(
        task,
        config,
        create_estimator(task, config, model_dir, graph_hook_fn, trains=False),
        evaluators.evaluation_sets(task, config, eval_training_data),
        graph_hook_fn=graph_hook_fn,
    )
    with contextlib.ExitStack() as stack:
        stack.enter_context(run_folder.explained_removal(model_dir))
        stack.enter_context(run_folder.explained_removal(checkpoint_dir))
        stack.enter_context(summaries.writers_closed(model_dir))
        if run_once:
            checkpoint = checkpoint_files.resolve_checkpoint(checkpoint_dir)
            watching.evaluate_with_retries(evaluator, checkpoint, max_retries, poll_seconds)
        else:
            watching.watch(
                evaluator,
                checkpoint_dir,
                last_step=config.train_config.num_steps,
                max_retries=max_retries,
                poll_seconds=poll_seconds,
                idle_seconds=idle_seconds,
            )
        if evaluator.last_step is not None:
            evaluator.draw_results()
    return evaluator.last_metrics


@contextlib.contextmanager
def prepared_model_dir(
    config: pipeline_pb2.TrainEvalPipelineConfig, model_dir: str, writes: bool = True
) -> Iterator[None]:
    """Check, clean and lock `model_dir` for the run in the block.

    Args:
        config: the pipeline config; its `fine_tune_checkpoint` must not be in the folder.
        model_dir: the folder.
        writes: whether this process writes to the folder.

    Raises:
        errors.UserError: the folder cannot be written to, its disk becomes full, it is gone, or
            another run trains in it.
    """
    model_dirs.refuse_own_checkpoint(model_dir, config.train_config.fine_tune_checkpoint)
    with checkpoint_files.explained_full_disk(model_dir), contextlib.ExitStack() as stack:
        if writes:
            model_dirs.ensure_writable(model_dir)
            stack.enter_context(run_lock.held(model_dir))
            checkpoint_files.clean_temporary(model_dir)
        with summaries.writers_closed(model_dir):
            yield


@dataclasses.dataclass(frozen=True)
class _Extensions:
    """Parts of a run that a program passes to `train_and_evaluate`."""

    hooks: Sequence[tf_estimator.SessionRunHook]
    saving_listeners: Sequence[tf_estimator.CheckpointSaverListener]
    exporters: Sequence[tf_estimator.Exporter]


@dataclasses.dataclass(frozen=True)
class _Run:
    """Training run: the arguments of `train_and_evaluate`, and the parts made of them."""

    task: Task
    config: pipeline_pb2.TrainEvalPipelineConfig
    model_dir: str
    plan: distribution.Plan
    evaluates: bool
    eval_training_data: int
    graph_hook_fn: GraphHook
    extensions: _Extensions
    files: run_files.RunFiles

    def chief_hooks(self) -> List[tf_estimator.SessionRunHook]:
        """Create the hooks of the process that writes to `model_dir`."""
        return [run_files.RunFilesHook(self.files), run_lock.LockHook(self.model_dir)]

    def trainer(self) -> Trainer:
        """Create the trainer of this process."""
        return create_trainer(self.task, self.config, self.model_dir, self.graph_hook_fn, self.plan)

    def evaluator(self) -> Optional[evaluating.Evaluator]:
        """Create the evaluator, with exports and early stopping; None without evaluations."""
        if not self.evaluates:
            return None
        return evaluators.create_evaluator(
            self.task,
            self.config,
            create_estimator(
                self.task, self.config, self.model_dir, self.graph_hook_fn, trains=False
            ),
            self.eval_training_data,
            self.graph_hook_fn,
            self.extensions.exporters,
        )

    def schedule(self) -> scheduling.Schedule:
        """Create the schedule of evaluations, with the record of earlier starts."""
        return scheduling.Schedule(self.config.eval_config.schedule, self.model_dir)

    def train(self, evaluator: Optional[evaluating.Evaluator]) -> None:
        """Train on this machine, unless early stopping has ended the run before."""
        listeners = list(self.extensions.saving_listeners)
        if evaluator is not None:
            listener = scheduling.EvaluationListener(evaluator, self.schedule(), self.model_dir)
            # Before the question whether the run has stopped: an interrupted evaluation may be the
            # one that stops it.
            listener.catch_up()
            if evaluator.has_stopped():
                return
            listeners.append(listener)
        if model_dirs.is_trained(self.model_dir, self.config.train_config.num_steps):
            return
        input_fn = train_input_fn(self.task, self.config, self.plan)
        with evaluating.explained(input_fn), progress.closing_bar():
            self.trainer().train(
                input_fn,
                hooks=[*self.chief_hooks(), *self.extensions.hooks],
                max_steps=self.config.train_config.num_steps or None,
                saving_listeners=listeners,
            )
        preemption.raise_if_requested()

    def finish(self, evaluator: Optional[evaluating.Evaluator]) -> Metrics:
        """Make the last evaluation and the final export."""
        checkpoint = checkpoint_files.resolve_checkpoint(self.model_dir)
        step = checkpoint_files.checkpoint_step(checkpoint)
        if evaluator is not None:
            with self.schedule().evaluating(step, is_final=True):
                evaluator.evaluate(checkpoint, is_final=True)
            return evaluator.last_metrics
        for exporter in export_policies.create_exporters(
            self.task, self.config, self.model_dir, self.graph_hook_fn
        ):
            if isinstance(exporter, export_policies.FinalExporter):
                exporter.export(step, checkpoint, {}, is_final=True)
        return {}

    def cluster_parts(self) -> running.Parts:
        """Return the parts for the roles of a cluster, created where a role needs them."""
        return running.Parts(
            create_trainer=self.trainer,
            create_input_fn=lambda: train_input_fn(self.task, self.config, self.plan),
            chief_hooks=self.chief_hooks(),
            hooks=self.extensions.hooks,
            saving_listeners=self.extensions.saving_listeners,
            create_evaluator=self.evaluator if self.evaluates else None,
            finish=lambda: self.finish(self.evaluator()),
            create_stopping=lambda: (
                evaluators.create_stopping(self.config, self.model_dir, self.eval_training_data)
                if self.evaluates
                else None
            ),
        )
