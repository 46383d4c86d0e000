"""What all single-shot feature extractors have in common, and how one is found by its type."""

from __future__ import annotations

import abc
import dataclasses
import importlib
import types
from typing import Any, Callable, List, Mapping, Optional, Tuple

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.registry import Registry
from model_fns import checkpoint_scopes, layers
from model_fns.backbones import registry as backbones
from model_fns.detection import generations
from model_fns.detection.config_rules import kinds
from model_fns.detection.networks import hyperparams
from model_fns.detection.networks.feature_extractors.bifpn import BidirectionalPyramid
from protos import ssd_pb2

tf1 = tf.compat.v1

# Of the first generation, see `FeatureExtractor.scope`.
SCOPE = checkpoint_scopes.DETECTION

# Where the config of a feature extractor is, for error messages.
WHERE = 'model.ssd.feature_extractor'


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
        frozen: whether the backbone's batch norm, in its published style, uses its moving
            statistics in training too.
        inplace_update: see `layers.BatchNorm.inplace_update`; for the same batch norm.
        depth_multiplier: factor on channel counts.
        min_depth: least channel count that the factor leaves.
        pad_to_multiple: images are padded to a multiple of it, at the bottom and right.
        padding: of convolutions: `SAME`, or `FIXED` for explicit padding.
        use_depthwise: separable convolutions in the added layers.
        num_layers: feature maps, for the networks without a pyramid.
        pyramid: levels, for the networks with one; None: the network's own.
        bifpn: the neck, for the networks with one that goes down and up; None, or 0 in a field: the
            type's own.
        drop_path_keep_prob: see `backbones.Options`; None: the network's own.
        type_name: what the config calls it.
        where: the path of the config, for error messages.
    """

    style: layers.LayerStyle
    override_base: bool = False
    frozen: bool = False
    inplace_update: bool = False
    depth_multiplier: float = 1.0
    min_depth: int = 16
    pad_to_multiple: int = 1
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
        """How it computes what the published detectors do not all compute alike."""
        return generations.of_type(self.type_name)

    def depth(self, channels: float) -> int:
        """Return channels after the factor."""
        return max(int(channels * self.depth_multiplier), self.min_depth)

    def options(self, **changes: Any) -> backbones.Options:
        """How the backbone is varied.

        Args:
            **changes: what a type of extractor asks for, beyond the config.
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
            published: its style in the published detectors.
            options: of that; None: the published ones.
            **changes: how a type of extractor differs from that.
        """
        if self.override_base:
            return self.style
        style = published(self.style.is_training, options or backbones.Options())
        return self.with_statistics(style.but(**changes))

    def with_statistics(self, style: layers.LayerStyle) -> layers.LayerStyle:
        """Return a network's own style, with batch norm and arithmetic as the model says."""
        style = style.but(
            compute_dtype=self.style.compute_dtype, quantization=self.style.quantization
        )
        style = style.with_batch_norm(inplace_update=self.inplace_update)
        return style.frozen() if self.frozen else style


# The config's fields that have another name than the settings they become.
_FIELD_NAMES = {
    'padding': 'use_explicit_padding',
    'override_base': 'override_base_feature_extractor_hyperparams',
    'pyramid': 'fpn',
}


# What few networks have a place for, and why the others do not.
_RARE = {
    'bifpn': 'its neck, if it has one, goes down alone',
    'drop_path_keep_prob': 'its backbone drops no branches',
}


class FeatureExtractor(abc.ABC):
    """Images to the feature maps of a single-shot detector.

    Args:
        settings: from the config.

    Attributes:
        backbone: name of its network in the registry.
        style_changes: how the published detector's style differs from the network's.
        min_size: smallest input height and width, in pixels.
        unsupported: settings that the network has no place for, and why; they must be left out.
        rare: settings that it has a place for, and most have not.
        last_layer: the scope of the backbone's last layer that features are made of; empty: of all.
        has_residual_backbone: whether the backbone too differs between the generations.

    Raises:
        errors.ConfigError: a setting that is not supported.
    """

    backbone: str
    style_changes: Mapping[str, object] = types.MappingProxyType({})
    min_size = 1
    unsupported: Tuple[Tuple[str, str], ...] = ()
    rare: Tuple[str, ...] = ()
    last_layer = ''
    has_residual_backbone = False

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
        """The description of the backbone."""
        return backbones.get_network(self.backbone, task='detection')

    @property
    def scope(self) -> str:
        """The scope of the extractor, which tells the generations apart in checkpoints."""
        return self.settings.generation.scope + SCOPE

    @property
    def backbone_scope(self) -> str:
        """The backbone's scope in the extractor's: the top of classification checkpoints."""
        return self.network.scope

    def preprocess(self, images: tf.Tensor) -> tf.Tensor:
        """Return images as the backbone was trained on.

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
        """Return the backbone's feature maps by name, in the current scope.

        Args:
            images: preprocessed.
            **options: see `Settings.options`.
        """
        return self.network.features(images, self.base_style(), self.settings.options(**options))

    def extract(self, images: tf.Tensor) -> List[tf.Tensor]:
        """Return the feature maps, from fine to coarse.

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
        with tf1.variable_scope(self.scope):
            return self.feature_maps(images)

    @abc.abstractmethod
    def feature_maps(self, images: tf.Tensor) -> List[tf.Tensor]:
        """Return the feature maps, in the current variable scope."""


