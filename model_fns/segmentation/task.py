"""Segmentation as a task of the engine: a class for each pixel, and further heads."""

from __future__ import annotations

import functools
import logging
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib import tf_estimator
from estimator_lib.config import validation
from estimator_lib.config.rules import ConfigRules
from estimator_lib.task import (
    BatchSpec,
    Example,
    Features,
    Labels,
    Metric,
    Task,
    Tensors,
)
from estimator_lib.task_interfaces.analysis import Analysis
from estimator_lib.task_interfaces.deployable import NO_CHANGES, DeploymentOptions, Ops
from model_fns import checkpoint_scopes
from model_fns.layers import quantization
from model_fns.segmentation import (
    batch_spec,
    config_rules,
    fields,
    instances,
    losses,
    pictures,
    serving,
)
from model_fns.segmentation.analysis import resampling
from model_fns.segmentation.analysis.analyzer import SegmentationAnalyzer
from model_fns.segmentation.data import (
    class_weights,
    data_checks,
    evaluation_sizes,
    inputs,
    preprocessing,
    presets,
    targets,
)
from model_fns.segmentation.deployable import SegmentationDeployable
from model_fns.segmentation.metrics import metrics
from model_fns.segmentation.networks import image_pyramid
from model_fns.segmentation.networks.network import SegmentationNetwork
from model_fns.structures import channels, label_map_files
from model_fns.structures import label_map as label_maps
from protos import pipeline_pb2, segmentation_pb2

log = logging.getLogger('model_fns')
ModeKeys = tf_estimator.ModeKeys

# DeepLab trains biases twice as fast as the rest.
BIAS_GRADIENT_MULTIPLIER = 2.0

_TRAINING_METRICS = ('miou', metrics.PIXEL_ACCURACY)


class _Data(NamedTuple):
    """Examples of a task: their classes, readers and limits.

    Attributes:
        dataset: the classes.
        training: reader of the training records.
        evaluation: readers of the evaluation records; empty: their images have any size.
        max_pixels: limit of the size of a decoded image.
        label_map: names of the classes; None: those of the data set.
    """

    dataset: presets.Dataset
    training: Any
    evaluation: Sequence[Any]
    max_pixels: int
    label_map: Optional[label_maps.LabelMap]


