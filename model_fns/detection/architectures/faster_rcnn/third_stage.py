"""Third stage: the masks of boxes, and their loss (He et al. 2017).

Masks are predicted for some of the boxes of a batch: in training for boxes that hold an object, in
inference for detections. B is the batch size, N the number of boxes of an image, R that of rows
(indices of the B * N boxes), C that of classes, and M that of groundtruth boxes. q is 1, or C for
masks by class. Boxes are in pixels of the padded input.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from typing import Callable, Dict, NamedTuple

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.task_interfaces.checkpoint_mapping import ClassAxis
from model_fns import layers
from model_fns.detection.boxes import targets
from model_fns.detection.detections import suppression
from model_fns.layers import crops as box_crops

tf1 = tf.compat.v1

# As published, the scope is that of the second stage's head.
_SCOPE = 'SecondStageBoxPredictor'
_KERNEL = 3


def automatic_depth(channels: int, num_classes: int) -> int:
    """Compute the channels between the features of boxes and masks, a power of two.

    As published it is a weighted mean of logarithms, with weights of 3 for classes and 2 for
    features.

    Args:
        channels: channels of the features.
        num_classes: C.
    """
    # Python's round, half to even, as published: 2048 and 90 give 256.
    return 2 ** round((2 * math.log2(channels) + 3 * math.log2(num_classes)) / 5)


@dataclasses.dataclass(frozen=True)
class MaskHead:
    """Head with convolutions from the features of a box to its masks.

    Attributes:
        style: style of the convolutions; the last has neither normalization nor activation.
        num_classes: C.
        height: height of a mask.
        width: width of a mask.
        depth: channels of the convolutions; 0: see `automatic_depth`.
        num_layers: number of convolutions, including the last.
        shared: True: one mask per box; False: one for each class.
        enlarges_late: True: cells are repeated after the convolutions, followed by one more
            convolution; False: features are resized first.
        where: path of the config, for error messages.
    """

    style: layers.LayerStyle
    num_classes: int
    height: int = 15
    width: int = 15
    depth: int = 256
    num_layers: int = 2
    shared: bool = False
    enlarges_late: bool = False
    where: str = ''

    def predict(self, features: tf.Tensor) -> tf.Tensor:
        """Compute logits float32 [R, q, height, width].

        Args:
            features: [R, height', width', channels], features of boxes.

        Raises:
            errors.ConfigError: the size of masks is not a multiple of that of features.
        """
        depth = self.depth or automatic_depth(features.shape[-1], self.num_classes)
        with tf1.variable_scope(_SCOPE):
            if not self.enlarges_late:
                # Corners on corners, as published: another rule would move masks by parts of a
                # cell.
                features = layers.resize(features, self.height, self.width)
            for layer in range(self.num_layers - 1):
                features = self._convolution(features, depth, self.style, layer)
            last = self.num_layers - 1
            if self.enlarges_late:
                features = layers.enlarge(features, self._factors(features))
                features = self._convolution(features, depth, self.style, last)
                last += 1
            count = 1 if self.shared else self.num_classes
            logits = self._convolution(features, count, self.style.linear(), last)
        return tf.transpose(layers.to_float32(logits), [0, 3, 1, 2])

    def class_axes(self) -> Dict[str, ClassAxis]:
        """Return the last layer, whose outputs are those of classes, see `ClassColumns`."""
        scope = _layer_scope(self.num_layers - 1 + self.enlarges_late)
        return {} if self.shared else {f'{_SCOPE}/{scope}/': ClassAxis(self.num_classes)}

    def _factors(self, features: tf.Tensor) -> layers.Size:
        sizes = features.shape[1:3].as_list()
        for name, wanted, size in zip(('height', 'width'), (self.height, self.width), sizes):
            if wanted % size:
                raise errors.ConfigError(
                    f'{self.where}.mask_{name}: {wanted}; with convolve_then_upsample_masks '
                    f'expected a multiple of {size}, the {name} of the features of a box.'
                )
        return self.height // sizes[0], self.width // sizes[1]

    def _convolution(
        self, features: tf.Tensor, num_outputs: int, style: layers.LayerStyle, layer: int
    ) -> tf.Tensor:
        return layers.conv2d(features, num_outputs, _KERNEL, style, _layer_scope(layer))


def _layer_scope(layer: int) -> str:
    return f'Conv_{layer}' if layer else 'Conv'


class MatchedRows(NamedTuple):
    """Boxes of some rows, with the objects that the second stage has matched to them.

    Attributes:
        rows: int32 [R], see `true_rows`.
        boxes: float32 [R, 4].
        images: int32 [R], image of each box.
        matches: int32 [R], groundtruth row of each box; below 0: none.
        weights: float32 [R].
    """

    rows: tf.Tensor
    boxes: tf.Tensor
    images: tf.Tensor
    matches: tf.Tensor
    weights: tf.Tensor

    def take_matches(self, values: tf.Tensor) -> tf.Tensor:
        """Return values [R, ...] of the matched objects; of the first object where none is.

        Args:
            values: [B, M, ...], of the groundtruth.
        """
        indices = tf.stack([self.images, tf.maximum(self.matches, 0)], axis=-1)
        # The padding is needed for a batch without boxes.
        padding = [[0, 0], [0, 1], *[[0, 0]] * (values.shape.rank - 2)]
        return tf.gather_nd(tf.pad(values, padding), indices)


@dataclasses.dataclass(frozen=True)
class RowLoss(abc.ABC):
    """Loss of a head of the third stage, on boxes with an object.

    Attributes:
        weight: factor of the loss.
        where: path of the config of the head, for error messages.
    """

    weight: float = 1.0
    where: str = ''

    def __call__(
        self,
        logits: tf.Tensor,
        rows: tf.Tensor,
        boxes: tf.Tensor,
        assigned: targets.Targets,
        groundtruth: targets.Groundtruth,
    ) -> tf.Tensor:
        """Compute the loss, a scalar.

        Args:
            logits: float32 [R, ...], outputs of the head.
            rows: int32 [R], counted boxes.
            boxes: float32 [B, N, 4].
            assigned: the second stage's targets of the boxes.
            groundtruth: groundtruth with what the head learns.

        Raises:
            errors.UserError: the groundtruth lacks it.
        """
        matched = MatchedRows(
            rows,
            take_rows(boxes, rows),
            rows // tf.shape(boxes)[1],
            take_rows(assigned.matches, rows),
            take_rows(assigned.box_weights, rows),
        )
        return self.weighted_mean(logits, matched, assigned, groundtruth) * self.weight

    @abc.abstractmethod
    def weighted_mean(
        self,
        logits: tf.Tensor,
        matched: MatchedRows,
        assigned: targets.Targets,
        groundtruth: targets.Groundtruth,
    ) -> tf.Tensor:
        """Compute the weighted mean of the losses of rows, a scalar; arguments as of a call."""


@dataclasses.dataclass(frozen=True)
class MaskLoss(RowLoss):
    """Loss of masks: classification of the pixels of a box, by logits [R, q, height, width]."""

    def weighted_mean(
        self,
        logits: tf.Tensor,
        matched: MatchedRows,
        assigned: targets.Targets,
        groundtruth: targets.Groundtruth,
    ) -> tf.Tensor:
        """Compute the weighted mean over the pixels of masks of boxes with an object, a scalar."""
        size = logits.shape[-2:].as_list()
        _, boxes, images, matches, weights = matched
        wanted = self.targets(groundtruth, boxes, images, matches, size)
        if groundtruth.mask_weights is not None:
            weights *= matched.take_matches(groundtruth.mask_weights)
        classes = tf.argmax(assigned.class_targets, axis=-1, output_type=tf.int32)
        classes = take_rows(classes, matched.rows)
        # Background takes the masks of the first class, with a weight of 0.
        class_logits = suppression.select_by_class(
            logits[tf.newaxis], tf.maximum(classes - 1, 0)[tf.newaxis]
        )
        losses = tf.nn.sigmoid_cross_entropy_with_logits(logits=class_logits[0], labels=wanted)
        # The bound is that of a batch without objects, whose loss is 0.
        pixels = tf.maximum(tf.reduce_sum(weights) * size[0] * size[1], 1.0)
        return tf.reduce_sum(losses * weights[:, tf.newaxis, tf.newaxis]) / pixels

    def targets(
        self,
        groundtruth: targets.Groundtruth,
        boxes: tf.Tensor,
        images: tf.Tensor,
        matches: tf.Tensor,
        size: layers.Size,
    ) -> tf.Tensor:
        """Compute target masks of boxes: float32 [R, height, width], in [0, 1].

        As published, values between pixels are interpolated and not rounded.

        Args:
            groundtruth: groundtruth with masks.
            boxes: float32 [R, 4].
            images: int32 [R]: image of each box.
            matches: int32 [R]: groundtruth row of each box; below 0 the target is 0.
            size: height and width of a mask.

        Raises:
            errors.UserError: the groundtruth has no masks.
        """
        if groundtruth.masks is None:
            raise errors.UserError(
                f'{self.where}: masks are learned, and the groundtruth has none; expected '
                'load_instance_masks: true in the input reader, and records with '
                'image/object/mask.'
            )
        _, count, height, width = tf.unstack(tf.shape(groundtruth.masks))
        sides = tf.cast([height, width, height, width], tf.float32)
        # Crops are taken from the masks in place, without copying whole images.
        flat = tf.reshape(groundtruth.masks, tf.stack([-1, height, width, 1]))
        indices = images * count + tf.clip_by_value(matches, 0, count - 1)
        crops = box_crops.crop_and_resize(flat, boxes / sides, indices, size)
        matched = (matches >= 0)[:, tf.newaxis, tf.newaxis]
        return tf.where(matched, crops[..., 0], 0.0)


@dataclasses.dataclass(frozen=True)
class Masks:
    """Head and loss of masks.

    Attributes:
        build_head: is_training -> head.
        loss: loss of the masks.
    """

    build_head: Callable[[bool], MaskHead]
    loss: MaskLoss


def is_by_row(style: layers.LayerStyle) -> bool:
    """Check whether the predictions of a row do not depend on the other rows."""
    norm = style.batch_norm
    return norm is None or not (style.is_training and norm.train)


def true_rows(marks: tf.Tensor) -> tf.Tensor:
    """Find the marked rows: int32 [R], in order; the first row if none is marked.

    There is always at least one row, because the network needs an input, but of no image.

    Args:
        marks: bool [B, N].
    """
    flat = tf.cast(tf.reshape(marks, [-1]), tf.int32)
    least = tf.minimum(tf.size(flat), 1)
    return tf.math.top_k(flat, tf.maximum(tf.reduce_sum(flat), least)).indices


def take_rows(values: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Return the values [R, ...] of some rows.

    Args:
        values: [B, N, ...].
        rows: int32 [R], from `true_rows`.
    """
    return tf.gather(tf.reshape(values, [-1, *values.shape[2:]]), rows)


