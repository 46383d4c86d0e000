"""Our side of a comparison: the same job as the bridge's, with the same form of results."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping

import numpy as np
import tensorflow as tf

from estimator_lib import tf_estimator
from estimator_lib.checkpoints import model_variables
from estimator_lib.graphs import losses as losses_lib
from estimator_lib.optimization import gradients, learning_rates, optimize_loss, optimizers
from estimator_lib.optimization.partitioned import variable_name
from estimator_lib.task import Task, Tensors
from protos import pipeline_pb2
from vision_extras.compare.reference import bridge
from vision_extras.compare.reference.folders import Batch, Batches, Job

tf1 = tf.compat.v1
ModeKeys = tf_estimator.ModeKeys

NAME = 'here'

Results = Dict[str, Mapping[str, Any]]


def run(task: Task, config: pipeline_pb2.TrainEvalPipelineConfig, job: Job) -> Results:
    """Do a job.

    Args:
        task: the detection task of the config.
        config: the config.
        job: the job.

    Returns:
        Arrays by group and name: `losses` [steps], `raw` and `gradients` of the first step,
        `initial` and later `variables`, and `detections`, which have a row for each image.
    """
    results: Results = {}
    checkpoint = os.path.join(job.folder, bridge.CHECKPOINT)
    if job.training.values:
        results.update(_train(task, config, job))
        checkpoint = os.path.join(job.folder, f'{NAME}.ckpt')
    results['detections'] = _evaluate(task, job.evaluation, checkpoint)
    if not job.training.values:
        reader = tf.train.load_checkpoint(checkpoint)
        names = reader.get_variable_to_shape_map()
        results['variables'] = {name: reader.get_tensor(name) for name in names}
    np.savez(bridge.result_path(job.folder, NAME), **bridge.flatten(results))
    return results


def _train(task: Task, config: pipeline_pb2.TrainEvalPipelineConfig, job: Job) -> Results:
    """Train from the initial checkpoint."""
    train_config = config.train_config
    with tf.Graph().as_default() as graph:
        tf1.set_random_seed(train_config.random_seed)
        step = tf1.train.create_global_step()
        batch = _placeholders(job.training.specs, len(job.training.values[0].features['image']))
        with model_variables.collected():
            predictions = task.predict(batch.features, ModeKeys.TRAIN, batch.labels)
            losses = losses_lib.compute_losses(task, config, predictions, *batch)
        raw = {name: predictions[name] for name in bridge.RAW if name in predictions}
        variables = graph.get_collection(tf1.GraphKeys.MODEL_VARIABLES)
        policy = gradients.GradientPolicy.from_config(
            train_config, task.checkpoints.last_layer_scopes, task.bias_gradient_multiplier()
        )
        unclipped = _gradients(losses[losses_lib.TOTAL_LOSS], policy)
        rate = learning_rates.create_learning_rate(
            optimizers.learning_rate_config(train_config.optimizer), step, train_config.num_steps
        )
        first = {'raw': raw, 'gradients': unclipped}
        with tf.control_dependencies(tf.nest.flatten([dict(losses), first])):
            loss = tf.identity(losses[losses_lib.TOTAL_LOSS])
        update = optimize_loss.optimize_loss(
            loss,
            global_step=step,
            optimizer=optimizers.create_optimizer(train_config.optimizer, rate),
            policy=policy,
        )
        return _run_steps(job, batch, (losses, first, update), variables)


def _gradients(loss: tf.Tensor, policy: gradients.GradientPolicy) -> Tensors:
    """Build the gradients by variable, with their factors and before clipping."""
    trained = optimize_loss.select_variables(None, policy)
    pairs = [
        (value, each)
        for value, each in zip(tf.gradients(loss, trained), trained)
        if value is not None
    ]
    factors = gradients.multipliers(
        [each for _, each in pairs], bias_multiplier=policy.bias_multiplier
    )
    pairs = gradients.multiply(pairs, factors)
    return {variable_name(each): tf.convert_to_tensor(value) for value, each in pairs}


def _run_steps(job: Job, batch: Batch, fetched: Any, variables: List[tf.Variable]) -> Results:
    """Run a step for each batch, and save the variables."""
    losses, first, update = fetched
    results: Results = {}
    by_name = {variable_name(each): each for each in variables}
    history = []
    with tf1.Session() as session:
        session.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
        session.run(tf1.local_variables_initializer())
        saver = tf1.train.Saver(variables)
        saver.restore(session, os.path.join(job.folder, bridge.CHECKPOINT))
        results['initial'] = session.run(by_name)
        for index, values in enumerate(job.training.values):
            found, seen, _ = session.run(
                (dict(losses), {} if index else first, update), _feeds(batch, values)
            )
            history.append(found)
            results.update(seen)
        results['variables'] = session.run(by_name)
        path = os.path.join(job.folder, f'{NAME}.ckpt')
        saver.save(session, path, write_meta_graph=False)
    results['losses'] = {
        bridge.short_name(name): np.array([each[name] for each in history]) for name in losses
    }
    return results


def _evaluate(task: Task, batches: Batches, checkpoint: str) -> Dict[str, np.ndarray]:
    """Detect objects in the evaluation images."""
    with tf.Graph().as_default() as graph:
        batch = _placeholders(batches.specs, 1)
        predictions = task.predict(batch.features, ModeKeys.EVAL, batch.labels)
        outputs = task.postprocess(predictions, batch.features)
        outputs = {name: outputs[name] for name in bridge.DETECTIONS}
        with tf1.Session(graph=graph) as session:
            session.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
            tf1.train.Saver(model_variables.restorable(graph)).restore(session, checkpoint)
            found = [session.run(outputs, _feeds(batch, each)) for each in batches.values]
    return {name: np.concatenate([each[name] for each in found]) for name in outputs}


def compute_metrics(
    task: Task, batches: Batches, detections: Mapping[str, np.ndarray]
) -> Dict[str, float]:
    """Compute the metrics of detections, of either side.

    Args:
        task: has the metrics.
        batches: the evaluation images.
        detections: arrays with a row for each image.
    """
    with tf.Graph().as_default() as graph:
        batch = _placeholders(batches.specs, 1)
        outputs = {
            name: tf1.placeholder(values.dtype, [1, *values.shape[1:]])
            for name, values in detections.items()
        }
        metrics = task.metrics(outputs, *batch)
        with tf1.Session(graph=graph) as session:
            session.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
            session.run(tf1.local_variables_initializer())
            for row, values in enumerate(batches.values):
                feeds = _feeds(batch, values)
                feeds.update({outputs[name]: detections[name][row : row + 1] for name in outputs})
                session.run([update for _, update in metrics.values()], feeds)
            values = session.run({name: value for name, (value, _) in metrics.items()})
    return task.finish_metrics(values)


def _placeholders(specs: Batch, size: int) -> Batch:
    return tf.nest.map_structure(
        lambda spec: tf1.placeholder(spec.dtype, [size, *spec.shape[1:]]), specs
    )


def _feeds(batch: Batch, values: Batch) -> Dict[tf.Tensor, np.ndarray]:
    return dict(zip(tf.nest.flatten(batch), tf.nest.flatten(values)))
