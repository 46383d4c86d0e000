"""The backbones that segmentation knows: how each is built, normalised and tapped by a decoder."""

from __future__ import annotations

import dataclasses
import functools
from typing import Callable, Dict, Mapping, Optional, Tuple

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.registry import Registry
from model_fns import layers
from model_fns.backbones import (
    mobilenet_parts,
    mobilenet_v2,
    mobilenet_v3,
    registry,
    resnet_blocks,
    resnet_v1,
    xception,
)

DEFAULT_OUTPUT_STRIDE = 16

_HALF_RANGE = 127.5
# Means of red, green and blue that the plain ResNets are published with.
_CHANNEL_MEANS = (123.15, 115.90, 103.06)

# (normalised images, style, options, whether activations are bounded) -> end points.
Features = Callable[[tf.Tensor, layers.LayerStyle, registry.Options, bool], Dict[str, tf.Tensor]]


@dataclasses.dataclass(frozen=True)
class SegmentationBackbone:
    """A backbone as segmentation uses it.

    Attributes:
        name: its name in a pipeline config.
        scope: the variable scope of everything in it.
        last_end_point: the features that heads are put on.
        decoder_taps: for each output stride, the end point that a decoder refines with.
        features: makes the end points.
        style: (is_training, options) -> the layer style as DeepLab publishes it.
        defaults: its own value of the options that a config may leave unset.
        honours: the `registry.Options` that it listens to.
        mean_pixel: what images are padded with, red, green, blue in [0, 255].
        subtracts_means: whether images are normalised by subtracting `_CHANNEL_MEANS`; else they
            are brought to [-1, 1].
    """

    name: str
    scope: str
    last_end_point: str
    decoder_taps: Mapping[int, str]
    features: Features
    style: Callable[[bool, registry.Options], layers.LayerStyle]
    defaults: registry.Options
    honours: Tuple[str, ...]
    mean_pixel: Tuple[float, float, float] = (_HALF_RANGE,) * 3
    subtracts_means: bool = False

    @property
    def weight_decay(self) -> float:
        """The factor of the L2 penalty of the whole model where the config sets none."""
        return self.defaults.get('weight_decay', 4e-5)

    def build(
        self,
        images: tf.Tensor,
        is_training: bool,
        options: Optional[registry.Options] = None,
        bounded_activation: bool = False,
    ) -> Tuple[tf.Tensor, Dict[str, tf.Tensor]]:
        """Features of images.

        Args:
            images: float32 [batch, height, width, 3], of `normalise`. Height and width may be
                unknown.
            is_training: whether batch norm uses, and updates from, the batch's statistics.
            options: what the config changes; None: nothing. An unset output stride is
                `DEFAULT_OUTPUT_STRIDE`.
            bounded_activation: ReLU6 in place of ReLU (ResNet and Xception; the MobileNets have
                activations of their own).

        Returns:
            The last features, float32 [batch, height', width', channels], and all end points by
            name, decoder taps among them.

        Raises:
            errors.ConfigError: an option that this backbone does not listen to, or an output
                stride or multi_grid that it cannot have.
        """
        options = options or registry.Options()
        self.check_options(options)
        options = self._with_defaults(options)
        style = self.style(is_training, options)
        end_points = self.features(images, style, options, bounded_activation)
        return end_points[self.last_end_point], end_points

    def check_options(
        self, options: registry.Options, where: str = 'model.segmentation.backbone'
    ) -> None:
        """Refuses options that this backbone does not listen to.

        Raises:
            errors.ConfigError: there is one; the message names it and those that would do.
        """
        for name in options.changed():
            if name not in self.honours:
                raise errors.ConfigError(
                    f'{where}.{name}: {self.name} has no such setting; got '
                    f'{getattr(options, name)!r}, expected it unset. It listens to '
                    f'{", ".join(self.honours)}.'
                )

    def normalise(self, images: tf.Tensor) -> tf.Tensor:
        """Images as this backbone was trained on them.

        Args:
            images: float32 [..., height, width, 3] in [0, 255].

        Returns:
            The same shape; in [-1, 1], or less the channels' means.
        """
        if self.subtracts_means:
            return images - tf.constant(_CHANNEL_MEANS, images.dtype)
        return images * (1.0 / _HALF_RANGE) - 1.0

    def decoder_tap(self, output_stride: int, where: str = '') -> str:
        """The end point that a decoder refines with at that output stride.

        Args:
            output_stride: 4, 8 or 16; below that of the features.
            where: the config field that asked for it, for the error message.

        Raises:
            errors.ConfigError: there is none; the message lists those that there are.
        """
        if output_stride not in self.decoder_taps:
            place = f'{where}: ' if where else ''
            raise errors.ConfigError(
                f'{place}{self.name} has no features for a decoder at output stride '
                f'{output_stride}; expected {_listed(self.decoder_taps)}.'
            )
        return self.decoder_taps[output_stride]

    def _with_defaults(self, options: registry.Options) -> registry.Options:
        changed = {name: getattr(options, name) for name in options.changed()}
        return dataclasses.replace(self.defaults, **changed)