class SegmentationTask(Task):
    """Task of predicting a class for each pixel and, with further heads, instances and edges.

    Args:
        model: the config message.
        network: built from it.
        preprocessor: built from it.
        data: classes and readers of the examples.
    """

    hub_tag = 'image-segmentation'

    def __init__(
        self,
        model: segmentation_pb2.Segmentation,
        network: SegmentationNetwork,
        preprocessor: preprocessing.Preprocessing,
        data: _Data,
    ):
        self._model = model
        self._network = network
        self.image_format = network.channels.format
        self._preprocessor = preprocessor
        self._data, self._dataset = data, data.dataset
        self._metrics = metrics.Metrics.from_config(
            model, self._dataset.num_classes, self._dataset.ignore_label, self._dataset.class_names
        )
        self.presentation = pictures.SegmentationPresentation(
            self._dataset, model, self._metrics.grouping
        )
        names, ignore_label = self._dataset.class_names, self._dataset.ignore_label
        self.analysis = Analysis(
            lambda: SegmentationAnalyzer(names, ignore_label),
            functools.partial(resampling.create_resampler, metrics=self._metrics),
        )
        asked = model.evaluation.crop_height, model.evaluation.crop_width
        self.checkpoints = checkpoint_scopes.BackboneCheckpoints(
            self.name,
            network.last_layer_scopes(),
            label_map_files.class_columns(network.class_axes(self._dataset.num_classes), 0),
            data.label_map,
            f'{network.backbone.scope}/',
        )
        self.checks = data_checks.SegmentationChecks(
            self._dataset,
            data.label_map is not None,
            self._reads_instances,
            network.channels,
            data.max_pixels,
            # Once for a task: `prepare` asks for it in each input pipeline.
            functools.lru_cache(None)(
                lambda: evaluation_sizes.check_sizes(
                    data.evaluation if any(asked) else (),
                    preprocessor,
                    network.output_stride,
                    asked,
                )
            ),
        )
        self._class_weights: Optional[Tuple[float, ...]] = None

    @classmethod
    def config_rules(cls, config: pipeline_pb2.TrainEvalPipelineConfig) -> ConfigRules:
        """Return the rules of segmentation, see `Task`."""
        del config
        return config_rules.RULES

    @classmethod
    def from_config(cls, config: pipeline_pb2.TrainEvalPipelineConfig) -> SegmentationTask:
        """Build the task that `model.segmentation` describes.

        Raises:
            errors.ConfigError: an unknown backbone or data set, or an unsupported combination.
        """
        model = config.model.segmentation
        label_map = label_map_files.read_label_maps(config, first_id=0)
        dataset = presets.from_config(model, label_map)
        network = SegmentationNetwork.from_config(
            model,
            dataset.num_classes,
            num_steps=config.train_config.num_steps,
            quantization=quantization.from_config(config.graph_rewriter),
            channels=channels.from_config(config),
        )
        # Built and dropped: a wrong stride of exports is refused before training, not after it.
        network.as_exported(model.export)
        # Checked here; computed ones need a pass over all labels, which only training pays for.
        class_weights.configured_weights(model.loss, dataset.num_classes)
        preprocessor = preprocessing.from_config(
            model.preprocessing,
            (model.crop_height, model.crop_width),
            network.channels.padding_color(network.backbone.mean_pixel),
            dataset.ignore_label,
            least_size=evaluation_sizes.least_size(model),
        )
        are_cut = config.eval_config.tiles.size > 0
        # Tiles of an evaluation have a size of their own: its images may be of any.
        readers = config.train_input_reader, () if are_cut else config.eval_input_reader
        data = _Data(dataset, *readers, validation.pixel_limit(config), label_map)
        return cls(model, network, preprocessor, data)

    @property
    def name(self) -> str:
        """The name of the task in messages."""
        return 'segmentation'

    def decode(self, serialized: tf.Tensor) -> Example:
        """Decode image and labels, see `inputs.decode`."""
        return inputs.decode(
            serialized,
            self._dataset.num_classes,
            self._dataset.ignore_label,
            self._reads_instances,
            self._data.max_pixels,
            self._network.channels,
        )

    def augment(self, example: Example, seed: tf.Tensor) -> Example:
        """Augment image and labels, see `preprocessing.Preprocessing.augment`."""
        return self._preprocessor.augment(example, seed)

    def augmentations(self) -> Sequence[str]:
        """Return a description of the random steps of the preprocessing."""
        return self._preprocessor.augmentations()

    def prepare(self, example: Example, mode: str) -> Tuple[Features, Labels]:
        """Build features and labels, with the targets of the model's heads.

        Images have the crop's size in training; else their own size, at least the least size.
        """
        if mode != ModeKeys.TRAIN:
            self.checks.check_evaluation()
        features, labels = self._preprocessor.fit(example)
        ignore_label = self._dataset.ignore_label
        labels.update(targets.head_targets(labels, self._model, ignore_label))
        return features, labels

    def batch_spec(self) -> BatchSpec:
        """Declare images, the class of each pixel, and the targets of the model's heads."""
        return batch_spec.batch_spec(self._model, self.image_format.channels)

    def batches_by_size(self) -> bool:
        """Return True: the padding of a larger image in the batch would enter image pooling."""
        return True

    def predict(self, features: Features, mode: str, labels: Optional[Labels] = None) -> Tensors:
        """Build the logits of each head and scale, `<head>/<scale>`, and the predictions from them.

        There are only logits in training, and only predictions in serving.
        """
        del labels
        images = features[fields.IMAGE]
        if mode == ModeKeys.PREDICT:
            export = self._model.export
            return self._network.as_exported(export).infer(
                images, scales=tuple(export.scales), flip=export.add_flipped_images
            )
        logits = self._network.logits(images, mode == ModeKeys.TRAIN)
        predictions = {
            f'{head}/{scale}': value
            for head, by_scale in logits.items()
            for scale, value in by_scale.items()
        }
        if mode == ModeKeys.EVAL:
            predictions.update(self._network.evaluate(images, logits, self._model.evaluation))
        return predictions

    def losses(self, predictions: Tensors, features: Features, labels: Labels) -> Tensors:
        """Build the loss of each head, at each scale of the image pyramid."""
        del features
        return losses.create_losses(
            predictions,
            self._dataset.unify_ignored(labels),
            self._model,
            self._dataset.ignore_label,
            self._weights_of_classes(),
        )

    def loss_names(self) -> Sequence[str]:
        """Return the names of the losses of all heads and scales."""
        scales = [image_pyramid.MERGED_LOGITS]
        if len(self._network.scales) > 1:
            scales += [image_pyramid.scale_name(scale) for scale in self._network.scales]
        dice = [losses.DICE] if self._model.loss.dice_weight else []
        return losses.loss_names([*(head.name for head in self._network.heads), *dice], scales)

    def postprocess(self, predictions: Tensors, features: Features) -> Tensors:
        """Build the outputs of `fields`, without padding and at their own size when served."""
        outputs = {name: predictions[name] for name in fields.OUTPUTS if name in predictions}
        if not outputs:  # in training there are logits only
            outputs = self._network.training_outputs(predictions, features[fields.IMAGE])
        is_image = None
        if fields.ORIGINAL_SIZE in features:
            outputs = serving.remove_padding(outputs, features)
        elif fields.INSTANCE_CENTERS in outputs:
            heat = outputs[fields.INSTANCE_CENTERS]
            is_image = serving.image_mask(heat, features[fields.TRUE_IMAGE_SHAPE])
            # A peak in the padding would be an instance, and would take pixels of the image.
            outputs[fields.INSTANCE_CENTERS] = tf.where(is_image, heat, 0.0)
        if self._finds_instances:
            outputs.update(
                self._grouping.group(
                    outputs[fields.SEMANTIC_PREDICTIONS],
                    outputs[fields.INSTANCE_CENTERS],
                    outputs[fields.CENTER_OFFSETS],
                    is_image,
                )
            )
        if fields.ORIGINAL_SIZE in features and self._preprocessor.resize is not None:
            outputs = serving.restore_size(outputs, features)
        return outputs

    def metrics(self, outputs: Tensors, features: Features, labels: Labels) -> Dict[str, Metric]:
        """Build the metrics of the model's heads, see `metrics.Metrics`."""
        labels = self._dataset.unify_ignored(labels)
        is_image = serving.image_mask(labels[fields.SEMANTIC], features[fields.TRUE_IMAGE_SHAPE])
        outputs, labels = self._metrics.ignore_padding(is_image, outputs, labels)
        return self._metrics.create(outputs, features, labels)

    def finish_metrics(self, values: Mapping[str, Any]) -> Dict[str, float]:
        """Compute the scalars to report, see `metrics.Metrics.finish`."""
        return self._metrics.finish(values)

    def metric_names(self) -> Sequence[str]:
        """Return the names of all metrics."""
        return self._metrics.names()

    def training_metrics(
        self, predictions: Tensors, features: Features, labels: Labels
    ) -> Dict[str, Metric]:
        """Build mean IoU and pixel accuracy over the last steps, where the config asks for them."""
        del features
        window = metrics.training_window(self._model.evaluation)
        if not window:
            return {}
        logits = predictions[f'{fields.SEMANTIC_HEAD}/{image_pyramid.MERGED_LOGITS}']
        values, update = metrics.training_metrics(
            tf.argmax(logits, -1),
            losses.labels_at_logits(self._dataset.unify_ignored(labels)[fields.SEMANTIC], logits),
            self._dataset.num_classes,
            self._dataset.ignore_label,
            window,
        )
        return {name: (values[name], update) for name in _TRAINING_METRICS}

    def serving_features(self, images: tf.Tensor) -> Features:
        """Build features of images of any size, padded to the least size of evaluations."""
        served = self._preprocessor.resize_for_serving(images)
        return serving.serving_features(images, served)

    def export_outputs(self, outputs: Tensors) -> Tensors:
        """Return all outputs of `postprocess`."""
        return dict(outputs)

    def evaluated_outputs(self, served: Tensors, sizes: tf.Tensor, features: Features) -> Tensors:
        """Resize outputs to the images that evaluation has prepared, zero in the padding."""
        return serving.fit_outputs(served, sizes, features)

    def deployable(
        self, ops: Ops, options: DeploymentOptions = NO_CHANGES
    ) -> SegmentationDeployable:
        """Build the network for small devices, for images of the least size of evaluations."""
        del ops
        options.refuse_others(('confidence_masks',), 'segmentation finds no boxes')
        network = SegmentationDeployable(
            evaluation_sizes.least_size(self._model),
            lambda images: self.predict({fields.IMAGE: images}, ModeKeys.PREDICT),
            self.postprocess,
            self._network.output_names(),
            self._preprocessor.mean_pixel,
            self._dataset.num_classes,
            self._preprocessor.resize is not None,
        )
        return network.only_masks() if options.confidence_masks else network

    def image_tensor_name(self) -> str:
        """Return DeepLab's name of the input."""
        return 'ImageTensor'

    def bias_gradient_multiplier(self) -> float:
        """Return the factor of DeepLab's bias gradients."""
        return BIAS_GRADIENT_MULTIPLIER

    @property
    def _reads_instances(self) -> bool:
        of_instances = self._has('edge') and self._model.edge.of_instances
        return self._has('instance_center') or self._has('offset') or of_instances

    @property
    def _finds_instances(self) -> bool:
        return self._has('instance_center') and self._has('offset')

    @property
    def _grouping(self) -> instances.InstanceGrouping:
        return self._metrics.grouping

    def _has(self, head: str) -> bool:
        return self._model.HasField(head)

    def _weights_of_classes(self) -> Tuple[float, ...]:
        """Return the weights of the classes, which may take one pass over all labels."""
        if self._class_weights is None:
            self._class_weights = class_weights.class_weights(
                self._model.loss,
                self._data.training,
                self._dataset.class_names,
                self._dataset.ignore_label,
            )
        return self._class_weights
