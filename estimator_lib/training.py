"""Driving an Estimator: train, evaluate, export, on one machine or as a task of a cluster."""

from __future__ import annotations

import logging
from typing import Callable, Dict, List, Optional

import tensorflow as tf

from estimator_lib import config as config_lib
from estimator_lib import distribution, errors, model_fn
from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.cluster import running
from estimator_lib.data import inputs
from estimator_lib.distribution import run_configs
from estimator_lib.evaluation import early_stopping, evaluating
from estimator_lib.export import export_policies
from estimator_lib.hooks import preemption, progress
from estimator_lib.task import Task
from protos import input_reader_pb2, pipeline_pb2

tf1 = tf.compat.v1
ModeKeys = tf.estimator.ModeKeys
log = logging.getLogger('estimator_lib')

DEFAULT_SAVE_SECONDS = 600


def create_estimator(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    model_dir: str,
    graph_hook_fn: Optional[Callable[[], None]] = None,
    plan: Optional[distribution.Plan] = None,
) -> tf.estimator.Estimator:
    """The Estimator of a task.

    Args:
        task: what it trains.
        config: how; the cadence of checkpoints and summaries, the seed and the number type too.
        model_dir: where checkpoints and events go.
        graph_hook_fn: see `model_fn.create_model_fn`.
        plan: on which devices, and with which other tasks, it trains; None: on one device, alone,
            as evaluation and export do.
    """
    return tf.estimator.Estimator(
        model_fn.create_model_fn(task, config, graph_hook_fn),
        model_dir=model_dir,
        config=create_run_config(config, model_dir, plan),
    )


def create_run_config(
    config: pipeline_pb2.TrainEvalPipelineConfig,
    model_dir: str,
    plan: Optional[distribution.Plan] = None,
) -> tf.estimator.RunConfig:
    """Cadences, seed, session options and devices of a run.

    Args:
        config: how it trains.
        model_dir: of the run.
        plan: see `create_estimator`.
    """
    train_config = config.train_config
    saves = train_config.checkpoints
    by_steps = saves.WhichOneof('cadence') == 'save_every_n_steps'
    every = {
        'save_checkpoints_steps': saves.save_every_n_steps if by_steps else None,
        'save_checkpoints_secs': (
            None if by_steps else saves.save_every_n_seconds or DEFAULT_SAVE_SECONDS
        ),
    }
    return run_configs.create(
        plan or distribution.alone(config),
        create_session_config(train_config.use_bfloat16),
        model_dir=model_dir,
        tf_random_seed=train_config.random_seed,
        save_summary_steps=None,  # see summaries.TrainingScalars
        log_step_count_steps=None,
        keep_checkpoint_max=saves.keep_max or None,
        keep_checkpoint_every_n_hours=train_config.keep_checkpoint_every_n_hours,
        **every,
    )


def create_session_config(use_bfloat16: bool = False) -> tf1.ConfigProto:
    """Session options.

    Args:
        use_bfloat16: let the CPU's matrix kernels compute in bfloat16; variables stay float32.
    """
    session_config = tf1.ConfigProto(allow_soft_placement=True)
    session_config.gpu_options.allow_growth = True
    # Two rewrites that take a third of the time that a graph's preparation takes and give nothing
    # here: one saves memory, which is not short; the other repeats what its neighbours do.
    rewrites = session_config.graph_options.rewrite_options
    rewrites.memory_optimization = rewrites.NO_MEM_OPT
    rewrites.disable_tfg_optimizer = True
    if use_bfloat16:
        rewrites.auto_mixed_precision_onednn_bfloat16 = rewrites.ON
    return session_config


