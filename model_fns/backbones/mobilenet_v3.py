"""MobileNet V3 (Howard et al. 2019), its variants for other tasks and devices, and EdgeTPU."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Optional, Tuple

import tensorflow as tf

from model_fns import layers
from model_fns.backbones import mobilenet_parts, registry
from model_fns.backbones.mobilenet_parts import (
    Channels,
    Convolution,
    InvertedResidual,
    Layer,
)

tf1 = tf.compat.v1

SCOPE = 'MobilenetV3'
EDGETPU_SCOPE = 'MobilenetEdgeTPU'


@dataclasses.dataclass(frozen=True)
class Architecture:
    """A network of this family.

    Attributes:
        layers: all layers with batch norm, from the image on.
        scope: the published variable scope.
        embedding: channels of the layer between mean and logits in the classifier; None: none.
        embedding_activation: of that layer.
    """

    layers: Tuple[Layer, ...]
    scope: str = SCOPE
    embedding: Optional[float] = None
    embedding_activation: layers.Activation = layers.hard_swish

    @property
    def last_end_point(self) -> str:
        """The name of the last feature map."""
        return f'layer_{len(self.layers)}'


def _large(squeeze: bool, wide: int, swish: layers.Activation) -> Architecture:
    """Describe the network of table 1 of the paper; `wide` is the larger kernel size."""
    block = functools.partial(InvertedResidual, activation=tf.nn.relu)
    gated = functools.partial(block, kernel_size=wide, squeeze_excite=squeeze)
    late = functools.partial(InvertedResidual, activation=swish)
    late_gated = functools.partial(late, squeeze_excite=squeeze)
    return Architecture(
        layers=(
            Convolution(16, kernel_size=3, stride=2, activation=swish),
            block(1, 16),
            block(4, 24, stride=2),
            block(3, 24),
            gated(3, 40, stride=2),
            gated(3, 40),
            gated(3, 40),
            late(6, 80, stride=2),
            # Table 1 has expanded channels, not factors: 200, 184 and 184 of 80.
            late(2.5, 80),
            late(184 / 80, 80),
            late(184 / 80, 80),
            late_gated(6, 112),
            late_gated(6, 112),
            late_gated(6, 160, wide, stride=2),
            late_gated(6, 160, wide),
            late_gated(6, 160, wide),
            Convolution(960, kernel_size=1, stride=1, activation=swish),
        ),
        embedding=1280,
        embedding_activation=swish,
    )


def _small(squeeze: bool, wide: int, swish: layers.Activation) -> Architecture:
    """Describe the network of table 2 of the paper; `wide` is the larger kernel size."""
    block = functools.partial(InvertedResidual, activation=tf.nn.relu)
    late = functools.partial(
        InvertedResidual, kernel_size=wide, activation=swish, squeeze_excite=squeeze
    )
    return Architecture(
        layers=(
            Convolution(16, kernel_size=3, stride=2, activation=swish),
            block(1, 16, stride=2, squeeze_excite=squeeze),
            # Table 2 has expanded channels: 72 of 16, 88 of 24.
            block(72 / 16, 24, stride=2),
            block(88 / 24, 24),
            late(4, 40, stride=2),
            late(6, 40),
            late(6, 40),
            late(3, 48),
            late(3, 48),
            late(6, 96, stride=2),
            late(6, 96),
            late(6, 96),
            Convolution(576, kernel_size=1, stride=1, activation=swish),
        ),
        embedding=1024,
        embedding_activation=swish,
    )


def _edgetpu() -> Architecture:
    """Describe the EdgeTPU network: full convolutions, fast there, expand in early layers."""
    fused = functools.partial(InvertedResidual, fused=True)
    block = InvertedResidual
    return Architecture(
        layers=(
            Convolution(32, kernel_size=3, stride=2, activation=tf.nn.relu),
            fused(1, 16),
            fused(8, 32, stride=2),
            *[fused(4, 32)] * 3,
            fused(8, 48, stride=2),
            *[fused(4, 48)] * 3,
            block(8, 96, stride=2),
            *[block(4, 96)] * 3,
            block(8, 96, residual=False),
            *[block(4, 96)] * 3,
            block(8, 160, 5, stride=2),
            *[block(4, 160, 5)] * 3,
            block(8, 192),
            Convolution(1280, kernel_size=1, stride=1, activation=tf.nn.relu),
        ),
        scope=EDGETPU_SCOPE,
    )


def _with_narrow_end(architecture: Architecture, first_expansion: float) -> Architecture:
    """Halve the channels of the last three blocks and of the last convolution (section 6.3).

    Args:
        architecture: of the classifier.
        first_expansion: of the first of those blocks, whose input is as wide as before.
    """
    *rest, first, second, third, last = architecture.layers
    narrow = [
        dataclasses.replace(layer, channels=layer.channels // 2)
        for layer in (first, second, third, last)
    ]
    # The input of this block keeps its channels, so that the factor decides how wide it expands.
    narrow[0] = dataclasses.replace(narrow[0], expansion=first_expansion)
    return dataclasses.replace(architecture, layers=(*rest, *narrow), embedding=None)


LARGE = _large(squeeze=True, wide=5, swish=layers.hard_swish)
SMALL = _small(squeeze=True, wide=5, swish=layers.hard_swish)
# Without gates, without hard swish, with 3x3 filters only: for devices that lack fast ones.
LARGE_MINIMALISTIC = _large(squeeze=False, wide=3, swish=tf.nn.relu)
SMALL_MINIMALISTIC = _small(squeeze=False, wide=3, swish=tf.nn.relu)
EDGETPU = _edgetpu()
LARGE_DETECTION = _with_narrow_end(LARGE, first_expansion=6)
SMALL_DETECTION = _with_narrow_end(SMALL, first_expansion=6)
LARGE_SEGMENTATION = _with_narrow_end(LARGE, first_expansion=3)
SMALL_SEGMENTATION = _with_narrow_end(SMALL, first_expansion=3)


def mobilenet_v3_features(
    architecture: Architecture,
    images: tf.Tensor,
    style: layers.LayerStyle,
    options: registry.Options = registry.PUBLISHED,
) -> registry.EndPoints:
    """Return the feature maps of a network of this family.

    Args:
        architecture: `LARGE`, `SMALL_DETECTION`, ...
        images: float32 [batch, height, width, channels], in [-1, 1].
        style: of all layers, but for the activation.
        options: those of `mobilenet_parts.mobilenet_features` count.

    Returns:
        End points by name, as `mobilenet_parts.mobilenet_features` does.
    """
    return mobilenet_parts.mobilenet_features(
        images, architecture.layers, style, options, architecture.scope
    )


def mobilenet_v3(
    architecture: Architecture,
    images: tf.Tensor,
    num_classes: int,
    style: layers.LayerStyle,
    options: registry.Options,
) -> registry.EndPoints:
    """Return the classifier.

    A factor below 1 leaves the channels of the last layer before the logits.

    Args:
        architecture: `LARGE`, `SMALL`, ...
        images: float32 [batch, height, width, channels], in [-1, 1].
        num_classes: how many logits.
        style: of all layers, but for the activation.
        options: factors and rounding of channels, `output_stride`, `padding` and dropout count.

    Returns:
        The feature maps, `global_pool`, `Logits` and `Predictions` by name; where there is an
        embedding, the mean and the embedding are `layer_<i>` too.
    """
    architecture = _with_full_end(architecture, options.depth_multiplier)
    end_points = mobilenet_v3_features(architecture, images, style, options)
    features = end_points[architecture.last_end_point]
    if architecture.embedding is not None:
        # As published, whatever the features are rounded to.
        channels = Channels.from_options(options.but(channel_divisor=None))
        features = _embed(end_points, features, style, architecture, channels)
    mobilenet_parts.add_logits(
        end_points,
        features,
        num_classes,
        style,
        options.get('dropout_keep_prob', 0.8),
        scope=architecture.scope,
    )
    return end_points


def _with_full_end(architecture: Architecture, depth_multiplier: float) -> Architecture:
    """Widen the last layer so much that a factor below 1 leaves it as it was."""
    factor = 1.0 / min(1.0, depth_multiplier)
    if architecture.embedding is not None:
        return dataclasses.replace(architecture, embedding=architecture.embedding * factor)
    *rest, last = architecture.layers
    last = dataclasses.replace(last, channels=last.channels * factor)
    return dataclasses.replace(architecture, layers=(*rest, last))


def _embed(
    end_points: registry.EndPoints,
    features: tf.Tensor,
    style: layers.LayerStyle,
    architecture: Architecture,
    channels: Channels,
) -> tf.Tensor:
    """Return the mean over the image and a layer without batch norm: [batch, 1, 1, channels]."""
    count = len(architecture.layers)
    # The third plain convolution in its scope.
    active = style.linear().but(activation=architecture.embedding_activation).gate_number(2)
    with tf1.variable_scope(architecture.scope):
        pooled = layers.global_mean(features)
        embedded = layers.conv2d(pooled, channels(architecture.embedding), 1, active, 'Conv_2')
    end_points[f'layer_{count + 1}'] = pooled
    end_points[f'layer_{count + 2}'] = embedded
    return embedded


def _network(
    name: str, architecture: Architecture, depth_multiplier: float = 1.0, **rest: Any
) -> registry.Network:
    features = functools.partial(mobilenet_v3_features, architecture)
    return registry.Network(
        name=name,
        scope=architecture.scope,
        features=registry.scaled(features, depth_multiplier),
        style=mobilenet_parts.mobilenet_style,
        detection_style=mobilenet_parts.detection_style,
        feature_maps=mobilenet_parts.feature_maps(architecture.layers),
        **rest,
    )


def _register_classifier(
    name: str, architecture: Architecture, depth_multiplier: float = 1.0
) -> None:
    build = functools.partial(mobilenet_v3, architecture)
    registry.add(
        _network(
            name,
            architecture,
            depth_multiplier,
            honors=mobilenet_parts.HONORS,
            build=registry.scaled(build, depth_multiplier),
            logits_scopes=(f'{architecture.scope}/Logits',),
        )
    )


_register_classifier('mobilenet_v3_large', LARGE)
_register_classifier('mobilenet_v3_small', SMALL)
_register_classifier('mobilenet_v3_large_minimalistic', LARGE_MINIMALISTIC)
_register_classifier('mobilenet_v3_small_minimalistic', SMALL_MINIMALISTIC)
_register_classifier('mobilenet_edgetpu', EDGETPU)
_register_classifier('mobilenet_edgetpu_075', EDGETPU, 0.75)
registry.add(_network('mobilenet_v3_large_det', LARGE_DETECTION))
registry.add(_network('mobilenet_v3_small_det', SMALL_DETECTION))
for _name, _architecture in (
    ('mobilenet_v3_large_seg', LARGE_SEGMENTATION),
    ('mobilenet_v3_small_seg', SMALL_SEGMENTATION),
):
    registry.add(
        _network(
            _name,
            _architecture,
            segmentation=mobilenet_parts.segmentation(
                _architecture.layers, _architecture.last_end_point
            ),
        )
    )
