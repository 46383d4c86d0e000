"""Scopes of a backbone's variables in the checkpoints of each task."""

from __future__ import annotations

from typing import Callable, Collection, Mapping, Optional, Sequence

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.optimization.partitioned import variable_name
from estimator_lib.task import CheckpointMapping
from estimator_lib.task_interfaces.checkpoint_mapping import ClassColumns
from model_fns.structures import label_map_files
from model_fns.structures.label_map import LabelMap

# The scope of the backbone in a single-shot detector.
DETECTION = 'FeatureExtractor'

# Prefix of the names of a backbone's variables, by `fine_tune_checkpoint_type`.
PREFIXES: Mapping[str, str] = {
    'classification': '',
    'detection': f'{DETECTION}/',
    'segmentation': '',
}


def rename_scope(name: str, rename: Callable[[str], str]) -> str:
    """Return the name of a variable under another scope.

    Args:
        name: of the variable; averages of quantization ranges repeat their scope,
            `X/X/min/biased`.
        rename: old name -> new name, for names with the scope once, at the start.
    """
    # The moving averages of TensorFlow repeat the scope of the variable that they average.
    stem, _, last = name.partition('/min/' if '/min/' in name else '/max/')
    half = len(stem) // 2
    if last and stem[:half] == stem[half + 1 :]:
        middle = name[len(stem) :]
        return f'{rename(stem[:half])}/{rename(stem[:half])}{middle}'
    return rename(name)


def check_type(kind: str, known: Collection[str]) -> str:
    """Return a `fine_tune_checkpoint_type` that a task knows.

    Args:
        kind: the type in a config.
        known: the types of the task.

    Raises:
        errors.ConfigError: the task does not know it; the message has the nearest known one.
    """
    if kind not in known:
        raise errors.ConfigError(
            f'train_config.fine_tune_checkpoint_type: {kind!r} is unknown'
            f'{errors.did_you_mean(kind, known)}'
        )
    return kind


def restore_map(kind: str, variables: Sequence[tf.Variable]) -> Mapping[str, tf.Variable]:
    """Index variables of a backbone by their names in the checkpoint of another task.

    Example:
        `resnet_v1_50/conv1/weights` is `FeatureExtractor/resnet_v1_50/conv1/weights` in a
        checkpoint of detection, and has its own name in one of classification.

    Args:
        kind: `fine_tune_checkpoint_type`.
        variables: of a model.

    Raises:
        errors.ConfigError: there is no such type.
    """
    return add_scope(PREFIXES[check_type(kind, PREFIXES)], variables)


class BackboneCheckpoints(CheckpointMapping):
    """Checkpoints of a model whose backbone is that of other tasks.

    Args:
        kind: `fine_tune_checkpoint_type` of the model itself.
        last_layer_scopes: see `CheckpointMapping`.
        class_columns: likewise.
        label_map: names of the classes; None: they have none.
        scope: prefix of the variables to restore from other tasks.
    """

    def __init__(
        self,
        kind: str,
        last_layer_scopes: Sequence[str],
        class_columns: ClassColumns,
        label_map: Optional[LabelMap] = None,
        scope: str = '',
    ):
        self._kind, self._scope = kind, scope
        self.last_layer_scopes = last_layer_scopes
        self.class_columns = class_columns
        self.asset_files = label_map_files.asset_files(label_map)

    def restore_map(
        self, variables: Sequence[tf.Variable], checkpoint_type: str
    ) -> Mapping[str, tf.Variable]:
        """Return all variables by name, or those of the backbone for a model of another task."""
        kind = checkpoint_type or self._kind
        if kind != self._kind:
            variables = [each for each in variables if variable_name(each).startswith(self._scope)]
        return restore_map(kind, variables)


def add_scope(scope: str, variables: Sequence[tf.Variable]) -> Mapping[str, tf.Variable]:
    """Index variables by their names in a checkpoint with an outer scope.

    Args:
        scope: prefix of the names: empty, or with a slash at its end.
        variables: of a model.
    """
    return {
        rename_scope(variable_name(variable), lambda name: scope + name): variable
        for variable in variables
    }