BACKBONES: Registry[SegmentationBackbone] = Registry('segmentation backbone')


def get_backbone(
    name: str, where: str = 'model.segmentation.backbone.name'
) -> SegmentationBackbone:
    """The backbone of that name.

    Args:
        name: as in `Backbone.name`.
        where: the config field that named it, for the error message.

    Raises:
        errors.ConfigError: there is none; the message names the nearest.
    """
    return BACKBONES.get(name, where)


def backbone_names() -> Tuple[str, ...]:
    """All names, sorted."""
    return tuple(BACKBONES)


def _listed(strides: Mapping[int, str]) -> str:
    return ', '.join(str(stride) for stride in sorted(strides))


def _mobilenet_channels(options: registry.Options) -> Dict[str, float]:
    """How the depth multiplier acts: rounded down to any number, but 8s where it changes nothing.

    So it is in DeepLab's published models; the classifiers round to multiples of 8 always, which
    `channel_divisor` asks for.
    """
    step = int(options.get('channel_divisor', 8 if options.depth_multiplier == 1.0 else 1))
    return {
        'depth_multiplier': options.depth_multiplier,
        'min_depth': int(options.get('min_depth', step)),
        'divisor': step,
    }


def _mobilenet_v2(
    images: tf.Tensor, style: layers.LayerStyle, options: registry.Options, bounded: bool
) -> Dict[str, tf.Tensor]:
    del bounded  # All its activations are ReLU6.
    return mobilenet_v2.mobilenet_v2_features(
        images,
        style,
        output_stride=options.output_stride,
        final_endpoint='layer_18',
        **_mobilenet_channels(options),
    )


def _mobilenet_v3(
    images: tf.Tensor,
    style: layers.LayerStyle,
    options: registry.Options,
    bounded: bool,
    architecture: mobilenet_v3.Architecture,
) -> Dict[str, tf.Tensor]:
    del bounded  # Its activations are what makes it MobileNet V3.
    return mobilenet_v3.mobilenet_v3_features(
        images,
        style,
        architecture,
        output_stride=options.output_stride,
        **_mobilenet_channels(options),
    )


def _resnet(
    images: tf.Tensor,
    style: layers.LayerStyle,
    options: registry.Options,
    bounded: bool,
    name: str,
) -> Dict[str, tf.Tensor]:
    return resnet_v1.resnet_v1_features(
        images,
        name,
        style,
        output_stride=options.output_stride,
        multi_grid=options.multi_grid,
        depth_multiplier=options.depth_multiplier,
        min_depth=int(options.get('min_depth', 8)),
        bounded=bounded,
    )


def _xception(
    images: tf.Tensor,
    style: layers.LayerStyle,
    options: registry.Options,
    bounded: bool,
    name: str,
) -> Dict[str, tf.Tensor]:
    return xception.xception_features(
        images,
        name,
        style,
        output_stride=options.output_stride,
        multi_grid=options.multi_grid,
        bounded=bounded,
    )


_DEFAULTS = registry.Options(output_stride=DEFAULT_OUTPUT_STRIDE, weight_decay=4e-5)


def _without_dropout(honours: Tuple[str, ...]) -> Tuple[str, ...]:
    """The options of a classifier that are left without its classifying layers."""
    return tuple(name for name in honours if name != 'dropout_keep_prob')


