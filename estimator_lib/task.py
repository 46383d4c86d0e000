"""Interface between the engine and a task.

`Task` has the methods of training and evaluation, and those of its base class `Deployment`:
signatures of servers, files for small devices. What else a task offers are its parts, objects that
have defaults. `name`, an attribute or a property, is the name of the task in messages. A task of
another package can import everything that it needs from here.
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib.task_interfaces.analysis import Analysis
from estimator_lib.task_interfaces.batch_specs import BatchSpec
from estimator_lib.task_interfaces.checkpoint_mapping import CheckpointMapping
from estimator_lib.task_interfaces.data_checks import DataChecks, DataReport
from estimator_lib.task_interfaces.deployment import Deployment
from estimator_lib.task_interfaces.presentation import (
    AS_CONFIGURED,
    Description,
    Presentation,
    Region,
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
    Mixing,
    Tensors,
)

if TYPE_CHECKING:
    from estimator_lib.config.rules import ConfigRules
    from protos import pipeline_pb2

__all__ = [
    'AS_CONFIGURED',
    'IMAGE',
    'SOURCE_ID',
    'Analysis',
    'Arrays',
    'BatchSpec',
    'CheckpointMapping',
    'DataChecks',
    'DataReport',
    'Deployment',
    'Description',
    'Example',
    'Features',
    'Labels',
    'Metric',
    'Mixing',
    'Presentation',
    'Region',
    'Shown',
    'Task',
    'Tensors',
]


class Task(Deployment):
    """One kind of vision model, as a set of functions without state.

    A task is built from a pipeline config and never changes. Methods take all inputs as arguments
    and return their results. The graph-building methods may be called any number of times, in any
    graph.

    Attributes:
        analysis: analysis of evaluations; None: the task has none.
        checks: checks of records before training.
        presentation: pictures, tables and files of results.
        checkpoints: checkpoints of other tasks and programs, and names of classes beside them.
    """

    analysis: Optional[Analysis] = None
    checks: DataChecks = DataChecks()
    presentation: Presentation = Presentation()
    checkpoints: CheckpointMapping = CheckpointMapping()

    @classmethod
    def config_rules(cls, config: pipeline_pb2.TrainEvalPipelineConfig) -> Optional[ConfigRules]:
        """Return the rules of the config's fields that this task reads, without building the task.

        Args:
            config: a parsed pipeline config, which has not been validated.

        Returns:
            The rules; None if there are none beyond the engine's.
        """
        del cls, config
        return None

    @classmethod
    def from_config(cls, config: pipeline_pb2.TrainEvalPipelineConfig) -> Task:
        """Build the task of a pipeline config; every task that a config can name defines it.

        Args:
            config: the pipeline config. For an export, the training and evaluation parts may be
                missing.

        Raises:
            errors.ConfigError: a value is not usable; the message begins with its path.
        """
        raise NotImplementedError(f'{cls.__name__}.from_config')

    @abc.abstractmethod
    def decode(self, serialized: tf.Tensor) -> Example:
        """Decode one record into named tensors.

        Args:
            serialized: string scalar, a `tf.train.Example`.

        Returns:
            The example; it has `SOURCE_ID`. An invalid record (an image that does not decode, a
            label out of range) raises `tf.errors.InvalidArgumentError` when run, with a message
            that describes the problem. The engine adds the file and the number of the record.
        """

    def split_sequence(self, serialized: bytes) -> Sequence[bytes]:
        """Split a sequence into the records of its frames, for `input_type: TF_SEQUENCE_EXAMPLE`.

        Args:
            serialized: a serialized `tf.train.SequenceExample`, possibly malformed.

        Returns:
            A serialized `tf.train.Example` for each frame to read. A malformed record is returned
            alone and unchanged; `check_example` describes its problem.
        """
        return [serialized]

    @abc.abstractmethod
    def augment(self, example: Example, seed: tf.Tensor) -> Example:
        """Augment one example for training.

        Args:
            example: from `decode`, or combined by the last of `mixings`.
            seed: int64 [2], the only source of randomness (`tf.random.stateless_*`,
                `tf.image.stateless_*`). Each example of a run gets another seed, and a resumed run
                continues with the seeds of an uninterrupted one.

        Returns:
            The example, with the same keys.
        """

    def augmentations(self) -> Sequence[str]:
        """Return the steps of `augment`, in order, in the words of the config."""
        return ()

    def mixings(self) -> Sequence[Mixing]:
        """Return the augmentations that combine examples, applied in order before `augment`."""
        return ()

    @abc.abstractmethod
    def prepare(self, example: Example, mode: str) -> Tuple[Features, Labels]:
        """Convert one example to tensors that can be batched: of static shape, or `pads_batches`.

        Args:
            example: from `augment` or `decode`.
            mode: a `tf.estimator.ModeKeys`.

        Returns:
            Features (with `IMAGE` and `SOURCE_ID`) and labels of one example, without a batch
            dimension.
        """

    def batch_spec(self) -> BatchSpec:
        """Declare the features and labels of `prepare`, in batches.

        The engine refuses other batches with a sentence. Undeclared tensors are not compared.
        """
        return BatchSpec()

    def as_tiled(self, size: int) -> Task:
        """Return the task that reads the examples of evaluations by tiles, by default itself.

        Args:
            size: side of a tile in pixels. Predictions are merged at the size of the image, and
                the network does not see the image of these examples.
        """
        del size
        return self

    def largest_input(self) -> Optional[Tuple[int, int]]:
        """Return an upper bound of the height and width of images in a batch; None if unknown."""
        return None

    def pads_batches(self) -> bool:
        """Return True if the examples of a batch differ in size and are padded with zeros."""
        return False

    def batches_by_size(self) -> bool:
        """Return True if each batch of an evaluation has images of one size only.

        The metrics then do not depend on the images that share a batch. Examples keep their size.
        Labels have the height and width of their image, or static shapes.
        """
        return False

    @abc.abstractmethod
    def predict(self, features: Features, mode: str, labels: Optional[Labels] = None) -> Tensors:
        """Build the network: raw outputs of a batch of features.

        The global variables that this method and `losses` create are the variables of the model,
        in whatever collections they are. They are saved, averaged, restored and exported.
        Evaluation and inference must not create variables that training does not: each must be in
        the checkpoint. Create variables with `tf.compat.v1.get_variable`, so that the replicas on
        the devices of a machine share them by name. Add updates of batch norm to `UPDATE_OPS`, and
        regularization losses to `REGULARIZATION_LOSSES`, as `get_variable(regularizer=...)` does.

        Args:
            features: of a batch.
            mode: a `tf.estimator.ModeKeys`.
            labels: of the batch in training and evaluation, for networks that sample by labels;
                None in inference.

        Returns:
            Tensors by name, at least one: the inputs of `losses` and `postprocess`.
        """

    @abc.abstractmethod
    def losses(self, predictions: Tensors, features: Features, labels: Labels) -> Tensors:
        """Build the losses to minimize: float scalars by the names of `loss_names`.

        The losses are weighted means over the batch, without regularization losses. They must not
        change variables.
        """

    @abc.abstractmethod
    def loss_names(self) -> Sequence[str]:
        """Return the names of the losses, without building a graph."""

    def select_example(self, predictions: Tensors, index: tf.Tensor) -> Tensors:
        """Select the predictions of one example, as a batch of one.

        A replay computes the losses of each example from them. Override it if not all predictions
        have a row for each example; otherwise a replay has the losses of the batch only.

        Args:
            predictions: from `predict` in training.
            index: int32 scalar: number of the example in the batch.

        Returns:
            The predictions that `losses` uses, by the same names.
        """
        return {name: value[index][tf.newaxis] for name, value in predictions.items()}

    @abc.abstractmethod
    def postprocess(self, predictions: Tensors, features: Features) -> Tensors:
        """Build the outputs for a user, each with a leading batch dimension.

        This method must not create variables.
        """

    @abc.abstractmethod
    def metrics(self, outputs: Tensors, features: Features, labels: Labels) -> Dict[str, Metric]:
        """Build the metrics of the outputs: (value, update op) by name.

        Values may be arrays (a confusion matrix), from which `finish_metrics` computes scalars.
        One graph runs many evaluations, and each starts by initializing all local variables. So
        keep all state in local variables, or clear it when it is read. If several devices evaluate,
        this method is called once, with the batches of all.
        """

    def finish_metrics(self, values: Mapping[str, Any]) -> Dict[str, float]:
        """Compute the scalars that an evaluation reports.

        Args:
            values: the results of the value ops of `metrics`.

        Returns:
            Scalars by the names of `metric_names`. A metric without data (the accuracy of a class
            without examples) is left out, or is NaN; `metrics.json` then has null.
        """
        return {name: float(value) for name, value in values.items() if np.ndim(value) == 0}

    def training_metrics(
        self, predictions: Tensors, features: Features, labels: Labels
    ) -> Dict[str, Metric]:
        """Build metrics that training reports beside its losses.

        Each step runs the update ops, and reads the values of the steps before it.

        Returns:
            (float32 scalar, update op) by name.
        """
        del predictions, features, labels
        return {}

    @abc.abstractmethod
    def metric_names(self) -> Sequence[str]:
        """Return the names that `finish_metrics` may return, without building a graph."""

    def across_replicas(self) -> Sequence[str]:
        """Return the fields that the config sets and that need the batches of all replicas.

        A run whose replicas cannot share batches is refused, with the names of these fields.
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
