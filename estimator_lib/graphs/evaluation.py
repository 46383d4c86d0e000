"""Evaluation graph, for sessions of the engine and as an `EstimatorSpec`."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Dict, List, Mapping, Optional

import numpy as np
import tensorflow as tf

from estimator_lib import tf_estimator
from estimator_lib.checkpoints import ready_ops, savers
from estimator_lib.data import batches
from estimator_lib.distribution import replica_batches
from estimator_lib.graphs import losses as losses_lib
from estimator_lib.graphs import task_checks
from estimator_lib.hooks import summaries
from estimator_lib.optimization import learning_rates, optimizers
from estimator_lib.task import SOURCE_ID, Features, Labels, Metric, Task, Tensors
from protos import pipeline_pb2, train_pb2

tf1 = tf.compat.v1
ModeKeys = tf_estimator.ModeKeys

LEARNING_RATE = 'learning_rate'

EvaluationFn = Callable[[Features, Labels], 'EvaluationGraph']


@dataclasses.dataclass(frozen=True)
class EvaluationGraph:
    """Tensors and ops that an evaluation runs for each batch.

    Attributes:
        loss: the sum of the losses, float32 scalar.
        metrics: the metrics of the task, whose values are the input of `Task.finish_metrics`.
        loss_metrics: means of the losses over all examples, by their reported names.
        outputs: the outputs of `Task.postprocess`.
        learning_rate: that of the next training step, float32 scalar; None where the config has no
            schedule.
        saver: restores the variables from a checkpoint.
    """

    loss: tf.Tensor
    metrics: Mapping[str, Metric]
    loss_metrics: Mapping[str, Metric]
    outputs: Tensors
    learning_rate: Optional[tf.Tensor]
    saver: tf1.train.Saver


def create_evaluation_fn(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    graph_hook_fn: Optional[Callable[[], None]] = None,
) -> EvaluationFn:
    """Return a function that builds the graph of an evaluation.

    Args:
        task: builds the network, its outputs and its metrics.
        config: the pipeline config of training and evaluation.
        graph_hook_fn: rewrites the forward graph after the losses are built; None: nothing does.
    """

    # An Estimator with a strategy converts what it calls by AutoGraph. There is nothing to convert:
    # all conditions here are of Python.
    @tf.autograph.experimental.do_not_convert
    def build(features: Features, labels: Labels) -> EvaluationGraph:
        features, labels, state = batches.receive(
            task.batch_spec(), features, labels, ModeKeys.EVAL
        )
        predictions = task.predict(features, ModeKeys.EVAL, labels)
        task_checks.require_tensors(task, 'predict', predictions)
        losses = losses_lib.compute_losses(task, config, predictions, features, labels)
        if graph_hook_fn is not None:
            graph_hook_fn()
        outputs = task.postprocess(predictions, features)
        task_checks.require_batches(task, 'postprocess', outputs)
        metrics = replica_batches.build_once(
            lambda *batch: _create_metrics(task, *batch), (outputs, features, labels)
        )
        summaries.offer_examples(features, outputs, labels, state and state.records)
        # The last batch may be smaller: weighted by its size, each example counts once.
        batch_size = tf.cast(tf.shape(features[SOURCE_ID])[0], tf.float32)
        return EvaluationGraph(
            losses[losses_lib.TOTAL_LOSS],
            metrics,
            {
                # The prefix of the Object Detection API: Loss/localization_loss, Loss/total_loss.
                f'Loss/{name}': tf1.metrics.mean(loss, weights=batch_size)
                for name, loss in losses.items()
            },
            outputs,
            _learning_rate(config.train_config),
            savers.create_inference_saver(config.eval_config.use_moving_averages, task),
        )

    return build


def create_spec(
    task: Task, config: pipeline_pb2.TrainEvalPipelineConfig, graph: EvaluationGraph
) -> tf_estimator.EstimatorSpec:
    """Build the `EstimatorSpec` of an evaluation graph.

    Its `eval_metric_ops` are the metrics of `task.metric_names`, float32 scalars (NaN without
    data), the losses, and `learning_rate`, which published detectors report too.
    `Task.finish_metrics` computes the metrics in Python, in the run that reads them.

    Only a Saver that reads averages in place of variables is passed to the Scaffold from the start.
    The reason is `tf_estimator.experimental.InMemoryEvaluatorHook`, which copies the variables of
    training and refuses a Scaffold with a Saver.
    """
    options = ready_ops.always_ready()
    if config.eval_config.use_moving_averages:
        scaffold = tf1.train.Scaffold(saver=graph.saver, **options)
    elif tf.distribute.has_strategy():
        # An Estimator merges the Scaffolds of replicas to one, which finds its Saver here.
        tf1.get_collection_ref(tf1.GraphKeys.SAVERS)[:] = [graph.saver]
        scaffold = tf1.train.Scaffold(**options)
    else:
        scaffold = _RestoringScaffold(graph.saver, **options)
    return tf_estimator.EstimatorSpec(
        ModeKeys.EVAL,
        predictions=task.export_outputs(graph.outputs),
        loss=graph.loss,
        eval_metric_ops={
            **_finished(task, graph.metrics),
            **graph.loss_metrics,
            **_rate_metric(graph.learning_rate),
        },
        scaffold=scaffold,
    )


class _RestoringScaffold(tf1.train.Scaffold):
    """Scaffold that has its Saver from when a session begins.

    A Saver in the graph's collection would do the same, but a SavedModel cannot keep one that is
    not built yet, and TensorFlow reports that when it loads the model.

    Args:
        saver: the Saver.
        **options: the other arguments of a Scaffold.
    """

    def __init__(self, saver: tf1.train.Saver, **options: Any):
        super().__init__(**options)
        self._own_saver = saver

    def finalize(self) -> tf1.train.Scaffold:
        """Take the Saver, and create the missing parts."""
        self._saver = self._own_saver
        return super().finalize()


def _create_metrics(
    task: Task, outputs: Tensors, features: Features, labels: Labels
) -> Dict[str, Metric]:
    metrics = dict(task.metrics(outputs, features, labels))
    task_checks.require_metrics(task, metrics)
    return metrics


def _learning_rate(config: train_pb2.TrainConfig) -> Optional[tf.Tensor]:
    if config.optimizer.WhichOneof('optimizer') is None:
        return None
    schedule = optimizers.learning_rate_config(config.optimizer)
    if schedule.WhichOneof('learning_rate') is None:
        return None
    global_step = tf1.train.get_or_create_global_step()
    return learning_rates.create_learning_rate(schedule, global_step, config.num_steps)


def _rate_metric(rate: Optional[tf.Tensor]) -> Dict[str, Metric]:
    """Build the metric of a learning rate, without updates and the same for all replicas."""
    if rate is None:
        return {}
    read = replica_batches.build_once(lambda value: (value[0], tf.no_op()), [rate[tf.newaxis]])
    # The Object Detection API reports it among the metrics under this name too.
    return {LEARNING_RATE: read}


def _finished(task: Task, metrics: Mapping[str, Metric]) -> Dict[str, Metric]:
    """Build metrics of the scalars of `Task.finish_metrics`, each with the updates of all."""
    names = list(task.metric_names())
    if not names:
        return {}

    def finish(*values: Any) -> np.ndarray:
        scalars = task.finish_metrics(dict(zip(metrics, values)))
        task_checks.require_known_metrics(task, scalars)
        return np.array([scalars.get(name, np.nan) for name in names], np.float32)

    def create(*values: tf.Tensor) -> List[tf.Tensor]:
        # Python code between two ops: a metric like average precision is no graph.
        finished = tf.numpy_function(finish, list(values), tf.float32, name='finish_metrics')
        return tf.unstack(tf.ensure_shape(finished, [len(names)]))

    # An Estimator reads the values after all updates, in a run of their own.
    update = tf.group([update for _, update in metrics.values()])
    values = replica_batches.build_once(create, [value for value, _ in metrics.values()])
    return {name: (value, update) for name, value in zip(names, values)}