def train_and_evaluate(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    model_dir: str,
    *,
    evaluate: bool = True,
    eval_training_data: int = 0,
    graph_hook_fn: Optional[Callable[[], None]] = None,
) -> Dict[str, Dict[str, float]]:
    """Trains until `train_config.num_steps`, evaluates on the way and at the end, and exports.

    A `model_dir` with checkpoints of the same model is resumed. Under `TF_CONFIG` it does what
    this process's task of the cluster has to do.

    Args:
        task: what to train.
        config: how.
        model_dir: where everything goes; made when it is not there.
        evaluate: False to train only, whatever `eval_config.schedule` says.
        eval_training_data: n: evaluate on every n-th training example as well; 0: do not.
        graph_hook_fn: see `model_fn.create_model_fn`.

    Returns:
        The metrics of the last evaluation, by evaluation set; empty where there was none.

    Raises:
        errors.UserError: config, data, checkpoint or cluster are not usable as they are.
        preemption.Preempted: the process was told to end; the checkpoint is saved.
    """
    task_of_cluster = distribution.read_tf_config()
    plan = distribution.create_plan(config, task_of_cluster)
    for field in distribution.idle_fields(plan, config.train_config):
        log.warning('%s has no effect: training uses %s', field, plan.mode.value)
    prepare_model_dir(config, model_dir, writes=task_of_cluster is None or task_of_cluster.is_chief)
    check_metric_names(task, config)
    evaluate = evaluate and config.eval_config.schedule.enabled and bool(config.eval_input_reader)
    if evaluate:
        task.check_evaluation()
    if task_of_cluster is not None:
        parts = _cluster_parts(
            task, config, plan, model_dir, evaluate, eval_training_data, graph_hook_fn
        )
        with checkpoint_files.explained_full_disk(model_dir):
            return running.run_task(
                task_of_cluster, config, model_dir, create_session_config(), parts
            )
    estimator = create_estimator(task, config, model_dir, graph_hook_fn, plan)
    evaluator = None
    if evaluate:
        evaluator = create_evaluator(task, config, estimator, eval_training_data)
    with checkpoint_files.explained_full_disk(model_dir), preemption.preemption_guard():
        _train(config, estimator, train_input_fn(task, config, plan), evaluator)
        return _finish(task, config, estimator, evaluator)


def evaluate(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    model_dir: str,
    checkpoint_path: Optional[str] = None,
    eval_training_data: int = 0,
) -> Dict[str, Dict[str, float]]:
    """Evaluates one checkpoint, the latest of `model_dir` unless another is given.

    Returns:
        The metrics, by evaluation set; also written to `model_dir/metrics.json` and as events.
    """
    checkpoint = checkpoint_files.resolve_checkpoint(checkpoint_path or model_dir)
    estimator = create_estimator(task, config, model_dir)
    evaluator = evaluating.Evaluator(
        task, config.eval_config, estimator, _evaluation_sets(task, config, eval_training_data)
    )
    with preemption.preemption_guard():
        evaluator.evaluate(checkpoint)
    return evaluator.last_metrics


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
) -> Dict[str, Dict[str, float]]:
    """Evaluates the checkpoints of a folder as another process writes them.

    Ends with the checkpoint of step `train_config.num_steps`, or when none has come for a while.

    Args:
        task: what is evaluated.
        config: how.
        model_dir: where events and metrics go.
        checkpoint_dir: where the checkpoints come from.
        run_once: evaluate the latest checkpoint that is there, and end.
        max_retries: how many failed evaluations are tried again (a checkpoint may have been
            deleted by the training process in the meantime).
        eval_training_data: n: evaluate on every n-th training example as well; 0: do not.
        poll_seconds: between two looks into the folder.
        idle_seconds: without a new checkpoint, after which this ends.

    Returns:
        The metrics of the last evaluation, by evaluation set.
    """
    estimator = create_estimator(task, config, model_dir)
    evaluator = evaluating.Evaluator(
        task, config.eval_config, estimator, _evaluation_sets(task, config, eval_training_data)
    )
    with preemption.preemption_guard():
        if run_once:
            evaluator.evaluate(checkpoint_files.resolve_checkpoint(checkpoint_dir))
            return evaluator.last_metrics
        for path in tf1.train.checkpoints_iterator(
            checkpoint_dir, min_interval_secs=poll_seconds, timeout=idle_seconds
        ):
            try:
                evaluator.evaluate(path)
            except (tf.errors.NotFoundError, tf.errors.InvalidArgumentError) as error:
                if max_retries == 0:
                    raise
                max_retries -= 1
                log.warning('evaluation of %s failed, %d tries left: %s', path, max_retries, error)
            if config.train_config.num_steps and (
                checkpoint_files.step_of(path) >= config.train_config.num_steps
            ):
                break
        else:
            log.warning('no new checkpoint in %s for %d s', checkpoint_dir, idle_seconds)
    return evaluator.last_metrics


