"""`convert-checkpoint`: conversion between object-based and name-based checkpoints, and of weights.

Programs of TensorFlow 2 read and write object-based checkpoints, see `object_graphs`. Checkpoints
of this package name variables by scope. The conversion keeps the values bit by bit.
"""

from __future__ import annotations

import logging
import os
from typing import Any, Dict, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib import errors, texts
from estimator_lib.checkpoints import (
    checkpoint_files,
    checkpoint_maps,
    initial_values,
    model_dirs,
    model_variables,
    object_graphs,
    restore_report,
)
from estimator_lib.export import inference_graph, serving
from estimator_lib.export.writers import Source
from estimator_lib.optimization.partitioned import MOVING_AVERAGE
from estimator_lib.task import Task
from estimator_lib.task_interfaces import weight_files
from protos import export_pb2, pipeline_pb2

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')


def convert(
    task: Task,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    checkpoint: str,
    output_dir: str,
) -> str:
    """Convert an object-based checkpoint to a name-based one, or the other way round.

    Only the weights and the global step are written, not the other variables of a run, such as the
    slots of optimizers.

    Args:
        task: the task of the model.
        config: decides whether moving averages replace the variables.
        checkpoint: the prefix of the checkpoint, or its folder.
        output_dir: created if it does not exist; it must not hold a checkpoint.

    Returns:
        The prefix of the new checkpoint: `ckpt-0` if it is object-based, else `model.ckpt-<step>`.

    Raises:
        errors.CheckpointError: the checkpoint does not exist, or is not of this model.
        errors.UserError: `output_dir` holds a checkpoint, or cannot be written to.
    """
    prefix = checkpoint_files.resolve_checkpoint(checkpoint, '--checkpoint_path')
    is_object_based = object_graphs.read(prefix) is not None
    _prepare_folder(output_dir)
    step = np.int64(checkpoint_files.checkpoint_step(prefix))
    with tf.Graph().as_default():
        _build(task)
        _log_report(task, prefix, config)
        with inference_graph.trained_session(Source(task, config, prefix)) as session:
            if is_object_based:
                saved = [*_model_variables(), tf1.train.get_global_step()]
                return _save(saved, session, output_dir, int(step))
            values = _values(session, task, prefix)
    return object_graphs.write({**values, object_graphs.STEP: step}, output_dir)


def convert_weights(weights: str, output_dir: str) -> str:
    """Write the weights of another program as a checkpoint of step 0.

    Args:
        weights: a file, or a name, that `weight_files` knows.
        output_dir: created if it does not exist; it must not hold a checkpoint.

    Returns:
        The prefix of the new checkpoint, `model.ckpt-0`.

    Raises:
        errors.CheckpointError: the file does not exist, or is of an unknown network.
        errors.UserError: `output_dir` holds a checkpoint, or cannot be written to.
    """
    path = weight_files.find(weights, '--from')
    if path is None:
        endings = ', '.join(sorted(weight_files.READERS))
        raise errors.UserError(
            f'--from: {weights} is no file of weights; expected one that ends with {endings} '
            '(--checkpoint_path takes checkpoints).'
        )
    reader = weight_files.open_weights(path)
    _prepare_folder(output_dir)
    log.info('%s: %s', path, reader.description())
    types = reader.get_variable_to_dtype_map()
    with tf.Graph().as_default(), tf1.Session() as session:
        step = tf1.train.create_global_step()
        variables = {
            name: tf1.get_variable(name, shape, types[name], tf1.zeros_initializer())
            for name, shape in sorted(reader.get_variable_to_shape_map().items())
        }
        session.run(step.initializer)
        initial_values.load_values(session, path, variables)
        return _save([*variables.values(), step], session, output_dir, 0)


def _prepare_folder(output_dir: str) -> None:
    if checkpoint_files.latest_checkpoint(output_dir) is not None:
        raise errors.UserError(
            f'--output_dir: {output_dir} holds a checkpoint already; expected another folder.'
        )
    model_dirs.ensure_writable(output_dir)


def _build(task: Task) -> None:
    """Build the inference graph of a model in the current graph, for its variables."""
    tf1.train.create_global_step()
    receiver = serving.serving_input_receiver_fn(task, export_pb2.IMAGE_TENSOR)()
    inference_graph.build_outputs(task, receiver.features)


def _model_variables() -> Sequence[tf.Variable]:
    return model_variables.restorable(tf1.get_default_graph())


def _log_report(task: Task, prefix: str, config: pipeline_pb2.TrainEvalPipelineConfig) -> None:
    wanted = checkpoint_maps.inference_map(
        task, _model_variables(), prefix, config.eval_config.use_moving_averages
    )
    shapes = checkpoint_files.checkpoint_shapes(prefix)
    log.info('%s', restore_report.match(shapes, wanted, prefix).table())
    ending = f'/{MOVING_AVERAGE}'
    taken = sum(name.endswith(ending) for name in wanted)
    left = sum(name + ending in shapes for name in wanted)
    if taken:
        log.info('Moving averages of %s replace them.', texts.counted(taken, 'variable'))
    if left:
        log.info(
            'Moving averages of %s are left out; '
            '--set=eval_config.use_moving_averages=true takes them in their place.',
            texts.counted(left, 'variable'),
        )


def _values(session: tf1.Session, task: Task, prefix: str) -> Dict[str, Any]:
    """Return the values of the variables by their object path."""
    paths = task.checkpoints.object_paths(_model_variables(), None)
    if not paths:
        raise errors.CheckpointError(
            f'{prefix}: this {task.name} model has no form of TensorFlow 2, so no object-based '
            'checkpoint is of it; expected a checkpoint that names variables by scope.'
        )
    return session.run(dict(paths))


def _save(
    variables: Sequence[tf.Variable], session: tf1.Session, output_dir: str, step: int
) -> str:
    saver = tf1.train.Saver(variables)
    with checkpoint_files.explained_write(output_dir):
        return saver.save(session, os.path.join(output_dir, 'model.ckpt'), step)
