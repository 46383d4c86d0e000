"""Feature extractors of CenterNet: a backbone, and upsampling of its maps to stride 4.

As published all except the hourglasses have biases before batch norm, and nothing is regularized.
"""

from __future__ import annotations

import dataclasses
from typing import Callable, Dict, List, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib.config.section import Section
from estimator_lib.registry import Registry
from model_fns import layers
from model_fns.backbones import mobilenet_v2, registry, resnet_blocks, resnet_v1, resnet_v2
from model_fns.detection.architectures.center_net import hourglass
from model_fns.detection.networks.feature_extractors import general
from protos import center_net_pb2, image_resizer_pb2

tf1 = tf.compat.v1

SCOPE = 'FeatureExtractor'

# The backbone keeps its own scopes within `SCOPE`. These are the scopes of the upsampling:
TOP, LATERAL, SMOOTHING = 'fpn/top', 'fpn/lateral', 'fpn/smoothing'
CONV, TRANSPOSED = 'upsampling/conv', 'upsampling/transposed'

# Number of units of each block of the small networks, by their scope.
BASIC_UNITS: Dict[str, Tuple[int, ...]] = {
    'resnet_v1_18': (2, 2, 2, 2),
    'resnet_v1_34': (3, 4, 6, 3),
}

_MOBILENET_FIELDS = ('depth_multiplier', 'use_separable_conv', 'upsampling_interpolation')
_SIDES = {'fixed_shape_resizer': ('height', 'width'), 'pad_to_multiple_resizer': ('multiple',)}
# The published CenterNets are Keras models, whose defaults differ from those of TF-Slim.
_KERAS_DECAY = 0.99
# As in keras.applications.resnet. Other layers have Keras's default of 1e-3.
_RESNET_EPSILON = 1.001e-5
_TOP_CHANNELS = 256
# Those of Keras's mode 'caffe', in its order of colors.
_BLUE_GREEN_RED_MEANS = (103.939, 116.779, 123.68)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of a feature extractor from a config.

    Attributes:
        means: numbers that are subtracted from the channels; empty: 0.
        stddevs: divisors of the channels; empty: 1.
        swaps_colors: True: blue comes first, also in the means.
        depth_multiplier: factor on the channels of a MobileNet.
        separable: True: the convolutions of a MobileNet's pyramid are separable.
        interpolation: interpolation of its upsampling: `nearest` or `bilinear`.
        decay: decay of the moving statistics of batch norm; None: as published for the type.
    """

    means: Tuple[float, ...] = ()
    stddevs: Tuple[float, ...] = ()
    swaps_colors: bool = False
    depth_multiplier: float = 1.0
    separable: bool = False
    interpolation: str = 'nearest'
    decay: Optional[float] = None

    def applied(self, style: layers.LayerStyle) -> layers.LayerStyle:
        """Return a published style with the configured decay."""
        return style if self.decay is None else style.with_batch_norm(decay=self.decay)


# (images, settings, is_training) -> the backbone's maps, the finest first.
Base = Callable[[tf.Tensor, Settings, bool], List[tf.Tensor]]


@dataclasses.dataclass(frozen=True)
class Kind:
    """Type of feature extractor.

    Attributes:
        base_scope: scope of the backbone, within `SCOPE`.
        base: the backbone.
        normalize: normalization of pixels after the config's means and deviations.
        stride: required divisor of the sides of an input.
        up: upsampling of the backbone's maps to features; None: these are the backbone's maps.
        network: name in the registry of backbones; empty: it is not registered.
        is_pyramid: True: the upsampling uses more than the coarsest map.
        is_mobilenet: True: config fields of MobileNets apply.
    """

    base_scope: str
    base: Base
    normalize: Callable[[tf.Tensor], tf.Tensor]
    stride: int = 32
    up: Optional[Callable[[Sequence[tf.Tensor], Settings, bool], tf.Tensor]] = None
    network: str = ''
    is_pyramid: bool = False
    is_mobilenet: bool = False

    @property
    def is_resnet(self) -> bool:
        """True if the backbone is a residual network as Keras has them."""
        return self.base_scope.startswith('resnet') and self.network not in general.NETWORKS


@dataclasses.dataclass(frozen=True)
class Extractor:
    """Feature extractor with the settings of a config.

    Attributes:
        kind: the type.
        settings: settings from the config.
    """

    kind: Kind
    settings: Settings

    @property
    def base_scope(self) -> str:
        """Scope of the backbone's variables inside that of the feature extractor."""
        return self.kind.base_scope

    def preprocess(self, images: tf.Tensor) -> tf.Tensor:
        """Normalize images as in the training of the backbone.

        Args:
            images: float32 [B, height, width, channels] in [0, 255].
        """
        if self.settings.swaps_colors:
            images = tf.reverse(images, axis=[-1])
        if self.settings.means:
            images -= tf.constant(self.settings.means, tf.float32)
        if self.settings.stddevs:
            images /= tf.constant(self.settings.stddevs, tf.float32)
        return self.kind.normalize(images)

    def extract(self, images: tf.Tensor, is_training: bool) -> List[tf.Tensor]:
        """Compute feature maps [B, height / 4, width / 4, channels], one for each hourglass.

        Args:
            images: float32 [B, height, width, channels], preprocessed.
            is_training: True: batch norm uses the batch's statistics.
        """
        with tf1.variable_scope(SCOPE):
            maps = self.kind.base(images, self.settings, is_training)
            if self.kind.up is None:
                return maps
            return [self.kind.up(maps, self.settings, is_training)]


