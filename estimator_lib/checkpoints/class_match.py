"""Classes of a checkpoint by name: which columns of a class predictor are whose.

A data set that gains a class, or whose label map has another order, keeps what was learned of its
classes: columns are restored by the names in the label map beside the checkpoint.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import re
from typing import Collection, Dict, List, Mapping, NamedTuple, Optional, Sequence

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.checkpoints.checkpoint_files import latest_checkpoint
from estimator_lib.optimization.partitioned import variable_name
from estimator_lib.task_interfaces.checkpoint_mapping import CheckpointMapping, ClassAxis

log = logging.getLogger('estimator_lib')

# Of the files beside a checkpoint: in its folder, or in the one above, for a SavedModel.
_FOLDERS = ('', os.path.join(os.pardir, 'assets.extra'))


class _Names(NamedTuple):
    """Indices of classes by name.

    Attributes:
        path: of the file of class names of a saved model.
        ours: indices in the task.
        theirs: indices in the saved model.
        axes: of `ClassColumns`.
    """

    path: str
    ours: Mapping[str, int]
    theirs: Mapping[str, int]
    axes: Mapping[str, ClassAxis]


@dataclasses.dataclass(frozen=True)
class ClassMatch:
    """Classes of a model, by their index in a checkpoint.

    Attributes:
        moved: index in the checkpoint of each class of the model that it has.
        axes: see `ClassColumns`.
        note: sentence for the restore report.
    """

    moved: Mapping[int, int]
    axes: Mapping[str, ClassAxis]
    note: str

    def columns(
        self, shapes: Mapping[str, Sequence[int]], restore_map: Mapping[str, tf.Variable]
    ) -> Dict[str, List[int]]:
        """Return `ClassAxis.sources` of the variables that are not restored as they are.

        Args:
            shapes: shapes of the tensors of the checkpoint by name.
            restore_map: wanted variables by their names in it.
        """
        if not self.moved:  # other names for the same classes, maybe: shapes decide
            return {}
        changed = {}
        for name, variable in restore_map.items():
            own = variable_name(variable)
            axis = next((axis for key, axis in self.axes.items() if re.search(key, own)), None)
            shape, held = tuple(variable.shape.as_list()), tuple(shapes.get(name, ()))
            # Another kernel or number of inputs is another network, whose columns mean nothing
            # here.
            if axis is None or not held or shape[:-1] != held[:-1]:
                continue
            sources = axis.sources(shape[-1], held[-1], self.moved)
            if sources is not None and sources != list(range(held[-1])):
                changed[name] = sources
        return changed


def find(checkpoints: CheckpointMapping, prefix: str) -> Optional[ClassMatch]:
    """Compare the classes of a task with those of the label map beside a checkpoint.

    Args:
        checkpoints: `Task.checkpoints`.
        prefix: the checkpoint.

    Returns:
        None if either has no names, or if they are the same.
    """
    known = _names(checkpoints, os.path.dirname(prefix))
    if known is None or known.ours == known.theirs:
        return None
    path, ours, theirs, axes = known
    moved: Dict[int, int] = {}
    for name, index in ours.items():
        if name in theirs:
            # A class may have several names; the first one that the checkpoint knows decides.
            moved.setdefault(index, theirs[name])
    new, lost = _names_except(ours, moved), _names_except(theirs, moved.values())
    places = sum(index != held for index, held in moved.items())
    note = f'classes: {len(moved)} of {len(set(ours.values()))} kept by name'
    note += f', {places} of them at another index' if places else ''
    note += f'; new: {errors.shortened(new, 5)}' if new else ''
    note += f'; gone: {errors.shortened(lost, 5)}' if lost else ''
    if new and lost:
        # Equal positions are no proof of a rename: a new map may have put other classes there.
        note += f' (a class that was only renamed is kept if {path} has its new name)'
    return ClassMatch(moved, axes, note)


def require_same_classes(checkpoints: CheckpointMapping, prefix: str) -> None:
    """Refuse to use a checkpoint's outputs as those of a task with another order of classes.

    Args:
        checkpoints: `Task.checkpoints`.
        prefix: the checkpoint.

    Raises:
        errors.ConfigError: a class has another index than in the checkpoint.
    """
    moved = _find_moved(_names(checkpoints, os.path.dirname(prefix)))
    if moved is not None:
        raise errors.ConfigError(
            f'{prefix} was trained with {moved}: its outputs would count as other classes. Use a '
            'label map with the order of the one beside the checkpoint.'
        )


def require_resumable(checkpoints: CheckpointMapping, model_dir: str) -> None:
    """Refuse to resume a run with another order of its classes.

    Args:
        checkpoints: `Task.checkpoints`.
        model_dir: the folder of the run; it may be new.

    Raises:
        errors.CheckpointError: a class has another index than in the checkpoints of the folder.
    """
    moved = _find_moved(_names(checkpoints, model_dir)) if latest_checkpoint(model_dir) else None
    if moved is not None:
        raise errors.CheckpointError(
            f'model_dir {model_dir} was trained with {moved}: its outputs would continue as other '
            'classes. Use another model_dir, where train_config.fine_tune_checkpoint names this '
            'one: then classes are restored by name.'
        )


def _find_moved(names: Optional[_Names]) -> Optional[str]:
    """Return the first class that has another index, as a part of a message; None without one."""
    if names is None:
        return None
    for name, index in names.ours.items():
        other = names.theirs.get(name, index)
        if other != index:
            return (
                f'{name!r} as class {other} (counted from 0), and in the label map of the config '
                f'it is class {index}'
            )
    return None


def _names_except(names: Mapping[str, int], indices: Collection[int]) -> List[str]:
    """Return the first name of each class that is not among `indices`."""
    first: Dict[int, str] = {}
    for name, index in names.items():
        first.setdefault(index, name)
    return [name for index, name in sorted(first.items()) if index not in indices]


def _names(checkpoints: CheckpointMapping, folder: str) -> Optional[_Names]:
    """Return the classes of a task and of a saved model; None if either has no names."""
    columns, texts = checkpoints.class_columns, checkpoints.asset_files
    paths = [os.path.join(folder, each, name) for name in texts for each in _FOLDERS]
    path = next(filter(tf.io.gfile.exists, paths), None) if columns is not None else None
    if columns is None or path is None:
        return None
    with tf.io.gfile.GFile(path) as file:
        text = file.read()
    try:
        theirs = columns.indices(text)
    except errors.DataError as error:  # other programs write other things under that name
        log.warning('%s does not name the classes: %s', path, errors.first_line(error))
        return None
    return _Names(path, columns.indices(texts[os.path.basename(path)]), theirs, columns.axes)
