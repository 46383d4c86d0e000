"""EfficientDet (Tan et al. 2020): single-shot detectors on the EfficientNets and a BiFPN."""

from __future__ import annotations

import dataclasses
import functools
from typing import List, Mapping

import tensorflow as tf

from estimator_lib import errors
from model_fns import layers
from model_fns.backbones import efficientnet, registry
from model_fns.detection import generations
from model_fns.detection.networks.feature_extractors import bifpn
from model_fns.detection.networks.feature_extractors.bifpn import BidirectionalPyramid
from model_fns.detection.networks.feature_extractors.extractor import (
    EXTRACTORS,
    WHERE,
    FeatureExtractor,
    Settings,
)
from protos import field_rules, ssd_pb2

# The published neck of each backbone (table 1 of the paper; EfficientDet-D7 uses b6 too).
NECKS: Mapping[str, BidirectionalPyramid] = {
    'efficientnet_b0': BidirectionalPyramid(iterations=3, depth=64),
    'efficientnet_b1': BidirectionalPyramid(iterations=4, depth=88),
    'efficientnet_b2': BidirectionalPyramid(iterations=5, depth=112),
    'efficientnet_b3': BidirectionalPyramid(iterations=6, depth=160),
    'efficientnet_b4': BidirectionalPyramid(iterations=7, depth=224),
    'efficientnet_b5': BidirectionalPyramid(iterations=7, depth=288),
    'efficientnet_b6': BidirectionalPyramid(iterations=8, depth=384, combine='sum'),
    'efficientnet_b7': BidirectionalPyramid(iterations=8, depth=384, combine='sum'),
}

# The last blocks of each stride in efficientnet_b0, by level. The published detectors of all sizes
# use the blocks of these names, although in most sizes other blocks of that stride follow.
_TAPS: Mapping[int, str] = {
    1: 'stack_0/block_0',
    2: 'stack_1/block_1',
    3: 'stack_2/block_1',
    4: 'stack_4/block_2',
    5: 'stack_6/block_0',
}

# Number of classes of the classifiers whose remaining variables published checkpoints contain.
_CLASSES = 1000


class SsdEfficientNetBifpn(FeatureExtractor):
    """Feature extractor with levels 3 to 7, by default, of a BiFPN.

    It differs from the published one in two ways: widths may have a factor, and `freeze_batchnorm`
    applies to the backbone too, whose batch norm was always trained.

    Args:
        settings: settings from the config.
        network: name of the backbone.

    Raises:
        errors.ConfigError: a setting is not supported, or a level or `combine` does not exist.
    """

    unsupported = (
        ('num_layers', 'its feature maps are the levels that `bifpn` names'),
        ('pyramid', 'its neck is `bifpn`'),
        ('padding', 'its padding does not depend on it'),
        ('use_depthwise', 'the convolutions of its neck are separable whatever it says'),
    )
    rare = ('bifpn', 'drop_path_keep_prob')

    def __init__(self, settings: Settings, network: str):
        super().__init__(settings)
        self.backbone = network
        self._neck = build_neck(settings, network)
        self._taps = {
            level: name
            for level, name in _TAPS.items()
            if self._neck.min_level <= level <= self._neck.max_level
        }
        self.last_layer = f'{list(self._taps.values())[-1]}/project/BatchNorm'

    def base_style(self) -> layers.LayerStyle:
        """Return the backbone's style; overriding hyperparameters only replace its regularizer."""
        style = self.network.style(self.settings.style.is_training, registry.Options())
        if self.settings.override_base:
            # For biases too: those of the gates are regularized in the published backbone.
            regularizer = self.settings.style.regularizer
            style = style.but(regularizer=regularizer, bias_regularizer=regularizer)
        return self.settings.with_statistics(style)

    def feature_maps(self, images: tf.Tensor) -> List[tf.Tensor]:
        """Compute the levels of the BiFPN.

        At its published width the backbone has all published variables, even unused ones.

        Returns:
            [B, height / 2^L, width / 2^L, channels] each.
        """
        settings = self.settings
        changes = {
            'final_endpoint': list(self._taps.values())[-1],
            'drop_path_keep_prob': settings.drop_path_keep_prob,
        }
        end_points = self.end_points(images, **changes)
        maps = {level: end_points[name] for level, name in self._taps.items()}
        if settings.depth_multiplier == 1.0:
            efficientnet.add_unused(
                end_points,
                _CLASSES,
                self.base_style(),
                settings.options(**changes),
                efficientnet.SIZES[self.backbone],
            )
        # All weights of the neck are initialized and regularized as configured.
        # Unlike in other heads and necks of the second generation, see `Generation.bare_pointwise`.
        style = settings.style.but(pointwise_initializer=None, regularize_pointwise=True)
        return bifpn.bifpn(maps, self._neck, style)


def build_neck(settings: Settings, network: str) -> BidirectionalPyramid:
    """Build the neck on a backbone from a config.

    Args:
        settings: settings from the config.
        network: name of the backbone.

    Raises:
        errors.ConfigError: a level or `combine` does not exist.
    """
    own = NECKS[network]
    configured = settings.bifpn or own
    neck = dataclasses.replace(
        configured,
        iterations=configured.iterations or own.iterations,
        depth=settings.depth(configured.depth or own.depth),
    )
    bifpn.COMBINATIONS.get(neck.combine, f'{WHERE}.bifpn.combine_method')
    check_levels(neck.min_level, neck.max_level)
    return neck


def check_levels(min_level: int, max_level: int) -> None:
    """Raise an error for levels that a neck cannot have.

    Raises:
        errors.ConfigError: the backbone does not have the finest, or there is only one.
    """
    if min_level not in _TAPS:
        levels = ', '.join(map(str, _TAPS))
        raise errors.ConfigError(f'{WHERE}.bifpn.min_level: {min_level}; expected one of {levels}.')
    if max_level <= min_level:
        raise errors.ConfigError(
            f'{WHERE}.bifpn.max_level: {max_level}; expected more than min_level, {min_level}.'
        )


def size_multiple(config: ssd_pb2.SsdFeatureExtractor) -> int:
    """Return the required divisor of the sides of inputs, by the type of a feature extractor."""
    levels = config.bifpn.DESCRIPTOR.fields_by_name['max_level']
    # The power of a level like 2000000000 would take seconds and end in a traceback, before the
    # rule of the field reports it.
    is_level = field_rules.get_range(levels).holds(config.bifpn.max_level)
    return 2**config.bifpn.max_level if config.type in TYPES and is_level else 1


TYPES = {
    f'ssd_{name.replace("_", "-")}_bifpn{generations.SUFFIX}': name for name in efficientnet.SIZES
}
for _type, _network in TYPES.items():
    EXTRACTORS.add(_type, functools.partial(SsdEfficientNetBifpn, network=_network))
