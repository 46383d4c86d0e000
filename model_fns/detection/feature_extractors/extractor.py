"""What all single-shot feature extractors have in common, and how one is found by its type."""

from __future__ import annotations

import abc
import dataclasses
import importlib
from typing import Callable, Dict, List, Optional, Tuple

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.registry import Registry
from model_fns import layers
from model_fns.backbones import registry as backbones
from model_fns.detection import hyperparams
from protos import ssd_pb2

tf1 = tf.compat.v1

SCOPE = 'FeatureExtractor'


@dataclasses.dataclass(frozen=True)
class Pyramid:
    """Which levels a feature pyramid has.

    Attributes:
        min_level: level L has a stride of 2^L pixels.
        max_level: the last one.
        depth: channels of every level.
    """

    min_level: int = 3
    max_level: int = 7
    depth: int = 256


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a config says of a feature extractor.

    Attributes:
        style: of the layers that are added to the backbone; of the backbone too where
            `override_base` is set.
        override_base: whether the backbone has `style` instead of its published one.
        depth_multiplier: factor on channel counts.
        min_depth: least channel count that the factor leaves.
        pad_to_multiple: images are padded to a multiple of it, at the bottom and right.
        padding: of convolutions: `SAME`, or `FIXED` for explicit padding.
        use_depthwise: separable convolutions in the added layers.
        num_layers: feature maps, for the networks without a pyramid.
        pyramid: levels, for the networks with one.
    """

    style: layers.LayerStyle
    override_base: bool = False
    depth_multiplier: float = 1.0
    min_depth: int = 16
    pad_to_multiple: int = 1
    padding: layers.Padding = 'SAME'
    use_depthwise: bool = False
    num_layers: int = 6
    pyramid: Pyramid = Pyramid()

    def depth(self, channels: float) -> int:
        """Channels after the factor."""
        return max(int(channels * self.depth_multiplier), self.min_depth)

    def base_style(
        self,
        published: Callable[[bool, backbones.Options], layers.LayerStyle],
        **changes: object,
    ) -> layers.LayerStyle:
        """The backbone's style.

        Args:
            published: its style in its paper's implementation.
            **changes: how detection differs from that.
        """
        if self.override_base:
            return self.style
        style = published(self.style.is_training, backbones.Options()).but(**changes)
        ours = self.style.batch_norm
        if style.batch_norm is None or ours is None:
            return style
        # Whether statistics are frozen is the model's decision, not the backbone's.
        return style.but(
            batch_norm=dataclasses.replace(
                style.batch_norm, train=ours.train, inplace_update=ours.inplace_update
            )
        )


class FeatureExtractor(abc.ABC):
    """Images to the feature maps of a single-shot detector.

    Args:
        settings: from the config.

    Attributes:
        min_size: smallest input height and width, in pixels.
    """

    min_size = 1

    def __init__(self, settings: Settings):
        self.settings = settings

    def preprocess(self, images: tf.Tensor) -> tf.Tensor:
        """Images as the backbone was trained on: to [-1, 1] unless a family differs.

        Args:
            images: float32 [batch, height, width, 3] in [0, 255].
        """
        return images * (2.0 / 255.0) - 1.0

    def extract(self, images: tf.Tensor) -> List[tf.Tensor]:
        """The feature maps, from fine to coarse.

        Args:
            images: float32 [batch, height, width, 3], preprocessed.

        Raises:
            errors.ConfigError: images are smaller than the network takes.
        """
        size = images.shape[1:3]
        if size.is_fully_defined() and min(size) < self.min_size:
            raise errors.ConfigError(
                f'model.ssd.image_resizer: images of {size[0]} x {size[1]} pixels; this feature '
                f'extractor takes at least {self.min_size} x {self.min_size}.'
            )
        images = pad_to_multiple(images, self.settings.pad_to_multiple)
        with tf1.variable_scope(SCOPE):
            return self.feature_maps(images)

    @abc.abstractmethod
    def feature_maps(self, images: tf.Tensor) -> List[tf.Tensor]:
        """The feature maps, in the current variable scope."""


EXTRACTORS: Registry[Callable[[Settings], FeatureExtractor]] = Registry('feature extractor')

# One line a family: the module that registers its types when it is imported.
_FAMILIES = ('mobilenet_v1',)

# Types of the TF2 configs, and the network of ours that is the same.
_SAME_NETWORKS = {
    'ssd_mobilenet_v1_keras': 'ssd_mobilenet_v1',
    'ssd_mobilenet_v1_fpn_keras': 'ssd_mobilenet_v1_fpn',
    'ssd_mobilenet_v2_keras': 'ssd_mobilenet_v2',
    'ssd_mobilenet_v2_fpn_keras': 'ssd_mobilenet_v2_fpn',
    'ssd_resnet50_v1_fpn_keras': 'ssd_resnet50_v1_fpn',
    'ssd_resnet101_v1_fpn_keras': 'ssd_resnet101_v1_fpn',
    'ssd_resnet152_v1_fpn_keras': 'ssd_resnet152_v1_fpn',
}


def build_feature_extractor(
    config: ssd_pb2.SsdFeatureExtractor,
    is_training: bool,
    freeze_batch_norm: bool = False,
    inplace_batch_norm_update: bool = False,
) -> FeatureExtractor:
    """The feature extractor that a config describes.

    Args:
        config: which.
        is_training: whether batch norm uses the batch's statistics.
        freeze_batch_norm: not even then.
        inplace_batch_norm_update: see `layers.BatchNorm.inplace_update`.

    Raises:
        errors.ConfigError: an unknown type, or a field that is not honoured.
    """
    where = 'model.ssd.feature_extractor'
    _refuse(config, where)
    style = hyperparams.build_layer_style(
        config.conv_hyperparams, is_training, f'{where}.conv_hyperparams', inplace_batch_norm_update
    )
    if freeze_batch_norm and style.batch_norm is not None:
        style = style.but(batch_norm=dataclasses.replace(style.batch_norm, train=False))
    settings = Settings(
        style=style,
        override_base=config.override_base_feature_extractor_hyperparams,
        depth_multiplier=config.depth_multiplier,
        min_depth=config.min_depth,
        pad_to_multiple=config.pad_to_multiple,
        padding='FIXED' if config.use_explicit_padding else 'SAME',
        use_depthwise=config.use_depthwise,
        num_layers=config.num_layers,
        pyramid=Pyramid(
            config.fpn.min_level, config.fpn.max_level, config.fpn.additional_layer_depth
        ),
    )
    return get_extractor(config.type, f'{where}.type')(settings)


def get_extractor(name: str, where: str = '') -> Callable[[Settings], FeatureExtractor]:
    """The maker of feature extractors of a type.

    Raises:
        errors.ConfigError: there is none; the message names the nearest.
    """
    for family in _FAMILIES:
        importlib.import_module(f'model_fns.detection.feature_extractors.{family}')
    return EXTRACTORS.get(_SAME_NETWORKS.get(name, name), where)


def _refuse(config: ssd_pb2.SsdFeatureExtractor, where: str) -> None:
    for field in ('bifpn', 'spaghettinet_arch_name'):
        if config.HasField(field):
            raise errors.ConfigError(f'{where}.{field}: there is no network that has it.')
    if config.replace_preprocessor_with_placeholder:
        raise errors.ConfigError(
            f'{where}.replace_preprocessor_with_placeholder: not honoured; images are always '
            'preprocessed as the network was trained.'
        )


def pad_to_multiple(images: tf.Tensor, multiple: int) -> tf.Tensor:
    """Images with zeros at the bottom and right, so that the multiple divides their size."""
    if multiple <= 1:
        return images
    size = tf.shape(images)[1:3]
    static = [
        None if side is None else -(-side // multiple) * multiple
        for side in images.shape.as_list()[1:3]
    ]
    extra = -size % multiple
    padded = tf.pad(images, [[0, 0], [0, extra[0]], [0, extra[1]], [0, 0]])
    padded.set_shape([images.shape[0], *static, images.shape[3]])
    return padded


@dataclasses.dataclass(frozen=True)
class MapLayout:
    """One feature map of a detector without a pyramid.

    Attributes:
        tap: the backbone's end point that it is; None: convolutions on the map before it.
        depth: its channels, before the factor, where it is convolutions.
        kernel_size: of those.
    """

    tap: Optional[str] = None
    depth: int = 0
    kernel_size: int = 3


def stacked_maps(
    end_points: Dict[str, tf.Tensor], layout: Tuple[MapLayout, ...], settings: Settings
) -> List[tf.Tensor]:
    """Feature maps tapped from a backbone, and smaller ones stacked on the last of them.

    A stacked map is a 1x1 convolution to half its channels, then a 3x3 one with stride 2 (Liu et
    al. 2016, figure 2). Its layers are named after the last tap.

    Args:
        end_points: of the backbone.
        layout: of all maps; the first `settings.num_layers` are made.
        settings: style, padding and channel rule.
    """
    maps: List[tf.Tensor] = []
    base = ''
    for index, one in enumerate(layout[: settings.num_layers]):
        if one.tap is not None:
            base = one.tap.replace('/', '_')
            maps.append(end_points[one.tap])
        else:
            maps.append(_stacked_map(maps[-1], f'{base}_', index, one, settings))
    return maps


def _stacked_map(
    features: tf.Tensor, prefix: str, index: int, layout: MapLayout, settings: Settings
) -> tf.Tensor:
    half, depth = settings.depth(layout.depth / 2), settings.depth(layout.depth)
    size = layout.kernel_size
    features = layers.conv2d(
        features, half, 1, settings.style, f'{prefix}1_Conv2d_{index}_1x1_{half}'
    )
    scope = f'{prefix}2_Conv2d_{index}_{size}x{size}_s2_{depth}'
    stride_2 = {'stride': 2, 'padding': settings.padding}
    if not settings.use_depthwise:
        return layers.conv2d(features, depth, size, settings.style, scope, **stride_2)
    features = layers.depthwise_conv2d(
        features, size, settings.style, f'{scope}_depthwise', **stride_2
    )
    return layers.conv2d(features, depth, 1, settings.style, scope)