EXTRACTORS: Registry[Callable[[Settings], FeatureExtractor]] = Registry('feature extractor')

# One line a family: the module that registers its types when it is imported.
_FAMILIES = (
    'mobilenet_v1',
    'mobilenet_v2',
    'mobilenet_v3',
    'mobiledet',
    'inception',
    'resnet_v1',
    'efficientnet',
)

# The types that TensorFlow 2 has too, with `generations.SUFFIX` at their end.
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
    config: ssd_pb2.SsdFeatureExtractor,
    is_training: bool,
    freeze_batch_norm: bool = False,
    inplace_batch_norm_update: bool = False,
    compute_dtype: tf.DType = tf.float32,
    quantization: Optional[layers.Quantization] = None,
) -> FeatureExtractor:
    """Return the feature extractor that a config describes.

    Args:
        config: which.
        is_training: whether batch norm uses the batch's statistics.
        freeze_batch_norm: not even then.
        inplace_batch_norm_update: see `layers.BatchNorm.inplace_update`.
        compute_dtype: see `layers.LayerStyle.compute_dtype`.
        quantization: see `layers.LayerStyle.quantization`.

    Raises:
        errors.ConfigError: an unknown type, or a field that is not honored.
    """
    kinds.refuse(config, WHERE)
    style = hyperparams.build_layer_style(
        config.conv_hyperparams, is_training, f'{WHERE}.conv_hyperparams', inplace_batch_norm_update
    ).but(compute_dtype=compute_dtype, quantization=quantization)
    style = style.frozen() if freeze_batch_norm else style
    style = generations.of_type(config.type).separable(style)
    pyramid = None
    if config.HasField('fpn'):
        fpn = config.fpn
        pyramid = Pyramid(fpn.min_level, fpn.max_level, fpn.additional_layer_depth)
    neck = None
    if config.HasField('bifpn'):
        asked = config.bifpn
        sizes = (asked.num_iterations, asked.num_filters)
        neck = BidirectionalPyramid(*sizes, asked.combine_method, asked.min_level, asked.max_level)
    keeps = config.HasField('drop_path_keep_prob')
    settings = Settings(
        style=style,
        override_base=config.override_base_feature_extractor_hyperparams,
        frozen=freeze_batch_norm,
        inplace_update=inplace_batch_norm_update,
        depth_multiplier=config.depth_multiplier,
        min_depth=config.min_depth,
        pad_to_multiple=config.pad_to_multiple,
        padding='FIXED' if config.use_explicit_padding else 'SAME',
        use_depthwise=config.use_depthwise,
        num_layers=config.num_layers,
        pyramid=pyramid,
        bifpn=neck,
        drop_path_keep_prob=config.drop_path_keep_prob if keeps else None,
        type_name=config.type,
    )
    return get_extractor(config.type, f'{WHERE}.type')(settings)


def get_extractor(name: str, where: str = '') -> Callable[[Settings], FeatureExtractor]:
    """Return the maker of feature extractors of a type.

    Raises:
        errors.ConfigError: there is none; the message names the nearest.
    """
    _register_families()
    twin = generations.twin(name)
    return EXTRACTORS.get(twin if twin in _IN_BOTH else name, where)


def _register_families() -> None:
    for family in _FAMILIES:
        importlib.import_module(f'model_fns.detection.networks.feature_extractors.{family}')


def extractor_types() -> Tuple[str, ...]:
    """Return all types."""
    _register_families()
    return (*EXTRACTORS, *map(generations.twin, _IN_BOTH))


def pad_to_multiple(images: tf.Tensor, multiple: int) -> tf.Tensor:
    """Return images with zeros at the bottom and right, so that the multiple divides their size."""
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
