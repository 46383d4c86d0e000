"""Interface of tasks for checkpoints of other tasks and of other programs."""

from __future__ import annotations

import dataclasses
from types import MappingProxyType
from typing import Callable, Collection, List, Mapping, Optional, Sequence

import tensorflow as tf

from estimator_lib.optimization.partitioned import variable_name


@dataclasses.dataclass(frozen=True)
class ClassAxis:
    """Arrangement of classes on the last axis of a variable: equal groups of columns.

    A group has the columns before the classes (the background), then `block` for each class.

    Attributes:
        classes: number of classes.
        before: number of columns before those of the first class.
        block: number of columns of a class.
        repeats: whether there may be several groups, as one for each anchor of a cell.
    """

    classes: int
    before: int = 0
    block: int = 1
    repeats: bool = False

    def sources(self, size: int, held_size: int, moved: Mapping[int, int]) -> Optional[List[int]]:
        """Return the column of the checkpoint that each column takes, -1 for its initial value.

        With a background, two classes and two anchors, `size` is 6. From a checkpoint of one class,
        `held_size` 4, which is now the second: [0, -1, 1, 2, -1, 3].

        Args:
            size: of the axis of the variable.
            held_size: of the axis in the checkpoint.
            moved: index in the checkpoint of the classes that it has.

        Returns:
            The columns; None if the sizes are not those of such an axis.
        """
        groups, rest = divmod(size, self.before + self.classes * self.block)
        if rest or not groups or held_size % groups or (groups > 1 and not self.repeats):
            return None
        # The number of anchors is that of the model: with another one the columns mean other
        # shapes.
        held_classes, rest = divmod(held_size // groups - self.before, self.block)
        if rest or held_classes <= max(moved.values(), default=-1):
            return None
        group = list(range(self.before))
        for index in range(self.classes):
            start = self.before + moved.get(index, 0) * self.block
            group += [start + k if index in moved else -1 for k in range(self.block)]
        starts = range(0, held_size, held_size // groups)
        return [-1 if column < 0 else start + column for start in starts for column in group]


@dataclasses.dataclass(frozen=True)
class ClassColumns:
    """Variables with a part for each class, and the names of classes of saved models.

    Attributes:
        axes: by a regular expression that the names of such variables contain.
        indices: indices of classes by name, from the text of a file of `asset_files`; a class may
            have several names.
    """

    axes: Mapping[str, ClassAxis]
    indices: Callable[[str], Mapping[str, int]]


class CheckpointMapping:
    """Part of a task that maps its variables to those of checkpoints; each method has a default.

    Attributes:
        last_layer_scopes: name parts of the variables whose shapes depend on the classes.
        class_columns: variables with a part for each class; None: they are not known.
        asset_files: texts by file name that a model needs beside its weights: the names of classes.
            They are saved in `model_dir` and in exports, which may be moved to where the data is
            not.
    """

    last_layer_scopes: Sequence[str] = ()
    class_columns: Optional[ClassColumns] = None
    asset_files: Mapping[str, str] = MappingProxyType({})

    def restore_map(
        self, variables: Sequence[tf.Variable], checkpoint_type: str
    ) -> Mapping[str, tf.Variable]:
        """Return the variables to restore from a checkpoint, by default all by their own names.

        Args:
            variables: the model's variables (no optimizer slots, no global step).
            checkpoint_type: `classification`, `detection`, `segmentation`, or '' for a checkpoint
                of the same model.

        Returns:
            Variables by their name in the checkpoint. A classifier's `conv1/weights` restored from
            `detection` has the key `FeatureExtractor/conv1/weights`.

        Raises:
            errors.ConfigError: the task does not restore from that type.
        """
        del checkpoint_type
        return {variable_name(variable): variable for variable in variables}

    def object_paths(
        self, variables: Sequence[tf.Variable], checkpoint_type: Optional[str]
    ) -> Mapping[str, tf.Variable]:
        """Return the variables to restore from an object-based checkpoint of TensorFlow 2.

        Args:
            variables: the model's variables (no optimizer slots, no global step).
            checkpoint_type: `classification`, `detection`, `segmentation`, or '' for a checkpoint
                of the same model; None: all variables, to be evaluated, exported or converted.

        Returns:
            Variables by their path in the graph of objects, as `checkpoints.object_graphs` writes
            it: `model/backbone/layer_with_weights-0/kernel`. Empty: there are no such checkpoints
            of this model.

        Raises:
            errors.ConfigError: the task does not restore from that type, or the model has no such
                checkpoints and the message says so.
        """
        del variables, checkpoint_type
        return {}

    def foreign_checkpoint(self, names: Collection[str]) -> str:
        """Return a warning about a checkpoint whose variables fit, but compute something else.

        Args:
            names: of its variables, where it names them by scope.

        Returns:
            A sentence, which follows the checkpoint's name; empty: it may be of this model.
        """
        del names
        return ''
