"""Object detection as a task of the engine."""

from __future__ import annotations

import copy
import functools
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib import tf_estimator
from estimator_lib.config.rules import ConfigRules
from estimator_lib.task import (
    Arrays,
    BatchSpec,
    Example,
    Features,
    Labels,
    Metric,
    Mixing,
    Task,
    Tensors,
)
from estimator_lib.task_interfaces.analysis import Analysis
from estimator_lib.task_interfaces.deployable import NO_CHANGES, Deployable, DeploymentOptions, Ops
from model_fns.detection import (
    batch_spec,
    data_checks,
    detector,
    fields,
    merged_views,
    metrics,
)
from model_fns.detection import rules as config_rules
from model_fns.detection.analysis import resampling
from model_fns.detection.analysis.analyzer import DetectionAnalyzer
from model_fns.detection.boxes import targets
from model_fns.detection.data import augmentation, image_resizers, inputs, sequences
from model_fns.detection.deployment import file_agreement, forms
from model_fns.detection.detections import pictures, post_processing
from model_fns.detection.metrics.coco import CocoEvaluator
from model_fns.detection.presentation import DetectionPresentation
from model_fns.layers import quantization
from model_fns.structures import channels, label_map_files
from model_fns.structures import label_map as label_maps
from model_fns.structures.views import Views
from protos import pipeline_pb2

ModeKeys = tf_estimator.ModeKeys

# Groundtruth that only detectors with these outputs use in training.
_LEARNED_FOR = {
    fields.MASKS: fields.DETECTION_MASKS,
    fields.MASK_WEIGHTS: fields.DETECTION_MASKS,
    fields.KEYPOINTS: fields.DETECTION_KEYPOINTS,
    fields.KEYPOINT_VISIBILITIES: fields.DETECTION_KEYPOINTS,
}


