"""Feature pyramids: top-down paths on a backbone's maps."""

from __future__ import annotations

from typing import List, Sequence, Tuple

import tensorflow as tf

from estimator_lib import errors
from model_fns import layers
from model_fns.backbones import registry
from model_fns.detection.networks.feature_extractors.extractor import (
    FeatureExtractor,
    Pyramid,
    Settings,
)

tf1 = tf.compat.v1

# The reason why extractors with a pyramid do not support `num_layers`.
_LEVELS_ARE_THOSE_OF_FPN = 'its feature maps are the levels that `fpn` names'

# A map of level L has a stride of 2^L; levels above these are added.
_TAPPED_LEVELS = (2, 3, 4, 5)


class PyramidExtractor(FeatureExtractor):
    """Feature extractor with levels 3 to 7, by default, of a feature pyramid.

    Attributes:
        coarse_scope: name of the layers of the levels above the last tap; `{}` is their number.
        first_coarse: number of the first such layer.
    """

    min_size = 33
    unsupported: Tuple[Tuple[str, str], ...] = (('num_layers', _LEVELS_ARE_THOSE_OF_FPN),)
    coarse_scope = 'bottom_up_block{}'
    first_coarse = 5

    def feature_maps(self, images: tf.Tensor) -> List[tf.Tensor]:
        """Compute the levels of the feature pyramid: [B, height', width', channels'] each."""
        layers_above = self.coarse_scope, self.first_coarse
        return tapped_pyramid(self.end_points(images), self.network, self.settings, *layers_above)


def tapped_pyramid(
    end_points: registry.EndPoints,
    network: registry.Network,
    settings: Settings,
    coarse_scope: str,
    first_coarse: int,
) -> List[tf.Tensor]:
    """Build a feature pyramid with the configured levels.

    Args:
        end_points: end points of the backbone, [B, height', width', channels'] each.
        network: the backbone; its maps of strides 4 to 32 are levels 2 to 5.
        settings: levels, channels, style, padding, and `use_depthwise`.
        coarse_scope: name of the layers of the levels above the last tap; `{}` is their number.
        first_coarse: number of the first such layer.

    Raises:
        errors.ConfigError: the backbone does not have the finest level, or there are no levels.
    """
    pyramid = settings.pyramid or Pyramid()
    known = network.feature_maps
    taps = {level: known[2**level] for level in _TAPPED_LEVELS if 2**level in known}
    if pyramid.min_level not in taps:
        levels = ', '.join(map(str, taps))
        raise errors.ConfigError(
            f'{settings.where}.fpn.min_level: got {pyramid.min_level}; expected one of {levels}.'
        )
    if pyramid.max_level < pyramid.min_level:
        raise errors.ConfigError(
            f'{settings.where}.fpn.max_level: got {pyramid.max_level}; expected min_level, '
            f'{pyramid.min_level}, or more.'
        )
    last_tapped = min(pyramid.max_level, max(taps))
    tapped = range(pyramid.min_level, last_tapped + 1)
    coarse = range(first_coarse, first_coarse + pyramid.max_level - last_tapped)
    with tf1.variable_scope(network.scope):
        return feature_pyramid(
            [end_points[taps[level]] for level in tapped],
            settings,
            settings.depth(pyramid.depth),
            [coarse_scope.format(number) for number in coarse],
        )


def feature_pyramid(
    maps: Sequence[tf.Tensor],
    settings: Settings,
    depth: int,
    coarse_scopes: Sequence[str],
) -> List[tf.Tensor]:
    """Build a feature pyramid network (Lin et al. 2016), with coarser levels on top.

    Each map is projected to `depth` channels, summed with the enlarged level above it, and
    smoothed. The coarsest map is not smoothed, unless `Pyramid.smooths_all`.
    `Generation.passes_smoothed` tells whether levels are enlarged before or after smoothing.
    Variables are under `fpn/`.

    Args:
        maps: [B, height', width', channels'] of the backbone, from fine to coarse, each half the
            size of the previous one.
        settings: style, padding, and `use_depthwise`.
        depth: channels of every level.
        coarse_scopes: names of the layers that add coarser levels, each a 3x3 convolution with
            stride 2.

    Returns:
        Levels from fine to coarse: one for each map, then one for each scope.
    """
    style = settings.style
    conv = layers.separable_conv2d if settings.use_depthwise else layers.conv2d
    with tf1.variable_scope('fpn'):
        number = len(maps)
        # As published, ops of the top-down path are in a separate scope.
        down = style.ranges_below('top_down')
        # Laterals have biases, but neither batch norm nor activation, as published.
        top = layers.conv2d(maps[-1], depth, 1, down.linear(), f'projection_{number}')
        smooths_all = settings.pyramid is not None and settings.pyramid.smooths_all
        # The published coarsest level is the bare lateral, without a bound: a recorded fpnlite has
        # values up to 13.3 there, and at most 6 on the smoothed levels.
        levels = [conv(top, depth, 3, down, f'smoothing_{number}') if smooths_all else top]
        for index in range(number - 1, 0, -1):
            across = layers.conv2d(maps[index - 1], depth, 1, down.linear(), f'projection_{index}')
            # TensorFlow numbers unnamed ops like this. The published ranges of quantization have
            # these names.
            summed = f'add_{number - 1 - index}' if index < number - 1 else 'add'
            top = layers.add(
                # A map of an odd side n has (n + 1) / 2 cells on the level above, which is one too
                # many after doubling.
                _cut(layers.enlarge(top), across),
                across,
                down,
                range_name=f'{summed}/{layers.PLAIN_SUM}',
            )
            levels.insert(0, conv(top, depth, 3, down, f'smoothing_{index}'))
            if settings.generation.passes_smoothed and not smooths_all:
                top = levels[0]
        # PyTorch pads a stride-2 convolution on both sides, SAME pads even maps at the bottom and
        # right only.
        padding = 'FIXED' if smooths_all else settings.padding
        for index, scope in enumerate(coarse_scopes):
            # torchvision's LastLevelP6P7 has an activation before P7, and none before P6.
            below = tf.nn.relu(levels[-1]) if smooths_all and index else levels[-1]
            levels.append(conv(below, depth, 3, style, scope, stride=2, padding=padding))
    return levels


def _cut(features: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Crop a map to the size of another, which may be odd."""
    height, width = like.shape[1], like.shape[2]
    if features.shape[1:3].is_fully_defined() and features.shape[1:3] == like.shape[1:3]:
        return features
    if None in (height, width):
        height, width = tf.unstack(tf.shape(like)[1:3])
    return features[:, :height, :width, :]
