"""What the engine knows of a task: the questions that it asks, and no others."""

from __future__ import annotations

import abc
from typing import Any, Collection, Dict, Iterable, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors

Example = Dict[str, tf.Tensor]
Features = Dict[str, tf.Tensor]
Labels = Dict[str, tf.Tensor]
Tensors = Dict[str, tf.Tensor]
Metric = Tuple[tf.Tensor, tf.Operation]
Arrays = Mapping[str, np.ndarray]

# Every task's features hold these.
IMAGE = 'image'  # [batch, height, width, channels]
SOURCE_ID = 'source_id'  # string [batch]: names the example in messages


class DataReport(NamedTuple):
    """What the examples of a config are like, for `--mode=check`.

    Attributes:
        lines: to print.
        doubts: sentences about what is possible, and probably not meant.
        problems: sentences about examples that no run can use, where all have been looked at.
    """

    lines: Sequence[str] = ()
    doubts: Sequence[str] = ()
    problems: Sequence[str] = ()


class Shown(NamedTuple):
    """How much of what a model finds in an image is told.

    Attributes:
        least_score: the least score; None: what the task or its config has for it.
        top_k: so many findings, those with the highest scores; None: as `least_score`.
    """

    least_score: Optional[float] = None
    top_k: Optional[int] = None

    def or_else(self, other: Shown) -> Shown:
        """What is asked for here, and `other` where nothing is."""
        return Shown(*(theirs if own is None else own for own, theirs in zip(self, other)))


AS_CONFIGURED = Shown()


class Description(NamedTuple):
    """What is told of one image.

    Attributes:
        values: for people and programs, by name.
        rows: the same as a table: a flat mapping a finding.
        picture: uint8 [height, width, 3]; None: none.
        files: to be written beside the picture, by the end of their names.
    """

    values: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]] = ()
    picture: Optional[np.ndarray] = None
    files: Mapping[str, bytes] = {}