class DetectionTask(Task):
    """Task of detecting boxes with a class and a score in images.

    Args:
        model: the network, its targets, losses and detections.
        reader: decodes records.
        augment: augmentation of training examples.
        evaluator: computes metrics.
        drawer: draws detections.
        load_all_variables: see `detector.DetectionCheckpoints`.
        label_map: names of the classes.
        across_replicas: see `Task.across_replicas`.
        analyzed: evaluator whose shape and classes are analyzed; None: no analysis.
        views: views of an image in evaluation and prediction; None: the image as it is.
    """

    name = 'detection'
    hub_tag = 'object-detection'

    def __init__(
        self,
        model: detector.Detector,
        reader: inputs.Reader,
        augment: augmentation.Augmentation,
        evaluator: metrics.Metrics,
        drawer: pictures.Drawer,
        load_all_variables: bool = False,
        label_map: Optional[label_maps.LabelMap] = None,
        across_replicas: Sequence[str] = (),
        analyzed: Optional[CocoEvaluator] = None,
        views: Optional[Views] = None,
    ):
        self._model = model
        self._reader = reader
        self._augment = augment
        self._evaluator = evaluator
        self.presentation = DetectionPresentation(model, reader, drawer)
        self._across_replicas = tuple(across_replicas)
        self._views = views
        self.checks = data_checks.DetectionChecks(model, reader)
        self.checkpoints = detector.DetectionCheckpoints(model, label_map, load_all_variables)
        if analyzed is not None:
            self.analysis = Analysis(
                lambda: DetectionAnalyzer(
                    analyzed, self.presentation.least_score, self._evaluated_labels
                ),
                functools.partial(resampling.create_resampler, evaluator=analyzed),
            )
        self._eval_resizer: inputs.Resizer = model.resizer
        self.image_format = model.channels.format

    @classmethod
    def config_rules(cls, config: pipeline_pb2.TrainEvalPipelineConfig) -> ConfigRules:
        """Return the config rules of the kind of detector."""
        return config_rules.select_rules(config.model)

    @classmethod
    def from_config(cls, config: pipeline_pb2.TrainEvalPipelineConfig) -> DetectionTask:
        """Build the task that the config's `model` describes.

        Raises:
            errors.ConfigError: a part is missing or unknown, or a field is not supported.
        """
        model = detector.build_detector(
            config.model,
            quantization.from_config(config.graph_rewriter),
            channels.from_config(config),
        )
        label_map = label_map_files.read_label_maps(config, model.num_classes)
        return cls(
            model,
            inputs.build_reader(config, model.num_classes, label_map, model.family),
            augmentation.build_augmentation(config.train_config.data_augmentation_options),
            metrics.build_metrics(
                config.eval_config,
                model.num_classes,
                label_map,
                model.outputs,
                model.family.IS_ROTATED,
            ),
            pictures.build_drawer(config.eval_config, label_map),
            config.train_config.load_all_detection_checkpoint_vars,
            label_map,
            config_rules.synchronized_fields(config.model),
            metrics.build_analyzed(config.eval_config, model.num_classes, label_map),
            merged_views.build_views(config.eval_config, model),
        )

    def decode(self, serialized: tf.Tensor) -> Example:
        """Decode a record, a string scalar, into named tensors; see `inputs.Reader.decode`."""
        return self._reader.decode(serialized)

    def mixings(self) -> Sequence[Mixing]:
        """Return the augmentation steps of the config that combine examples."""
        return self._augment.mixings

    def augment(self, example: Example, seed: tf.Tensor) -> Example:
        """Apply the augmentation steps of the config that follow the last mixing."""
        return self._augment(example, seed)

    def augmentations(self) -> Sequence[str]:
        """Return the steps of `train_config.data_augmentation_options`."""
        return self._augment.kinds

    def prepare(self, example: Example, mode: str) -> Tuple[Features, Labels]:
        """Resize the image of an example, and pad its groundtruth; see `inputs.Reader.prepare`.

        Training batches omit masks and keypoints that the model does not learn.
        """
        if mode == ModeKeys.TRAIN:
            example = {
                name: value
                for name, value in example.items()
                if name not in _LEARNED_FOR or _LEARNED_FOR[name] in self._model.outputs
            }
        resizer = self._model.resizer if mode == ModeKeys.TRAIN else self._eval_resizer
        return self._reader.prepare(example, resizer, mode)

    def batch_spec(self) -> BatchSpec:
        """Declare images and padded groundtruth; see `batch_spec`."""
        return batch_spec.batch_spec(self._model, self._reader, self._evaluator)

    def largest_input(self) -> Optional[Tuple[int, int]]:
        """Return the largest input size, in landscape; it represents portrait images too."""
        return self._model.resizer.largest_size

    def pads_batches(self) -> bool:
        """Check whether inputs differ in size, or examples in their number of masks."""
        return self._model.resizer.static_size is None or self._reader.mask_type is not None

    def predict(self, features: Features, mode: str, labels: Optional[Labels] = None) -> Tensors:
        """Compute raw predictions, and those of views; see `detector.Detector.predict`."""
        true_shapes = self._true_shapes(features)
        # Batches may be uint8, a quarter of the bytes to send to a device: they become float32 only
        # here.
        pixels = tf.cast(features[fields.IMAGE], tf.float32)
        images = self._model.preprocess(pixels, true_shapes)
        groundtruth = None if labels is None else self._groundtruth(features, labels)
        training = mode == ModeKeys.TRAIN
        side_inputs = {name: features[name] for name in self._model.side_inputs} or None
        predictions = self._model.predict(images, true_shapes, groundtruth, training, side_inputs)
        predictions = {fields.PREPROCESSED: images, **predictions}
        if self._views is not None and not training:
            seen = merged_views.predict(self._model, pixels, true_shapes, self._views, side_inputs)
            predictions.update(seen)
        return predictions

    def losses(self, predictions: Tensors, features: Features, labels: Labels) -> Tensors:
        """Compute weighted losses by name; see `detector.Detector.losses`."""
        groundtruth = self._groundtruth(features, labels)
        return self._model.losses(predictions, self._true_shapes(features), groundtruth)

    def select_example(self, predictions: Tensors, index: tf.Tensor) -> Tensors:
        """Select the predictions of one image; see `detector.Detector.select_example`."""
        return self._model.select_example(predictions, index)

    def loss_names(self) -> Sequence[str]:
        """Return the names of the model's losses."""
        return self._model.loss_names

    def postprocess(self, predictions: Tensors, features: Features) -> Tensors:
        """Compute detections by the names of `fields`; class ids are those of the label map."""
        true_shapes = self._true_shapes(features)
        detections = merged_views.postprocess(self._model, predictions, true_shapes, self._views)
        return post_processing.to_outputs(detections, self._model.family, features)

    def metrics(self, outputs: Tensors, features: Features, labels: Labels) -> Dict[str, Metric]:
        """Build the metrics; see `_evaluated_labels`."""
        return self._evaluator.create(outputs, features, self._evaluated_labels(labels))

    def _evaluated_labels(self, labels: Labels) -> Labels:
        """Return labels; a model without classes is evaluated with the first class only."""
        if self._model.tells_classes:
            return labels
        first = tf.zeros(tf.shape(labels[fields.CLASSES])[:2], tf.int32)
        return {**labels, fields.CLASSES: tf.one_hot(first, self._model.num_classes)}

    def finish_metrics(self, values: Mapping[str, Any]) -> Dict[str, float]:
        """Split the values of an evaluation into scalars by name."""
        return self._evaluator.finish(values)

    def metric_names(self) -> Sequence[str]:
        """List all metrics that an evaluation may report."""
        return self._evaluator.names()

    def as_tiled(self, size: int) -> DetectionTask:
        """Return the task whose evaluations read masks at the size of images larger than a tile."""
        tiled = copy.copy(self)
        if self._reader.mask_type is not None:
            tiled._eval_resizer = image_resizers.SmallImageResizer(self._model.resizer, size)
        return tiled

    def serving_features(self, images: tf.Tensor) -> Features:
        """Resize each image to the network's input size."""
        is_reframed = fields.REFRAMED_MASKS in self._model.outputs
        return inputs.serving_features(
            images, self._model.resizer, self._model.family.IS_ROTATED, is_reframed
        )

    def serving_side_inputs(
        self, batch_size: tf.Tensor, examples: Optional[tf.Tensor]
    ) -> Tuple[Features, Tensors]:
        """Build features of other images, from records or from two optional inputs."""
        context = self._reader.context
        if context is None:
            return {}, {}
        if examples is not None:
            return context.parse_examples(examples), {}
        received = context.received(batch_size)
        return received, received

    def as_exported(self) -> DetectionTask:
        """Return the task with one view."""
        # A shallow copy: tasks are never changed, so the parts can be shared.
        exported = copy.copy(self)
        exported._views = None
        return exported

    def deployable(self, ops: Ops, options: DeploymentOptions = NO_CHANGES) -> Deployable:
        """Build the deployable form of the model; see `detector.Detector.deployable`."""
        forms.check_options(ops, options)
        return self._model.deployable(ops, options)

    def export_outputs(self, outputs: Tensors) -> Tensors:
        """Select the outputs of a served model."""
        return self._model.export_outputs(outputs)

    def compare_served(
        self, expected: Sequence[Arrays], found: Sequence[Arrays]
    ) -> Dict[str, float]:
        """Compare rows in any order where their own differs; see `file_agreement`."""
        return file_agreement.compare_served(expected, found)

    def across_replicas(self) -> Sequence[str]:
        """Return the fields of layers with statistics of all replicas."""
        return self._across_replicas

    def split_sequence(self, serialized: bytes) -> Sequence[bytes]:
        """Split a sequence of images into records of single images."""
        return sequences.split(serialized)

    def _true_shapes(self, features: Features) -> Optional[tf.Tensor]:
        """Return sizes without padding, int32 [B, 3]; None if inputs cannot contain padding."""
        return features[fields.TRUE_IMAGE_SHAPE] if self._model.resizer.pads else None

    def _groundtruth(self, features: Features, labels: Labels) -> targets.Groundtruth:
        """Build the groundtruth of a batch, normalized to the padded input."""
        boxes, keypoints = labels[fields.BOXES], labels.get(fields.KEYPOINTS)
        valid = tf.range(tf.shape(boxes)[1]) < labels[fields.NUM_BOXES][:, tf.newaxis]
        if self._model.resizer.pads:
            true_shapes = features[fields.TRUE_IMAGE_SHAPE]
            shares = detector.content_shares(true_shapes, features[fields.IMAGE])[:, tf.newaxis]
            boxes = self._model.family.scale(boxes, shares[..., 0], shares[..., 1])
            if keypoints is not None:
                keypoints *= shares[:, tf.newaxis]
        return targets.Groundtruth(
            boxes=boxes,
            classes=labels[fields.CLASSES],
            weights=labels[fields.WEIGHTS],
            valid=valid,
            # Samplers draw by it, so a draw does not depend on an example's place in the batch.
            examples=features.get(fields.HASH),
            masks=labels.get(fields.MASKS),
            mask_weights=labels.get(fields.MASK_WEIGHTS),
            keypoints=keypoints,
            keypoint_visibilities=labels.get(fields.KEYPOINT_VISIBILITIES),
            ignored_coverage=self._reader.ignored_coverage or None,
            image_classes=labels.get(fields.IMAGE_CLASSES),
            labeled_classes=labels.get(fields.LABELED_CLASSES),
        )