def prepare_model_dir(
    config: pipeline_pb2.TrainEvalPipelineConfig, model_dir: str, writes: bool = True
) -> None:
    """Makes `model_dir` ready: there, writable, without leftovers of killed saves.

    Args:
        config: its `fine_tune_checkpoint` must not be in the folder.
        model_dir: the folder.
        writes: whether this process is the one that writes to it.
    """
    checkpoint_files.refuse_own_checkpoint(model_dir, config.train_config.fine_tune_checkpoint)
    if writes:
        checkpoint_files.ensure_writable(model_dir)
        checkpoint_files.clean_temporary(model_dir)


class _ConfigSaver(tf.estimator.SessionRunHook):
    """Saves the as-run config once the graph is built.

    The folder of another model has been refused by then, and keeps its own.
    """

    def __init__(self, config: pipeline_pb2.TrainEvalPipelineConfig, model_dir: str):
        self._config = config
        self._model_dir = model_dir

    def begin(self) -> None:
        config_lib.save_pipeline_config(self._config, self._model_dir)


def check_metric_names(task: Task, config: pipeline_pb2.TrainEvalPipelineConfig) -> None:
    """Refuses a metric that no evaluation will report, before hours of training.

    Raises:
        errors.ConfigError: the message has the field, and the metrics that there are.
    """
    known = metric_names(task)
    fields = {
        'export_config.best.metric': config.export_config.best.metric,
        'train_config.early_stopping.metric': config.train_config.early_stopping.metric,
    }
    for field, name in fields.items():
        if name and name not in known:
            raise errors.ConfigError(
                f'{field}: {task.name} has no metric {name!r}{errors.did_you_mean(name, known)}'
            )


def metric_names(task: Task) -> List[str]:
    """Every name that an evaluation of the task may report."""
    return [*task.metric_names(), *model_fn.loss_metric_names(task)]


def create_evaluator(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    estimator: tf.estimator.Estimator,
    eval_training_data: int = 0,
) -> evaluating.Evaluator:
    """The evaluator of a training run, with its exporters and early stopping."""
    sets = _evaluation_sets(task, config, eval_training_data)
    stopping = None
    if config.train_config.HasField('early_stopping'):
        stopping = early_stopping.EarlyStopping.from_config(
            config.train_config.early_stopping, estimator.eval_dir(sets[0].name)
        )
    exporters = export_policies.create_exporters(task, config, estimator.model_dir)
    return evaluating.Evaluator(task, config.eval_config, estimator, sets, exporters, stopping)


def _train(
    config: pipeline_pb2.TrainEvalPipelineConfig,
    estimator: tf.estimator.Estimator,
    input_fn: inputs.RecordInput,
    evaluator: Optional[evaluating.Evaluator],
) -> None:
    listeners = []
    if evaluator is not None:
        listeners.append(
            evaluating.EvaluationListener(
                evaluator,
                config.eval_config.schedule,
                estimator.model_dir,
                first_step=checkpoint_files.latest_step(estimator.model_dir),
            )
        )
    with evaluating.explained(input_fn), progress.closing_bar():
        estimator.train(
            input_fn,
            hooks=[_ConfigSaver(config, estimator.model_dir)],
            max_steps=config.train_config.num_steps or None,
            saving_listeners=listeners,
        )
    preemption.raise_if_requested()


