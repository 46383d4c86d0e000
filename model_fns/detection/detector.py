"""What the detection task knows of an architecture: the questions that it asks, and no others.

An architecture is a module (or folder) of `architectures` that registers itself under the name of
its field in the `model` message, and a line in `_ARCHITECTURES`.
"""

from __future__ import annotations

import abc
import importlib
from typing import (
    Any,
    Callable,
    Collection,
    FrozenSet,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
)

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.export.deployable import Deployable, Ops
from estimator_lib.optimization.partitioned import variable_name
from estimator_lib.registry import Registry
from estimator_lib.task import Tensors
from model_fns import checkpoint_scopes
from model_fns.detection import fields
from model_fns.detection.boxes.family import BoxFamily
from model_fns.detection.boxes.targets import Groundtruth
from model_fns.detection.data.image_resizers import ImageResizer
from model_fns.layers.quantization import Quantization
from protos import model_pb2

# The values of `train_config.fine_tune_checkpoint_type`: the backbone of a classifier, the feature
# extractor of a detector, all of it, and another word for the feature extractor.
CHECKPOINT_TYPES = ('classification', 'detection', 'full', 'fine_tune')


class AnchorFit(NamedTuple):
    """How well anchors fit boxes.

    Attributes:
        similarity: [M], of each box and the anchor that it is most alike to.
        anchors: [A, K].
        threshold: a box that no anchor is that similar to has none that fits.
        meaning: what the threshold is.
    """

    similarity: tf.Tensor
    anchors: tf.Tensor
    threshold: float
    meaning: str = 'matched_threshold'


class Detector(abc.ABC):
    """A network for detection, its losses and its detections, as functions without memory.

    B is the batch size, M the number of groundtruth boxes that an image is padded to, K that of the
    numbers of a box. Inputs are padded to one size; `true_shapes`, int32 [B, 3], says what of each
    is image, and is None where no input can hold padding.

    Attributes:
        num_classes: without background.
        resizer: how an image of any size becomes an input.
        family: of the boxes.
        loss_names: of what `losses` gives.
        last_layer_scopes: name parts of the variables whose shapes depend on the classes.
        outputs: the names of `fields` that its detections have beyond boxes: masks, keypoints.
        tells_classes: whether its detections have a class; else all are of the first.
        side_inputs: the names of `fields` that `predict` takes beside images.
        where: path of its config, for messages.
    """

    num_classes: int
    resizer: ImageResizer
    family: BoxFamily
    loss_names: Sequence[str]
    last_layer_scopes: Sequence[str]
    outputs: FrozenSet[str] = frozenset()
    tells_classes: bool = True
    side_inputs: FrozenSet[str] = frozenset()
    where: str = 'model'

    @abc.abstractmethod
    def preprocess(self, images: tf.Tensor, true_shapes: Optional[tf.Tensor]) -> tf.Tensor:
        """Images as the backbone was trained on, with what the architecture has for padding.

        Args:
            images: float32 [B, height, width, channels] in [0, 255].
            true_shapes: see the class.
        """

    @abc.abstractmethod
    def predict(
        self,
        images: tf.Tensor,
        true_shapes: Optional[tf.Tensor],
        groundtruth: Optional[Groundtruth],
        is_training: bool,
        side_inputs: Optional[Tensors] = None,
    ) -> Tensors:
        """Raw predictions.

        Args:
            images: float32 [B, height, width, channels], preprocessed; height and width may be
                known at run time alone.
            true_shapes: see the class.
            groundtruth: in training and evaluation, for what samples by it; boxes normalized to the
                padded input.
            is_training: batch statistics, dropout, sampling.
            side_inputs: features by the names of `side_inputs`; None where there are none.
        """

    @abc.abstractmethod
    def losses(
        self, predictions: Tensors, true_shapes: Optional[tf.Tensor], groundtruth: Groundtruth
    ) -> Tensors:
        """Weighted scalars by the names of `loss_names`.

        Args:
            predictions: from `predict`, and its input as `PREPROCESSED`.
            true_shapes: see the class.
            groundtruth: boxes normalized to the padded input.
        """

    @abc.abstractmethod
    def postprocess(self, predictions: Tensors, true_shapes: Optional[tf.Tensor]) -> Tensors:
        """Detections by the names of `fields`; classes from 0, boxes normalized to the image.

        Args:
            predictions: from `predict`, and its input as `PREPROCESSED`.
            true_shapes: see the class.
        """

    @abc.abstractmethod
    def restore_map(
        self, variables: Sequence[tf.Variable], checkpoint_type: str
    ) -> Mapping[str, tf.Variable]:
        """The variables that an extractor's checkpoint gives, by their names in it.

        Args:
            variables: of the model.
            checkpoint_type: `detection` or `classification`: with the scopes of detection, or
                without.
        """

    def object_paths(
        self, variables: Sequence[tf.Variable], checkpoint_type: str
    ) -> Mapping[str, tf.Variable]:
        """The variables that an object-based checkpoint gives, by their path in it.

        Args:
            variables: of the model.
            checkpoint_type: `full`: all; `detection` or `classification`: as in `restore_map`.

        Returns:
            See `Task.object_paths`; empty: there are no such checkpoints.

        Raises:
            errors.ConfigError: likewise, and the message says what has them.
        """
        del variables, checkpoint_type
        return {}

    def foreign_checkpoint(self, names: Collection[str]) -> str:
        """See `Task.foreign_checkpoint`."""
        del names
        return ''

    def anchor_fit(self, images: tf.Tensor, boxes: tf.Tensor) -> Optional[AnchorFit]:
        """How well the anchors fit boxes; None for what matches boxes otherwise.

        Args:
            images: float32 [1, height, width, channels] of an input's size, which is static.
            boxes: [M, K], normalized to the padded input.
        """
        del images, boxes
        return None

    def deployable(self, ops: Ops, options: Mapping[str, Any]) -> Deployable:
        """See `Task.deployable`; its outputs have the class ids of the task."""
        del ops, options
        raise errors.ConfigError(
            f'{self.where}: such a detector has no place in a file for small devices; expected a '
            'single-shot detector of upright boxes (model.ssd), or --format=saved_model.'
        )

    def export_outputs(self, outputs: Tensors) -> Tensors:
        """What a served model answers of its detections: all but what pictures alone show."""
        return {name: one for name, one in outputs.items() if name != fields.SHOWN_PROPOSALS}


