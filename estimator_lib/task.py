"""Contract between the engine and a task: what the engine asks of it, and nothing else.

`Task` has the methods of training and evaluation. Its bases add what some tasks have beside that:

    Presentation        pictures, tables and files of results
    Deployment          signatures of servers, files for small devices
    CheckpointMapping   checkpoints of other tasks and programs
    DataChecks          checks of records before training

Their methods have defaults where a task can do without. `name` is what messages call the task, an
attribute or a property of each. Everything that a task of another package
needs is imported from here.
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib.task_interfaces.checkpoint_mapping import CheckpointMapping
from estimator_lib.task_interfaces.data_checks import DataChecks, DataReport
from estimator_lib.task_interfaces.deployment import Deployment
from estimator_lib.task_interfaces.presentation import (
    AS_CONFIGURED,
    Description,
    Presentation,
    Shown,
)
from estimator_lib.task_interfaces.tensors import (
    IMAGE,
    SOURCE_ID,
    Arrays,
    Example,
    Features,
    Labels,
    Metric,
    Tensors,
)

if TYPE_CHECKING:
    from estimator_lib.config.rules import ConfigRules
    from protos import pipeline_pb2

__all__ = [
    'AS_CONFIGURED',
    'IMAGE',
    'SOURCE_ID',
    'Arrays',
    'CheckpointMapping',
    'DataChecks',
    'DataReport',
    'Deployment',
    'Description',
    'Example',
    'Features',
    'Labels',
    'Metric',
    'Presentation',
    'Shown',
    'Task',
    'Tensors',
]


class Task(Presentation, Deployment, CheckpointMapping, DataChecks):
    """One kind of vision model, as a set of functions without memory.

    A task is built from a pipeline config and never changes: methods get what they need as
    arguments and return what they make. The graph-building methods may be called any number of
    times, in any graph.
    """

    @classmethod
    def config_rules(cls, config: pipeline_pb2.TrainEvalPipelineConfig) -> Optional[ConfigRules]:
        """Return the rules of the config's fields that this task reads, without building the task.

        Args:
            config: a pipeline config as it was parsed; nothing of it has been checked.

        Returns:
            None: no rules beyond the engine's.
        """
        del cls, config
        return None

    @classmethod
    def from_config(cls, config: pipeline_pb2.TrainEvalPipelineConfig) -> Task:
        """Build the task that a pipeline config describes; every task of a config defines it.

        Args:
            config: the pipeline config. Where a session only exports, parts of it may be missing.

        Raises:
            errors.ConfigError: a value that is not usable; the message begins with its path.
        """
        raise NotImplementedError(f'{cls.__name__}.from_config')

    @abc.abstractmethod
    def decode(self, serialized: tf.Tensor) -> Example:
        """Decode one record into named tensors.

        Args:
            serialized: string scalar, a `tf.train.Example`.

        Returns:
            The example; it has `SOURCE_ID`. A record that is not valid (an image that does not
            decode, a label out of range) fails with `tf.errors.InvalidArgumentError` when run, with
            a message that says what is wrong; the engine adds file and record.
        """

    def split_sequence(self, serialized: bytes) -> Sequence[bytes]:
        """Split a sequence into the records of its frames, for `input_type: TF_SEQUENCE_EXAMPLE`.

        Args:
            serialized: a `tf.train.SequenceExample`, or what stands in its place.

        Returns:
            A serialized `tf.train.Example` for each frame that is to be read; a record that cannot
            be split, alone: `check_example` says what is wrong with it.
        """
        return [serialized]

    @abc.abstractmethod
    def augment(self, example: Example, seed: tf.Tensor) -> Example:
        """Vary one example for training.

        Args:
            example: from `decode`.
            seed: int64 [2]. All randomness is a function of it (`tf.random.stateless_*`,
                `tf.image.stateless_*`): no two examples of a run get the same one, and a resumed
                run gives each example the seed that it would have had.

        Returns:
            The example, with the same keys.
        """

    @abc.abstractmethod
    def prepare(self, example: Example, mode: str) -> Tuple[Features, Labels]:
        """Turn one example into tensors that can be batched: of static shape, or `pads_batches`.

        Args:
            example: from `augment` or `decode`.
            mode: a `tf.estimator.ModeKeys`.

        Returns:
            Features (with `IMAGE` and `SOURCE_ID`) and labels of one example, without a batch
            dimension.
        """

    def largest_input(self) -> Optional[Tuple[int, int]]:
        """Return a height and a width that no image of a batch exceeds; None: not known."""
        return None

    def pads_batches(self) -> bool:
        """Return True where examples differ in size, and zeros bring them to the largest's."""
        return False

    def batches_by_size(self) -> bool:
        """Return True where each batch of an evaluation has images of one size only.

        The metrics then do not depend on which images share a batch. Examples may differ in size,
        and keep it. Labels have the height and width of their image, or static shapes.
        """
        return False

    @abc.abstractmethod
    def predict(self, features: Features, mode: str, labels: Optional[Labels] = None) -> Tensors:
        """Build the network: raw outputs of a batch of features.

        The global variables that this and `losses` create are those of the model, whatever
        collections they are in: they are saved, averaged, restored and exported. Evaluation and
        inference create no other ones than training: each has to be in the checkpoint. Variables
        have names of their own (`tf.compat.v1.get_variable`), since several replicas on the devices
        of a machine share them. Updates of batch norm go to `UPDATE_OPS`, regularization losses to
        `REGULARIZATION_LOSSES`, as `get_variable(regularizer=...)` does it.

        Args:
            features: of a batch.
            mode: a `tf.estimator.ModeKeys`.
            labels: of the batch in training and evaluation, for networks that sample by them; None
                in inference.

        Returns:
            Tensors by name, at least one: what `losses` and `postprocess` need.
        """

    @abc.abstractmethod
    def losses(self, predictions: Tensors, features: Features, labels: Labels) -> Tensors:
        """Build the losses to minimize: float scalars by the names of `loss_names`.

        They are weighted, means over the batch, and without regularization losses. They do not
        change variables by themselves.
        """

    @abc.abstractmethod
    def loss_names(self) -> Sequence[str]:
        """Return the names of the losses, without building a graph."""

    @abc.abstractmethod
    def postprocess(self, predictions: Tensors, features: Features) -> Tensors:
        """Build what a user sees: outputs of a batch, each with a leading batch dimension.

        Creates no variables.
        """

    @abc.abstractmethod
    def metrics(self, outputs: Tensors, features: Features, labels: Labels) -> Dict[str, Metric]:
        """Build the metrics of the outputs: (value, update op) by name.

        Values may be arrays (a confusion matrix) that `finish_metrics` makes scalars of. One graph
        makes many evaluations, each of which starts with the initial values of all local variables:
        all state is in these, or is cleared by what reads them. Where several devices evaluate,
        this is called once, with the batches of all.
        """

    def finish_metrics(self, values: Mapping[str, Any]) -> Dict[str, float]:
        """Return the scalars to report of an evaluation.

        Args:
            values: of the value ops of `metrics`.

        Returns:
            Scalars by the names of `metric_names`. A metric that the data cannot tell (the accuracy
            of a class without examples) is left out, or is NaN: `metrics.json` then has null.
        """
        return {name: float(value) for name, value in values.items() if np.ndim(value) == 0}

    def training_metrics(
        self, predictions: Tensors, features: Features, labels: Labels
    ) -> Dict[str, Metric]:
        """Build what a training step reports beside its losses: (float32 scalar, update op).

        Each step runs the update ops, and reads the values of the steps before it.

        Returns:
            By name.
        """
        del predictions, features, labels
        return {}

    @abc.abstractmethod
    def metric_names(self) -> Sequence[str]:
        """Return the names that `finish_metrics` may return, without building a graph."""

    def across_replicas(self) -> Sequence[str]:
        """Return config fields by which a training step computes over the batches of all replicas.

        Where the replicas of a run cannot do that, the run is refused by these names.
        """
        return ()

    def bias_gradient_multiplier(self) -> float:
        """Return the factor on bias gradients where `train_config.bias_grad_multiplier` is 0."""
        return 1.0

    def averages_model_variables(self) -> bool:
        """Return the meaning of `train_config.optimizer.moving_averages: OF_THE_TASK`.

        Returns:
            True: moving averages are kept of all variables of the model, with a decay that grows;
            False: of the trained ones, with a constant decay.
        """
        return False
