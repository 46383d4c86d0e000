"""Base of single-shot feature extractors, and their registry by type."""

from __future__ import annotations

import abc
import dataclasses
import importlib
import types
from typing import Any, Callable, List, Mapping, Optional, Tuple

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.config.section import Section
from estimator_lib.registry import Registry
from model_fns import checkpoint_scopes, layers
from model_fns.backbones import registry as backbones
from model_fns.detection import generations
from model_fns.detection.config_rules import kinds
from model_fns.detection.networks import hyperparams
from model_fns.detection.networks.feature_extractors.bifpn import BidirectionalPyramid
from protos import feature_pyramids_pb2, ssd_pb2

tf1 = tf.compat.v1

# Scope of the first generation, see `FeatureExtractor.scope`.
SCOPE = checkpoint_scopes.DETECTION

# Path of the config of a feature extractor, for error messages.
WHERE = 'model.ssd.feature_extractor'


@dataclasses.dataclass(frozen=True)
class Pyramid:
    """Levels of a feature pyramid.

    Attributes:
        min_level: finest level; level L has a stride of 2^L pixels.
        max_level: coarsest level.
        depth: channels of every level.
        smooths_all: True: the coarsest map of the backbone is smoothed too, and levels above it
            are those of torchvision, see `FeaturePyramidNetworks.Layout`.
    """

    min_level: int = 3
    max_level: int = 7
    depth: int = 256
    smooths_all: bool = False

    @classmethod
    def from_config(cls, config: feature_pyramids_pb2.FeaturePyramidNetworks) -> Pyramid:
        """Build the levels that a config describes."""
        return cls(
            config.min_level,
            config.max_level,
            config.additional_layer_depth,
            config.layout == config.TORCHVISION,
        )


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of a feature extractor from a config.

    Attributes:
        style: style of the layers that are added to the backbone; also of the backbone if
            `override_base` is set.
        override_base: True: the backbone has `style` instead of its published one.
        frozen: True: the backbone's batch norm, in its published style, uses its moving statistics
            in training too.
        inplace_update: see `layers.BatchNorm.inplace_update`; applies to the same batch norm.
        depth_multiplier: factor on channel counts.
        min_depth: least channel count that the factor leaves.
        pad_to_multiple: images are padded to a multiple of it, at the bottom and right.
        pad_stacked_maps: True: stacked convolutions with stride 2 get maps with even sides.
        padding: padding of convolutions: `SAME`, or `FIXED` for explicit padding.
        use_depthwise: True: added layers have separable convolutions.
        num_layers: number of feature maps, for networks without a pyramid.
        pyramid: levels, for networks with a pyramid; None: the network's default.
        bifpn: neck, for networks with a BiFPN; None, or 0 in a field: the type's default.
        drop_path_keep_prob: see `backbones.Options`; None: the network's default.
        type_name: type of the feature extractor in the config.
        where: path of the config, for error messages.
    """

    style: layers.LayerStyle
    override_base: bool = False
    frozen: bool = False
    inplace_update: bool = False
    depth_multiplier: float = 1.0
    min_depth: int = 16
    pad_to_multiple: int = 1
    pad_stacked_maps: bool = False
    padding: layers.Padding = 'SAME'
    use_depthwise: bool = False
    num_layers: int = 6
    pyramid: Optional[Pyramid] = None
    bifpn: Optional[BidirectionalPyramid] = None
    drop_path_keep_prob: Optional[float] = None
    type_name: str = ''
    where: str = WHERE

    @property
    def generation(self) -> generations.Generation:
        """Generation of the detector, on which details of the computation depend."""
        return generations.find_generation(self.type_name)

    def depth(self, channels: float) -> int:
        """Multiply channels by the factor."""
        # Truncated, as the published depth function does.
        return max(int(channels * self.depth_multiplier), self.min_depth)

    def options(self, **changes: Any) -> backbones.Options:
        """Build the options of the backbone.

        Args:
            **changes: options of a type of extractor that are not in the config.
        """
        return backbones.Options(
            depth_multiplier=self.depth_multiplier,
            min_depth=self.min_depth,
            padding=self.padding,
            **changes,
        )

    def base_style(
        self,
        published: backbones.Style,
        options: Optional[backbones.Options] = None,
        **changes: Any,
    ) -> layers.LayerStyle:
        """Return the backbone's style.

        Args:
            published: function that builds its style in the published detectors.
            options: options of that style; None: the published ones.
            **changes: changes of that style for a type of extractor.
        """
        if self.override_base:
            return self.style
        style = published(self.style.is_training, options or backbones.Options())
        return self.with_statistics(style.but(**changes))

    def with_statistics(self, style: layers.LayerStyle) -> layers.LayerStyle:
        """Return a network's style with batch norm and arithmetic of the model."""
        style = style.but(
            compute_dtype=self.style.compute_dtype, quantization=self.style.quantization
        )
        style = style.with_batch_norm(inplace_update=self.inplace_update)
        return style.frozen() if self.frozen else style


