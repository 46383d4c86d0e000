"""Which networks there are, and what a task needs to know before it builds one."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Callable, Dict, Optional, Tuple

import tensorflow as tf

from estimator_lib.registry import Registry
from model_fns import layers

EndPoints = Dict[str, tf.Tensor]

# End points that every classifier has, whatever else the family names.
LOGITS = 'Logits'  # float32 [batch, num_classes]
AUXILIARY_LOGITS = 'AuxLogits'  # the same, where a network has a second head


@dataclasses.dataclass(frozen=True)
class Options:
    """What a pipeline config may change of a network.

    Attributes:
        depth_multiplier: factor on channel counts (the MobileNets).
        min_depth: least channel count that the factor leaves; None: the network's own.
        output_stride: input size over feature-map size; None: the network's own.
        multi_grid: atrous rates of the last block's units, as multiples.
        dropout_keep_prob: of the features before the logits; None: the network's own.
        weight_decay: factor of the L2 penalty; None: the network's own.
        batch_norm_decay: None: the network's own.
        batch_norm_epsilon: None: the network's own.
        channel_divisor: channel counts are rounded to a multiple of it; None: the network's own.
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

    def get(self, name: str, published: float) -> float:
        """The value of that option, or the published one where it is None."""
        value = getattr(self, name)
        return published if value is None else value

    def changed(self) -> Tuple[str, ...]:
        """Names of the attributes that differ from the defaults."""
        default = Options()
        return tuple(
            field.name
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != getattr(default, field.name)
        )


@dataclasses.dataclass(frozen=True)
class Network:
    """A classifier that can be asked for by name.

    Attributes:
        name: its name in a pipeline config.
        build: (images, num_classes, style, options) -> end points. Images are float32
            [batch, height, width, channels], already normalised. The end points are named as
            published, `LOGITS` among them.
        style: (is_training, options) -> the published layer style.
        scope: the variable scope of everything in it; restoring strips or adds it.
        logits_scopes: name parts of the variables whose shapes depend on the classes.
        image_size: height and width in pixels that it was published for.
        image_channels: input channels that it was published for.
        preprocessing: name of the family that its images are prepared by.
        honours: the `Options` that it listens to; asking for another is an error of the task.
        min_size: smallest input height and width, in pixels.
    """

    name: str
    build: Callable[[tf.Tensor, int, layers.LayerStyle, Options], EndPoints]
    style: Callable[[bool, Options], layers.LayerStyle]
    scope: str
    logits_scopes: Tuple[str, ...]
    image_size: int
    image_channels: int = 3
    preprocessing: str = 'inception'
    honours: Tuple[str, ...] = ()
    min_size: int = 1


NETWORKS: Registry[Network] = Registry('backbone')

# One line a family: the module that registers its networks when it is imported.
_FAMILIES = (
    'mobilenet_v1',
    'mobilenet_v2',
    'mobilenet_v3',
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
)


def get_network(name: str, where: str = '') -> Network:
    """The network of that name.

    Args:
        name: as in `Backbone.name`.
        where: the config field that named it, for the error message.

    Raises:
        errors.ConfigError: there is none; the message names the nearest.
    """
    _register_families()
    return NETWORKS.get(name, where)


def network_names() -> Tuple[str, ...]:
    """All names, sorted."""
    _register_families()
    return tuple(NETWORKS)


def _register_families() -> None:
    for family in _FAMILIES:
        importlib.import_module(f'model_fns.backbones.{family}')
