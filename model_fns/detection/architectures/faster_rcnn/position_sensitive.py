"""Position-sensitive heads: scores of the parts of boxes, from one map (R-FCN, Dai et al. 2016).

B is the batch size, N the number of proposals of an image, C that of classes.
"""

from __future__ import annotations

import dataclasses
from typing import Tuple

import tensorflow as tf

from model_fns import layers
from model_fns.detection.architectures.faster_rcnn import second_stage
from model_fns.detection.boxes import axis_aligned
from model_fns.layers import crops as box_crops

tf1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class Bins:
    """Division of a box into a grid of bins with separate channels.

    Attributes:
        grid: rows and columns of bins.
        crop: rows and columns at which a box is sampled; multiples of the grid's.
    """

    grid: Tuple[int, int] = (3, 3)
    # The published rfcn_resnet101 samples 18 x 18, six rows and columns in a bin.
    crop: Tuple[int, int] = (12, 12)

    @property
    def count(self) -> int:
        """Number of bins of a box."""
        return self.grid[0] * self.grid[1]

    def samples(self, maps: tf.Tensor, boxes: tf.Tensor) -> tf.Tensor:
        """Sample each bin bilinearly, including its borders; 0 outside of the map.

        Args:
            maps: [B, height, width, bins * K], ordered by bin, row by row, then by channel.
            boxes: float32 [B, N, 4], normalized to the map.

        Returns:
            [B * N, rows of bins, columns of bins, rows of samples, columns of samples, K].
        """
        # Without a rest: `config_rules.two_stage` refuses others.
        size = [whole // parts for whole, parts in zip(self.crop, self.grid)]
        batch, count = tf.unstack(tf.shape(boxes)[:2])
        # Each bin becomes one image, so that one kernel samples all of them.
        height, width = tf.unstack(tf.shape(maps)[1:3])
        channels = maps.shape[-1] // self.count
        apart = tf.reshape(maps, [batch, height * width, self.count, channels])
        apart = tf.transpose(apart, [0, 2, 1, 3])
        apart = tf.reshape(apart, [batch * self.count, height, width, channels])
        bins = tf.reshape(self._split(boxes), [-1, axis_aligned.SIZE])
        images = tf.repeat(tf.range(batch), count)[:, tf.newaxis] * self.count
        images = tf.reshape(images + tf.range(self.count), [-1])
        crops = box_crops.crop_and_resize(apart, bins, images, size)
        return tf.reshape(crops, [-1, *self.grid, *size, channels])

    def pooled(self, maps: tf.Tensor, boxes: tf.Tensor) -> tf.Tensor:
        """Compute the mean of all samples of each box, [B * N, K]; see `samples`."""
        # Bins have equally many samples, so this is the mean of the bins' means.
        return tf.reduce_mean(self.samples(maps, boxes), [1, 2, 3, 4])

    def _split(self, boxes: tf.Tensor) -> tf.Tensor:
        """Split boxes [B, N, 4] into bins [B, N, bins, 4], row by row."""
        rows, columns = self.grid
        near, far = tf.split(boxes[:, :, tf.newaxis], 2, axis=-1)
        step = (far - near) / tf.constant([rows, columns], boxes.dtype)
        cells = [[row, column] for row in range(rows) for column in range(columns)]
        first = near + step * tf.constant(cells, boxes.dtype)
        return tf.concat([first, first + step], axis=-1)


@dataclasses.dataclass(frozen=True)
class PositionSensitiveHead:
    """Head for classes and boxes, with maps that all boxes of an image share.

    Attributes:
        style: style of the convolutions.
        num_classes: C.
        bins: bins of a box.
        depth: channels of the common features of both maps.
    """

    style: layers.LayerStyle
    num_classes: int
    bins: Bins
    depth: int = 1024

    def predict(self, features: tf.Tensor, boxes: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
        """Compute codes float32 [B * N, C, 4], and logits [B * N, C + 1], background first.

        Args:
            features: [B, height, width, channels], features of whole images.
            boxes: float32 [B, N, 4], normalized to the padded input.
        """
        sizes = {
            'refined_locations': self.num_classes * axis_aligned.SIZE,
            'class_predictions': self.num_classes + 1,
        }
        pooled = []
        with tf1.variable_scope(second_stage.HEAD_SCOPE):
            reduced = layers.conv2d(features, self.depth, 1, self.style, 'reduce_depth')
            for scope, size in sizes.items():
                maps = layers.conv2d(reduced, self.bins.count * size, 1, self.style.linear(), scope)
                pooled.append(self.bins.pooled(layers.to_float32(maps), boxes))
        codes, logits = pooled
        return tf.reshape(codes, [-1, self.num_classes, axis_aligned.SIZE]), logits
