"""Object detection as a task of the engine."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.config.rules import ConfigRules
from estimator_lib.task import Arrays, Example, Features, Labels, Metric, Task, Tensors
from model_fns import label_map as label_maps
from model_fns.detection import config_rules, fields, metrics
from model_fns.detection.architectures import ssd
from model_fns.detection.boxes import targets
from model_fns.detection.data import augmentation, image_resizers, inputs
from model_fns.detection.detections import pictures
from model_fns.detection.networks.feature_extractors import extractor
from protos import pipeline_pb2

tf1 = tf.compat.v1
ModeKeys = tf.estimator.ModeKeys

# Class ids of a label map start at 1, those of a network at 0.
LABEL_ID_OFFSET = 1


class DetectionTask(Task):
    """Images to boxes with a class and a score.

    Args:
        model: the network, its targets, losses and detections.
        resizer: how an image becomes an input.
        reader: how records are decoded.
        augment: example and seed -> example.
        evaluator: what is measured.
        drawer: how detections are drawn.
        label_map: names of the classes.
        load_all_variables: whether a detection checkpoint gives all variables of the same name,
            not the feature extractor's alone.
    """

    def __init__(
        self,
        model: ssd.SsdModel,
        resizer: image_resizers.ImageResizer,
        reader: inputs.Reader,
        augment: augmentation.Augmentation,
        evaluator: metrics.Metrics,
        drawer: pictures.Drawer,
        load_all_variables: bool = False,
    ):
        self._model = model
        self._resizer = resizer
        self._reader = reader
        self._augment = augment
        self._evaluator = evaluator
        self._drawer = drawer
        self._load_all_variables = load_all_variables

    @classmethod
    def config_rules(cls, config: pipeline_pb2.TrainEvalPipelineConfig) -> ConfigRules:
        """See `config_rules`."""
        del config
        return config_rules.RULES

    @classmethod
    def from_config(cls, config: pipeline_pb2.TrainEvalPipelineConfig) -> DetectionTask:
        """The task that `model.ssd` describes.

        Raises:
            errors.ConfigError: a part is missing or unknown, or a field is not honoured.
        """
        model = config.model.ssd
        label_map = label_maps.of_readers(config, model.num_classes)
        return cls(
            ssd.build_ssd(model),
            image_resizers.build_image_resizer(model.image_resizer, 'model.ssd.image_resizer'),
            inputs.build_reader(config, model.num_classes, label_map),
            augmentation.build_augmentation(config.train_config.data_augmentation_options),
            metrics.build_metrics(config.eval_config, model.num_classes, label_map),
            pictures.build_drawer(config.eval_config, label_map),
            config.train_config.load_all_detection_checkpoint_vars,
        )

    @property
    def name(self) -> str:
        """See `Task`."""
        return 'detection'

    def decode(self, serialized: tf.Tensor) -> Example:
        """See `inputs.Reader.decode`."""
        return self._reader.decode(serialized)

    def augment(self, example: Example, seed: tf.Tensor) -> Example:
        """See `augmentation`."""
        return self._augment(example, seed)

    def prepare(self, example: Example, mode: str) -> Tuple[Features, Labels]:
        """See `inputs.Reader.prepare`: resized and padded images, padded groundtruth."""
        return self._reader.prepare(example, self._resizer, mode)

    def predict(self, features: Features, mode: str) -> Tensors:
        """Raw predictions: see `ssd.SsdModel.predict`."""
        images = self._model.preprocess(tf.cast(features[fields.IMAGE], tf.float32))
        if self._resizer.pads:
            images = _with_padding(
                images, features[fields.TRUE_IMAGE_SHAPE], self._resizer.pad_values
            )
        predictions = self._model.predict(images, mode == ModeKeys.TRAIN)
        return {fields.PREPROCESSED: images, **predictions}

    def losses(self, predictions: Tensors, features: Features, labels: Labels) -> Tensors:
        """See `ssd.SsdModel.losses`."""
        return self._model.losses(predictions, groundtruth_of(labels))

    def loss_names(self) -> Sequence[str]:
        """See `Task`."""
        return (ssd.CLASSIFICATION_LOSS, ssd.LOCALIZATION_LOSS)

    def postprocess(self, predictions: Tensors, features: Features) -> Tensors:
        """Detections as CONTRACT lists them; class ids are those of the label map."""
        windows = None
        if self._resizer.pads:
            windows = _windows(features[fields.TRUE_IMAGE_SHAPE], features[fields.IMAGE])
        detections = self._model.postprocess(predictions, windows)
        detections[fields.DETECTION_CLASSES] += LABEL_ID_OFFSET
        return detections

    def metrics(self, outputs: Tensors, features: Features, labels: Labels) -> Dict[str, Metric]:
        """See `metrics`."""
        return self._evaluator.create(outputs, features, labels)

    def finish_metrics(self, values: Mapping[str, Any]) -> Dict[str, float]:
        """See `metrics`."""
        return self._evaluator.finish(values)

    def metric_names(self) -> Sequence[str]:
        """See `Task`."""
        return self._evaluator.names()

    def draw(
        self, features: Arrays, outputs: Arrays, labels: Optional[Arrays] = None
    ) -> Optional[np.ndarray]:
        """Detections, with the groundtruth beside them where it is known."""
        return self._drawer.draw(features, outputs, labels)

    def serving_features(self, images: tf.Tensor) -> Features:
        """Each image at the network's input size."""
        signature = {
            fields.IMAGE: tf.TensorSpec(
                [*(self._resizer.static_size or (None, None)), None], tf.float32
            ),
            fields.TRUE_IMAGE_SHAPE: tf.TensorSpec([3], tf.int32),
        }

        @tf.autograph.experimental.do_not_convert
        def resized(image: tf.Tensor) -> Features:
            one = self._resizer.resize(image)
            return {fields.IMAGE: one.image, fields.TRUE_IMAGE_SHAPE: one.true_shape}

        features = tf.map_fn(resized, images, fn_output_signature=signature)
        features[fields.IMAGE].set_shape([None, None, None, images.shape[-1]])
        return features

    def export_outputs(self, outputs: Tensors) -> Tensors:
        """All that `postprocess` gives."""
        return dict(outputs)

    def restore_map(
        self, variables: Sequence[tf.Variable], checkpoint_type: str
    ) -> Mapping[str, tf.Variable]:
        """The feature extractor's variables, by their names in either kind of checkpoint.

        A `detection` checkpoint has the same names; a `classification` one, the default as
        published, has them without the extractor's scope.
        """
        kind = checkpoint_type or 'classification'
        if kind not in config_rules.CHECKPOINT_TYPES:
            raise errors.ConfigError(
                f'train_config.fine_tune_checkpoint_type: {kind!r} is unknown'
                f'{errors.did_you_mean(kind, config_rules.CHECKPOINT_TYPES)}'
            )
        outer = f'{extractor.SCOPE}/'
        if kind == 'detection' and self._load_all_variables:
            return {variable.op.name: variable for variable in variables}
        of_extractor = [one for one in variables if one.op.name.startswith(outer)]
        skip = len(outer) if kind == 'classification' else 0
        return {variable.op.name[skip:]: variable for variable in of_extractor}

    def last_layer_scopes(self) -> Sequence[str]:
        """See `Task`."""
        return ('ClassPredictor', 'BoxEncodingPredictor', 'BoxPredictor/')

    def check_example(self, serialized: bytes) -> Optional[str]:
        """See `Task`."""
        return self._reader.problem_with(serialized)


