"""What the heads for instances and edges should give, from the labels of one image.

Functions of one example, for `tf.data`. The graph is the same for any number of instances, and the
work grows with the instances that there are.
"""

from __future__ import annotations

import math
from typing import Dict, Optional, Tuple

import numpy as np
import tensorflow as tf

from model_fns.segmentation import fields

# The edge label of a pixel of which it is not known whether it is an edge. Not the ignore label of
# the classes: that may be 0, which is no edge here, or a class of edges.
IGNORED_EDGE = -1
NO_EDGE = 0

# A bell is cut off where it is about 0.01.
_SIGMAS_IN_BELL = 3.0


def instance_targets(instances: tf.Tensor, sigma: float) -> Dict[str, tf.Tensor]:
    """Targets of the centre and offset heads (Cheng et al. 2020, Panoptic-DeepLab, section 3.2).

    An instance's centre is the mean of its pixels that are in the image, wherever it lies. The
    heat map is 1 at the pixel nearest to it, falls off as a bell, and is the larger one where two
    bells meet; offsets lead to the centre itself.

    Args:
        instances: int32 [H, W]; 0 is no instance, any other number an instance.
        sigma: standard deviation of the bells in pixels.

    Returns:
        `fields.CENTER` float32 [H, W] in [0, 1], `fields.OFFSET` float32 [H, W, 2] (rows, columns;
        0 outside of instances) and `fields.OFFSET_WEIGHTS` float32 [H, W] (1 in instances).
    """
    height, width = _size(instances)
    grid = _grid(height, width)
    ids, index, areas = tf.unique_with_counts(tf.reshape(instances, [-1]))
    # In float32 the sums of a large instance would be off by tenths of a pixel.
    positions = tf.cast(tf.reshape(grid, [-1, 2]), tf.float64)
    sums = tf.math.unsorted_segment_sum(positions, index, tf.size(ids))
    means = tf.cast(sums / tf.cast(areas, tf.float64)[:, tf.newaxis], tf.float32)
    to_center = tf.reshape(tf.gather(means, index), [height, width, 2]) - grid
    weights = tf.cast(tf.not_equal(instances, 0), tf.float32)
    centers = tf.boolean_mask(means, tf.not_equal(ids, 0))
    targets = {
        fields.CENTER: center_heatmap(centers, height, width, sigma),
        fields.OFFSET: to_center * weights[..., tf.newaxis],
        fields.OFFSET_WEIGHTS: weights,
    }
    targets[fields.CENTER].set_shape(instances.shape)
    targets[fields.OFFSET].set_shape(instances.shape.concatenate([2]))
    return targets


def center_heatmap(
    centers: tf.Tensor, height: tf.Tensor, width: tf.Tensor, sigma: float
) -> tf.Tensor:
    """The largest of the bells around points.

    Args:
        centers: float32 [n, 2], rows and columns in the image; rounded to a pixel.
        height: of the map: an int or an int32 scalar.
        width: of the map.
        sigma: standard deviation in pixels.

    Returns:
        float32 [height, width] in [0, 1]: exp(-d^2 / (2 sigma^2)) at distance d from the nearest
        centre; 0 where d is more than 3 sigma in rows or in columns.
    """
    bell, reach = _bell(sigma)
    # With a margin as wide as a bell reaches no bell leaves the map.
    row_length = width + 2 * reach
    num_cells = (height + 2 * reach) * row_length
    pixels = tf.cast(tf.round(centers), tf.int32)
    corners = pixels[:, 0] * row_length + pixels[:, 1]
    side = tf.range(2 * reach + 1)
    within = side[:, tf.newaxis] * row_length + side
    cells = corners[:, tf.newaxis, tf.newaxis] + within
    values = tf.broadcast_to(bell, tf.shape(cells))
    heat = tf.math.unsorted_segment_max(values, cells, num_cells)
    # A cell without a bell holds the lowest number that there is.
    heat = tf.reshape(tf.maximum(heat, 0.0), [height + 2 * reach, row_length])
    return heat[reach : reach + height, reach : reach + width]


def edge_targets(
    labels: tf.Tensor, counted: tf.Tensor, width: int, classes: Optional[tf.Tensor] = None
) -> tf.Tensor:
    """Where two labels meet.

    A pixel is an edge when the square of `width` + 1 pixels around it holds two labels: a straight
    boundary is `width` pixels wide. Pixels that do not count have no label; one of them is an edge
    when labels on both of its sides are in reach, as in Pascal's outlines, and else unknown.

    Args:
        labels: int32 [H, W], below 2^24: classes, or instances with 0 for none.
        counted: bool [H, W]: False where the label is not known.
        width: of an edge in pixels, at least 1.
        classes: int32 [H, W]: given for edges with a class; that of a pixel of class 0, or that
            does not count, is the largest around it.

    Returns:
        int32 [H, W]: `NO_EDGE`, `IGNORED_EDGE`, or 1 for an edge (with `classes`, its class).
    """
    largest = _largest_around(labels, counted, width)
    smallest = -_largest_around(-labels, counted, width)
    # Where nothing counts the largest is below the smallest.
    is_edge = largest > smallest
    if classes is None:
        edge = tf.ones_like(labels)
    else:
        around = tf.cast(_largest_around(classes, counted, width), tf.int32)
        edge = tf.where(counted & (classes > 0), classes, around)
    no_edge = tf.where(counted, NO_EDGE, IGNORED_EDGE)
    return tf.where(is_edge, edge, no_edge)


def _largest_around(labels: tf.Tensor, counted: tf.Tensor, width: int) -> tf.Tensor:
    """float32 [H, W]: the largest label that counts in the square around each pixel."""
    known = tf.where(counted, tf.cast(labels, tf.float32), tf.float32.min)
    pooled = tf.nn.max_pool2d(known[tf.newaxis, ..., tf.newaxis], width + 1, 1, 'SAME')
    return pooled[0, ..., 0]


def _bell(sigma: float) -> Tuple[np.ndarray, int]:
    """Values float32 [2 r + 1, 2 r + 1] around a centre, and r."""
    reach = math.ceil(_SIGMAS_IN_BELL * sigma)
    squares = np.arange(-reach, reach + 1, dtype=np.float64) ** 2
    bell = np.exp(-(squares[:, np.newaxis] + squares) / (2.0 * sigma**2))
    return bell.astype(np.float32), reach


def _size(instances: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
    """Height and width: numbers where they are static."""
    dynamic = tf.shape(instances)
    height, width = instances.shape.as_list()
    return height or dynamic[0], width or dynamic[1]


def _grid(height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    """float32 [height, width, 2]: row and column of each pixel."""
    rows, columns = tf.meshgrid(tf.range(height), tf.range(width), indexing='ij')
    return tf.cast(tf.stack([rows, columns], axis=-1), tf.float32)
