"""Crops of boxes: samples of images and feature maps on grids.

Samples outside of an image are 0. Where its edge is does not depend on the processor, and gradients
do not depend on the number of threads.
"""

from __future__ import annotations

from typing import Callable, Sequence, Tuple

import numpy as np
import tensorflow as tf

Gradient = Callable[[tf.Tensor], Tuple[tf.Tensor, None, None]]

# Normalized coordinates that are so little outside of an image are meant to be on its edge: they
# are computed, and their last bits differ between processors.
_EDGE_ROUNDING = 1e-5
# The kernel computes its last sample from both ends of a box, and rounds five times on the way.
_KERNEL_ROUNDING = 2.0**-21


def snap_to_edges(coordinates: tf.Tensor, margin: float = 0.0) -> tf.Tensor:
    """Move normalized coordinates on the edges of an image inside of it.

    Without this a whole row of samples would depend on whether a coordinate on the edge is computed
    as 1 or as 1.0000001.

    Args:
        coordinates: float32, any shape; 0 and 1 are the centers of the first and last pixels.
        margin: how far inside they are moved.

    Returns:
        The coordinates. What is outside of the image by more than rounding is as it was.
    """
    inside = tf.clip_by_value(coordinates, margin, 1.0 - margin)
    return tf.where(tf.abs(coordinates - inside) <= _EDGE_ROUNDING, inside, coordinates)


def crop_and_resize(
    images: tf.Tensor,
    boxes: tf.Tensor,
    rows: tf.Tensor,
    size: Sequence[int],
    method: str = 'bilinear',
) -> tf.Tensor:
    """Sample images on a grid from one border of a box to the other, both included.

    A border on an edge of the image is inside, whatever its last bits are. No gradient goes to
    boxes.

    Args:
        images: [B, height, width, channels].
        boxes: float32 [n, 4], normalized; an inverted one gives a mirrored crop.
        rows: int32 [n]: the image of each box.
        size: rows and columns of the grid: two ints, or int32 [2].
        method: `bilinear`, or `nearest`, which has no gradient.

    Returns:
        float32 [n, *size, channels].
    """
    first, last = tf.split(tf.stop_gradient(boxes), 2, axis=-1)
    snapped = [snap_to_edges(first), snap_to_edges(last, _KERNEL_ROUNDING)]
    if method != 'bilinear':
        images = tf.stop_gradient(images)

    # The kernel of the gradient adds up boxes on several threads without a lock: where boxes
    # overlap, some of the sum is lost, at random. All tensors are arguments: what a closure depends
    # on counts as variables of the function.
    @tf.custom_gradient
    def sample(images: tf.Tensor, boxes: tf.Tensor, rows: tf.Tensor) -> Tuple[tf.Tensor, Gradient]:
        def gradient(of_crops: tf.Tensor) -> Tuple[tf.Tensor, None, None]:
            return _add_samples(of_crops, boxes, rows, tf.shape(images)), None, None

        return tf.image.crop_and_resize(images, boxes, rows, size, method), gradient

    return sample(images, tf.concat(snapped, axis=-1), rows)


