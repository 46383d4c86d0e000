"""Objects: their centers, sizes, and offsets of centers within cells.

B is the batch, M the number of groundtruth boxes that an image is padded to, N that of detections,
C that of classes, H x W the grid of cells.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, NamedTuple, Optional, Sequence

import tensorflow as tf

from model_fns.detection.architectures.center_net import grid, heads
from model_fns.detection.boxes.targets import Groundtruth
from model_fns.detection.losses.heatmap_losses import PenaltyReducedFocalLoss
from model_fns.detection.losses.losses import LocalizationLoss
from model_fns.structures import heatmaps

CENTER = 'object_center'
SIZE = 'box/scale'
OFFSET = 'box/offset'

# Tolerance below the highest cell of a window, within which a cell is a peak.
# As published: a maximum is compared with the output of a max pool by their difference.
_TOLERANCE = 1e-6

Maps = Sequence[tf.Tensor]


class Peaks(NamedTuple):
    """Best cells of an image.

    Attributes:
        cells: int32 [B, N, 2].
        classes: int32 [B, N], from 0.
        scores: float32 [B, N], the highest first; 0 for cells that are no peaks.
        class_scores: float32 [B, N, C]: scores of all classes at the cell.
    """

    cells: tf.Tensor
    classes: tf.Tensor
    scores: tf.Tensor
    class_scores: tf.Tensor


class Places(NamedTuple):
    """Places of groundtruth boxes on the grid, in cells.

    Attributes:
        boxes: float32 [B, M, 4].
        centers: float32 [B, M, 2].
        sizes: float32 [B, M, 2]: height and width.
        weights: float32 [B, M]; 0 for padding.
    """

    boxes: tf.Tensor
    centers: tf.Tensor
    sizes: tf.Tensor
    weights: tf.Tensor


def place_boxes(groundtruth: Groundtruth, maps: tf.Tensor) -> Places:
    """Convert the boxes of a batch to places on the grid of [B, H, W, channels]."""
    boxes = groundtruth.boxes * tf.tile(grid.float_sides(maps), [2])
    first, last = boxes[..., :2], boxes[..., 2:]
    weights = tf.where(groundtruth.valid, groundtruth.weights, 0.0)
    return Places(boxes, (first + last) / 2.0, last - first, weights)


@dataclasses.dataclass(frozen=True)
class Objects:
    """Losses and detection of all objects.

    Attributes:
        num_classes: C.
        center_loss: loss of the heat maps.
        box_loss: loss of sizes and offsets.
        center_weight: factor of the loss of the heat maps.
        size_weight: factor of the loss of sizes.
        offset_weight: factor of the loss of offsets.
        least_overlap: see `grid.sigmas`.
        max_detections: N.
        peak_window: side of the square in which a peak is the highest cell; 0 or 1: all cells are.
        center_head: head of the heat maps.
        size_head: head of sizes.
        offset_head: head of offsets.
        only_labeled: True: the loss of the heat maps skips classes that were not looked for in an
            image.
    """

    num_classes: int
    center_loss: PenaltyReducedFocalLoss
    box_loss: LocalizationLoss
    center_weight: float
    size_weight: float
    offset_weight: float
    least_overlap: float
    max_detections: int
    peak_window: int
    center_head: heads.Head
    size_head: heads.Head
    offset_head: heads.Head
    only_labeled: bool = False

    @property
    def heads(self) -> Sequence[heads.Head]:
        """All heads."""
        return (self.center_head, self.size_head, self.offset_head)

    @property
    def loss_names(self) -> Sequence[str]:
        """Names of the values of `losses`."""
        return (CENTER, SIZE, OFFSET)

    def losses(
        self,
        predictions: Dict[str, Maps],
        groundtruth: Groundtruth,
        true_shapes: Optional[tf.Tensor],
    ) -> Dict[str, tf.Tensor]:
        """Compute weighted scalars, each divided by the numbers of boxes and feature maps.

        Args:
            predictions: predictions by head, [B, H, W, channels] for each feature map.
            groundtruth: groundtruth with boxes normalized to the padded input.
            true_shapes: int32 [B, 3]; None: there is no padding.
        """
        first = predictions[CENTER][0]
        places = place_boxes(groundtruth, first)
        # As published, the number of boxes of the whole batch, not the sum of their weights.
        counted = tf.reduce_sum(tf.cast(places.weights > 0, tf.float32))
        share = 1.0 / (tf.maximum(counted, 1.0) * len(predictions[CENTER]))
        heat = self.heat(places, groundtruth.classes, first)
        weights = grid.image_weights(first, true_shapes)
        if self.only_labeled and groundtruth.image_classes is not None:
            weights *= _labeled(groundtruth.image_classes)[:, tf.newaxis, tf.newaxis]
        if groundtruth.labeled_classes is not None:
            weights *= groundtruth.labeled_classes[:, tf.newaxis, tf.newaxis]
        center = [self.center_loss(logits, heat, weights) for logits in predictions[CENTER]]
        cells = tf.floor(places.centers)

        def box_losses(name: str, targets: tf.Tensor) -> tf.Tensor:
            values = [
                self.box_loss(
                    grid.gather_cells(maps, tf.cast(cells, tf.int32)), targets, places.weights
                )
                for maps in predictions[name]
            ]
            return tf.add_n([tf.reduce_sum(value) for value in values])

        return {
            CENTER: tf.add_n(center) * (share * self.center_weight),
            SIZE: box_losses(SIZE, places.sizes) * (share * self.size_weight),
            OFFSET: box_losses(OFFSET, places.centers - cells) * (share * self.offset_weight),
        }

    def heat(self, places: Places, classes: tf.Tensor, maps: tf.Tensor) -> tf.Tensor:
        """Compute targets of the heat maps, float32 [B, H, W, C].

        Args:
            places: places of the boxes.
            classes: float32 [B, M, C], one-hot.
            maps: [B, H, W, channels].
        """
        height, width = grid.spatial_size(maps)
        batch = tf.shape(maps)[0]
        spread = grid.sigmas(places.sizes[..., 0], places.sizes[..., 1], self.least_overlap)
        # A box is in one map. The published sparse form takes the first class of several too.
        labels = tf.argmax(classes, axis=-1, output_type=tf.int32)
        weights = places.weights * tf.reduce_max(classes, axis=-1)
        heat = heatmaps.largest_gaussians(
            tf.reshape(tf.floor(places.centers), [-1, 2]),
            tf.reshape(spread, [-1]),
            tf.reshape(weights, [-1]),
            tf.reshape(tf.range(batch)[:, tf.newaxis] * self.num_classes + labels, [-1]),
            batch * self.num_classes,
            height,
            width,
        )
        heat = tf.reshape(heat, [batch, self.num_classes, height, width])
        return tf.transpose(heat, [0, 2, 3, 1])

    def peaks(self, logits: tf.Tensor, true_shapes: Optional[tf.Tensor]) -> Peaks:
        """Find the best peaks of all classes.

        Args:
            logits: float32 [B, H, W, C].
            true_shapes: int32 [B, 3]; None: there is no padding.
        """
        height, width = grid.spatial_size(logits)
        scores = tf.sigmoid(logits)
        if true_shapes is not None:
            # As published cells are compared with pixels, so that only small images are affected.
            rows = tf.range(height) < true_shapes[:, 0:1]
            columns = tf.range(width) < true_shapes[:, 1:2]
            inside = tf.logical_and(rows[:, :, tf.newaxis], columns[:, tf.newaxis, :])
            scores *= tf.cast(inside, tf.float32)[..., tf.newaxis]
        best = top_peaks(
            tf.reshape(
                keep_peaks(scores, self.peak_window), [-1, 1, height * width * self.num_classes]
            ),
            self.max_detections,
        )
        # As published, cells of all classes compete for the same N places.
        places = best.places[:, 0]
        cells = places // self.num_classes
        cells = tf.stack([cells // width, cells % width], axis=-1)
        return Peaks(
            cells,
            places % self.num_classes,
            best.scores[:, 0],
            grid.gather_cells(scores, cells),
        )

    def boxes(self, peaks: Peaks, sizes: tf.Tensor, offsets: tf.Tensor) -> tf.Tensor:
        """Compute the boxes of peaks, float32 [B, N, 4], in cells, clipped to the grid.

        Args:
            peaks: the peaks.
            sizes: float32 [B, H, W, 2].
            offsets: float32 [B, H, W, 2].
        """
        centers = tf.cast(peaks.cells, tf.float32) + grid.gather_cells(offsets, peaks.cells)
        # Sizes are linear outputs without a bound, no exponentials: they may be negative.
        half = tf.maximum(grid.gather_cells(sizes, peaks.cells), 0.0) / 2.0
        boxes = tf.concat([centers - half, centers + half], axis=-1)
        return tf.clip_by_value(boxes, 0.0, tf.tile(grid.float_sides(sizes), [2]))


def _labeled(image_classes: tf.Tensor) -> tf.Tensor:
    """Return float32 [B, C], with all classes for images that have none."""
    is_empty = tf.reduce_max(image_classes, axis=1, keepdims=True) <= 0
    return tf.where(is_empty, tf.ones([]), image_classes)


class TopPeaks(NamedTuple):
    """Highest values of rows.

    Attributes:
        scores: float32 [B, rows, n], the highest first.
        places: int32 [B, rows, n].
    """

    scores: tf.Tensor
    places: tf.Tensor


def keep_peaks(scores: tf.Tensor, window: int) -> tf.Tensor:
    """Set scores [B, H, W, channels] of cells that are no peaks to 0.

    Args:
        scores: at least 0.
        window: side of the square in which a peak is the highest cell; 0 or 1: all cells are.
    """
    if window < 2:
        return scores
    return tf.where(heatmaps.local_maxima(scores, window, _TOLERANCE), scores, 0.0)


def top_peaks(scores: tf.Tensor, count: int) -> TopPeaks:
    """Find the highest of scores [B, rows, cells]; a tiny map with fewer is padded with 0."""
    short = tf.maximum(count - tf.shape(scores)[-1], 0)
    top = tf.math.top_k(tf.pad(scores, [[0, 0], [0, 0], [0, short]]), count)
    # Indices of the padding are beyond the map, and are gathered by later.
    last = tf.shape(scores)[-1] - 1
    return TopPeaks(top.values, tf.minimum(top.indices, last))
