"""Places of anchors and groundtruth boxes, for matchers that need more than similarities.

B is the batch size, M the number of groundtruth rows, A that of anchors, L that of feature maps.
"""

from __future__ import annotations

import dataclasses
from typing import Optional, Sequence

import tensorflow as tf

from model_fns.detection.boxes.family import ModelBoxes


@dataclasses.dataclass(frozen=True)
class Predicted:
    """Predictions at the anchors of a batch.

    Attributes:
        boxes: float32 [B, A, SIZE].
        logits: float32 [B, A, C'] of classes.
    """

    boxes: tf.Tensor
    logits: tf.Tensor


@dataclasses.dataclass(frozen=True)
class Scene:
    """Feature maps of the anchors, and the predictions at the anchors.

    Attributes:
        grids: int32 [L, 2]: height and width of each feature map in cells.
        per_cell: number of anchors of a cell of each map.
        image_size: height and width of the network's input in pixels, float32 scalars.
        is_normalized: whether boxes are normalized to the input; else they are in pixels.
        predicted: predictions at the anchors; None where the matcher needs none.
    """

    grids: tf.Tensor
    per_cell: Sequence[int]
    image_size: Sequence[tf.Tensor]
    is_normalized: bool = True
    predicted: Optional[Predicted] = None

    def anchor_counts(self) -> tf.Tensor:
        """Return the number of anchors of each map: int32 [L]."""
        return tf.reduce_prod(self.grids, axis=1) * tf.constant(self.per_cell, tf.int32)

    def strides(self) -> tf.Tensor:
        """Return the stride of the map of each anchor in pixels: float32 [A]."""
        cells = tf.cast(tf.reduce_prod(self.grids, axis=1), tf.float32)
        height, width = self.image_size
        return tf.repeat(tf.sqrt(height * width / cells), self.anchor_counts())


class Placement:
    """Places of the anchors and the groundtruth boxes of a batch, in pixels.

    Attributes:
        scene: the feature maps, and the predictions.
        classes: class targets of the boxes.

    Args:
        scene: likewise.
        boxes: float32 [B, M, SIZE].
        classes: float32 [B, M, C'].
        anchors: float32 [A, SIZE], or [B, A, SIZE].
        family: family of the boxes.
    """

    def __init__(
        self,
        scene: Scene,
        boxes: tf.Tensor,
        classes: tf.Tensor,
        anchors: tf.Tensor,
        family: ModelBoxes,
    ):
        self.scene = scene
        self.classes = classes
        self._family = family
        self._truth = boxes
        if scene.is_normalized:
            boxes, anchors = (family.scale(each, *scene.image_size) for each in (boxes, anchors))
        self._boxes = family.to_rectangles(boxes)[..., :, tf.newaxis, :]
        self._anchors = family.to_rectangles(anchors)[..., tf.newaxis, :, :]

    def squared_distances(self) -> tf.Tensor:
        """Compute the squared distances of centers: float32 [B, M, A]."""
        return tf.reduce_sum(tf.square(self._steps()), axis=-1)

    def inside(self) -> tf.Tensor:
        """Return which anchors have their center inside of which box: bool [B, M, A]."""
        down, right = tf.unstack(self._steps(), axis=-1)
        height, width, angle = tf.unstack(self._boxes[..., 2:], axis=-1)
        cosine, sine = tf.cos(angle), tf.sin(angle)
        along_height = tf.abs(down * cosine - right * sine)
        along_width = tf.abs(down * sine + right * cosine)
        return (along_height < 0.5 * height) & (along_width < 0.5 * width)

    def costs(self) -> tf.Tensor:
        """Compute how far each anchor is from each box: float32 [B, M, A].

        The squared distance of centers, plus that of the half sides. So of the anchors at a place
        the one of the box's size is the nearest. (It is the squared Wasserstein distance of both as
        normal distributions if they are not rotated: Wang et al. 2021, arXiv 2110.13389, eq. 6.)
        """
        sides = 0.5 * (self._boxes[..., 2:4] - self._anchors[..., 2:4])
        return self.squared_distances() + tf.reduce_sum(tf.square(sides), axis=-1)

    def predicted_overlaps(self) -> tf.Tensor:
        """Compute the IoU of each box and each predicted one: float32 [B, M, A]."""
        assert self.scene.predicted is not None
        return self._family.pairwise_iou(self._truth, self.scene.predicted.boxes)

    def _steps(self) -> tf.Tensor:
        """Compute the steps from centers of boxes to those of anchors: [B, M, A, 2], y and x."""
        return self._anchors[..., :2] - self._boxes[..., :2]
