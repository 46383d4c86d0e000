"""Image classification as a task of the engine."""

from __future__ import annotations

import copy
import functools
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib import graph_state, tf_estimator
from estimator_lib.config import validation
from estimator_lib.config.rules import ConfigRules
from estimator_lib.task import (
    IMAGE,
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
from estimator_lib.task_interfaces.deployable import NO_CHANGES, DeploymentOptions, Ops
from model_fns import checkpoint_scopes, layers
from model_fns.augmentation import pipeline
from model_fns.augmentation.pipeline import Augmentation
from model_fns.backbones import registry
from model_fns.classification import (
    augmentation,
    config_rules,
    data_checks,
    inputs,
    losses,
    merged_views,
    metrics,
    preprocessing,
)
from model_fns.classification.analysis import resampling
from model_fns.classification.analysis.analyzer import ClassificationAnalyzer
from model_fns.classification.deployable import (
    CLASSES,
    LOGITS,
    PROBABILITIES,
    ClassificationDeployable,
)
from model_fns.classification.presentation import ClassificationPresentation
from model_fns.layers import quantization
from model_fns.structures import channels, images, label_map_files
from model_fns.structures import label_map as label_maps
from model_fns.structures.views import Views
from protos import pipeline_pb2

tf1 = tf.compat.v1
ModeKeys = tf_estimator.ModeKeys

AUXILIARY_LOGITS = 'auxiliary_logits'
MERGED_LOGITS = 'merged_logits'  # of all views, in test-time augmentation

CLASSIFICATION_LOSS = 'classification_loss'
AUXILIARY_LOSS = 'auxiliary_loss'


class ClassificationTask(Task):
    """Classification of images, into one of a number of classes.

    Args:
        network: the classifier.
        num_classes: how many logits.
        image_size: input (height, width) in pixels.
        options: what is changed of the published network.
        preprocess: how images become network inputs; it has their channels.
        channels: of the input: 3, or 1 for grayscale.
        labels_offset: the label of logit 0.
        label_smoothing: see `losses.cross_entropy`.
        auxiliary_loss_weight: of the second head's cross entropy.
        label_map: names of the labels.
        class_weights: see `losses.cross_entropy`.
        focal_gamma: likewise.
        max_pixels: of an image that is decoded.
        augment: the steps of the config.
        views: views of an image in evaluation and prediction; None: the image as it is.
    """

    hub_tag = 'image-classification'
    _presentation_class = ClassificationPresentation
    _deployable_class = ClassificationDeployable

    def __init__(
        self,
        network: registry.Network,
        num_classes: int,
        image_size: Tuple[int, int],
        preprocess: preprocessing.Family,
        options: Optional[registry.Options] = None,
        channels: int = 3,
        labels_offset: int = 0,
        label_smoothing: float = 0.0,
        auxiliary_loss_weight: float = 0.4,
        label_map: Optional[label_maps.LabelMap] = None,
        class_weights: Sequence[float] = (),
        focal_gamma: float = 0.0,
        max_pixels: int = images.MAX_PIXELS,
        augment: Optional[Augmentation] = None,
        views: Optional[Views] = None,
    ):
        self._network = network
        self._num_classes = num_classes
        self._height, self._width = image_size
        self._preprocess = preprocess
        self.image_format = preprocess.channels.format
        self._options = options or registry.Options()
        self._channels = channels
        self._labels_offset = labels_offset
        self._loss_options = (label_smoothing, tuple(class_weights), focal_gamma)
        self._auxiliary_loss_weight = auxiliary_loss_weight
        self._label_map = label_map
        self._max_pixels = max_pixels
        self._views = views
        self._augmentation = (augment or Augmentation()).after(self._distort)
        names = {} if label_map is None else label_map.names
        self.presentation = self._presentation_class(
            metrics.class_names(num_classes, names, labels_offset), labels_offset
        )
        self.checkpoints = checkpoint_scopes.BackboneCheckpoints(
            'classification',
            network.logits_scopes,
            label_map_files.list_columns(network.logits_scopes, num_classes, labels_offset),
            label_map,
        )
        self.analysis, self.checks = self._create_analysis(), self._create_checks()

    @classmethod
    def config_rules(cls, config: pipeline_pb2.TrainEvalPipelineConfig) -> ConfigRules:
        """Return the rules of the config's fields that classification reads."""
        del config
        return config_rules.RULES

    @classmethod
    def from_config(cls, config: pipeline_pb2.TrainEvalPipelineConfig) -> ClassificationTask:
        """Return the task that `model.classification` describes.

        Raises:
            errors.ConfigError: an unknown backbone or preprocessing family, a size below the
                network's smallest, or an option that the network does not have.
        """
        model = config.model.classification
        network = registry.get_network(model.backbone.name, 'model.classification.backbone.name')
        size = (model.image_height or network.image_size, model.image_width or network.image_size)
        config_rules.check_size(network, size)
        image_channels = channels.from_config(config)
        is_gray = model.use_grayscale or network.image_channels == 1
        return cls(
            network,
            model.num_classes,
            size,
            preprocessing.get_family(
                model.preprocessing or network.preprocessing,
                'model.classification.preprocessing',
                use_grayscale=is_gray,
                slow_color_distortion=model.slow_color_distortion,
                mirrors=model.mirror_images,
                channels=image_channels,
            ),
            config_rules.network_options(model, network, config.train_config.num_steps).but(
                quantization=quantization.from_config(config.graph_rewriter)
            ),
            channels=1 if is_gray else image_channels.total,
            labels_offset=model.labels_offset,
            label_smoothing=model.label_smoothing,
            auxiliary_loss_weight=model.auxiliary_loss_weight,
            label_map=_label_map(config),
            class_weights=model.loss.class_weights,
            focal_gamma=model.loss.focal_gamma,
            max_pixels=validation.pixel_limit(config),
            augment=pipeline.build(
                config.train_config.data_augmentation_options, augmentation.KINDS
            ),
            views=merged_views.build_views(config.eval_config, network, size),
        )

    @property
    def name(self) -> str:
        """The name of the task."""
        return 'classification'

    def decode(self, serialized: tf.Tensor) -> Example:
        """Decode one record into an image and a label, see `inputs.decode`."""
        return inputs.decode(
            serialized, *self._labeling(), self._max_pixels, self._preprocess.channels
        )

    def mixings(self) -> Sequence[Mixing]:
        """Return the augmentation steps of the config that combine examples."""
        return self._augmentation.mixings

    def augment(self, example: Example, seed: tf.Tensor) -> Example:
        """Apply what follows the last mixing, to images of the network's size.

        The variation by the preprocessing's family comes before all steps of the config.
        """
        return self._augmentation(example, seed)

    def _distort(self, example: Example, seed: tf.Tensor) -> Example:
        """Vary the image by the preprocessing's family, and add shares of labels to be mixed."""
        image = self._preprocess.distort(example[IMAGE], self._height, self._width, seed)
        if not self._augmentation.mixings:
            return {**example, IMAGE: image}
        # Only where images are mixed: 1,000 classes make 4 KB of each label.
        shares = tf.one_hot(example[inputs.LABEL], self._num_classes)
        return {**example, IMAGE: image, inputs.SHARES: shares}

    def augmentations(self) -> Sequence[str]:
        """Return the names of the variations of the preprocessing's family, and of the steps."""
        return [*self._preprocess.augmentations(), *self._augmentation.kinds]

    def prepare(self, example: Example, mode: str) -> Tuple[Features, Labels]:
        """Split an example into features and labels: float32 images [height, width, channels]."""
        if mode == ModeKeys.TRAIN:
            image = self._preprocess.finish(example[IMAGE])
        else:
            image = self._preprocess.evaluate(example[IMAGE], self._height, self._width)
        image.set_shape([self._height, self._width, self._channels])
        return inputs.split({**example, IMAGE: image})

    def batch_spec(self) -> BatchSpec:
        """Declare images with the network's channels, and a label of each."""
        return inputs.BATCH.of_model(self._sizes())

    def _sizes(self) -> Dict[str, int]:
        return {inputs.CHANNELS: self._channels, inputs.CLASSES: self._num_classes}

    def predict(self, features: Features, mode: str, labels: Optional[Labels] = None) -> Tensors:
        """Build `LOGITS`, float32 [batch, num_classes], of the images as they are.

        There are also `AUXILIARY_LOGITS` in training, and `MERGED_LOGITS` of several views else.
        """
        del labels
        end_points = self._end_points(features[IMAGE], mode)
        predictions = {LOGITS: layers.to_float32(end_points[registry.LOGITS])}
        if mode == ModeKeys.TRAIN:
            graph_state.remember_end_points(end_points)
            if registry.AUXILIARY_LOGITS in end_points:
                auxiliary = end_points[registry.AUXILIARY_LOGITS]
                predictions[AUXILIARY_LOGITS] = layers.to_float32(auxiliary)
        if mode != ModeKeys.TRAIN and self._views is not None:
            with tf1.variable_scope(tf1.get_variable_scope(), reuse=tf1.AUTO_REUSE):
                logits = merged_views.view_logits(
                    features[IMAGE],
                    self._views,
                    lambda seen: layers.to_float32(self._end_points(seen, mode)[registry.LOGITS]),
                )
            predictions[MERGED_LOGITS] = self._merge(logits)
        return predictions

    def _end_points(self, pixels: tf.Tensor, mode: str) -> registry.EndPoints:
        """Build the network for images float32 [batch, height, width, channels]."""
        style = self._network.style(mode == ModeKeys.TRAIN, self._options)
        style = self._options.apply_arithmetic(style)
        return self._network.build(pixels, self._num_classes, style, self._options)

    def _merge(self, logits: tf.Tensor) -> tf.Tensor:
        """Merge the logits of views, see `merged_views`."""
        return merged_views.merge_exclusive(logits)

    def losses(self, predictions: Tensors, features: Features, labels: Labels) -> Tensors:
        """Build the cross entropy of each head: float32 scalars."""
        named = {CLASSIFICATION_LOSS: self._loss(predictions[LOGITS], labels)}
        if AUXILIARY_LOGITS in predictions and self._auxiliary_loss_weight:
            auxiliary = self._loss(predictions[AUXILIARY_LOGITS], labels)
            # 0.4 by default, as in slim's trainer; Szegedy et al. 2015, section 5, has 0.3.
            named[AUXILIARY_LOSS] = self._auxiliary_loss_weight * auxiliary
        return named

    def _loss(self, logits: tf.Tensor, labels: Labels) -> tf.Tensor:
        """Build the softmax cross entropy of one head: float32 scalar."""
        shares = labels.get(inputs.SHARES)
        return losses.cross_entropy(logits, labels[inputs.LABEL], *self._loss_options, shares)

    def loss_names(self) -> Sequence[str]:
        """Return the names of the losses."""
        return (CLASSIFICATION_LOSS, AUXILIARY_LOSS)

    def postprocess(self, predictions: Tensors, features: Features) -> Tensors:
        """Build `LOGITS` and `PROBABILITIES` [batch, num_classes], and `CLASSES`, int64 [batch]."""
        logits = predictions.get(MERGED_LOGITS, predictions[LOGITS])
        return {
            LOGITS: logits,
            PROBABILITIES: tf.nn.softmax(logits),
            CLASSES: tf.argmax(logits, axis=-1) + self._labels_offset,
        }

    def metrics(self, outputs: Tensors, features: Features, labels: Labels) -> Dict[str, Metric]:
        """Build accumulators of accuracy and recall, see `metrics.create_metrics`."""
        return metrics.create_metrics(outputs[LOGITS], labels[inputs.LABEL], self._num_classes)

    def finish_metrics(self, values: Mapping[str, Any]) -> Dict[str, float]:
        """Return the scalars to report of an evaluation."""
        return metrics.finish(values)

    def metric_names(self) -> Sequence[str]:
        """Return the names that `finish_metrics` may return."""
        return metrics.metric_names(self._num_classes)

    def serving_features(self, images: tf.Tensor) -> Features:
        """Return each image as evaluation prepares it."""
        prepared = tf.map_fn(
            tf.autograph.experimental.do_not_convert(
                lambda image: self._preprocess.evaluate(image, self._height, self._width)
            ),
            images,
            fn_output_signature=tf.float32,
        )
        prepared.set_shape([None, self._height, self._width, self._channels])
        return {IMAGE: prepared}

    def as_exported(self) -> ClassificationTask:
        """Return the task with one view."""
        exported = copy.copy(self)
        exported._views = None
        return exported

    def export_outputs(self, outputs: Tensors) -> Tensors:
        """Select outputs of an export: logits, probabilities [batch, classes], classes [batch]."""
        return {name: outputs[name] for name in (LOGITS, PROBABILITIES, CLASSES)}

    def evaluated_outputs(self, served: Tensors, sizes: tf.Tensor, features: Features) -> Tensors:
        """Return the outputs by logits, and those of the model."""
        del sizes, features
        return {**self.postprocess(served, {}), **served}

    def deployable(
        self, ops: Ops, options: DeploymentOptions = NO_CHANGES
    ) -> ClassificationDeployable:
        """Build the network for small devices."""
        del ops
        options.refuse_others((), 'a classifier finds no objects')
        return self._deployable_class(
            (self._height, self._width, self._channels),
            self._preprocess,
            lambda features: self.predict(features, ModeKeys.PREDICT)[LOGITS],
            lambda logits: self.postprocess({LOGITS: logits}, {}),
            self._num_classes,
        )

    def averages_model_variables(self) -> bool:
        """Return True: averages are kept of all variables, as by the published trainer."""
        return True

    def _labeling(self) -> Tuple[int, int, Optional[label_maps.LabelMap]]:
        return self._num_classes, self._labels_offset, self._label_map

    def _create_checks(self) -> data_checks.ClassificationChecks:
        return data_checks.ClassificationChecks(*self._labeling(), self._preprocess.channels)

    def _create_analysis(self) -> Analysis:
        names, to_pixels = self.presentation.class_names, self._preprocess.denormalize
        return Analysis(
            lambda: ClassificationAnalyzer(names, self._labels_offset, to_pixels),
            functools.partial(resampling.create_resampler, num_classes=self._num_classes),
        )


def _label_map(config: pipeline_pb2.TrainEvalPipelineConfig) -> Optional[label_maps.LabelMap]:
    """Return the label map of the readers, else the `labels.txt` of the records, else None."""
    model = config.model.classification
    named = label_map_files.read_label_maps(config, first_id=min(1, model.labels_offset))
    ids = range(model.labels_offset, model.labels_offset + model.num_classes)
    label_map_files.check_labeled_classes(config, named)
    return named or label_map_files.read_labels_file(config, ids)
