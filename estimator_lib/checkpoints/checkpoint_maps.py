"""Mapping from names in a checkpoint to variables of a model.

A name-based checkpoint, of this package or TensorFlow 1, names variables by scope. An object-based
checkpoint names them by the objects that held them, see `object_graphs`. The task knows both names,
and the file decides between them.
"""

from __future__ import annotations

from typing import Dict, Mapping, Optional, Sequence

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.checkpoints import object_graphs
from estimator_lib.checkpoints.checkpoint_files import (
    checkpoint_shapes,
    latest_checkpoint,
    resolve_start,
)
from estimator_lib.optimization import moving_averages
from estimator_lib.optimization.partitioned import MOVING_AVERAGE, variable_name
from estimator_lib.task import Task
from estimator_lib.task_interfaces import weight_files
from protos import train_pb2

FIELD = 'train_config.fine_tune_checkpoint'

_AVERAGE = f'/{MOVING_AVERAGE}'


def checkpoint_type(train_config: train_pb2.TrainConfig) -> str:
    """Return the task that `fine_tune_checkpoint` was trained for; empty if unknown."""
    if train_config.fine_tune_checkpoint_type:
        return train_config.fine_tune_checkpoint_type
    # The flag of the Object Detection API from before it had types. There false, the default, meant
    # `classification`; here the task knows what an empty type means.
    return 'detection' if train_config.from_detection_checkpoint else ''


def fine_tuning_map(
    task: Task,
    variables: Sequence[tf.Variable],
    train_config: train_pb2.TrainConfig,
    model_dir: Optional[str] = None,
) -> Mapping[str, tf.Variable]:
    """Return the variables to restore from `fine_tune_checkpoint`, by their names in it.

    Args:
        task: the task of the model.
        variables: the variables of the model.
        train_config: the checkpoint, its type and its version.
        model_dir: the folder of the run. If it holds a checkpoint, the run resumes from that one.

    Returns:
        Variables for `fine_tuning.fine_tune_start`; empty if the run resumes.

    Raises:
        errors.CheckpointError: the checkpoint does not exist; it is of another version than in
            the config; or it is of another model with similar variable names.
        errors.ConfigError: the task does not restore from that type.
    """
    if model_dir and latest_checkpoint(model_dir) is not None:
        return {}
    prefix = resolve_start(train_config.fine_tune_checkpoint, FIELD)
    graph = object_graphs.read(prefix)
    _require_version(train_config, prefix, graph is not None)
    kind = checkpoint_type(train_config)
    if graph is not None:
        return graph.keyed(_paths(task, variables, kind, prefix))
    _refuse_foreign(task, prefix)
    restored = task.checkpoints.restore_map(variables, kind)
    if weight_files.is_weight_file(prefix):  # They have values in place of averages.
        restored = {name.removesuffix(_AVERAGE): value for name, value in restored.items()}
    return restored


def inference_map(
    task: Optional[Task],
    variables: Sequence[tf.Variable],
    prefix: str,
    use_moving_averages: bool = False,
) -> Dict[str, tf.Variable]:
    """Return all variables of a model by their names in a checkpoint of the same model.

    Args:
        task: the task of the model; None if it has only name-based checkpoints.
        variables: the variables of the model.
        prefix: the checkpoint.
        use_moving_averages: whether to restore averages in place of variables that have one.

    Raises:
        errors.CheckpointError: the checkpoint cannot be read, or is of another kind of model.
    """
    graph = object_graphs.read(prefix)
    if graph is not None and task is not None:
        slot = object_graphs.AVERAGE if use_moving_averages else None
        mapped = graph.keyed(_paths(task, variables, None, prefix), slot)
        known = {variable.ref() for variable in mapped.values()}
        others = [variable for variable in variables if variable.ref() not in known]
        return {**mapped, **{variable_name(variable): variable for variable in others}}
    if task is not None:
        _refuse_foreign(task, prefix)
    if use_moving_averages:
        return moving_averages.variables_to_restore(variables, checkpoint_shapes(prefix))
    return {variable_name(variable): variable for variable in variables}


def _paths(
    task: Task, variables: Sequence[tf.Variable], kind: Optional[str], prefix: str
) -> Mapping[str, tf.Variable]:
    paths = task.checkpoints.object_paths(variables, kind)
    if not paths:
        raise errors.CheckpointError(
            f'{prefix} is an object-based checkpoint of TensorFlow 2, and there are none of this '
            f'model ({task.name}); expected one that names variables by scope.'
        )
    return paths


def _refuse_foreign(task: Task, prefix: str) -> None:
    sentence = task.checkpoints.foreign_checkpoint(checkpoint_shapes(prefix).keys())
    if sentence:
        raise errors.CheckpointError(f'{prefix} {sentence}')


def _require_version(
    train_config: train_pb2.TrainConfig, prefix: str, is_object_based: bool
) -> None:
    """Refuse a checkpoint of another version than that of the config, if it has one."""
    field = 'fine_tune_checkpoint_version'
    actual = train_pb2.V2 if is_object_based else train_pb2.V1
    if train_config.HasField(field) and train_config.fine_tune_checkpoint_version != actual:
        configured, expected = map(
            train_pb2.CheckpointVersion.Name, (train_config.fine_tune_checkpoint_version, actual)
        )
        named = 'by the objects that held them' if is_object_based else 'by scope'
        raise errors.CheckpointError(
            f'train_config.{field} is {configured}, and {prefix} names variables {named}; expected '
            f'{expected}, or nothing: the file tells.'
        )
