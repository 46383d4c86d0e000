"""Registry of the networks, with the facts that a task needs before it builds one."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

import tensorflow as tf

from estimator_lib.registry import Registry
from model_fns import layers
from protos import backbone_pb2

EndPoints = Dict[str, tf.Tensor]

# End points that every classifier has, whatever else the family names.
LOGITS = 'Logits'  # float32 [batch, num_classes]
AUXILIARY_LOGITS = 'AuxLogits'  # the same, where a network has a second head

Color = Tuple[float, float, float]  # red, green, blue in [0, 255]


@dataclasses.dataclass(frozen=True)
class Options:
    """Variations of a network, from a pipeline config or from the task that builds it.

    Attributes:
        depth_multiplier: factor on channel counts.
        min_depth: least channel count that the factor leaves; None: the network's own.
        output_stride: input size over feature-map size; None: the network's own.
        multi_grid: atrous rates of the last block's units, as multiples.
        dropout_keep_prob: of the features before the logits; None: the network's own.
        weight_decay: factor of the L2 regularizer; None: the network's own.
        batch_norm_decay: None: the network's own.
        batch_norm_epsilon: None: the network's own.
        channel_divisor: channel counts are rounded to a multiple of it; None: the network's own.
        padding: of convolutions, `SAME` or `FIXED`, where a network leaves the choice.
        last_channels: of the last layers, before the factor; empty: the network's own.
        final_endpoint: where to stop; None: at the network's end.
        pool_padding: of the pooling at the root of a ResNet, `SAME` or `FIXED`.
        subsample_after: whether residual blocks give their outputs before they stride.
        drop_path_keep_prob: least probability that training keeps an operation of a searched cell,
            or a branch of a residual unit (the EfficientNets and ConvNeXts); None: the network's
            own.
        drop_path_steps: steps of training over which it falls to that; None: the network's own.
        stem_filters: channels of a state of a cell at stride 4 (DeepLab's searched networks);
            None: the network's own.
        strides_first: whether residual blocks stride in the first convolution of their first unit;
            else in the 3x3 convolution of their last.
        sum_activation: of the sums of residual units; None: the network's own.
        bounded: ReLU6 instead of ReLU, and sums cut to [-6, 6], to fit a quantized range.
        compute_dtype: see `layers.LayerStyle.compute_dtype`.
        quantization: see `layers.LayerStyle.quantization`.
    """

    depth_multiplier: float = 1.0
    min_depth: Optional[int] = None
    output_stride: Optional[int] = None
    multi_grid: Tuple[int, ...] = ()
    dropout_keep_prob: Optional[float] = None
    weight_decay: Optional[float] = None
    batch_norm_decay: Optional[float] = None
    batch_norm_epsilon: Optional[float] = None
    channel_divisor: Optional[int] = None
    padding: layers.Padding = 'SAME'
    last_channels: Tuple[float, ...] = ()
    final_endpoint: Optional[str] = None
    pool_padding: layers.Padding = 'SAME'
    subsample_after: bool = False
    strides_first: bool = False
    sum_activation: Optional[layers.Activation] = None
    drop_path_keep_prob: Optional[float] = None
    drop_path_steps: Optional[int] = None
    stem_filters: Optional[int] = None
    bounded: bool = False
    compute_dtype: tf.DType = tf.float32
    quantization: Optional[layers.Quantization] = None

    def apply_arithmetic(self, style: layers.LayerStyle) -> layers.LayerStyle:
        """Return a network's style with the compute type and the quantization of these options."""
        return style.but(compute_dtype=self.compute_dtype, quantization=self.quantization)

    @classmethod
    def from_config(cls, config: backbone_pb2.Backbone, num_steps: int = 0) -> Options:
        """Read the options of a config.

        Args:
            config: the message of the network.
            num_steps: of the training; 0: it has no end.
        """

        def get_set(field: str) -> Optional[float]:
            return getattr(config, field) if config.HasField(field) else None

        drop_path_steps = get_set('drop_path_steps')
        # The published counts are those of the published training: here it is the run's own length.
        if drop_path_steps is None and 0.0 < config.drop_path_keep_prob < 1.0:
            drop_path_steps = num_steps or None
        return cls(
            depth_multiplier=config.depth_multiplier,
            min_depth=get_set('min_depth'),
            output_stride=config.output_stride or None,
            multi_grid=tuple(config.multi_grid),
            weight_decay=get_set('weight_decay'),
            batch_norm_decay=get_set('batch_norm_decay'),
            batch_norm_epsilon=get_set('batch_norm_epsilon'),
            channel_divisor=get_set('channel_divisor'),
            drop_path_keep_prob=get_set('drop_path_keep_prob'),
            drop_path_steps=drop_path_steps,
            stem_filters=get_set('stem_filters'),
        )

    def get(self, name: str, published: float) -> float:
        """Return the value of that option, or the published one where it is None."""
        value = getattr(self, name)
        return published if value is None else value

    def but(self, **changes: Any) -> Options:
        """Return the same options with some of them changed."""
        return dataclasses.replace(self, **changes)

    def changed(self) -> Tuple[str, ...]:
        """Return the names of the attributes that differ from the defaults."""
        return tuple(
            field.name
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != getattr(PUBLISHED, field.name)
        )


# A network as it was published.
PUBLISHED = Options()


def scaled(build: Callable[..., EndPoints], factor: float) -> Callable[..., EndPoints]:
    """Return a function of a network whose options, its last argument, multiply this factor."""

    def scaled_build(*arguments: Any) -> EndPoints:
        *inputs, options = arguments
        multiplier = factor * options.depth_multiplier
        return build(*inputs, options.but(depth_multiplier=multiplier))

    return scaled_build


@dataclasses.dataclass(frozen=True)
class Normalization:
    """Normalization of pixels for a network.

    Attributes:
        means: subtracted from red, green and blue; None: pixels are scaled to [-1, 1].
        deviations: divisors of the differences; None: they are not divided.
    """

    means: Optional[Color] = None
    deviations: Optional[Color] = None

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        """Normalize images.

        Args:
            images: float32 [..., height, width, channels] in [0, 255]. As published, means are
                those of three colors, and images of other channels stay as they are.
        """
        if self.means is None:
            # As in the Object Detection API; slim's (x / 255 - 0.5) * 2 may differ in the last bit.
            return images * (2.0 / 255.0) - 1.0
        if images.shape[-1] != len(self.means):
            return images
        centered = images - tf.constant(self.means, images.dtype)
        if self.deviations is None:
            return centered
        return centered / tf.constant(self.deviations, images.dtype)


# Mean color of ImageNet, which the ResNets and VGGs of classification and detection subtract.
# The numbers of the Object Detection API; slim's vgg_preprocessing has them with two decimals.
IMAGENET_MEANS = Normalization((123.68, 116.779, 103.939))
# Mean and standard deviation of its colors as later networks have them: of pixels in [0, 1]
# (0.485, 0.456, 0.406) and (0.229, 0.224, 0.225).
IMAGENET_STANDARDS = Normalization((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))

Style = Callable[[bool, Options], layers.LayerStyle]


@dataclasses.dataclass(frozen=True)
class Segmentation:
    """Differences of a network as DeepLab publishes it.

    Attributes:
        last_end_point: the features that heads are put on.
        decoder_taps: for each output stride, the end point that a decoder refines with.
        honors: the `Options` that a config may set.
        options: its own value of the options that a config may leave unset.
        normalization: of images.
        mean_pixel: what images are padded with.
        features: see `Network.features`, where a segmentation network has more of them; None:
            those.
    """

    last_end_point: str
    decoder_taps: Mapping[int, str]
    honors: Tuple[str, ...]
    options: Options = Options(output_stride=16, weight_decay=4e-5)
    normalization: Normalization = Normalization()
    mean_pixel: Color = (127.5, 127.5, 127.5)
    features: Optional[Callable[[tf.Tensor, layers.LayerStyle, Options], EndPoints]] = None


@dataclasses.dataclass(frozen=True)
class Network:
    """Description of a network, for all tasks.

    Attributes:
        name: its name in a pipeline config.
        scope: the variable scope of everything in it, which restoring strips or adds; empty: there
            is none.
        features: (images, style, options) -> feature maps by the name of their end point. Images
            are float32 [batch, height, width, channels], already normalized.
        style: (is_training, options) -> the published layer style.
        feature_maps: by stride, the end point of the last map of that stride (of a residual
            network: with `Options.subsample_after`).
        normalization: of images, as classification and detection do it.
        min_size: smallest input height and width, in pixels.
        fixed_size: whether shapes of variables of the classifier depend on the input's size.
        honors: the `Options` that a classifier's config may set.
        detection_style: as `style`, where detectors are published with another one.
        first_stage: (images, style, options) -> the features of the proposals and crops of a
            two-stage detector, where they are computed from several end points; None: from one.
        second_stage: (crops of features, style) -> features: the network's last part alone, as a
            two-stage detector runs it; variables have the names that they have in the whole.
        segmentation: variations for DeepLab; None: it has no such model.
        build: (images, num_classes, style, options) -> end points of the classifier, named as
            published, `LOGITS` among them; None: there is no classifier.
        logits_scopes: name parts of the variables whose shapes depend on the classes.
        keras_layers: the scopes, within the network's, of its layers with weights: convolutions
            and batch norms separately, in the order in which Keras numbers them; empty: not known.
        image_size: height and width in pixels that the classifier was published for.
        image_channels: input channels that it was published for.
        preprocessing: name of the family that a classifier's images are prepared by.
    """

    name: str
    scope: str
    features: Callable[[tf.Tensor, layers.LayerStyle, Options], EndPoints]
    style: Style
    feature_maps: Mapping[int, str]
    normalization: Normalization = Normalization()
    min_size: int = 1
    fixed_size: bool = False
    honors: Tuple[str, ...] = ()
    detection_style: Optional[Style] = None
    first_stage: Optional[Callable[[tf.Tensor, layers.LayerStyle, Options], tf.Tensor]] = None
    second_stage: Optional[Callable[[tf.Tensor, layers.LayerStyle], tf.Tensor]] = None
    segmentation: Optional[Segmentation] = None
    build: Optional[Callable[[tf.Tensor, int, layers.LayerStyle, Options], EndPoints]] = None
    logits_scopes: Tuple[str, ...] = ()
    keras_layers: Tuple[str, ...] = ()
    image_size: int = 224
    image_channels: int = 3
    preprocessing: str = 'inception'


NETWORKS: Registry[Network] = Registry('backbone')

# One line a family: the module that registers its networks when it is imported.
# Names, because these modules import this one: imports here would be a circle.
_FAMILIES = (
    'mobilenet_v1',
    'mobilenet_v2',
    'mobilenet_v3',
    'mobiledet',
    'efficientnet',
    'modern.convnext',
    'modern.efficientnet_v2',
    'modern.resnet_v1_5',
    'resnet_v1',
    'resnet_v2',
    'inception_v1',
    'inception_v2',
    'inception_v3',
    'inception_v4',
    'inception_resnet_v2',
    'xception',
    'vgg',
    'lenet',
    'cifarnet',
    'searched.nasnet',
    'searched.pnasnet',
    'searched.deeplab',
)


def add(network: Network) -> None:
    """Make a network known by its name, which must be new."""
    NETWORKS.add(network.name, network)


# Which networks a task may name, and what the message about an unknown name calls them.
_KINDS: Mapping[str, Tuple[str, Callable[[Network], bool]]] = {
    'classification': ('backbone', lambda network: network.build is not None),
    'segmentation': ('segmentation backbone', lambda network: network.segmentation is not None),
    'detection': ('detection backbone', lambda network: True),
}


def get_network(name: str, where: str = '', task: str = 'classification') -> Network:
    """Return the network of that name.

    Args:
        name: as in `Backbone.name`.
        where: the config field that named it, for the error message.
        task: `classification`, `segmentation` or `detection`.

    Raises:
        errors.ConfigError: the task has none; the message names the nearest.
    """
    return _networks(task).get(name, where)


def network_names(task: str = 'classification') -> Tuple[str, ...]:
    """Return the names of a task's networks, sorted."""
    return tuple(_networks(task))


def _networks(task: str) -> Registry[Network]:
    _register_families()
    kind, has_model = _KINDS[task]
    selected: Registry[Network] = Registry(kind)
    for name in NETWORKS:
        if has_model(NETWORKS.get(name)):
            selected.add(name, NETWORKS.get(name))
    return selected


def _register_families() -> None:
    # All of them: messages on an unknown name list every network.
    for family in _FAMILIES:
        importlib.import_module(f'model_fns.backbones.{family}')
