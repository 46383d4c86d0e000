"""`create_model_fn`: the `model_fn` of any task for a `tf_estimator.Estimator`.

This module only puts the parts of a graph in order: predictions, losses, and then the parts of the
mode. Gradients, checkpoints and hooks have modules of their own.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import tensorflow as tf

from estimator_lib import distribution, graph_state, tf_estimator
from estimator_lib.checkpoints import (
    checkpoint_files,
    checkpoint_maps,
    class_match,
    fine_tuning,
    initial_values,
    model_dirs,
    model_variables,
    ready_ops,
    savers,
)
from estimator_lib.data import batches, epochs, inputs
from estimator_lib.distribution import (
    mixed_precision,
    replica_values,
    run_configs,
    startup,
    strategies,
    sync_replicas,
)
from estimator_lib.export import serving
from estimator_lib.graphs import evaluation, task_checks
from estimator_lib.graphs import losses as losses_lib
from estimator_lib.hooks import non_finite, preemption_hook, profiling, progress, summaries
from estimator_lib.optimization import (
    gradients,
    learning_rates,
    moving_averages,
    optimize_loss,
    optimizers,
    partitioned,
)
from estimator_lib.optimization.accumulation import Accumulation
from estimator_lib.optimization.finite_updates import FiniteUpdates
from estimator_lib.optimization.loss_scale import LossScale
from estimator_lib.task import SOURCE_ID, Features, Labels, Metric, Task, Tensors
from protos import pipeline_pb2, train_pb2

log = logging.getLogger('estimator_lib')
tf1 = tf.compat.v1
ModeKeys = tf_estimator.ModeKeys

ModelFn = Callable[..., tf_estimator.EstimatorSpec]


@dataclasses.dataclass(frozen=True)
class TrainStep:
    """Training step with its hooks; the attributes are those of an `EstimatorSpec`.

    `EstimatorSpec` itself needs a graph: it cannot hold a step of eager variables.

    Attributes:
        loss: float scalar; infinity replaces NaN.
        train_op: the op that runs the step.
        scaffold: the Saver and the initial values of variables.
        training_hooks: the hooks that watch the steps of this process.
        training_chief_hooks: the hooks that write to `model_dir`.
    """

    loss: tf.Tensor
    train_op: tf.Operation
    scaffold: tf1.train.Scaffold
    training_hooks: List[tf1.train.SessionRunHook]
    training_chief_hooks: List[tf1.train.SessionRunHook]

    def as_spec(self) -> tf_estimator.EstimatorSpec:
        """Convert to an `EstimatorSpec`."""
        return tf_estimator.EstimatorSpec(ModeKeys.TRAIN, **vars(self))


StepFn = Callable[[Features, Labels, Optional[tf_estimator.RunConfig]], TrainStep]


def create_model_fn(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    graph_hook_fn: Optional[Callable[[], None]] = None,
) -> ModelFn:
    """Return a `model_fn` that builds a task's graph for training, evaluation or prediction.

    Args:
        task: the task.
        config: the pipeline config of training and evaluation.
        graph_hook_fn: rewrites the forward graph; called in each graph after the forward pass and
            the losses are built, and before the gradients.

    Returns:
        `model_fn(features, labels, mode, params, config)` for `tf_estimator.Estimator`. `params`
        is for the `input_fn` of a program: the `model_fn` takes everything from the pipeline
        config. Without a `RunConfig`, or with one
        without `model_dir`, the `model_fn` builds the same step for one machine, and the step
        writes no checkpoints and no summaries.
    """
    pipeline = config

    # Under a strategy AutoGraph would convert all Python code below. That takes longer than the
    # rest of the start, and is not needed: no `if` and no loop there depends on a tensor's value.
    @tf.autograph.experimental.do_not_convert
    def build(
        features: Features,
        labels: Optional[Labels],
        mode: str,
        config: Optional[tf_estimator.RunConfig],
    ) -> tf_estimator.EstimatorSpec:
        if mode == ModeKeys.TRAIN:
            return create_step_fn(task, pipeline, graph_hook_fn)(features, labels, config).as_spec()
        if config is not None and config.model_dir:
            model_dirs.require_listed(config.model_dir)
        if mode == ModeKeys.EVAL:
            if pipeline.eval_config.tiles.size:
                log.warning(
                    'eval_config.tiles has no effect in Estimator.evaluate, which sees whole '
                    'images; training.evaluate and the front door evaluate by tiles'
                )
            create_graph = evaluation.create_evaluation_fn(task, pipeline, graph_hook_fn)
            return evaluation.create_spec(task, pipeline, create_graph(features, labels))
        batch = batches.receive(task.batch_spec(), features, labels, mode)
        return _predict_spec(task, pipeline, batch.features, graph_hook_fn)

    def model_fn(
        features: Features,
        labels: Optional[Labels],
        mode: str,
        params: Optional[Mapping[str, Any]] = None,
        config: Optional[tf_estimator.RunConfig] = None,
    ) -> tf_estimator.EstimatorSpec:
        del params
        return build(features, labels, mode, config)

    return model_fn


def create_step_fn(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    graph_hook_fn: Optional[Callable[[], None]] = None,
) -> StepFn:
    """Return a function that builds a task's training step, for sessions and for functions.

    Args:
        task: builds the network and its losses.
        config: the pipeline config of training and evaluation.
        graph_hook_fn: rewrites the forward graph between the losses and the gradients.

    Returns:
        `step_fn(features, labels, run_config)`.
    """
    pipeline = config

    @tf.autograph.experimental.do_not_convert
    def build(
        features: Features, labels: Labels, config: Optional[tf_estimator.RunConfig]
    ) -> TrainStep:
        features, labels, reader_state = batches.receive(
            task.batch_spec(), features, labels, ModeKeys.TRAIN
        )
        run_config = config or run_configs.create(distribution.alone(pipeline), tf1.ConfigProto())
        plan = distribution.create_plan(pipeline, distribution.cluster_from_run_config(run_config))
        strategies.require(plan)
        if plan.uses_parameter_servers:
            run_configs.filter_devices(plan)
        distribution.require_own_batches(plan, task.across_replicas())
        forward = losses_lib.compute_training_losses(task, pipeline, plan, features, labels)
        # In any case: TensorFlow warns of a collection of dicts when it saves the graph.
        end_points = graph_state.pop_end_points()
        if pipeline.train_config.progress.summarize_activations:
            summaries.activations(end_points)
        # Before the gradients are built: the balance counts ops of the forward pass.
        if pipeline.train_config.use_bfloat16:
            mixed_precision.choose(tf1.get_default_graph())
        if graph_hook_fn is not None:
            graph_hook_fn()
        return _train_step(
            _Training(
                task,
                pipeline,
                run_config,
                plan,
                forward.losses,
                forward.metrics,
                forward.micro_batches,
                forward.examples,
                features,
                reader_state,
            )
        )

    return build


@dataclasses.dataclass(frozen=True)
class _Training:
    """Forward pass of a training step, and the settings of its run.

    Attributes:
        task: the task.
        config: the pipeline config.
        run_config: `model_dir` (None: nothing is written), cadence of checkpoints, cluster.
        plan: the distribution over devices.
        losses: the losses of this replica by name, their sum under `losses.TOTAL_LOSS`.
        metrics: see `Task.training_metrics`.
        micro_batches: the accumulation over micro-batches, if there are several.
        examples: see `losses.TrainingLosses`.
        features: the features of the batch.
        reader_state: the position of the input; None if it has none.
    """

    task: Task
    config: pipeline_pb2.TrainEvalPipelineConfig
    run_config: tf_estimator.RunConfig
    plan: distribution.Plan
    losses: Tensors
    metrics: Mapping[str, Metric]
    micro_batches: Optional[Accumulation]
    examples: Tuple[Features, Tensors, Labels]
    features: Features
    reader_state: Optional[inputs.ReaderState]

    @property
    def metric_values(self) -> Tensors:
        """Values of `metrics`, for the progress line and TensorBoard: float32 scalars."""
        return {name: value for name, (value, _) in self.metrics.items()}


def _train_step(training: _Training) -> TrainStep:
    """Build the rest of the training graph: gradients, updates, restore and hooks."""
    task, plan, train_config = training.task, training.plan, training.config.train_config
    exchange = sync_replicas.from_plan(plan)
    loss = training.losses[losses_lib.TOTAL_LOSS]
    mean_losses = exchange.mean_losses if exchange else replica_values.mean_over_replicas
    losses = mean_losses(training.losses)
    global_step = tf1.train.get_or_create_global_step()
    learning_rate = learning_rates.create_learning_rate(
        optimizers.learning_rate_config(train_config.optimizer),
        global_step,
        train_config.num_steps,
    )
    stops = train_config.non_finite_loss_policy == train_pb2.STOP_TRAINING
    scale = mixed_precision.create_loss_scale(train_config)
    finite = None if stops and scale is None else FiniteUpdates()
    train_op = optimize_loss.optimize_loss(
        loss,
        global_step=global_step,
        optimizer=optimizers.create_optimizer(train_config.optimizer, learning_rate),
        policy=gradients.GradientPolicy.from_config(
            train_config, task.checkpoints.last_layer_scopes, task.bias_gradient_multiplier()
        ),
        averages=moving_averages.MovingAverages.from_config(
            train_config.optimizer, task.averages_model_variables()
        ),
        summarize_gradients=train_config.summarize_gradients,
        exchange=exchange,
        colocate_gradients=plan.mode is distribution.Mode.CLONES,
        finite=finite,
        loss_scale=scale,
        micro_batches=training.micro_batches,
    )
    if training.reader_state is not None:
        # In the same run as the update, so that each checkpoint has the position of its own
        # weights.
        train_op = tf.group(train_op, inputs.advance_position(training.reader_state))
    train_op = tf.group(train_op, [update for _, update in training.metrics.values()])
    if train_config.progress.summarize_variables:
        summaries.histograms(tf1.trainable_variables())
    scaffold = _train_scaffold(task, training.config, training.run_config)
    return TrainStep(
        loss=non_finite.reported_loss(loss),
        train_op=train_op,
        scaffold=scaffold,
        training_hooks=[
            *startup.hooks(plan, exchange, train_config.num_steps),
            *_training_hooks(training, losses, learning_rate, finite, scale),
        ],
        training_chief_hooks=_chief_hooks(training, losses, learning_rate, scaffold, scale),
    )


def _train_scaffold(
    task: Task, config: pipeline_pb2.TrainEvalPipelineConfig, run_config: tf_estimator.RunConfig
) -> tf1.train.Scaffold:
    """Build the Scaffold of a training graph: its only Saver, and its initial values."""
    train_config = config.train_config
    start: Dict[str, Any] = {}
    if train_config.fine_tune_checkpoint:
        variables = partitioned.whole(model_variables.with_companions(tf1.get_default_graph()))
        start = fine_tuning.fine_tune_start(
            train_config,
            checkpoint_maps.fine_tuning_map(task, variables, train_config, run_config.model_dir),
            last_layer_scopes=task.checkpoints.last_layer_scopes,
            model_dir=run_config.model_dir,
            channels=task.image_format.channels,
            find_classes=functools.partial(class_match.find, task.checkpoints),
        )
    if run_config.model_dir:
        class_match.require_resumable(task.checkpoints, run_config.model_dir)
        if run_config.is_chief:
            # Before the session reads the list: it refuses one with the paths of another place, and
            # a copied folder would delete the files of the original (commit fbffd1e0).
            checkpoint_files.list_by_name(run_config.model_dir)
        model_dirs.check_model_dir(run_config.model_dir, tf1.global_variables())
    saver = savers.create_saver(
        run_config.keep_checkpoint_max, run_config.keep_checkpoint_every_n_hours
    )
    # Saving hooks of a user look for the Saver in this collection.
    tf1.get_collection_ref(tf1.GraphKeys.SAVERS)[:] = [saver]
    # Parameter servers outlive a worker's session, so sessions of a cluster have to ask which
    # variables have values.
    alone = run_config.num_worker_replicas <= 1 and run_config.train_distribute is None
    if alone and not run_config.num_ps_replicas:
        # Update the dictionary of fine-tuning in place: its `init_fn` clears it after use.
        fed = start.setdefault('init_feed_dict', {})
        fed.update({**initial_values.unfolded_feed_dict(), **fed})
        start.update(ready_ops.always_ready())
    start['init_fn'] = initial_values.with_warm_started_averages(start.get('init_fn'))
    return tf1.train.Scaffold(saver=saver, **start)


def _chief_hooks(
    training: _Training,
    losses: Tensors,
    learning_rate: tf.Tensor,
    scaffold: tf1.train.Scaffold,
    scale: Optional[LossScale],
) -> List[tf1.train.SessionRunHook]:
    """Build the hooks that write to `model_dir`."""
    run_config = training.run_config
    if not run_config.model_dir:
        return []
    scalars = {
        'learning_rate': learning_rate,
        'loss': losses[losses_lib.TOTAL_LOSS],
        **{f'Loss/{name}': loss for name, loss in losses.items()},
        **{f'training/{name}': value for name, value in training.metric_values.items()},
        **({} if scale is None else {'loss_scale': scale.value}),
    }
    reports, reader_state = training.config.train_config.progress, training.reader_state
    waiting = None if reader_state is None else reader_state.wait_seconds
    pictures = []
    if reports.pictures_every_n_steps:
        pictures.append(
            summaries.TrainingPictures(
                training.task.presentation.draw,
                training.examples,
                run_config.model_dir,
                reports.pictures_every_n_steps,
            )
        )
    writers, listeners = summaries.training_hooks(
        scalars,
        run_config.model_dir,
        reports.summary_every_n_steps,
        training.plan.batch_size,
        waiting,
    )
    # If non-finite updates are skipped, a step with a non-finite loss has changed no variable.
    stops = training.config.train_config.non_finite_loss_policy == train_pb2.STOP_TRAINING
    saving = non_finite.saver_hooks(run_config, losses if stops else {}, scaffold)
    for hook in saving:
        hook.listen(listeners)
    # The scalars of a step are written before its checkpoint is saved and evaluated.
    return [*writers, *saving, *pictures]


def _training_hooks(
    training: _Training,
    losses: Tensors,
    learning_rate: tf.Tensor,
    finite: Optional[FiniteUpdates],
    scale: Optional[LossScale],
) -> List[tf1.train.SessionRunHook]:
    """Build the hooks that watch the steps of this process."""
    train_config, reader_state = training.config.train_config, training.reader_state
    plan = training.plan
    # Only the chief of synchronous workers knows the gradients that make a step.
    is_waiting = plan.is_synchronous and plan.worker_index > 0
    is_finite = None if is_waiting else getattr(finite, 'is_finite', None)
    if scale is not None and is_finite is not None:
        # A step that overflowed only because of the loss scale must not trigger the policy.
        is_finite = scale.is_expected(is_finite)
    hooks: List[tf1.train.SessionRunHook] = [
        non_finite.NonFiniteLossHook(
            losses,
            learning_rate,
            replica_values.gather_in_process(training.features[SOURCE_ID]),
            train_config.non_finite_loss_policy,
            is_finite=is_finite,
            max_skipped=train_config.max_skipped_steps,
        ),
        progress.ProgressHook(
            losses,
            learning_rate,
            batch_size=training.plan.batch_size,
            num_steps=train_config.num_steps,
            every_n_steps=train_config.progress.every_n_steps,
            wait_seconds=None if reader_state is None else reader_state.wait_seconds,
            skipped=None if reader_state is None else reader_state.skipped,
            metrics=training.metric_values,
            epoch_size=epochs.known_examples(training.config.train_input_reader),
        ),
    ]
    if not training.run_config.cluster_spec:
        # In a cluster the trainers agree on their last step instead, see `cluster/running.py`.
        hooks.append(preemption_hook.PreemptionHook())
    if train_config.use_bfloat16:
        hooks.append(mixed_precision.EnvironmentHook())
    profile_step, model_dir = train_config.progress.profile_step, training.run_config.model_dir
    if profile_step and model_dir:
        hooks.append(profiling.ProfileHook(profile_step, model_dir))
    return hooks


def _predict_spec(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    features: Features,
    graph_hook_fn: Optional[Callable[[], None]],
) -> tf_estimator.EstimatorSpec:
    """Build the inference graph and its signatures, the same outputs by two names."""
    predictions = task.predict(features, ModeKeys.PREDICT)
    task_checks.require_tensors(task, 'predict', predictions)
    if graph_hook_fn is not None:
        graph_hook_fn()
    outputs = task.postprocess(predictions, features)
    task_checks.require_batches(task, 'postprocess', outputs)
    exported = task.export_outputs(outputs)
    return tf_estimator.EstimatorSpec(
        ModeKeys.PREDICT,
        predictions=exported,
        export_outputs={
            name: tf_estimator.export.PredictOutput(exported)
            for name in (serving.DEFAULT_SIGNATURE, serving.PREDICT_SIGNATURE)
        },
        scaffold=tf1.train.Scaffold(
            saver=savers.create_inference_saver(config.eval_config.use_moving_averages, task),
            **ready_ops.always_ready(),
        ),
    )
