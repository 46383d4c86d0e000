"""Heat maps of centers: Gaussian targets, and peaks of predictions.

B is the batch, H x W the size of the maps, C their channels, K the most peaks of an image.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf

# A Gaussian is cut off where it is about 0.01.
_SIGMAS_IN_REACH = 3.0


class Peaks(NamedTuple):
    """The peaks of a batch of heat maps, the highest first.

    Attributes:
        positions: int32 [B, K, 2], rows and columns.
        scores: float32 [B, K]: the heat.
        num_valid: int32 [B]: how many of the K are peaks.
    """

    positions: tf.Tensor
    scores: tf.Tensor
    num_valid: tf.Tensor


def gaussian_heatmap(
    centers: tf.Tensor, height: tf.Tensor, width: tf.Tensor, sigma: float
) -> tf.Tensor:
    """Return the largest of the Gaussians around points.

    Args:
        centers: float32 [n, 2], rows and columns in the map; rounded to a pixel.
        height: of the map: an int or an int32 scalar.
        width: of the map.
        sigma: standard deviation in pixels.

    Returns:
        float32 [height, width] in [0, 1]: exp(-d^2 / (2 sigma^2)) at distance d from the nearest
        center; 0 where d is more than 3 sigma in rows or in columns.
    """
    reach = math.ceil(_SIGMAS_IN_REACH * sigma)
    squares = np.arange(-reach, reach + 1, dtype=np.float64) ** 2
    gaussian = np.exp(-(squares[:, np.newaxis] + squares) / (2.0 * sigma**2)).astype(np.float32)
    # The margin is as wide as a Gaussian reaches, so that none leaves the map.
    row_length = width + 2 * reach
    num_cells = (height + 2 * reach) * row_length
    pixels = tf.cast(tf.round(centers), tf.int32)
    corners = pixels[:, 0] * row_length + pixels[:, 1]
    side = tf.range(2 * reach + 1)
    within = side[:, tf.newaxis] * row_length + side
    cells = corners[:, tf.newaxis, tf.newaxis] + within
    values = tf.broadcast_to(gaussian, tf.shape(cells))
    heat = tf.math.unsorted_segment_max(values, cells, num_cells)
    # A cell without a Gaussian holds the lowest number that there is.
    heat = tf.reshape(tf.maximum(heat, 0.0), [height + 2 * reach, row_length])
    return heat[reach : reach + height, reach : reach + width]


def largest_gaussians(
    centers: tf.Tensor,
    sigmas: tf.Tensor,
    weights: tf.Tensor,
    maps: tf.Tensor,
    num_maps: tf.Tensor,
    height: tf.Tensor,
    width: tf.Tensor,
) -> tf.Tensor:
    """Return the largest of the Gaussians of each map, each as wide and as high as is asked for.

    They are not cut off: each reaches over its whole map.

    Args:
        centers: float32 [n, 2], rows and columns in the map.
        sigmas: float32 [n]: standard deviations in pixels, above 0.
        weights: float32 [n]: the heights; a Gaussian without one counts for nothing.
        maps: int32 [n]: which map each is in.
        num_maps: how many there are: an int or an int32 scalar.
        height: of the maps.
        width: of the maps.

    Returns:
        float32 [num_maps, height, width]: weight * exp(-d^2 / (2 sigma^2)) at distance d from a
        center, for the center that it is the most for; 0 in a map without a center.
    """
    # One gather for all that a Gaussian has; those without a height are not computed.
    rows = tf.concat([centers, sigmas[:, tf.newaxis], weights[:, tf.newaxis]], axis=1)
    counted = tf.where(weights > 0)[:, 0]
    y, x, sigmas, weights = tf.split(tf.gather(rows, counted), 4, axis=1)

    def falloff(places: tf.Tensor, side: tf.Tensor) -> tf.Tensor:
        distances = tf.cast(tf.range(side), tf.float32) - places
        return tf.exp(-tf.square(distances) / (2.0 * tf.square(sigmas)))

    # The exponential of a sum is a product: height + width exponentials for each center suffice.
    columns = falloff(x, width) * weights
    values = falloff(y, height)[:, :, tf.newaxis] * columns[:, tf.newaxis, :]
    # A map without a Gaussian holds the lowest number that there is.
    heat = tf.math.unsorted_segment_max(values, tf.gather(maps, counted), num_maps)
    return tf.maximum(heat, 0.0)


def local_maxima(maps: tf.Tensor, window: int, tolerance: float = 0.0) -> tf.Tensor:
    """Mark the pixels of maps that are as high as the highest one of the square around them.

    Args:
        maps: float32 [B, H, W, C].
        window: side of the square in pixels, odd.
        tolerance: how far below the highest one a pixel may be.

    Returns:
        bool [B, H, W, C].
    """
    # Padding of a max pool never wins, so that maxima at the border need no further rule.
    return maps >= tf.nn.max_pool2d(maps, window, 1, 'SAME') - tolerance


def find_peaks(heatmap: tf.Tensor, threshold: float, window: int) -> tf.Tensor:
    """Mark the peaks of heat maps: pixels that no other one of the square around exceeds.

    Of equally high pixels in one square only the last by rows and columns is a peak.

    Args:
        heatmap: float32 [B, H, W], of at most 2^24 pixels each.
        threshold: a peak is at least this high.
        window: side of the square in pixels, odd.

    Returns:
        bool [B, H, W].
    """
    heat = heatmap[..., tf.newaxis]
    # The maximum alone would keep all pixels of a plateau: sigmoids that saturate at 1 have many.
    is_highest = local_maxima(heat, window) & (heat >= threshold)
    height, width = tf.shape(heatmap)[1], tf.shape(heatmap)[2]
    order = tf.cast(tf.reshape(tf.range(1, height * width + 1), [height, width, 1]), tf.float32)
    order = tf.where(is_highest, order, 0.0)
    return (is_highest & local_maxima(order, window))[..., 0]


def highest_peaks(heatmap: tf.Tensor, threshold: float, window: int, max_peaks: int) -> Peaks:
    """Return the highest peaks of heat maps.

    Args:
        heatmap: float32 [B, H, W].
        threshold: a peak is at least this high.
        window: side of the square in which a peak is highest, in pixels, odd.
        max_peaks: K.
    """
    height, width = tf.shape(heatmap)[1], tf.shape(heatmap)[2]
    is_peak = find_peaks(heatmap, threshold, window)
    flat = tf.reshape(tf.where(is_peak, heatmap, -np.inf), [-1, height * width])
    # So many can be asked for even of a tiny map.
    flat = tf.pad(flat, [[0, 0], [0, max_peaks]], constant_values=-np.inf)
    scores, cells = tf.math.top_k(flat, max_peaks)
    return Peaks(
        tf.stack([cells // width, cells % width], axis=-1),
        scores,
        tf.reduce_sum(tf.cast(scores > -np.inf, tf.int32), axis=-1),
    )