def _finish(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    estimator: tf.estimator.Estimator,
    evaluator: Optional[evaluating.Evaluator],
) -> Dict[str, Dict[str, float]]:
    """The last evaluation, and the final export."""
    checkpoint = checkpoint_files.resolve_checkpoint(estimator.model_dir)
    if evaluator is not None:
        evaluator.evaluate(checkpoint, is_final=True)
        return evaluator.last_metrics
    for exporter in export_policies.create_exporters(task, config, estimator.model_dir):
        if isinstance(exporter, export_policies.FinalExporter):
            exporter.export(checkpoint_files.step_of(checkpoint), checkpoint, {}, is_final=True)
    return {}


def train_input_fn(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    plan: Optional[distribution.Plan] = None,
) -> inputs.RecordInput:
    """The training examples, or this trainer's share of them in a cluster.

    Args:
        task: whose they are.
        config: where they come from.
        plan: see `create_estimator`.
    """
    plan = plan or distribution.alone(config)
    return inputs.create_input_fn(
        task,
        config.train_input_reader,
        ModeKeys.TRAIN,
        batch_size=plan.batch_size,
        seed=config.train_config.random_seed,
        batch_parts=plan.input_parts,
        share_batches=plan.is_synchronous,
    )


def eval_input_fn(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    reader: input_reader_pb2.InputReader,
) -> inputs.RecordInput:
    """One pass over the examples of a reader."""
    eval_config = config.eval_config
    return inputs.create_input_fn(
        task,
        reader,
        ModeKeys.EVAL,
        batch_size=eval_config.batch_size,
        seed=config.train_config.random_seed,
        num_epochs=1,
        max_examples=eval_config.num_examples if eval_config.HasField('num_examples') else None,
    )


def _evaluation_sets(
    task: Task, config: pipeline_pb2.TrainEvalPipelineConfig, eval_training_data: int
) -> List[evaluating.EvaluationSet]:
    readers = list(config.eval_input_reader)
    if not readers and not eval_training_data:
        raise errors.ConfigError('eval_input_reader: none is set; evaluation needs examples.')
    names = [reader.name or str(index) for index, reader in enumerate(readers)]
    if eval_training_data:
        sample = input_reader_pb2.InputReader()
        sample.CopyFrom(config.train_input_reader)
        sample.sample_1_of_n_examples = eval_training_data
        sample.shuffle = False
        readers.append(sample)
        names.append('training_data')
    return [
        evaluating.EvaluationSet(name, eval_input_fn(task, config, reader))
        for name, reader in zip(names, readers)
    ]


def _cluster_parts(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    plan: distribution.Plan,
    model_dir: str,
    evaluate: bool,
    eval_training_data: int,
    graph_hook_fn: Optional[Callable[[], None]],
) -> running.Parts:
    """What the roles of a cluster do, each part made where its role needs it."""

    def local_evaluator() -> evaluating.Evaluator:
        estimator = create_estimator(task, config, model_dir, graph_hook_fn)
        return create_evaluator(task, config, estimator, eval_training_data)

    def finish() -> Dict[str, Dict[str, float]]:
        estimator = create_estimator(task, config, model_dir, graph_hook_fn)
        return _finish(task, config, estimator, local_evaluator() if evaluate else None)

    def stopping() -> Optional[early_stopping.EarlyStopping]:
        return local_evaluator().stopping if evaluate else None

    return running.Parts(
        create_estimator=lambda: create_estimator(task, config, model_dir, graph_hook_fn, plan),
        create_input_fn=lambda: train_input_fn(task, config, plan),
        chief_hooks=[_ConfigSaver(config, model_dir)],
        create_evaluator=local_evaluator if evaluate else None,
        finish=finish,
        create_stopping=stopping,
    )
