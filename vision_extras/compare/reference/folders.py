"""Folder that both sides of a comparison read: config, initial checkpoint and batches."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from typing import Any, Dict, Iterator, List, NamedTuple

import numpy as np
import tensorflow as tf

from estimator_lib import building, model_fn
from estimator_lib.data import inputs
from estimator_lib.evaluation import evaluating
from estimator_lib.task import Task
from model_fns.detection import fields
from protos import pipeline_pb2
from vision_extras.compare.reference import bridge

tf1 = tf.compat.v1

MOST_IMAGES = 100  # of the evaluation


class Batch(NamedTuple):
    """Batch of our input functions, as arrays; or its specs."""

    features: Dict[str, Any]
    labels: Dict[str, Any]


class Batches(NamedTuple):
    """Batches of a mode.

    Attributes:
        specs: dtypes and static shapes.
        values: the batches in order.
    """

    specs: Batch
    values: List[Batch]


class Job(NamedTuple):
    """Job that both sides do.

    Attributes:
        folder: the folder.
        training: a batch for each step; None: no step is made.
        evaluation: batches of one image.
    """

    folder: str
    training: Batches
    evaluation: Batches


def write(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    config_path: str,
    folder: str,
    num_steps: int,
) -> Job:
    """Write the folder of a job.

    Args:
        task: the detection task.
        config: the config as this project reads it.
        config_path: the same config as the user has written it.
        folder: the folder; files of the same names are replaced, others stay.
        num_steps: number of training steps.

    Raises:
        errors.UserError: the records cannot be read, or there are none.
    """
    os.makedirs(folder, exist_ok=True)
    remove_batches(folder)
    shutil.copy(bridge.__file__, os.path.join(folder, 'bridge.py'))
    with contextlib.suppress(shutil.SameFileError):  # the config of an earlier comparison
        shutil.copy(config_path, os.path.join(folder, bridge.CONFIG))
    trained = _write_training(
        task, config, folder, num_steps, building.train_input_fn(task, config)
    )
    evaluated = _write_evaluation(task, config, folder)
    shapes = {each.features[fields.IMAGE].shape for each in evaluated.values}
    values = {
        'num_steps': num_steps,
        'num_images': len(evaluated.values),
        'is_fixed_size': len(shapes) == 1,
    }
    with open(os.path.join(folder, bridge.JOB), 'w', encoding='utf-8') as file:
        json.dump(values, file)
    return Job(folder, trained, evaluated)


def remove_batches(folder: str) -> None:
    """Remove the batches, which are large."""
    for name in os.listdir(folder):
        if re.fullmatch(rf'({bridge.TRAINING}|{bridge.EVALUATION})-\d{{4,}}\.npz', name):
            os.remove(os.path.join(folder, name))


def _write_training(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    folder: str,
    num_steps: int,
    input_fn: inputs.RecordInput,
) -> Batches:
    """Write the initial checkpoint, and a batch for each step."""
    with tf.Graph().as_default() as graph, evaluating.explained(input_fn):
        tf1.set_random_seed(config.train_config.random_seed)
        features, labels = input_fn()
        scaffold = model_fn.create_step_fn(task, config)(features, labels, None).scaffold
        saver = tf1.train.Saver(graph.get_collection(tf1.GraphKeys.MODEL_VARIABLES))
        scaffold.finalize()
        batch = Batch(inputs.pop_reader_state(features)[0], labels)
        with tf1.Session(graph=graph) as session:
            session.run(scaffold.init_op, scaffold.init_feed_dict)
            session.run(scaffold.local_init_op)
            if scaffold.init_fn is not None:
                scaffold.init_fn(session)
            path = os.path.join(folder, bridge.CHECKPOINT)
            saver.save(session, path, write_meta_graph=False)
            values = [session.run(batch) for _ in range(num_steps)]
    for index, each in enumerate(values):
        _write_batch(each, bridge.batch_path(folder, bridge.TRAINING, index))
    return Batches(tf.nest.map_structure(tf.TensorSpec.from_tensor, batch), values)


def _write_evaluation(
    task: Task, config: pipeline_pb2.TrainEvalPipelineConfig, folder: str
) -> Batches:
    """Write the first images of the first evaluation set."""
    one_by_one = pipeline_pb2.TrainEvalPipelineConfig()
    one_by_one.CopyFrom(config)
    one_by_one.eval_config.batch_size = 1
    wanted = config.eval_config.num_examples or MOST_IMAGES
    one_by_one.eval_config.num_examples = min(wanted, MOST_IMAGES)
    input_fn = building.eval_input_fn(task, one_by_one)
    with tf.Graph().as_default() as graph, evaluating.explained(input_fn):
        features, labels = input_fn()
        batch = Batch(inputs.pop_reader_state(features)[0], labels)
        with tf1.Session(graph=graph) as session:
            session.run(tf1.global_variables_initializer())
            session.run(tf1.local_variables_initializer())
            session.run(tf1.tables_initializer())
            values = list(_all(session, batch))
    for index, each in enumerate(values):
        _write_batch(each, bridge.batch_path(folder, bridge.EVALUATION, index))
    return Batches(tf.nest.map_structure(tf.TensorSpec.from_tensor, batch), values)


def _all(session: tf1.Session, batch: Batch) -> Iterator[Batch]:
    """Yield the batches of a pass."""
    while True:
        try:
            yield session.run(batch)
        except tf.errors.OutOfRangeError:
            return


def _write_batch(batch: Batch, path: str) -> None:
    """Write what the bridge feeds; boxes are normalized to the padded image, as models take them.

    Args:
        batch: values of features and labels.
        path: the file.
    """
    features, labels = batch
    images = np.asarray(features[fields.IMAGE], np.float32)
    shapes = features[fields.TRUE_IMAGE_SHAPE]
    shares = np.asarray(shapes[:, :2], np.float32) / np.array(images.shape[1:3], np.float32)
    np.savez(
        path,
        images=images,
        true_shapes=np.asarray(shapes, np.int32),
        boxes=labels[fields.BOXES] * np.tile(shares, [1, 2])[:, np.newaxis],
        classes=np.asarray(labels[fields.CLASSES], np.float32),
        weights=labels[fields.WEIGHTS],
        counts=labels[fields.NUM_BOXES],
    )
