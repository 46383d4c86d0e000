"""Losses of a network: those of the task, the regularization loss, and their sum."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Tuple

import tensorflow as tf

from estimator_lib import distribution, graph_state, tf_estimator
from estimator_lib.checkpoints import model_variables
from estimator_lib.distribution import placement, replica_values, replicas
from estimator_lib.graphs import task_checks
from estimator_lib.optimization.accumulation import Accumulation
from estimator_lib.task import Features, Labels, Metric, Task, Tensors
from protos import pipeline_pb2

ModeKeys = tf_estimator.ModeKeys

# Also names of the tensors in graphs of the Object Detection API.
REGULARIZATION_LOSS = 'regularization_loss'
TOTAL_LOSS = 'total_loss'

# Names in an evaluation: of the loss that is minimized, and what begins those of its parts.
# The first is the key under which an Estimator reports `EstimatorSpec.loss`.
_TOTAL, _SCOPE = 'loss', 'Loss/'


class TrainingLosses(NamedTuple):
    """Forward pass of a training step.

    Attributes:
        losses: float32 scalars as `compute_losses` returns them: means over the micro-batches and
            devices, with one regularization loss.
        metrics: those of `Task.training_metrics`, of the first micro-batch of the first device.
        micro_batches: the accumulation over micro-batches; None where there is one batch.
        examples: features, outputs and labels of that micro-batch, for pictures; the outputs are
            those of `Task.postprocess` where `progress.draw_predictions` asks for them, else empty.
    """

    losses: Tensors
    metrics: Dict[str, Metric]
    micro_batches: Optional[Accumulation]
    examples: Tuple[Features, Tensors, Labels]


def loss_metric_names(task: Task) -> List[str]:
    """Return the names under which an evaluation reports losses."""
    names = [*task.loss_names(), REGULARIZATION_LOSS, TOTAL_LOSS]
    return [_TOTAL, *(f'{_SCOPE}{name}' for name in names)]


def is_loss(metric: str) -> bool:
    """Return whether a metric has one of the names of `loss_metric_names`, of whatever task."""
    return metric == _TOTAL or metric.startswith(_SCOPE)


def compute_losses(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    predictions: Tensors,
    features: Features,
    labels: Labels,
) -> Tensors:
    """Build the task's losses, the regularization loss of its variables, and their sum.

    Returns:
        float32 scalars by name: those of `task.losses`, `REGULARIZATION_LOSS` where the network
        has any and `train_config.add_regularization_loss` is set, and last `TOTAL_LOSS`.
    """
    losses = _task_losses(task, predictions, features, labels)
    return _add_total(_add_regularization(config, losses))


def compute_training_losses(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    plan: distribution.Plan,
    features: Features,
    labels: Labels,
) -> TrainingLosses:
    """Build the network for training, for each device that shares the batch."""
    metrics: Dict[str, Metric] = {}
    examples: List[Tuple[Features, Tensors, Labels]] = []
    graph_state.remember_worker(plan.worker_index)

    def replica_losses(features: Features, labels: Labels) -> Tensors:
        predictions = task.predict(features, ModeKeys.TRAIN, labels)
        task_checks.require_tensors(task, 'predict', predictions)
        # For the first device alone: training needs no postprocessing, and pictures show one batch.
        if not examples:
            metrics.update(task.training_metrics(predictions, features, labels))
            draws = config.train_config.progress.draw_predictions
            outputs = task.postprocess(predictions, features) if draws else {}
            examples.append((features, outputs, labels))
        return _task_losses(task, predictions, features, labels)

    devices = plan.devices if plan.mode is distribution.Mode.CLONES else ('',)
    micro_batches = None
    if config.train_config.accumulate_steps > 1:
        micro_batches = Accumulation(config.train_config.accumulate_steps, (features, labels))
        features, labels = micro_batches.first
    with placement.variable_scope(plan), model_variables.collected():
        losses = replicas.mean_losses(devices, replica_losses, features, labels)
        losses = _add_regularization(config, losses)
    if micro_batches is not None:
        losses = micro_batches.mean_losses(losses)
    # The total is the sum of the reported means: a mean of totals may differ in the last bit.
    return TrainingLosses(_add_total(losses), metrics, micro_batches, examples[0])


def _task_losses(task: Task, predictions: Tensors, features: Features, labels: Labels) -> Tensors:
    losses = dict(task.losses(predictions, features, labels))
    task_checks.require_losses(task, losses, (REGULARIZATION_LOSS, TOTAL_LOSS))
    return losses


def _add_regularization(
    config: pipeline_pb2.TrainEvalPipelineConfig, losses: Tensors
) -> Dict[str, tf.Tensor]:
    losses = dict(losses)
    regularization = replica_values.regularization_loss()
    if regularization is not None and config.train_config.add_regularization_loss:
        # Once for all devices: they share the weights, so a sum over devices would count it several
        # times.
        losses[REGULARIZATION_LOSS] = tf.identity(regularization, REGULARIZATION_LOSS)
    return losses


def _add_total(losses: Tensors) -> Tensors:
    return {**losses, TOTAL_LOSS: tf.add_n(list(losses.values()), name=TOTAL_LOSS)}
