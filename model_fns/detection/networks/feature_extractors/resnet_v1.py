"""Single-shot detectors on ResNet V1: with a feature pyramid (RetinaNet), and with pooling."""

from __future__ import annotations

import functools
from typing import Any, List

import tensorflow as tf

from model_fns import layers
from model_fns.backbones import registry
from model_fns.detection.networks.feature_extractors import pyramids
from model_fns.detection.networks.feature_extractors.extractor import (
    EXTRACTORS,
    FeatureExtractor,
    Settings,
)
from model_fns.detection.networks.feature_extractors.stacks import pooled_maps

tf1 = tf.compat.v1

# Channels of the first map of a pooling pyramid.
# Fixed as published: the number is in the name of the layer too.
_POOLED_DEPTH = 1024


class _ResNetV1Extractor(FeatureExtractor):
    """Base of the variants, with their backbone.

    Args:
        settings: settings from the config.
        network: name of the backbone.
    """

    # As the published extractors assert: one pixel more than the stride of level 7.
    min_size = 129
    has_residual_backbone = True

    def __init__(self, settings: Settings, network: str):
        super().__init__(settings)
        self.backbone = network

    def end_points(self, images: tf.Tensor, **options: Any) -> registry.EndPoints:
        """Compute the backbone's feature maps; a block's output is taken before subsampling.

        In the second generation blocks begin with subsampling, and an overridden activation also
        applies to the sums of blocks.

        Returns:
            [B, height', width', channels'] each.
        """
        settings = self.settings
        if not settings.generation.strides_first:
            # TF-Slim strides in the last unit of a block, so a level would have half the size. The
            # published pyramids ask for `store_non_strided_activations` too.
            return super().end_points(images, subsample_after=True, **options)
        own = settings.override_base and settings.generation.overrides_sums
        activation = settings.style.activation if own else None
        return super().end_points(images, strides_first=True, sum_activation=activation, **options)

    def base_style(self) -> layers.LayerStyle:
        """Return the backbone's style.

        In the first generation overriding hyperparameters do not change the decay, epsilon and
        scale of batch norm, as published weights depend on that epsilon.
        """
        generation = self.settings.generation
        options = registry.Options(weight_decay=generation.residual_decay)
        style = self.settings.base_style(self.network.style, options)
        if generation.overrides_sums:
            return style
        published = self.network.style(style.is_training, registry.Options()).batch_norm
        return style.with_batch_norm(
            decay=published.decay, epsilon=published.epsilon, scale=published.scale
        )


class SsdResNetV1Fpn(_ResNetV1Extractor, pyramids.PyramidExtractor):
    """Feature extractor of RetinaNet (Lin et al. 2017)."""

    unsupported = (
        *pyramids.PyramidExtractor.unsupported,
        ('padding', 'its padding does not depend on it'),
        ('use_depthwise', 'its pyramid is published with full convolutions only'),
    )


class SsdResNetV1Ppn(_ResNetV1Extractor):
    """Feature extractor with one projected tap that is pooled repeatedly (Jin et al. 2018)."""

    unsupported = (
        ('pyramid', 'its pyramid is made by pooling'),
        ('padding', 'its padding does not depend on it'),
        ('use_depthwise', 'it adds one 1x1 convolution to the backbone'),
        ('depth_multiplier', 'it is published at full width only'),
    )

    def feature_maps(self, images: tf.Tensor) -> List[tf.Tensor]:
        """Compute the projected map and the pooled maps: [B, height', width', channels'] each."""
        tap = self.end_points(images)[self.network.feature_maps[16]]
        with tf1.variable_scope(self.backbone_scope):
            projected = layers.conv2d(
                tap, _POOLED_DEPTH, 1, self.settings.style, f'Base_Conv2d_1x1_{_POOLED_DEPTH}'
            )
        return pooled_maps(projected, self.settings.num_layers)


for _network in ('resnet_v1_50', 'resnet_v1_101', 'resnet_v1_152'):
    for _suffix, _kind in (('fpn', SsdResNetV1Fpn), ('ppn', SsdResNetV1Ppn)):
        _type = f'ssd_{_network.replace("_v1_", "")}_v1_{_suffix}'
        EXTRACTORS.add(_type, functools.partial(_kind, network=_network))
