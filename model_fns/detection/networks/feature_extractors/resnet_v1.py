"""Single-shot detectors on ResNet V1: with a feature pyramid (RetinaNet), and with pooling."""

from __future__ import annotations

import dataclasses
import functools
from typing import List

import tensorflow as tf

from model_fns import layers
from model_fns.backbones import registry, resnet_blocks, resnet_v1
from model_fns.detection.networks.feature_extractors import pyramids
from model_fns.detection.networks.feature_extractors.extractor import (
    EXTRACTORS,
    FeatureExtractor,
    Settings,
)
from model_fns.detection.networks.feature_extractors.stacks import pooled_maps

tf1 = tf.compat.v1

# Mean colours of ImageNet, which the backbones' images have been shifted by.
_MEAN_RGB = (123.68, 116.779, 103.939)

# The backbone's block at each level of a pyramid.
_PYRAMID_BLOCKS = {2: 'block1', 3: 'block2', 4: 'block3', 5: 'block4'}

# Channels of the first map of a pooling pyramid.
_POOLED_DEPTH = 1024


class _ResNetV1Extractor(FeatureExtractor):
    """What the variants share: the backbone, and how images are prepared for it.

    Args:
        settings: from the config.
        network: name of the backbone.
    """

    min_size = 129

    def __init__(self, settings: Settings, network: str):
        super().__init__(settings)
        self._network = network
        self.backbone_scope = resnet_v1.ARCHITECTURES[network].scope

    def preprocess(self, images: tf.Tensor) -> tf.Tensor:
        """Images less the mean colour.

        Args:
            images: float32 [batch, height, width, 3] in [0, 255].
        """
        return images - tf.constant(_MEAN_RGB)

    def end_points(self, images: tf.Tensor) -> registry.EndPoints:
        """The backbone's feature maps by name, in the current scope.

        A block's output is taken before it is subsampled for the next block.
        """
        return resnet_v1.resnet_v1_features(
            images,
            self._network,
            self._base_style(),
            depth_multiplier=self.settings.depth_multiplier,
            min_depth=self.settings.min_depth,
            subsample_after=True,
        )

    def _base_style(self) -> layers.LayerStyle:
        """The backbone's style.

        Hyperparameters that override the rest of it leave batch norm's decay, epsilon and scale:
        so it is in the published detectors, and their weights are made for that epsilon.
        """
        style = self.settings.base_style(resnet_blocks.resnet_style)
        if style.batch_norm is None:
            return style
        published = resnet_blocks.resnet_style(style.is_training, registry.Options()).batch_norm
        batch_norm = dataclasses.replace(
            style.batch_norm,
            decay=published.decay,
            epsilon=published.epsilon,
            scale=published.scale,
        )
        return style.but(batch_norm=batch_norm)


class SsdResNetV1Fpn(_ResNetV1Extractor):
    """RetinaNet's levels 3 to 7, unless told otherwise (Lin et al. 2017)."""

    unsupported = (
        ('num_layers', pyramids.LEVELS_ARE_THOSE_OF_FPN),
        ('padding', 'its padding does not depend on it'),
        ('use_depthwise', 'its pyramid is published with full convolutions only'),
    )

    def feature_maps(self, images: tf.Tensor) -> List[tf.Tensor]:
        """See `FeatureExtractor`."""
        end_points = self.end_points(images)
        taps = {level: f'{self.backbone_scope}/{block}' for level, block in _PYRAMID_BLOCKS.items()}
        with tf1.variable_scope(self.backbone_scope):
            return pyramids.tapped_pyramid(
                end_points, taps, self.settings, 'bottom_up_block{}', first_coarse=5
            )


class SsdResNetV1Ppn(_ResNetV1Extractor):
    """One tap, projected, and pooled again and again (Jin et al. 2018)."""

    unsupported = (
        ('pyramid', 'its pyramid is made by pooling'),
        ('padding', 'its padding does not depend on it'),
        ('use_depthwise', 'it adds one 1x1 convolution to the backbone'),
        ('depth_multiplier', 'it is published at full width only'),
    )

    def feature_maps(self, images: tf.Tensor) -> List[tf.Tensor]:
        """See `FeatureExtractor`."""
        tap = self.end_points(images)[f'{self.backbone_scope}/block3']
        with tf1.variable_scope(self.backbone_scope):
            projected = layers.conv2d(
                tap, _POOLED_DEPTH, 1, self.settings.style, f'Base_Conv2d_1x1_{_POOLED_DEPTH}'
            )
        return pooled_maps(projected, self.settings.num_layers)


for _network in ('resnet_v1_50', 'resnet_v1_101', 'resnet_v1_152'):
    for _suffix, _kind in (('fpn', SsdResNetV1Fpn), ('ppn', SsdResNetV1Ppn)):
        _type = f'ssd_{_network.replace("_v1_", "")}_v1_{_suffix}'
        EXTRACTORS.add(_type, functools.partial(_kind, network=_network))