def spread(values: tf.Tensor, rows: tf.Tensor, marks: tf.Tensor) -> tf.Tensor:
    """Scatter values of some rows to all boxes: [B, N, ...]; zeros elsewhere.

    Args:
        values: [R, ...].
        rows: int32 [R], from `true_rows`.
        marks: bool [B, N], the argument of `true_rows`.
    """
    marked = take_rows(marks, rows)
    marked = tf.reshape(marked, [-1] + [1] * (values.shape.rank - 1))
    values = tf.where(marked, values, tf.zeros([], values.dtype))
    shape = tf.concat([[tf.size(marks)], tf.shape(values)[1:]], axis=0)
    flat = tf.scatter_nd(rows[:, tf.newaxis], values, shape)
    spread_out = tf.reshape(flat, tf.concat([tf.shape(marks), tf.shape(values)[1:]], axis=0))
    spread_out.set_shape([*marks.shape, *values.shape[1:]])
    return spread_out


def probabilities(logits: tf.Tensor, classes: tf.Tensor) -> tf.Tensor:
    """Compute the masks of boxes of known classes: float32 [R, height, width], in [0, 1].

    Args:
        logits: float32 [R, q, height, width].
        classes: int32 [R], from 0.
    """
    return tf.sigmoid(suppression.select_by_class(logits[tf.newaxis], classes[tf.newaxis])[0])