def _add_mobilenet(
    name: str, scope: str, last: str, taps: Mapping[int, str], features: Features
) -> None:
    BACKBONES.add(
        name,
        SegmentationBackbone(
            name=name,
            scope=scope,
            last_end_point=last,
            # Where the features are widest: before they are projected.
            decoder_taps={key: f'{layer}/depthwise_output' for key, layer in taps.items()},
            features=features,
            style=mobilenet_parts.mobilenet_style,
            defaults=_DEFAULTS,
            honours=(*_without_dropout(mobilenet_parts.HONOURS), 'channel_divisor'),
        ),
    )


def _add_resnet(name: str, mean_pixel: Optional[Tuple[float, float, float]] = None) -> None:
    architecture = resnet_v1.ARCHITECTURES[name]
    scope = architecture.scope
    unit, layer = (
        ('lite_bottleneck_v1', 'conv2') if architecture.lite else ('bottleneck_v1', 'conv3')
    )
    BACKBONES.add(
        name,
        SegmentationBackbone(
            name=name,
            scope=scope,
            last_end_point=f'{scope}/block4',
            # The last unit of a block strides: the one before it is the last at that stride.
            decoder_taps={
                4 * 2**index: f'{scope}/block{index + 1}/unit_{units - 1}/{unit}/{layer}'
                for index, units in enumerate(architecture.units[:3])
            },
            features=functools.partial(_resnet, name=name),
            style=resnet_blocks.resnet_style,
            defaults=dataclasses.replace(
                _DEFAULTS, weight_decay=1e-4, batch_norm_decay=0.95, batch_norm_epsilon=1e-5
            ),
            honours=resnet_blocks.HONOURS,
            mean_pixel=mean_pixel or (_HALF_RANGE,) * 3,
            subtracts_means=not architecture.beta,
        ),
    )


def _add_xception(name: str, taps: Mapping[int, str]) -> None:
    BACKBONES.add(
        name,
        SegmentationBackbone(
            name=name,
            scope=name,
            last_end_point=xception.last_end_point(name),
            # Before the third separable convolution, which strides.
            decoder_taps={
                key: f'{name}/{block}/unit_1/xception_module/separable_conv2_pointwise'
                for key, block in taps.items()
            },
            features=functools.partial(_xception, name=name),
            style=xception.xception_style,
            defaults=_DEFAULTS,
            honours=_without_dropout(xception.HONOURS),
        ),
    )


_add_mobilenet(
    'mobilenet_v2',
    mobilenet_v2.SCOPE,
    'layer_18',
    {4: 'layer_4', 8: 'layer_7', 16: 'layer_14'},
    _mobilenet_v2,
)
for _name, _architecture, _taps in (
    (
        'mobilenet_v3_large_seg',
        mobilenet_v3.LARGE_SEGMENTATION,
        {4: 'layer_4', 8: 'layer_7', 16: 'layer_13'},
    ),
    (
        'mobilenet_v3_small_seg',
        mobilenet_v3.SMALL_SEGMENTATION,
        {4: 'layer_2', 8: 'layer_4', 16: 'layer_9'},
    ),
):
    _add_mobilenet(
        _name,
        _architecture.scope,
        _architecture.last_end_point,
        _taps,
        functools.partial(_mobilenet_v3, architecture=_architecture),
    )

# The published ResNet 18 subtracts the channels' means too, but pads with the middle of the range.
_add_resnet('resnet_v1_18')
_add_resnet('resnet_v1_50', _CHANNEL_MEANS)
_add_resnet('resnet_v1_101', _CHANNEL_MEANS)
for _name in ('resnet_v1_18_beta', 'resnet_v1_50_beta', 'resnet_v1_101_beta'):
    _add_resnet(_name)

_SHORT_ENTRY_TAPS = {4: 'entry_flow/block2', 8: 'entry_flow/block3', 16: 'exit_flow/block1'}
_add_xception('xception_41', _SHORT_ENTRY_TAPS)
_add_xception('xception_65', _SHORT_ENTRY_TAPS)
_add_xception(
    'xception_71', {4: 'entry_flow/block3', 8: 'entry_flow/block5', 16: 'exit_flow/block1'}
)