# (the architecture's message, its path in the config, its quantization) -> detector, by its field
# in `model`.
DETECTORS: Registry[Callable[[Any, str, Optional[Quantization]], Detector]] = Registry('detector')

# One line an architecture: the module that registers it when it is imported.
_ARCHITECTURES = ('ssd', 'faster_rcnn.build', 'center_net.build')


def build_detector(
    config: model_pb2.DetectionModel, quantization: Optional[Quantization] = None
) -> Detector:
    """The detector that a config describes.

    Args:
        config: which.
        quantization: of its layers; None: they are not quantized.

    Raises:
        errors.ConfigError: there is no such architecture, a part is missing or unknown, or a field
            is not honored.
    """
    for module in _ARCHITECTURES:
        importlib.import_module(f'model_fns.detection.architectures.{module}')
    kind = config.WhichOneof('model')
    if kind is None:
        raise errors.ConfigError(f'model: empty; expected one of {", ".join(DETECTORS)}.')
    where = f'model.{kind}'
    return DETECTORS.get(kind, where)(getattr(config, kind), where, quantization)


def content_shares(true_shapes: tf.Tensor, images: tf.Tensor) -> tf.Tensor:
    """How much of each input's height and width is image: float32 [B, 2], in (0, 1].

    Args:
        true_shapes: int32 [B, 3].
        images: [B, height, width, channels].
    """
    size = tf.cast(tf.shape(images)[1:3], tf.float32)
    return tf.cast(true_shapes[:, :2], tf.float32) / size


def fill_padding(
    images: tf.Tensor, true_shapes: tf.Tensor, values: Union[Tuple[float, ...], tf.Tensor]
) -> tf.Tensor:
    """Images [B, height, width, channels] whose padding holds the given values."""
    _, height, width, _ = tf.unstack(tf.shape(images))
    rows = tf.range(height)[tf.newaxis, :] < true_shapes[:, 0:1]
    columns = tf.range(width)[tf.newaxis, :] < true_shapes[:, 1:2]
    inside = tf.logical_and(rows[:, :, tf.newaxis], columns[:, tf.newaxis, :])
    return tf.where(inside[..., tf.newaxis], images, tf.convert_to_tensor(values, tf.float32))


def fill_raw_padding(
    images: tf.Tensor, true_shapes: Optional[tf.Tensor], values: Tuple[float, ...]
) -> tf.Tensor:
    """Images that are not normalized yet, whose padding is zeros, with the given values in it.

    Args:
        images: float32 [B, height, width, channels].
        true_shapes: int32 [B, 3], without padding; None: there is none.
        values: of each channel.
    """
    if true_shapes is None or not any(values):
        return images
    return fill_padding(images, true_shapes, values)


def without_scope(
    variables: Sequence[tf.Variable], scope: str, checkpoint_type: str
) -> Mapping[str, tf.Variable]:
    """The variables in a scope by their names in a checkpoint; see `Detector.restore_map`.

    Args:
        variables: of the model.
        scope: of a feature extractor.
        checkpoint_type: `detection`: names are the same; `classification`: without the scope.
    """
    skip = len(scope) + 1 if checkpoint_type == 'classification' else 0
    inside = [one for one in variables if variable_name(one).startswith(f'{scope}/')]
    return {
        checkpoint_scopes.rename_scope(variable_name(one), lambda name: name[skip:]): one
        for one in inside
    }
