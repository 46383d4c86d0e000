"""Interface between the detection task and architectures.

An architecture is a module or package of `architectures` that registers itself under the name of
its field in the `model` message, and is listed in `_ARCHITECTURES`.
"""

from __future__ import annotations

import abc
import importlib
import types
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
from estimator_lib.config.section import Section
from estimator_lib.optimization.partitioned import variable_name
from estimator_lib.registry import Registry
from estimator_lib.task import Tensors
from estimator_lib.task_interfaces.checkpoint_mapping import CheckpointMapping, ClassAxis
from estimator_lib.task_interfaces.deployable import Deployable, DeploymentOptions, Ops
from model_fns import checkpoint_scopes
from model_fns.detection import fields
from model_fns.detection.boxes.family import BoxFamily
from model_fns.detection.boxes.targets import Groundtruth
from model_fns.detection.data.image_resizers import ImageResizer
from model_fns.layers.quantization import Quantization
from model_fns.structures import label_map_files
from model_fns.structures.channels import THREE_COLORS, Channels
from model_fns.structures.label_map import LabelMap
from protos import model_pb2

# The values of `train_config.fine_tune_checkpoint_type`: the backbone of a classifier, the feature
# extractor of a detector, the whole detector, and another name for the feature extractor.
CHECKPOINT_TYPES = ('classification', 'detection', 'full', 'fine_tune')


class AnchorFit(NamedTuple):
    """Fit of anchors to boxes.

    Attributes:
        similarity: [M], similarity of each box and its most similar anchor.
        anchors: [A, K].
        threshold: least similarity of a fitting anchor; None: each box has one, however similar.
        meaning: name of the threshold for messages.
        grids: height and width of each feature map in cells; empty: the config has the strides.
    """

    similarity: tf.Tensor
    anchors: tf.Tensor
    threshold: Optional[float]
    meaning: str = 'matched_threshold'
    grids: Sequence[Tuple[int, int]] = ()


