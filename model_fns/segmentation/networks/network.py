"""DeepLab: a backbone, pyramid pooling or a searched cell, a decoder, and a head for each output.

Chen et al. 2017, "Rethinking Atrous Convolution for Semantic Image Segmentation", and 2018,
"Encoder-Decoder with Atrous Separable Convolution for Semantic Image Segmentation".
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib import graph_state
from estimator_lib.config import schema
from estimator_lib.config.section import Section
from estimator_lib.task_interfaces.checkpoint_mapping import ClassAxis
from model_fns import layers
from model_fns.backbones import registry
from model_fns.segmentation import fields
from model_fns.segmentation.networks import (
    aspp,
    backbones,
    decoder,
    dense_prediction_cell,
    head_layers,
    image_pyramid,
    inference,
    network_checks,
    sizes,
)
from model_fns.segmentation.networks import heads as heads_lib
from model_fns.structures.channels import THREE_COLORS, Channels
from model_fns.structures.views import Views
from protos import segmentation_pb2

tf1 = tf.compat.v1

# Logits [batch, height, width, channels] by head and scale; see `SegmentationNetwork.logits`.
LogitsByScale = Dict[str, Dict[str, tf.Tensor]]

# Name parts of all variables after the backbone, except those of a head's own convolution.
_LOGITS_SCOPE = 'logits'
_DECODER_SCOPE = 'decoder'
_CONTEXT_SCOPES = ('image_pooling', 'aspp', 'concat_projection')


@dataclasses.dataclass(frozen=True)
class SegmentationNetwork:
    """A network from images to the logits of each head.

    Attributes:
        backbone: makes the features.
        options: of the backbone, with its output stride.
        heads: of the outputs; the first is the semantic one.
        context: pyramid pooling on the features; None: none.
        cell: a searched cell in its place; None: none.
        refinement: the decoder; None: none.
        logits_rates: atrous rates of the layers whose sum gives the logits; empty: one layer.
        logits_kernel_size: of the logits layers.
        scales: of each image in training, and in inference at one scale.
        merge_average: whether the logits of several scales become their mean, not the largest.
        fine_tune_batch_norm: whether training uses and updates the statistics of the batch.
        upsample_before_predicting: whether logits are resized before the classes are predicted.
        last_layers_are_logits: whether only the logits layers count as the last layers.
        bounded_activation: ReLU6 instead of ReLU.
        weight_decay: factor of the L2 regularizer after the backbone.
        batch_norm_decay: of the layers after the backbone.
    """

    backbone: backbones.SegmentationBackbone
    options: registry.Options
    heads: Tuple[heads_lib.Head, ...]
    context: Optional[aspp.Aspp] = dataclasses.field(default_factory=aspp.Aspp)
    cell: Optional[dense_prediction_cell.Cell] = None
    refinement: Optional[decoder.Decoder] = None
    logits_rates: Tuple[int, ...] = ()
    logits_kernel_size: int = 1
    scales: Tuple[float, ...] = (1.0,)
    merge_average: bool = False
    fine_tune_batch_norm: bool = True
    upsample_before_predicting: bool = True
    last_layers_are_logits: bool = False
    bounded_activation: bool = False
    weight_decay: float = 4e-5
    batch_norm_decay: float = 0.9997
    channels: Channels = THREE_COLORS

    @classmethod
    def from_config(
        cls,
        config: segmentation_pb2.Segmentation,
        num_classes: int,
        num_steps: int = 0,
        quantization: Optional[layers.Quantization] = None,
        channels: Channels = THREE_COLORS,
    ) -> SegmentationNetwork:
        """Build the network that a config describes.

        Args:
            config: the model.
            num_classes: of the semantic head.
            num_steps: of the training; 0: it has no end.
            quantization: how weights and outputs are rounded; None: they are not.
            channels: of the images.

        Raises:
            errors.ConfigError: an unknown backbone, or a combination that is not supported.
        """
        section = Section(config, 'model.segmentation')
        backbone = backbones.get_backbone(config.backbone.name)
        options = _options(config, backbone, num_steps).but(quantization=quantization)
        backbone.check_options(options)
        network_checks.check(section, num_classes, backbone, options.output_stride)
        has_decoder = config.HasField('decoder')
        return cls(
            backbone=backbone,
            options=options,
            heads=heads_lib.heads_from_config(config, num_classes),
            refinement=decoder.Decoder.from_config(config.decoder, num_classes)
            if has_decoder
            else None,
            logits_kernel_size=config.logits_kernel_size,
            scales=tuple(schema.decimal_number(scale) for scale in config.image_pyramid) or (1.0,),
            merge_average=config.merge_method == segmentation_pb2.MERGE_AVERAGE,
            fine_tune_batch_norm=config.fine_tune_batch_norm,
            upsample_before_predicting=config.predict_with_upsampled_logits,
            last_layers_are_logits=config.last_layers_contain_logits_only,
            bounded_activation=config.use_bounded_activation,
            weight_decay=options.get('weight_decay', backbone.weight_decay),
            channels=channels,
            **_context(section),
        )

    @property
    def output_stride(self) -> int:
        """The output stride of the backbone's features in training."""
        return int(self.options.output_stride or self.backbone.output_stride)

    def last_layer_scopes(self) -> Tuple[str, ...]:
        """Return the name parts of the last layers."""
        # Such a decoder has no `logits`: its sums are the classes.
        is_decoder_last = self.refinement is not None and self.refinement.output_is_logits
        if self.last_layers_are_logits:
            return (_DECODER_SCOPE if is_decoder_last else _LOGITS_SCOPE,)
        own = tuple(head.own_scope for head in self.heads if head.num_filters)
        return (_LOGITS_SCOPE, *_CONTEXT_SCOPES, _DECODER_SCOPE, dense_prediction_cell.SCOPE, *own)

    def class_axes(self, num_classes: int) -> Dict[str, ClassAxis]:
        """Return the layers whose outputs are those of the classes."""
        return {rf'^{_LOGITS_SCOPE}/{fields.SEMANTIC_HEAD}(_\d+)?/': ClassAxis(num_classes)}

    def output_names(self) -> Sequence[str]:
        """Return the names in `fields` of the outputs of `infer`."""
        return inference.output_names(self.heads)

    def as_exported(self, export: segmentation_pb2.SegmentationExport) -> SegmentationNetwork:
        """Return the network at the output stride of exports, if the config has one."""
        if not export.output_stride:
            return self
        return self.change_output_stride(
            export.output_stride, tuple(export.atrous_rates), 'model.segmentation.export'
        )

    def change_output_stride(
        self, output_stride: int, atrous_rates: Sequence[int] = (), where: str = ''
    ) -> SegmentationNetwork:
        """Return the same network, with the same variables, at another output stride.

        Args:
            output_stride: input size over feature size.
            atrous_rates: at that stride, as many as before; empty: those of training, scaled so
                that they reach as far in the image.
            where: the config message with the stride (`model.segmentation.export`), for errors.

        Raises:
            errors.ConfigError: the output stride is not supported, the number of rates differs, a
                scaled rate is not an integer, or a decoder's stride is not finer.
        """
        field = f'{where}.output_stride' if where else 'output_stride'
        network_checks.check_output_stride(output_stride, field)
        network_checks.check_decoder_strides(
            self.refinement.output_strides if self.refinement else (), output_stride, field
        )
        known = self.context.atrous_rates if self.context else self.logits_rates
        rates = network_checks.scale_rates(
            known, self.output_stride, output_stride, atrous_rates, where
        )
        context = self.context and dataclasses.replace(self.context, atrous_rates=rates)
        return dataclasses.replace(
            self,
            options=dataclasses.replace(self.options, output_stride=output_stride),
            context=context,
            cell=self.cell
            and self.cell.change_output_stride(self.output_stride, output_stride, where),
            logits_rates=() if context else rates,
        )

    def logits(
        self,
        images: tf.Tensor,
        is_training: bool,
        *,
        output_stride: Optional[int] = None,
        atrous_rates: Sequence[int] = (),
        scales: Optional[Sequence[float]] = None,
    ) -> LogitsByScale:
        """Build the logits of each head, at each scale and merged.

        Existing variables in the current scope are reused.

        Args:
            images: float32 [batch, height, width, 3] in [0, 255]; height and width may be unknown.
            is_training: whether dropout is active, and batch norm (where it is fine-tuned) uses the
                batch's statistics.
            output_stride: input size over feature size; None: that of training.
            atrous_rates: at that stride.
            scales: of the images; None: those of training.

        Returns:
            By head: `logits_<scale>` (two decimals) for each of several scales, and
            `merged_logits`: float32 [batch, h, w, channels], all of one size, which is that of the
            images (times the largest scale above 1) over the stride of the last features. Offsets
            are in pixels of the images.
        """
        if output_stride:
            other = self.change_output_stride(output_stride, atrous_rates)
            return other.logits(images, is_training, scales=scales)
        scales = tuple(scales) if scales else self.scales
        image_size = sizes.spatial_size(images)
        grid = sizes.strided(image_size, self._logits_stride())
        # As in DeepLab, a larger scale makes the grid finer: 15 x 15 in place of 9 x 9 for a
        # crop of 129 at 1.75 and stride 16. Smaller scales are enlarged to the grid.
        if max(scales) > 1.0:
            grid = sizes.scaled(image_size, max(scales) / self._logits_stride())
        normalized = self.channels.normalize(images, self.backbone.normalize)
        by_scale: Dict[str, Dict[float, tf.Tensor]] = {head.name: {} for head in self.heads}
        one_update = image_pyramid.sum_updates() if scales[1:] else contextlib.nullcontext()
        with tf1.variable_scope(tf1.get_variable_scope(), reuse=tf1.AUTO_REUSE), one_update:
            for scale in scales:
                resized = sizes.resize(normalized, sizes.scaled(image_size, scale))
                for head, value in self._one_scale(resized, is_training).items():
                    # In float32: sums over scales and the softmax lose too much in bfloat16.
                    value = sizes.resize(layers.to_float32(value), grid)
                    value = image_pyramid.unscale_logits(head, value, scale)
                    by_scale[head.name][scale] = value
        return {
            head.name: image_pyramid.merge(head, by_scale[head.name], self.merge_average)
            for head in self.heads
        }

    def outputs(
        self,
        logits: Mapping[str, Mapping[str, tf.Tensor]],
        image_size: sizes.Size,
        size: Optional[sizes.Size] = None,
    ) -> Dict[str, tf.Tensor]:
        """Compute the predictions from the merged logits of one pass.

        Args:
            logits: result of `logits`.
            image_size: of the images of that pass.
            size: of the outputs; None: that of the images.

        Returns:
            By the names in `fields`: `SemanticPredictions` int64 [batch, H, W] and
            `SemanticProbabilities` float32 [batch, H, W, classes]; from the other heads,
            `InstanceCenters` [batch, H, W], `CenterOffsets` [batch, H, W, 2] (rows, columns; in
            pixels of the outputs), `EdgePredictions` int64 [batch, H, W].
        """
        size = size or image_size
        merged = {name: value[image_pyramid.MERGED_LOGITS] for name, value in logits.items()}
        if not self.upsample_before_predicting:
            return inference.predictions_before_resizing(self.heads, merged, size, image_size)
        values = inference.resized_values(self.heads, merged, size, image_size)
        return inference.predictions(self.heads, values)

    def evaluate(
        self,
        images: tf.Tensor,
        logits: Mapping[str, Mapping[str, tf.Tensor]],
        evaluation: segmentation_pb2.SegmentationEvaluation,
    ) -> Dict[str, tf.Tensor]:
        """Compute the predictions of an evaluation, from the views in its config.

        Args:
            images: float32 [B, height, width, channels], preprocessed.
            logits: of one view, from `logits`.
            evaluation: `model.segmentation.evaluation`.

        Returns:
            Classes of pixels, probabilities and the outputs of the other heads, as `outputs` names
            them.
        """
        scales = tuple(evaluation.scales) or (1.0,)
        if scales == (1.0,) and not evaluation.add_flipped_images:
            return self.outputs(logits, sizes.spatial_size(images))
        return self.infer(images, scales=scales, flip=evaluation.add_flipped_images)

    def infer(
        self,
        images: tf.Tensor,
        size: Optional[sizes.Size] = None,
        *,
        scales: Sequence[float] = (1.0,),
        flip: bool = False,
        output_stride: Optional[int] = None,
        atrous_rates: Sequence[int] = (),
    ) -> Dict[str, tf.Tensor]:
        """Compute the predictions for images, from one view of them or from the mean of several.

        Args:
            images: float32 [batch, height, width, 3] in [0, 255]; height and width may be unknown.
            size: of the outputs; None: that of the images.
            scales: of the passes whose values are averaged. (1.0,) without `flip` is a pass at the
                scales of training.
            flip: whether each scale has a second pass with mirrored images.
            output_stride: input size over feature size; None: that of training.
            atrous_rates: at that stride.

        Returns:
            Classes of pixels, probabilities and the outputs of the other heads, as `outputs` names
            them. With several views the classes are those of the mean probability.
        """
        if output_stride:
            other = self.change_output_stride(output_stride, atrous_rates)
            return other.infer(images, size, scales=scales, flip=flip)
        image_size = sizes.spatial_size(images)
        size = size or image_size
        scales = tuple(schema.decimal_number(scale) for scale in scales) or (1.0,)
        if scales == (1.0,) and not flip:
            return self.outputs(self.logits(images, False), image_size, size)
        # Both directions are one batch, so that the graph has each layer once for a scale.
        inputs = Views(scales, flip).with_mirrored(images)
        views = []
        for scale in scales:
            logits = self.logits(inputs, False, scales=(scale,))
            merged = {name: value[image_pyramid.MERGED_LOGITS] for name, value in logits.items()}
            values = inference.resized_values(self.heads, merged, size, image_size)
            views.append(inference.mean_of_mirrored(self.heads, values) if flip else values)
        return inference.predictions(self.heads, inference.mean_of_views(views))

    def training_outputs(
        self, predictions: Mapping[str, tf.Tensor], images: tf.Tensor
    ) -> Dict[str, tf.Tensor]:
        """Compute the predictions of a training step from its logits.

        Args:
            predictions: logits named `<head>/<scale>`.
            images: [batch, height, width, channels]; the outputs have their size.

        Returns:
            Classes of pixels, probabilities and the outputs of the other heads, as `outputs` names
            them.
        """
        logits: Dict[str, Dict[str, tf.Tensor]] = {}
        for name, value in predictions.items():
            head, _, scale = name.partition('/')
            logits.setdefault(head, {})[scale] = value
        return self.outputs(logits, sizes.spatial_size(images))

    def _one_scale(self, images: tf.Tensor, is_training: bool) -> Dict[heads_lib.Head, tf.Tensor]:
        """Build the logits of normalized images, at their size divided by the stride."""
        features, end_points = self.backbone.build(
            images,
            is_training,
            self.options,
            self.bounded_activation,
            self.fine_tune_batch_norm,
        )
        if is_training:
            graph_state.remember_end_points(end_points)
        style = head_layers.head_style(
            is_training=is_training,
            fine_tune_batch_norm=self.fine_tune_batch_norm,
            weight_decay=self.weight_decay,
            batch_norm_decay=self.batch_norm_decay,
            bounded_activation=self.bounded_activation,
        )
        style = self.options.apply_arithmetic(style)
        size = sizes.spatial_size(images)
        features = self._add_context(features, style)
        if self.refinement is not None:
            strides = self.refinement.tapped_strides
            earlier = [end_points[self.backbone.decoder_tap(stride)] for stride in strides]
            features = decoder.refine(features, earlier, self.refinement, style, size)
            # `network_checks` has refused further heads, which would need features.
            if self.refinement.output_is_logits:
                return {self.heads[0]: features}
        kernel_size, rates = self.logits_kernel_size, self.logits_rates
        return {
            head: heads_lib.logits(features, head, style, kernel_size=kernel_size, rates=rates)
            for head in self.heads
        }

    def _add_context(self, features: tf.Tensor, style: layers.LayerStyle) -> tf.Tensor:
        if self.context is not None:
            return aspp.pyramid(features, self.context, style, self.output_stride)
        if self.cell is not None:
            return dense_prediction_cell.apply_cell(features, self.cell, style)
        return features

    def _logits_stride(self) -> int:
        """Return the image size divided by that of the last features."""
        if self.refinement is None:
            return self.output_stride
        return self.refinement.output_strides[-1]


def _context(section: Section[segmentation_pb2.Segmentation]) -> Dict[str, Any]:
    """Build the network's arguments for the pyramid or the cell of a config."""
    config = section.message
    if config.HasField('dense_prediction_cell'):
        cell = dense_prediction_cell.Cell.from_config(section.child('dense_prediction_cell'))
        return {'context': None, 'cell': cell, 'batch_norm_decay': cell.batch_norm_decay}
    decay = schema.decimal_number(config.aspp.batch_norm_decay)
    if config.aspp.batch_norm:
        return {'context': aspp.Aspp.from_config(config.aspp), 'batch_norm_decay': decay}
    rates = tuple(config.aspp.atrous_rates)
    return {'context': None, 'logits_rates': rates, 'batch_norm_decay': decay}


def _options(
    config: segmentation_pb2.Segmentation, backbone: backbones.SegmentationBackbone, num_steps: int
) -> registry.Options:
    """Build the options of the backbone of a config."""
    return registry.Options.from_config(config.backbone, num_steps).but(
        depth_multiplier=schema.decimal_number(config.backbone.depth_multiplier),
        output_stride=config.backbone.output_stride or backbone.output_stride,
    )