# Config fields whose names differ from those of their settings.
_FIELD_NAMES = {
    'padding': 'use_explicit_padding',
    'override_base': 'override_base_feature_extractor_hyperparams',
    'pyramid': 'fpn',
}


# Settings that few networks support, and why the others do not.
_RARE = {
    'bifpn': 'its neck, if it has one, has a top-down path only',
    'drop_path_keep_prob': 'its backbone drops no branches',
    'pad_stacked_maps': 'it stacks no maps',
}


class FeatureExtractor(abc.ABC):
    """Network from images to the feature maps of a single-shot detector.

    Args:
        settings: settings from the config.

    Attributes:
        backbone: name of its network in the registry.
        style_changes: changes of the network's style in the published detector.
        min_size: smallest input height and width, in pixels.
        unsupported: settings that the network does not support, and why; they must not be set.
        rare: settings that it supports, although most networks do not.
        last_layer: scope of the backbone's last used layer; empty: all layers are used.
        has_residual_backbone: True: the backbone too differs between the generations.
        averages_classifier: True: moving averages of a classifier's checkpoint are used.

    Raises:
        errors.ConfigError: a setting is not supported.
    """

    backbone: str
    style_changes: Mapping[str, object] = types.MappingProxyType({})
    min_size = 1
    unsupported: Tuple[Tuple[str, str], ...] = ()
    rare: Tuple[str, ...] = ()
    last_layer = ''
    has_residual_backbone = False
    averages_classifier = False

    def __init__(self, settings: Settings):
        others = [(name, reason) for name, reason in _RARE.items() if name not in self.rare]
        for name, reason in (*self.unsupported, *others):
            # Class attributes of a dataclass are the defaults of its fields.
            if getattr(settings, name) != getattr(Settings, name):
                field = _FIELD_NAMES.get(name, name)
                raise errors.ConfigError(
                    f'{WHERE}.{field}: not honored by this type of feature extractor: {reason}.'
                )
        self.settings = settings

    @property
    def network(self) -> backbones.Network:
        """Description of the backbone."""
        return backbones.get_network(self.backbone, task='detection')

    @property
    def scope(self) -> str:
        """Scope of the extractor, which differs between generations in checkpoints."""
        return self.settings.generation.scope + SCOPE

    @property
    def backbone_scope(self) -> str:
        """Scope of the backbone in the extractor, the root of classification checkpoints."""
        return self.network.scope

    def preprocess(self, images: tf.Tensor) -> tf.Tensor:
        """Normalize images as in the training of the backbone.

        Args:
            images: float32 [batch, height, width, 3] in [0, 255].
        """
        return self.network.normalization(images)

    def base_style(self) -> layers.LayerStyle:
        """Return the backbone's style."""
        published = self.network.detection_style or self.network.style
        changes = dict(self.style_changes)
        if self.settings.generation.regularizes_depthwise:
            changes['regularize_depthwise'] = True
        return self.settings.base_style(published, **changes)

    def end_points(self, images: tf.Tensor, **options: Any) -> backbones.EndPoints:
        """Compute the backbone's feature maps by name, in the current scope.

        Args:
            images: float32 [B, height, width, channels], preprocessed.
            **options: see `Settings.options`.
        """
        return self.network.features(images, self.base_style(), self.settings.options(**options))

    def extract(self, images: tf.Tensor) -> List[tf.Tensor]:
        """Compute the feature maps, from fine to coarse.

        Args:
            images: float32 [batch, height, width, 3], preprocessed.

        Raises:
            errors.ConfigError: images are smaller than the network's smallest input.
        """
        size = images.shape[1:3]
        if size.is_fully_defined() and min(size) < self.min_size:
            raise errors.ConfigError(
                f'model.ssd.image_resizer: images of {size[0]} x {size[1]} pixels; this feature '
                f'extractor takes at least {self.min_size} x {self.min_size}.'
            )
        images = pad_to_multiple(images, self.settings.pad_to_multiple)
        with tf1.variable_scope(self.scope):
            return self.feature_maps(images)

    @abc.abstractmethod
    def feature_maps(self, images: tf.Tensor) -> List[tf.Tensor]:
        """Compute the feature maps, in the current variable scope.

        Returns:
            [B, height', width', channels'] each.
        """