def groundtruth_of(labels: Labels) -> targets.Groundtruth:
    """The groundtruth of a batch, from its labels."""
    boxes = labels[fields.BOXES]
    count = labels[fields.NUM_BOXES][:, tf.newaxis]
    return targets.Groundtruth(
        boxes=boxes,
        classes=labels[fields.CLASSES],
        weights=labels[fields.WEIGHTS],
        real=tf.range(tf.shape(boxes)[1]) < count,
        confidences=labels.get(fields.CONFIDENCES),
    )


def _with_padding(
    images: tf.Tensor, true_shapes: tf.Tensor, values: Tuple[float, ...]
) -> tf.Tensor:
    """Images [B, height, width, channels] whose padding holds the given values."""
    _, height, width, _ = tf.unstack(tf.shape(images))
    rows = tf.range(height)[tf.newaxis, :] < true_shapes[:, 0:1]
    columns = tf.range(width)[tf.newaxis, :] < true_shapes[:, 1:2]
    inside = tf.logical_and(rows[:, :, tf.newaxis], columns[:, tf.newaxis, :])
    return tf.where(inside[..., tf.newaxis], images, tf.constant(values, tf.float32))


def _windows(true_shapes: tf.Tensor, images: tf.Tensor) -> tf.Tensor:
    """What of each input is image: float32 [B, 4], as shares of the padded input."""
    size = tf.cast(tf.shape(images)[1:3], tf.float32)
    far = tf.cast(true_shapes[:, :2], tf.float32) / size
    return tf.concat([tf.zeros_like(far), far], axis=1)