EXTRACTORS: Registry[Kind] = Registry('feature extractor')


def find(model: Section[center_net_pb2.CenterNet]) -> Extractor:
    """Find the extractor that a config names.

    Args:
        model: configuration message of the model.

    Raises:
        errors.ConfigError: the type is unknown, it does not support a field, or the sizes of inputs
            are not multiples of its stride.
    """
    section = model.child('feature_extractor')
    config = section.message
    kind = EXTRACTORS.get(config.type, section.at('type'))
    for field in _MOBILENET_FIELDS:
        if config.HasField(field) and not kind.is_mobilenet:
            raise section.error(
                field,
                f'{config.type} has none; expected a type that begins with mobilenet_v2, or '
                'nothing.',
            )
    _check_size(model.child('image_resizer'), kind.stride)
    settings = Settings(
        tuple(config.channel_means),
        tuple(config.channel_stds),
        config.bgr_ordering,
        config.depth_multiplier,
        config.use_separable_conv,
        config.upsampling_interpolation,
        config.batch_norm_decay if config.HasField('batch_norm_decay') else None,
    )
    return Extractor(kind, settings)


def _check_size(section: Section[image_resizer_pb2.ImageResizer], stride: int) -> None:
    """Raise an error unless the sizes of inputs are multiples of the stride."""
    kind = section.message.WhichOneof('image_resizer_oneof')
    if kind is None:
        return  # another check reports it
    chosen = section.child(kind)
    resizer = chosen.message
    if getattr(resizer, 'convert_to_grayscale', False):
        raise chosen.error(
            'convert_to_grayscale', 'true; images have three channels here: expected false.'
        )
    pads = kind == 'keep_aspect_ratio_resizer' and resizer.pad_to_max_dimension
    fields = ('max_dimension',) if pads else _SIDES.get(kind, ())
    if not fields:
        raise section.error(
            kind,
            f'inputs of any size, and the feature extractor needs multiples of {stride}; '
            'expected fixed_shape_resizer, keep_aspect_ratio_resizer with pad_to_max_dimension: '
            'true, or pad_to_multiple_resizer.',
        )
    for field in fields:
        value = getattr(resizer, field)
        if value % stride:
            near = max(round(value / stride), 1) * stride
            raise chosen.error(field, expected=f'a multiple of {stride}, {near} say')


def keras_style(settings: Settings, is_training: bool, epsilon: float = 1e-3) -> layers.LayerStyle:
    """Build the default style of Keras: Glorot initialization, and biases everywhere."""
    return settings.applied(
        layers.LayerStyle(
            is_training=is_training,
            batch_norm=layers.BatchNorm(decay=_KERAS_DECAY, epsilon=epsilon, scale=True),
            force_bias=True,
        )
    )


