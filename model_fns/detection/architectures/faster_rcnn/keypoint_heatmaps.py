"""Third stage, keypoints: a heat map of each kind of keypoint, and their loss (He et al. 2017).

R is the number of rows (boxes with an object in training, detections in inference), K that of the
kinds of keypoints, and m the size of a heat map. A heat map divides its box into m x m cells, and
has one probability for each of them. Boxes and keypoints are in pixels of the padded input.
"""

from __future__ import annotations

import dataclasses
from typing import Callable, Tuple

import tensorflow as tf

from estimator_lib import errors
from model_fns import layers
from model_fns.detection.architectures.faster_rcnn import third_stage
from model_fns.detection.boxes import axis_aligned, targets

tf1 = tf.compat.v1

_SCOPE = 'SecondStageBoxPredictor/KeypointPredictor'
# The paper gives no size of the transposed kernel. 4 is that of Detectron and torchvision.
_KERNEL, _TRANSPOSED_KERNEL = 3, 4


@dataclasses.dataclass(frozen=True)
class KeypointHead:
    """Head from the features of a box to its heat maps (section 5 of the paper).

    Convolutions are followed by a transposed one with stride 2, and by bilinear enlargement by 2:
    features of 14 x 14 give heat maps of 56 x 56.

    Attributes:
        style: style of the convolutions; the last has neither normalization nor activation.
        num_keypoints: K.
        depth: channels of the convolutions.
        num_layers: number of convolutions before the transposed one.
    """

    style: layers.LayerStyle
    num_keypoints: int
    depth: int = 512
    num_layers: int = 8

    def predict(self, features: tf.Tensor) -> tf.Tensor:
        """Compute logits float32 [R, K, 4 height, 4 width].

        Args:
            features: [R, height, width, channels], features of boxes.
        """
        with tf1.variable_scope(_SCOPE):
            for layer in range(self.num_layers):
                scope = f'Conv_{layer}' if layer else 'Conv'
                features = layers.conv2d(features, self.depth, _KERNEL, self.style, scope)
            logits = layers.conv2d_transpose(
                features,
                self.num_keypoints,
                _TRANSPOSED_KERNEL,
                self.style.linear(),
                'Conv2d_transpose',
            )
        logits = layers.enlarge(layers.to_float32(logits), method='bilinear')
        return tf.transpose(logits, [0, 3, 1, 2])


@dataclasses.dataclass(frozen=True)
class KeypointLoss(third_stage.RowLoss):
    """Loss of the heat maps [R, K, m, m]: each has one cell to find, like a class."""

    def weighted_mean(
        self,
        logits: tf.Tensor,
        matched: third_stage.MatchedRows,
        assigned: targets.Targets,
        groundtruth: targets.Groundtruth,
    ) -> tf.Tensor:
        """Compute the weighted mean over the labeled keypoints inside of boxes, a scalar."""
        del assigned
        num_keypoints, height, width = logits.shape[1:].as_list()
        self._check(groundtruth, num_keypoints)
        points = matched.take_matches(groundtruth.keypoints)
        cells, inside = locate(points, matched.boxes, (height, width))
        weights = matched.weights * tf.cast(matched.matches >= 0, tf.float32)
        weights = tf.cast(inside, tf.float32) * weights[:, tf.newaxis]
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=cells, logits=tf.reshape(logits, [-1, num_keypoints, height * width])
        )
        total = tf.maximum(tf.reduce_sum(weights), 1.0)
        return tf.reduce_sum(losses * weights) / total

    def _check(self, groundtruth: targets.Groundtruth, num_keypoints: int) -> None:
        read = 0 if groundtruth.keypoints is None else groundtruth.keypoints.shape[2]
        if read != num_keypoints:
            raise errors.UserError(
                f'{self.where}.num_keypoints: {num_keypoints}, and the groundtruth has {read}; '
                'expected the num_keypoints of the input reader.'
            )


@dataclasses.dataclass(frozen=True)
class Keypoints:
    """Head and loss of keypoints.

    Attributes:
        build_head: is_training -> head.
        loss: loss of the heat maps.
    """

    build_head: Callable[[bool], KeypointHead]
    loss: KeypointLoss


def locate(
    points: tf.Tensor, boxes: tf.Tensor, size: Tuple[int, int]
) -> Tuple[tf.Tensor, tf.Tensor]:
    """Locate points in the heat maps of boxes.

    Example: in a box from 10 to 18 with 4 cells, 10 and 11.9 are in the first, 12 in the second,
    18 in the last.

    Args:
        points: float32 [R, K, 2], y and x; NaN for points that are not labeled.
        boxes: float32 [R, 4].
        size: rows and columns of a heat map.

    Returns:
        int32 [R, K], indices of cells row by row, and bool [R, K]: False outside of the box and
        where there is no label; the index is then 0.
    """
    near, far = tf.split(boxes[:, tf.newaxis], 2, axis=-1)
    # Padding rows have boxes without area, whose indices must be numbers too.
    shares = tf.math.divide_no_nan(points - near, far - near)
    has_area = axis_aligned.has_area(boxes)[:, tf.newaxis]
    # A comparison with NaN is false.
    inside = tf.reduce_all((points >= near) & (points <= far), axis=-1) & has_area
    sides = tf.constant(size, tf.float32)
    cells = tf.where(inside[..., tf.newaxis], tf.floor(shares * sides), 0.0)
    row, column = tf.unstack(tf.cast(tf.minimum(cells, sides - 1.0), tf.int32), axis=-1)
    return row * size[1] + column, inside


def find(logits: tf.Tensor, boxes: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
    """Find the keypoints of boxes: the centers of the most probable cells.

    Args:
        logits: float32 [R, K, m, m].
        boxes: float32 [R, 4].

    Returns:
        float32 [R, K, 2], y and x in pixels, and float32 [R, K], the probabilities of the cells.
    """
    num_keypoints, height, width = logits.shape[1:].as_list()
    flat = tf.nn.softmax(tf.reshape(logits, [-1, num_keypoints, height * width]))
    cells = tf.argmax(flat, axis=-1, output_type=tf.int32)
    places = tf.cast(tf.stack([cells // width, cells % width], axis=-1), tf.float32) + 0.5
    near, far = tf.split(boxes[:, tf.newaxis], 2, axis=-1)
    points = near + places * (far - near) / tf.constant([height, width], tf.float32)
    return points, tf.reduce_max(flat, axis=-1)