def roi_align(
    images: tf.Tensor,
    boxes: tf.Tensor,
    rows: tf.Tensor,
    size: int,
    stride: int,
    ratio: int = 2,
    aligned: bool = True,
) -> tf.Tensor:
    """Compute means of samples in the bins of boxes (RoIAlign; He et al. 2017, section 3).

    A box is divided into `size` x `size` bins, and a bin into `ratio` x `ratio` cells whose centers
    are sampled. The center of pixel i of a map is at i + 0.5 of its strides, as Detectron2 defines
    it for `aligned`; without, it is at i of its strides, and boxes have at least one pixel. Up to a
    pixel outside of a map samples have the value of its edge; further out they are 0. No gradient
    goes to boxes.

    Args:
        images: [B, height, width, channels], maps of features.
        boxes: float32 [n, 4], in pixels of the input.
        rows: int32 [n]: the map of each box.
        size: rows and columns of bins.
        stride: pixels of the input for each pixel of a map.
        ratio: rows and columns of samples of a bin.
        aligned: True: the center of pixel i is at i + 0.5.

    Returns:
        float32 [n, size, size, channels].
    """
    # With edges repeated once, the samples are those of a smaller box, from border to border.
    padded = tf.pad(images, [[0, 0], [1, 1], [1, 1], [0, 0]], mode='SYMMETRIC')
    last_pixel = tf.cast(tf.shape(padded)[1:3] - 1, tf.float32)
    near, far = tf.split(boxes / float(stride), 2, axis=-1)
    if not aligned:  # as if each pixel were half a pixel further, in boxes of one pixel or more
        near, far = near + 0.5, tf.maximum(far, near + 1.0) + 0.5
    # A ratio of 2 is that of torchvision. Detectron2's default depends on the size of each box, so
    # that shapes would not be static.
    inset = (far - near) * (0.5 / (size * ratio))
    first, last = near + inset + 0.5, far - inset + 0.5
    normalized = tf.concat([first / last_pixel, last / last_pixel], axis=-1)
    samples = crop_and_resize(padded, normalized, rows, [size * ratio] * 2)
    return tf.nn.avg_pool2d(samples, ratio, ratio, 'VALID')


def _add_samples(
    samples: tf.Tensor, boxes: tf.Tensor, rows: tf.Tensor, shape: tf.Tensor
) -> tf.Tensor:
    """Add samples to the pixels that they were interpolated from, by the same weights.

    Args:
        samples: float32 [n, rows, columns, channels].
        boxes: as the kernel got them.
        rows: int32 [n].
        shape: int32 [4], of the images.

    Returns:
        float32 [B, height, width, channels].
    """
    batch, height, width, channels = tf.unstack(tf.cast(shape, tf.int64))
    count = tf.size(samples, tf.int64) // channels
    y, y_weights = _neighbors(boxes[:, 0], boxes[:, 2], height, samples.shape[1])
    x, x_weights = _neighbors(boxes[:, 1], boxes[:, 3], width, samples.shape[2])
    lines = tf.cast(rows, tf.int64)[:, tf.newaxis, tf.newaxis] * height + y
    pixels = lines[:, :, tf.newaxis, :, tf.newaxis] * width + x[:, tf.newaxis, :, tf.newaxis, :]
    weights = (
        y_weights[:, :, tf.newaxis, :, tf.newaxis] * x_weights[:, tf.newaxis, :, tf.newaxis, :]
    )
    places = tf.stack([tf.repeat(tf.range(count), 4), tf.reshape(pixels, [-1])], axis=-1)
    interpolation = tf.SparseTensor(
        places, tf.reshape(weights, [-1]), tf.stack([count, batch * height * width])
    )
    flat = tf.reshape(samples, tf.stack([count, channels]))
    # With the kernel's own gradient, features were up to 2 % off and differed from run to run
    # (d775625b).
    added = tf.sparse.sparse_dense_matmul(interpolation, flat, adjoint_a=True)
    return tf.reshape(added, shape)


def _neighbors(
    first: tf.Tensor, last: tf.Tensor, side: tf.Tensor, count: int
) -> Tuple[tf.Tensor, tf.Tensor]:
    """Return the pixels before and behind each sample along one side, and how much it has of them.

    Args:
        first: float32 [n], where the first sample of each box is, normalized.
        last: float32 [n], where the last one is; of a single sample in the middle between both.
        side: int64, in pixels.
        count: of samples.

    Returns:
        Pixels int64 [n, count, 2], and weights float32 of the same shape: 0 outside of the image.
    """
    end = tf.cast(side - 1, tf.float32)
    shares = np.linspace(0, 1, count, dtype=np.float32) if count > 1 else np.float32([0.5])
    places = (first[:, tf.newaxis] + (last - first)[:, tf.newaxis] * shares) * end
    before = tf.clip_by_value(tf.floor(places), 0.0, end)
    pixels = tf.stack([before, tf.minimum(before + 1.0, end)], axis=-1)
    part = places - before
    is_inside = tf.logical_and(places >= 0.0, places <= end)
    weights = tf.where(is_inside[..., tf.newaxis], tf.stack([1.0 - part, part], axis=-1), 0.0)
    return tf.cast(pixels, tf.int64), weights