def _deconvolved(
    maps: Sequence[tf.Tensor], settings: Settings, is_training: bool, kernel: int
) -> tf.Tensor:
    """Convolve the coarsest map and enlarge it three times."""
    style, features = keras_style(settings, is_training), maps[-1]
    # Zhou et al. 2019, section 5: Xiao et al. 2018 with fewer channels in the upsampling.
    for index, depth in enumerate((256, 128, 64), start=1):
        features = layers.conv2d(features, depth, kernel, style, f'{CONV}_{index}')
        features = layers.conv2d_transpose(features, depth, 3, style, f'{TRANSPOSED}_{index}')
    return features


def _pyramid(
    maps: Sequence[tf.Tensor],
    settings: Settings,
    is_training: bool,
    top: int,
    depths: Tuple[int, int, int],
    next_depths: Tuple[int, int, int],
) -> tf.Tensor:
    """Enlarge the coarsest map three times, each time adding the next finer map."""
    style = keras_style(settings, is_training)
    linear = style.linear()
    convolve = layers.separable_conv2d if settings.separable else layers.conv2d
    features = layers.conv2d(maps[-1], top, 1, linear, TOP)
    for index, (depth, following) in enumerate(zip(depths, next_depths), start=1):
        lateral = layers.conv2d(maps[-1 - index], depth, 1, linear, f'{LATERAL}_{index}')
        features = layers.enlarge(features, method=settings.interpolation)
        features = layers.add(lateral, features, style)
        features = convolve(features, following, 3, style, f'{SMOOTHING}_{index}')
    return features


def _resnet_pyramid(maps: Sequence[tf.Tensor], settings: Settings, is_training: bool) -> tf.Tensor:
    return _pyramid(maps, settings, is_training, _TOP_CHANNELS, (256, 128, 64), (128, 64, 64))


def _mobilenet_pyramid(
    maps: Sequence[tf.Tensor], settings: Settings, is_training: bool
) -> tf.Tensor:
    return _pyramid(maps, settings, is_training, 64, (64, 32, 24), (32, 24, 24))


def _wide(maps: Sequence[tf.Tensor], settings: Settings, is_training: bool) -> tf.Tensor:
    return _deconvolved(maps, settings, is_training, kernel=3)


def _narrow(maps: Sequence[tf.Tensor], settings: Settings, is_training: bool) -> tf.Tensor:
    return _deconvolved(maps, settings, is_training, kernel=1)


def _blocks(end_points: registry.EndPoints, scope: str) -> List[tf.Tensor]:
    """Return the maps of stride 4, 8, 16 and 32."""
    return [end_points[name] for name in resnet_blocks.feature_maps(scope).values()]


def _resnet_v1_base(name: str) -> Base:
    def build(images: tf.Tensor, settings: Settings, is_training: bool) -> List[tf.Tensor]:
        style = keras_style(settings, is_training, _RESNET_EPSILON)
        # keras.applications pads with zeros and pools without padding. SAME pads with minus
        # infinity, and at other sides.
        options = registry.Options(strides_first=True, pool_padding='FIXED')
        return _blocks(resnet_v1.resnet_v1_features(images, style, options, name), name)

    return build


def _resnet_v2_base(name: str) -> Base:
    def build(images: tf.Tensor, settings: Settings, is_training: bool) -> List[tf.Tensor]:
        style = keras_style(settings, is_training, _RESNET_EPSILON).but(force_bias=False)
        options = registry.Options(pool_padding='FIXED')
        points = resnet_v2.resnet_v2_features(images, style, options, name)
        return _with_unused_norm(_blocks(points, name), style, name)

    return build


def _basic_base(scope: str, units: Tuple[int, ...]) -> Base:
    def build(images: tf.Tensor, settings: Settings, is_training: bool) -> List[tf.Tensor]:
        style = keras_style(settings, is_training, _RESNET_EPSILON).but(force_bias=False)
        points = resnet_v2.basic_features(images, units, style, scope)
        return _with_unused_norm(_blocks(points, scope), style, scope)

    return build


def _with_unused_norm(
    maps: List[tf.Tensor], style: layers.LayerStyle, scope: str
) -> List[tf.Tensor]:
    """Return the maps, and build an unused batch norm that published checkpoints contain."""
    with tf1.variable_scope(scope):
        # Frozen: its moving statistics would be updated by a layer that nothing reads.
        resnet_v2.postnorm(maps[-1], style.frozen())
    return maps


