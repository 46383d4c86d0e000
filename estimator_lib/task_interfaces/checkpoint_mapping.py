"""Interface of tasks for checkpoints of other tasks and of other programs."""

from __future__ import annotations

import abc
from typing import Collection, Mapping, Optional, Sequence

import tensorflow as tf

from estimator_lib.task_interfaces.named import Named


class CheckpointMapping(Named):
    """Methods of a task that map its variables to those of a checkpoint."""

    @abc.abstractmethod
    def restore_map(
        self, variables: Sequence[tf.Variable], checkpoint_type: str
    ) -> Mapping[str, tf.Variable]:
        """Return the variables to restore from a checkpoint of another task or program.

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

    def last_layer_scopes(self) -> Sequence[str]:
        """Return name parts of the variables whose shapes depend on the classes."""
        return ()