class Detector(CheckpointMapping, abc.ABC):
    """Stateless network for detection, with its losses and detections.

    B is the batch size, M the number of groundtruth rows of an image, and K that of the values of a
    box. Inputs are padded to one size. `true_shapes`, int32 [B, 3], are the sizes without padding,
    or None if inputs cannot contain padding.

    The types of its checkpoints are `classification` and `detection` (without or with the scopes of
    detection; they have the variables of the extractor), and for object-based ones `full`.

    Attributes:
        num_classes: number of classes without background.
        resizer: resizes images of any size to inputs.
        family: family of the boxes.
        loss_names: names of the values of `losses`.
        class_axes: layers whose outputs are those of classes, see `ClassColumns`.
        outputs: names of `fields` of outputs besides boxes: masks, keypoints.
        tells_classes: True: detections have classes; False: all are of the first.
        side_inputs: names of `fields` that `predict` uses besides images.
        where: path of the config, for messages.
        channels: of the images.
    """

    num_classes: int
    resizer: ImageResizer
    family: BoxFamily
    loss_names: Sequence[str]
    class_axes: Mapping[str, ClassAxis] = types.MappingProxyType({})
    outputs: FrozenSet[str] = frozenset()
    tells_classes: bool = True
    side_inputs: FrozenSet[str] = frozenset()
    where: str = 'model'
    channels: Channels = THREE_COLORS

    @abc.abstractmethod
    def preprocess(self, images: tf.Tensor, true_shapes: Optional[tf.Tensor]) -> tf.Tensor:
        """Normalize images as in the training of the backbone, and fill their padding.

        Args:
            images: float32 [B, height, width, channels] in [0, 255].
            true_shapes: int32 [B, 3], sizes without padding; None: there is no padding.
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
        """Compute raw predictions.

        Args:
            images: float32 [B, height, width, channels], preprocessed; height and width may be
                only known at run time.
            true_shapes: int32 [B, 3], sizes without padding; None: there is no padding.
            groundtruth: groundtruth in training and evaluation, for sampling; boxes normalized to
                the padded input.
            is_training: True: batch statistics, dropout and sampling are used.
            side_inputs: features by the names of `side_inputs`; None if there are none.
        """

    @abc.abstractmethod
    def losses(
        self, predictions: Tensors, true_shapes: Optional[tf.Tensor], groundtruth: Groundtruth
    ) -> Tensors:
        """Compute weighted scalars by the names of `loss_names`.

        Args:
            predictions: outputs of `predict`, and its input as `PREPROCESSED`.
            true_shapes: int32 [B, 3], sizes without padding; None: there is no padding.
            groundtruth: groundtruth with boxes normalized to the padded input.
        """

    def select_example(self, predictions: Tensors, index: tf.Tensor) -> Tensors:
        """Select the predictions of one image, as a batch of one.

        Args:
            predictions: outputs of `predict`, and its input as `PREPROCESSED`; all but
                `OF_ALL_IMAGES` have a row for each image.
            index: int32 scalar: number of the image in the batch.
        """
        return {
            name: value if name in fields.OF_ALL_IMAGES else value[index][tf.newaxis]
            for name, value in predictions.items()
        }

    @abc.abstractmethod
    def postprocess(self, predictions: Tensors, true_shapes: Optional[tf.Tensor]) -> Tensors:
        """Compute detections by names of `fields`; classes from 0, boxes normalized to the image.

        Args:
            predictions: outputs of `predict`, and its input as `PREPROCESSED`.
            true_shapes: int32 [B, 3], sizes without padding; None: there is no padding.
        """

    def anchor_fit(self, images: tf.Tensor, boxes: tf.Tensor) -> Optional[AnchorFit]:
        """Compute the fit of anchors to boxes; None if there is no threshold.

        Args:
            images: float32 [1, height, width, channels], of the static size of an input.
            boxes: [M, K], normalized to the padded input.
        """
        del images, boxes
        return None

    @abc.abstractmethod
    def deployable(self, ops: Ops, options: DeploymentOptions) -> Deployable:
        """Build the deployable form; its outputs have the class ids of the task.

        Args:
            ops: the ops that the format can compute.
            options: changes of the network for the file, which `forms.check_options` accepts.
        """

    def export_outputs(self, outputs: Tensors) -> Tensors:
        """Select the outputs of a served model, without those for pictures only.

        All are float32, also the indices of anchors: so clients of TensorFlow 2's detectors expect.
        """
        return {
            name: tf.cast(value, tf.float32)
            for name, value in outputs.items()
            if name != fields.SHOWN_PROPOSALS
        }


class DetectionCheckpoints(CheckpointMapping):
    """Checkpoints of a detector; the default type is `classification`.

    Args:
        model: the detector.
        label_map: names of the classes.
        load_all_variables: True: a detection checkpoint restores all variables of the same name;
            False: only those of the feature extractor.
    """

    def __init__(
        self,
        model: Detector,
        label_map: Optional[LabelMap] = None,
        load_all_variables: bool = False,
    ):
        self._model = model
        self._load_all_variables = load_all_variables
        self.last_layer_scopes = model.last_layer_scopes
        self.class_columns = label_map_files.class_columns(model.class_axes)
        self.asset_files = label_map_files.asset_files(label_map)

    def restore_map(
        self, variables: Sequence[tf.Variable], checkpoint_type: str
    ) -> Mapping[str, tf.Variable]:
        """Map names of a checkpoint to variables."""
        kind = self._translate(checkpoint_type)
        if kind == 'full':
            return super().restore_map(variables, kind)
        return self._model.restore_map(variables, kind)

    def object_paths(
        self, variables: Sequence[tf.Variable], checkpoint_type: Optional[str]
    ) -> Mapping[str, tf.Variable]:
        """Map paths of an object-based checkpoint to variables."""
        kind = 'full' if checkpoint_type is None else self._translate(checkpoint_type)
        return self._model.object_paths(variables, kind)

    def foreign_checkpoint(self, names: Collection[str]) -> str:
        """Describe why a checkpoint does not fit the model; empty if it may fit."""
        return self._model.foreign_checkpoint(names)

    def _translate(self, named: str) -> str:
        """Translate the type in the config to `full`, `detection` or `classification`."""
        kind = checkpoint_scopes.check_type(named or 'classification', CHECKPOINT_TYPES)
        # The Object Detection API 2.8 refuses it for a CenterNet, and names `detection` in its
        # place.
        kind = 'detection' if kind == 'fine_tune' else kind
        return 'full' if kind == 'detection' and self._load_all_variables else kind


# Functions (message, quantization) -> detector, by the field of `model`.
DETECTORS: Registry[Callable[[Section[Any], Optional[Quantization]], Detector]] = Registry(
    'detector'
)

# Modules of the architectures; importing them registers detectors.
_ARCHITECTURES = ('ssd.build', 'faster_rcnn.build', 'center_net.build')


def build_detector(
    config: model_pb2.DetectionModel,
    quantization: Optional[Quantization] = None,
    channels: Channels = THREE_COLORS,
) -> Detector:
    """Build the detector that a config describes.

    Args:
        config: configuration message.
        quantization: quantization of the layers; None: they are not quantized.
        channels: of the images.

    Raises:
        errors.ConfigError: the architecture or a part is missing or unknown, or a field is not
            supported.
    """
    # Not at the top of the file: the architectures import this module.
    for module in _ARCHITECTURES:
        importlib.import_module(f'model_fns.detection.architectures.{module}')
    kind = config.WhichOneof('model')
    if kind is None:
        raise errors.ConfigError(f'model: empty; expected one of {", ".join(DETECTORS)}.')
    section = Section(config, 'model').child(kind)
    detector = DETECTORS.get(kind, section.path)(section, quantization)
    if channels.has_more and detector.resizer.channels == 1:
        raise section.error(
            'image_resizer',
            f'convert_to_grayscale is for three channels; the images have {channels.total} '
            '(num_additional_channels). Expected false.',
        )
    detector.channels = channels
    return detector


def content_shares(true_shapes: tf.Tensor, images: tf.Tensor) -> tf.Tensor:
    """Compute the size without padding relative to the input: float32 [B, 2], in (0, 1].

    Args:
        true_shapes: int32 [B, 3].
        images: [B, height, width, channels].
    """
    size = tf.cast(tf.shape(images)[1:3], tf.float32)
    return tf.cast(true_shapes[:, :2], tf.float32) / size


def content_windows(true_shapes: tf.Tensor, images: tf.Tensor) -> tf.Tensor:
    """Compute the windows of images without padding, normalized to the input: float32 [B, 4].

    Args:
        true_shapes: int32 [B, 3].
        images: [B, height, width, channels].
    """
    far = content_shares(true_shapes, images)
    return tf.concat([tf.zeros_like(far), far], axis=1)


def fill_padding(
    images: tf.Tensor, true_shapes: tf.Tensor, values: Union[Tuple[float, ...], tf.Tensor]
) -> tf.Tensor:
    """Set the padding of images [B, height, width, channels] to some values.

    Values of three colors are followed by zeros for further channels.
    """
    further = (images.shape[-1] or 3) - 3
    if isinstance(values, tuple) and len(values) == 3 and further > 0:
        values = (*values, *[0.0] * further)
    _, height, width, _ = tf.unstack(tf.shape(images))
    rows = tf.range(height)[tf.newaxis, :] < true_shapes[:, 0:1]
    columns = tf.range(width)[tf.newaxis, :] < true_shapes[:, 1:2]
    inside = tf.logical_and(rows[:, :, tf.newaxis], columns[:, tf.newaxis, :])
    return tf.where(inside[..., tf.newaxis], images, tf.convert_to_tensor(values, tf.float32))


def fill_raw_padding(
    images: tf.Tensor, true_shapes: Optional[tf.Tensor], values: Tuple[float, ...]
) -> tf.Tensor:
    """Set the padding of images that are not normalized yet from zeros to some values.

    Args:
        images: float32 [B, height, width, channels].
        true_shapes: int32 [B, 3], without padding; None: there is none.
        values: value of each channel.
    """
    if true_shapes is None or not any(values):
        return images
    return fill_padding(images, true_shapes, values)


def strip_scope(
    variables: Sequence[tf.Variable], scope: str, checkpoint_type: str
) -> Mapping[str, tf.Variable]:
    """Map names of a checkpoint to the variables in a scope; see `Detector.restore_map`.

    Args:
        variables: variables of the model.
        scope: scope of a feature extractor.
        checkpoint_type: `detection`: names are the same; `classification`: without the scope.
    """
    skip = len(scope) + 1 if checkpoint_type == 'classification' else 0
    inside = [variable for variable in variables if variable_name(variable).startswith(f'{scope}/')]
    return {
        checkpoint_scopes.rename_scope(variable_name(variable), lambda name: name[skip:]): variable
        for variable in inside
    }