def _general_base(name: str) -> Base:
    def build(images: tf.Tensor, settings: Settings, is_training: bool) -> List[tf.Tensor]:
        network = registry.get_network(name, task='detection')
        options = registry.Options(weight_decay=0.0)
        style = settings.applied(network.style(is_training, options))
        points = network.features(images, style, options)
        return [points[network.feature_maps[stride]] for stride in (4, 8, 16, 32)]

    return build


def _mobilenet_base(taps: Tuple[str, ...]) -> Base:
    def build(images: tf.Tensor, settings: Settings, is_training: bool) -> List[tf.Tensor]:
        network = registry.get_network('mobilenet_v2', task='detection')
        options = registry.Options(
            weight_decay=0.0,
            batch_norm_decay=settings.decay,
            depth_multiplier=settings.depth_multiplier,
            # Narrower networks have fewer channels than 1280, wider networks do not have more.
            last_channels=(mobilenet_v2.LAST_CHANNELS / max(1.0, settings.depth_multiplier),),
        )
        points = network.features(images, network.detection_style(is_training, options), options)
        return [points[name] for name in taps]

    return build


def _hourglass_base(name: str) -> Base:
    def build(images: tf.Tensor, settings: Settings, is_training: bool) -> List[tf.Tensor]:
        style = settings.applied(hourglass.hourglass_style(is_training))
        with tf1.variable_scope(name):
            return hourglass.hourglass_features(images, hourglass.ARCHITECTURES[name], style)

    return build


def _to_unit(images: tf.Tensor) -> tf.Tensor:
    return images / 127.5 - 1.0


def _minus_means(images: tf.Tensor) -> tf.Tensor:
    # Also after bgr_ordering, as published: Keras's function reverses whatever it gets.
    return tf.reverse(images, axis=[-1]) - tf.constant(_BLUE_GREEN_RED_MEANS, tf.float32)


def _pyramid_kind(scope: str, base: Base, network: str = '') -> Kind:
    return Kind(scope, base, _minus_means, up=_resnet_pyramid, network=network, is_pyramid=True)


for _scope, _units in BASIC_UNITS.items():
    EXTRACTORS.add(f'{_scope}_fpn', _pyramid_kind(_scope, _basic_base(_scope, _units)))
for _size in (50, 101):
    _scope = f'resnet_v1_{_size}'
    EXTRACTORS.add(f'{_scope}_fpn', _pyramid_kind(_scope, _resnet_v1_base(_scope), _scope))
    _scope = f'resnet_v2_{_size}'
    EXTRACTORS.add(
        _scope, Kind(_scope, _resnet_v2_base(_scope), _to_unit, up=_wide, network=_scope)
    )
EXTRACTORS.add(
    'mobilenet_v2',
    Kind(
        mobilenet_v2.SCOPE,
        _mobilenet_base(('layer_19',)),
        _to_unit,
        up=_narrow,
        network='mobilenet_v2',
        is_mobilenet=True,
    ),
)
for _suffix in ('', '_sep_conv'):
    # As published the name does not make convolutions separable.
    EXTRACTORS.add(
        f'mobilenet_v2_fpn{_suffix}',
        Kind(
            mobilenet_v2.SCOPE,
            # block_9_add of Keras, not the last one of stride 16, block_12_add: as published.
            _mobilenet_base(('layer_4', 'layer_7', 'layer_11', 'layer_19')),
            _to_unit,
            up=_mobilenet_pyramid,
            network='mobilenet_v2',
            is_pyramid=True,
            is_mobilenet=True,
        ),
    )
for _name in general.NETWORKS:
    _network = registry.get_network(_name, task='detection')
    EXTRACTORS.add(
        f'{_name}_fpn',
        Kind(
            _network.scope,
            _general_base(_name),
            _network.normalization,
            up=_resnet_pyramid,
            network=_name,
            is_pyramid=True,
        ),
    )
for _scope, _architecture in hourglass.ARCHITECTURES.items():
    EXTRACTORS.add(
        _scope, Kind(_scope, _hourglass_base(_scope), tf.identity, stride=_architecture.stride)
    )