class Task(abc.ABC):
    """One kind of vision model, as a set of functions without memory.

    A task is made from a pipeline config and never changes: what a method needs comes in by its
    arguments, and what it makes comes back. The graph-building methods may be called any number of
    times, in any graph.
    """

    @classmethod
    def config_rules(cls, config: Any) -> Any:
        """What is known of the config's fields that this task reads, without making the task.

        Args:
            config: a pipeline config as it was parsed; nothing of it has been checked.

        Returns:
            A `config.ConfigRules` (whose room stands above this module); None: no rules beyond the
            engine's.
        """
        del cls, config

    @classmethod
    def from_config(cls, config: Any) -> Task:
        """Builds the task that a pipeline config describes; every task of a config defines it.

        Args:
            config: the pipeline config. Where a session only exports, parts of it may be missing.

        Raises:
            errors.ConfigError: a value that is not usable; the message begins with its path.
        """
        raise NotImplementedError(f'{cls.__name__}.from_config')

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """What it is called in messages: `classification`."""

    @abc.abstractmethod
    def decode(self, serialized: tf.Tensor) -> Example:
        """One record as named tensors.

        Args:
            serialized: string scalar, a `tf.train.Example`.

        Returns:
            The example; it has `SOURCE_ID`. A record that is not valid (an image that does not
            decode, a label out of range) fails with `tf.errors.InvalidArgumentError` when run, with
            a message that says what is wrong; the engine adds file and record.
        """

    @abc.abstractmethod
    def augment(self, example: Example, seed: tf.Tensor) -> Example:
        """One example varied for training.

        Args:
            example: from `decode`.
            seed: int64 [2]. All randomness is a function of it (`tf.random.stateless_*`,
                `tf.image.stateless_*`): no two examples of a run get the same one, and a resumed
                run gives each example the seed that it would have had.

        Returns:
            The example, with the same keys.
        """

    def augmentations(self) -> Sequence[str]:
        """Returns what `augment` does, in its order, in the words of the config; empty: nothing."""
        return ()

    @abc.abstractmethod
    def prepare(self, example: Example, mode: str) -> Tuple[Features, Labels]:
        """One example as tensors that can be batched: of static shape, or see `pads_batches`.

        Args:
            example: from `augment` or `decode`.
            mode: a `tf.estimator.ModeKeys`.

        Returns:
            Features (with `IMAGE` and `SOURCE_ID`) and labels of one example, without a batch
            dimension.
        """

    def largest_input(self) -> Optional[Tuple[int, int]]:
        """Height and width that no image of a batch is larger than; None: not known."""
        return None

    def pads_batches(self) -> bool:
        """Whether examples differ in size: zeros then bring them to the largest of their batch."""
        return False

    def batches_by_size(self) -> bool:
        """Returns True where each batch of an evaluation has images of one size only.

        The metrics then do not depend on which images share a batch. Examples may differ in size,
        and keep it. Labels have the height and width of their image, or static shapes.
        """
        return False

    @abc.abstractmethod
    def predict(self, features: Features, mode: str, labels: Optional[Labels] = None) -> Tensors:
        """Builds the network: raw outputs of a batch of features.

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
        """Builds what is minimized: float scalars by the names of `loss_names`.

        They are weighted, means over the batch, and without regularization losses. They do not
        change variables by themselves.
        """

    @abc.abstractmethod
    def postprocess(self, predictions: Tensors, features: Features) -> Tensors:
        """Builds what a user sees: outputs of a batch, each with a leading batch dimension.

        Creates no variables.
        """

    @abc.abstractmethod
    def metrics(self, outputs: Tensors, features: Features, labels: Labels) -> Dict[str, Metric]:
        """Builds what tells how good the outputs are: (value, update op) by name.

        Values may be arrays (a confusion matrix) that `finish_metrics` makes scalars of. One graph
        makes many evaluations, each of which starts with the initial values of all local variables:
        all state is in these, or is cleared by what reads them. Where several devices evaluate,
        this is called once, with the batches of all.
        """

    def finish_metrics(self, values: Mapping[str, Any]) -> Dict[str, float]:
        """Returns the scalars to report of an evaluation.

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
        """What a training step reports beside its losses: (float32 scalar, update op) by name.

        Each step runs the update ops, and reads the values of the steps before it.
        """
        del predictions, features, labels
        return {}

    @abc.abstractmethod
    def metric_names(self) -> Sequence[str]:
        """The names that `finish_metrics` may return: known without building a graph."""

    def metric_title(self, name: str) -> str:
        """What a metric is called where people read it: its name, with that of its class."""
        return name

    @abc.abstractmethod
    def loss_names(self) -> Sequence[str]:
        """The names that `losses` will return: known without building a graph."""

    def worth_showing(self, metrics: Mapping[str, float]) -> Shown:
        """How much of what the model finds is shown where nobody says how much.

        Args:
            metrics: of an evaluation of the same checkpoint; empty: none is known.
        """
        del metrics
        return AS_CONFIGURED

    def draw(
        self,
        features: Arrays,
        outputs: Arrays,
        labels: Optional[Arrays] = None,
        shown: Shown = AS_CONFIGURED,
    ) -> Optional[np.ndarray]:
        """A picture of what the model makes of one example.

        Args:
            features: of one example, without the batch dimension, `IMAGE` among them; a raw uint8
                image when an exported model is run.
            outputs: from `postprocess`, of the same example; empty: the labels are drawn alone.
            labels: of the same example, where they are known: groundtruth is drawn beside.
            shown: how much of the outputs.

        Returns:
            uint8 [height, width, 3]; None when the task draws nothing.
        """
        del features, outputs, labels, shown
        return None

    def files(self, features: Arrays, outputs: Arrays) -> Dict[str, bytes]:
        """Files of one example that are written beside its picture, by the end of their names.

        Args:
            features: see `draw`.
            outputs: see `draw`.
        """
        del features, outputs
        return {}

    def describe(
        self, features: Arrays, outputs: Arrays, shown: Shown = AS_CONFIGURED
    ) -> Description:
        """What `--mode=predict` writes of one image: all outputs, unless the task knows better.

        Args:
            features: `IMAGE`, raw, uint8 [height, width, 3].
            outputs: see `draw`; pixel by pixel those of the raw image.
            shown: how much of them.

        Raises:
            errors.ConfigError: the task does not find what `shown` chooses from.
        """
        del shown
        return Description(outputs, picture=self.draw(features, outputs))

    def nothing_found(self, shown: Shown, worth_showing: Shown) -> str:
        """Returns what to say where nothing was found in any image; empty: nothing.

        Args:
            shown: how much was asked for.
            worth_showing: how much is told where `shown` does not say.
        """
        del shown, worth_showing
        return ''

    def coco_results(
        self, features: Arrays, outputs: Arrays, shown: Shown = AS_CONFIGURED
    ) -> Optional[Sequence[Mapping[str, Any]]]:
        """What is found in one image as COCO's results list it, without `image_id`.

        Args:
            features: see `describe`.
            outputs: see `describe`.
            shown: how much of them; unless it says otherwise all, as average precision needs.

        Returns:
            JSON objects; None: COCO has no such results.
        """
        del features, outputs, shown
        return None

    def submission_lines(
        self, stem: str, features: Arrays, outputs: Arrays, shown: Shown = AS_CONFIGURED
    ) -> Optional[Mapping[str, Sequence[str]]]:
        """What is found in one image as the text files of a benchmark list it.

        Args:
            stem: of the image's file: what the benchmark calls it.
            features: see `describe`.
            outputs: see `describe`.
            shown: how much of them; unless it says otherwise all.

        Returns:
            Lines by the name of their file, which has those of all images; None: no benchmark takes
            such files.
        """
        del stem, features, outputs, shown
        return None

    def merge_tiles(
        self, tiles: Iterable[Tuple[Sequence[int], Arrays]], size: Tuple[int, int]
    ) -> Optional[Arrays]:
        """The outputs of an image that was run in tiles, as if it had been run as a whole.

        Args:
            tiles: parts of the image, which overlap (top, left, height and width in pixels), and
                the outputs of each; at least one. They are run while they are asked for, so what
                is not kept of their outputs takes no memory.
            size: height and width of the image.

        Returns:
            What `describe` needs; None: the task cannot put them together.
        """
        del tiles, size
        return None

    def draw_metrics(self, values: Mapping[str, Any]) -> Dict[str, np.ndarray]:
        """Pictures of an evaluation as a whole, uint8 [height, width, 3] by name."""
        del values
        return {}

    @abc.abstractmethod
    def serving_features(self, images: tf.Tensor) -> Features:
        """Features of what a server sends.

        Args:
            images: uint8 [batch, height, width, 3]; height and width are not static.
        """

    def serving_side_inputs(
        self, batch_size: tf.Tensor, examples: Optional[tf.Tensor]
    ) -> Tuple[Features, Tensors]:
        """What the model takes of a server beside images: nothing, unless the task says so.

        Args:
            batch_size: int32 scalar, the number of images.
            examples: string [batch], the serialized records, where a server sends these: then what
                is needed is in them.

        Returns:
            Features beside those of `serving_features`, and the placeholders that they are received
            by, by their keys in the signature: with defaults, so that a client may leave them out.
        """
        del batch_size, examples
        return {}, {}

    @abc.abstractmethod
    def export_outputs(self, outputs: Tensors) -> Tensors:
        """The outputs of the `serving_default` signature by name."""

    def deployable(self, ops: Any, options: Mapping[str, Any]) -> Any:
        """The network as files for small devices have it.

        Args:
            ops: an `export.deployable.Ops`: what the format computes with.
            options: the flags of an export that are a task's to know (`max_detections`,
                `fast_nms`), by name: those that were given.

        Returns:
            An `export.deployable.Deployable` (whose room stands above this module).

        Raises:
            errors.UserError: the task does not know an option, or what its config describes has no
                place in such a file; nothing has been built.
        """
        del ops, options
        raise errors.UserError(
            f'{self.name} has no files for devices; expected --format=saved_model.'
        )

    def image_tensor_name(self) -> str:
        """The name of the input in frozen graphs, as programs for the published ones feed it."""
        return 'image_tensor'

    @abc.abstractmethod
    def restore_map(
        self, variables: Sequence[tf.Variable], checkpoint_type: str
    ) -> Mapping[str, tf.Variable]:
        """Which variables come from a checkpoint made for another task or by another program.

        Args:
            variables: the model's variables (no optimizer slots, no global step).
            checkpoint_type: `classification`, `detection`, `segmentation`, or '' for a checkpoint
                of the same model.

        Returns:
            Variables by their name in the checkpoint.

        Raises:
            errors.ConfigError: the task does not restore from that type.
        """

    def object_paths(
        self, variables: Sequence[tf.Variable], checkpoint_type: Optional[str]
    ) -> Mapping[str, tf.Variable]:
        """Which variables come from an object-based checkpoint, which TensorFlow 2 writes.

        Args:
            variables: see `restore_map`.
            checkpoint_type: see `restore_map`; None: all variables, from a checkpoint of the same
                model, to be evaluated, exported or converted.

        Returns:
            Variables by their path in the graph of objects, as `checkpoints.object_graphs` writes
            it: `model/backbone/layer_with_weights-0/kernel`. Empty: there are no such checkpoints
            of this model.

        Raises:
            errors.ConfigError: the task does not restore from that type; or a sentence about a
                model that has no such checkpoints.
        """
        del variables, checkpoint_type
        return {}

    def foreign_checkpoint(self, names: Collection[str]) -> str:
        """What is to be said of a checkpoint whose variables fit and compute something else.

        Args:
            names: of its variables, where it names them by scope.

        Returns:
            A sentence, which follows the checkpoint's name; empty: it may be of this model.
        """
        del names
        return ''

    def across_replicas(self) -> Sequence[str]:
        """Paths of config fields by which a step of training computes over all replicas' batches.

        Where the replicas of a run cannot do that, the run is refused by these names.
        """
        return ()

    def last_layer_scopes(self) -> Sequence[str]:
        """Name parts of the variables whose shapes depend on the classes."""
        return ()

    def bias_gradient_multiplier(self) -> float:
        """Factor on the gradients of biases where `train_config.bias_grad_multiplier` is 0."""
        return 1.0

    def averages_model_variables(self) -> bool:
        """What `train_config.optimizer.moving_averages: OF_THE_TASK` stands for.

        Returns:
            Whether moving averages are kept of all variables of the model, with a decay that
            grows; False: of the trained ones, with a constant decay.
        """
        return False

    def asset_files(self) -> Mapping[str, str]:
        """Texts by file name that a model needs besides its weights: the names of classes.

        They are saved in `model_dir` and in exports, which may be moved to where the data is not.
        """
        return {}

    def class_names(self) -> Sequence[str]:
        """The names of the classes, in the order of their numbers in outputs; empty: none known."""
        return ()

    def check_evaluation(self) -> None:
        """Refuses an evaluation that could not be made, before hours of training.

        Raises:
            errors.UserError: the examples and the config do not go together.
        """
        del self

    def check_first_examples(self, records: Sequence[bytes], are_all: bool) -> Sequence[str]:
        """Refuses training examples that nothing could be learned from.

        Args:
            records: the first ones.
            are_all: whether there are no others.

        Returns:
            Warnings, a sentence each.

        Raises:
            errors.DataError: the records have nothing that the model could learn.
        """
        del records, are_all
        return ()

    def split_sequence(self, serialized: bytes) -> Sequence[bytes]:
        """The records of the frames of a sequence, for `input_type: TF_SEQUENCE_EXAMPLE`.

        Args:
            serialized: a `tf.train.SequenceExample`, or what stands in its place.

        Returns:
            A serialized `tf.train.Example` for each frame that is to be read; what cannot be split
            as it is, alone: `check_example` says what is wrong with it.
        """
        return [serialized]

    def check_example(self, serialized: bytes) -> Optional[str]:
        """What is wrong with a record, without building a graph; None when nothing is.

        A cheap look at keys and values for `--mode=check`; that the image decodes is found out by
        `decode`.
        """
        del serialized
        return None

    def examine(self, serialized: bytes) -> Any:
        """What `data_report` needs to know of a valid record; small, for it is kept."""
        del serialized

    def data_report(self, examined: Mapping[str, Sequence[Any]]) -> DataReport:
        """What the examples are like: classes, sizes.

        Args:
            examined: what `examine` returned for each record, by reader: `train_input_reader`, then
                `eval_input_reader[0]` and so on.
        """
        del examined
        return DataReport()
