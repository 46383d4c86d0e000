"""Feature pyramids: top-down paths on a backbone's maps."""

from __future__ import annotations

from typing import List, Sequence

import tensorflow as tf

from model_fns import layers
from model_fns.detection.feature_extractors.extractor import Settings

tf1 = tf.compat.v1


def feature_pyramid(
    maps: Sequence[tf.Tensor],
    settings: Settings,
    depth: int,
    coarse_scopes: Sequence[str],
) -> List[tf.Tensor]:
    """A feature pyramid network (Lin et al. 2016), with coarser levels on top.

    Each map is projected to `depth` channels, summed with the level above it enlarged twofold, and
    smoothed; the coarsest is not smoothed. Variables are under `fpn/`.

    Args:
        maps: of the backbone, from fine to coarse, each half the size of the one before.
        settings: style, and whether convolutions are separable.
        depth: channels of every level.
        coarse_scopes: names of the layers that add coarser levels, a 3x3 convolution with stride 2
            each.

    Returns:
        Levels from fine to coarse: one for each map, then one for each scope.
    """
    style = settings.style
    conv = layers.separable_conv2d if settings.use_depthwise else layers.conv2d
    with tf1.variable_scope('fpn'):
        number = len(maps)
        top = layers.conv2d(maps[-1], depth, 1, style.linear(), f'projection_{number}')
        levels = [top]
        for index in range(number - 1, 0, -1):
            across = layers.conv2d(maps[index - 1], depth, 1, style.linear(), f'projection_{index}')
            top = enlarged_twofold(top, across) + across
            levels.insert(0, conv(top, depth, 3, style, f'smoothing_{index}'))
        for scope in coarse_scopes:
            levels.append(
                conv(levels[-1], depth, 3, style, scope, stride=2, padding=settings.padding)
            )
    return levels


def enlarged_twofold(coarse: tf.Tensor, fine: tf.Tensor) -> tf.Tensor:
    """A map with each value repeated in both directions, cut to the size of a finer map."""
    height, width = fine.shape[1], fine.shape[2]
    if None in (height, width):
        height, width = tf.unstack(tf.shape(fine)[1:3])
    # One kernel for both directions; repeats by nearest neighbour without half-pixel centres.
    size = tf.shape(coarse)[1:3] * 2
    if coarse.shape[1:3].is_fully_defined():
        size = [2 * coarse.shape[1], 2 * coarse.shape[2]]
    enlarged = tf.raw_ops.ResizeNearestNeighbor(images=coarse, size=size)
    return enlarged[:, :height, :width, :]