EXTRACTORS: Registry[Callable[[Settings], FeatureExtractor]] = Registry('feature extractor')

# Modules of the families; importing them registers their types.
_FAMILIES = (
    'mobilenet_v1',
    'mobilenet_v2',
    'mobilenet_v3',
    'mobiledet',
    'inception',
    'pnasnet',
    'resnet_v1',
    'efficientnet',
    'general',
)

# Types that TensorFlow 2 has too, with the suffix `generations.SUFFIX`.
_IN_BOTH = (
    'ssd_mobilenet_v1',
    'ssd_mobilenet_v1_fpn',
    'ssd_mobilenet_v2',
    'ssd_mobilenet_v2_fpn',
    'ssd_resnet50_v1_fpn',
    'ssd_resnet101_v1_fpn',
    'ssd_resnet152_v1_fpn',
)


def build_feature_extractor(
    section: Section[ssd_pb2.SsdFeatureExtractor],
    is_training: bool,
    freeze_batch_norm: bool = False,
    inplace_batch_norm_update: bool = False,
    quantization: Optional[layers.Quantization] = None,
) -> FeatureExtractor:
    """Build the feature extractor that a config describes.

    Args:
        section: configuration message.
        is_training: True: batch norm uses the batch's statistics.
        freeze_batch_norm: True: batch norm uses its moving statistics in training too.
        inplace_batch_norm_update: True: moving statistics are updated when the layer is computed.
        quantization: how weights and outputs are rounded; None: they are not.

    Raises:
        errors.ConfigError: the type is unknown, or a field is not supported.
    """
    config = section.message
    kinds.refuse(section)
    style = hyperparams.build_layer_style(
        section.child('conv_hyperparams'), is_training, inplace_batch_norm_update
    ).but(quantization=quantization)
    style = style.frozen() if freeze_batch_norm else style
    style = generations.find_generation(config.type).separable(style)
    pyramid = None
    if config.HasField('fpn'):
        pyramid = Pyramid.from_config(config.fpn)
    neck = None
    if config.HasField('bifpn'):
        bifpn = config.bifpn
        sizes = (bifpn.num_iterations, bifpn.num_filters)
        neck = BidirectionalPyramid(*sizes, bifpn.combine_method, bifpn.min_level, bifpn.max_level)
    keeps = config.HasField('drop_path_keep_prob')
    settings = Settings(
        style=style,
        override_base=config.override_base_feature_extractor_hyperparams,
        frozen=freeze_batch_norm,
        inplace_update=inplace_batch_norm_update,
        depth_multiplier=config.depth_multiplier,
        min_depth=config.min_depth,
        pad_to_multiple=config.pad_to_multiple,
        pad_stacked_maps=config.pad_stacked_maps,
        padding='FIXED' if config.use_explicit_padding else 'SAME',
        use_depthwise=config.use_depthwise,
        num_layers=config.num_layers,
        pyramid=pyramid,
        bifpn=neck,
        drop_path_keep_prob=config.drop_path_keep_prob if keeps else None,
        type_name=config.type,
        where=section.path,
    )
    return get_extractor(config.type, section.at('type'))(settings)


def get_extractor(name: str, where: str = '') -> Callable[[Settings], FeatureExtractor]:
    """Return the constructor of feature extractors of a type.

    Raises:
        errors.ConfigError: the type is unknown; the message suggests the nearest.
    """
    _register_families()
    counterpart = generations.counterpart(name)
    return EXTRACTORS.get(counterpart if counterpart in _IN_BOTH else name, where)


def _register_families() -> None:
    # Not at the top of the file: the families import this module.
    for family in _FAMILIES:
        importlib.import_module(f'model_fns.detection.networks.feature_extractors.{family}')


def extractor_types() -> Tuple[str, ...]:
    """List all types."""
    _register_families()
    return (*EXTRACTORS, *map(generations.counterpart, _IN_BOTH))


def pad_to_multiple(images: tf.Tensor, multiple: int) -> tf.Tensor:
    """Pad images with zeros at the bottom and right to a multiple of a number.

    Returns:
        [B, height', width', channels].
    """
    if multiple <= 1:
        return images
    size = tf.shape(images)[1:3]
    static = [
        None if side is None else -(-side // multiple) * multiple
        for side in images.shape.as_list()[1:3]
    ]
    extra = -size % multiple
    padded = tf.pad(images, [[0, 0], [0, extra[0]], [0, extra[1]], [0, 0]])
    # The amount is a tensor, so tf.pad forgets static sides, which anchors and exports need.
    padded.set_shape([images.shape[0], *static, images.shape[3]])
    return padded
