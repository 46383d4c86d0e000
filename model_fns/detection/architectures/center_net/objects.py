"""Objects: their centers, sizes and what is lost of a center's place in a cell.

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

# A cell is a peak if it is at most so much below the highest one around.
_TOLERANCE = 1e-6

Maps = Sequence[tf.Tensor]


class Peaks(NamedTuple):
    """The best cells of an image.

    Attributes:
        cells: int32 [B, N, 2].
        classes: int32 [B, N], from 0.
        scores: float32 [B, N], the highest first; 0 for what is no peak.
        class_scores: float32 [B, N, C]: of all classes at the cell.
    """

    cells: tf.Tensor
    classes: tf.Tensor
    scores: tf.Tensor
    class_scores: tf.Tensor


class Places(NamedTuple):
    """Where groundtruth boxes are on the grid, in cells.

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


def places_of(groundtruth: Groundtruth, maps: tf.Tensor) -> Places:
    """Return the boxes of a batch on the grid of [B, H, W, channels]."""
    boxes = groundtruth.boxes * tf.tile(grid.sides_of(maps), [2])
    first, last = boxes[..., :2], boxes[..., 2:]
    weights = tf.where(groundtruth.valid, groundtruth.weights, 0.0)
    return Places(boxes, (first + last) / 2.0, last - first, weights)


@dataclasses.dataclass(frozen=True)
class Objects:
    """What is learned and found of all objects.

    Attributes:
        num_classes: C.
        center_loss: of the heat maps.
        box_loss: of sizes and offsets.
        center_weight: factor of the loss of the heat maps.
        size_weight: factor of the loss of sizes.
        offset_weight: factor of the loss of offsets.
        least_overlap: see `grid.sigmas`.
        max_detections: N.
        peak_window: side of the square in which a peak is the highest cell; 0 or 1: all cells are.
        center_head: heat maps.
        size_head: sizes.
        offset_head: offsets.
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

    @property
    def heads(self) -> Sequence[heads.Head]:
        """All that is predicted."""
        return (self.center_head, self.size_head, self.offset_head)

    @property
    def loss_names(self) -> Sequence[str]:
        """Of what `losses` gives."""
        return (CENTER, SIZE, OFFSET)

    def losses(
        self,
        predictions: Dict[str, Maps],
        groundtruth: Groundtruth,
        true_shapes: Optional[tf.Tensor],
    ) -> Dict[str, tf.Tensor]:
        """Weighted scalars, each over the number of boxes and of feature maps.

        Args:
            predictions: by head, [B, H, W, channels] for each feature map.
            groundtruth: boxes normalized to the padded input.
            true_shapes: int32 [B, 3]; None: there is no padding.
        """
        first = predictions[CENTER][0]
        places = places_of(groundtruth, first)
        counted = tf.reduce_sum(tf.cast(places.weights > 0, tf.float32))
        share = 1.0 / (tf.maximum(counted, 1.0) * len(predictions[CENTER]))
        heat = self.heat(places, groundtruth.classes, first)
        weights = grid.image_weights(first, true_shapes)
        center = [self.center_loss(logits, heat, weights) for logits in predictions[CENTER]]
        cells = tf.floor(places.centers)

        def at_centers(name: str, targets: tf.Tensor) -> tf.Tensor:
            values = [
                self.box_loss(
                    grid.at_cells(maps, tf.cast(cells, tf.int32)), targets, places.weights
                )
                for maps in predictions[name]
            ]
            return tf.add_n([tf.reduce_sum(one) for one in values])

        return {
            CENTER: tf.add_n(center) * (share * self.center_weight),
            SIZE: at_centers(SIZE, places.sizes) * (share * self.size_weight),
            OFFSET: at_centers(OFFSET, places.centers - cells) * (share * self.offset_weight),
        }

    def heat(self, places: Places, classes: tf.Tensor, maps: tf.Tensor) -> tf.Tensor:
        """Return targets of the heat maps, float32 [B, H, W, C].

        Args:
            places: of the boxes.
            classes: float32 [B, M, C], one-hot.
            maps: [B, H, W, channels].
        """
        height, width = grid.spatial_size(maps)
        batch = tf.shape(maps)[0]
        spread = grid.sigmas(places.sizes[..., 0], places.sizes[..., 1], self.least_overlap)
        of_class = tf.argmax(classes, axis=-1, output_type=tf.int32)
        weights = places.weights * tf.reduce_max(classes, axis=-1)
        heat = heatmaps.largest_gaussians(
            tf.reshape(tf.floor(places.centers), [-1, 2]),
            tf.reshape(spread, [-1]),
            tf.reshape(weights, [-1]),
            tf.reshape(tf.range(batch)[:, tf.newaxis] * self.num_classes + of_class, [-1]),
            batch * self.num_classes,
            height,
            width,
        )
        heat = tf.reshape(heat, [batch, self.num_classes, height, width])
        return tf.transpose(heat, [0, 2, 3, 1])

    def peaks(self, logits: tf.Tensor, true_shapes: Optional[tf.Tensor]) -> Peaks:
        """Return the best peaks of all classes together.

        Args:
            logits: float32 [B, H, W, C].
            true_shapes: int32 [B, 3]; None: there is no padding.
        """
        height, width = grid.spatial_size(logits)
        scores = tf.sigmoid(logits)
        if true_shapes is not None:
            # As published cells are held against pixels, so that only small images are cut.
            rows = tf.range(height) < true_shapes[:, 0:1]
            columns = tf.range(width) < true_shapes[:, 1:2]
            inside = tf.logical_and(rows[:, :, tf.newaxis], columns[:, tf.newaxis, :])
            scores *= tf.cast(inside, tf.float32)[..., tf.newaxis]
        found = top_peaks(
            tf.reshape(
                at_peaks(scores, self.peak_window), [-1, 1, height * width * self.num_classes]
            ),
            self.max_detections,
        )
        places = found.places[:, 0]
        cells = places // self.num_classes
        cells = tf.stack([cells // width, cells % width], axis=-1)
        return Peaks(
            cells,
            places % self.num_classes,
            found.scores[:, 0],
            grid.at_cells(scores, cells),
        )

    def boxes(self, peaks: Peaks, sizes: tf.Tensor, offsets: tf.Tensor) -> tf.Tensor:
        """Return the boxes of peaks, float32 [B, N, 4], in cells, cut at the borders of the grid.

        Args:
            peaks: see there.
            sizes: float32 [B, H, W, 2].
            offsets: float32 [B, H, W, 2].
        """
        centers = tf.cast(peaks.cells, tf.float32) + grid.at_cells(offsets, peaks.cells)
        half = tf.maximum(grid.at_cells(sizes, peaks.cells), 0.0) / 2.0
        boxes = tf.concat([centers - half, centers + half], axis=-1)
        return tf.clip_by_value(boxes, 0.0, tf.tile(grid.sides_of(sizes), [2]))


class TopPeaks(NamedTuple):
    """The highest values of rows.

    Attributes:
        scores: float32 [B, rows, n], the highest first.
        places: int32 [B, rows, n].
    """

    scores: tf.Tensor
    places: tf.Tensor


def at_peaks(scores: tf.Tensor, window: int) -> tf.Tensor:
    """Return scores [B, H, W, channels], with 0 for what is no peak.

    Args:
        scores: at least 0.
        window: see `Objects.peak_window`.
    """
    if window < 2:
        return scores
    return tf.where(heatmaps.local_maxima(scores, window, _TOLERANCE), scores, 0.0)


def top_peaks(scores: tf.Tensor, count: int) -> TopPeaks:
    """The highest of scores [B, rows, cells]; of a tiny map that has fewer, the rest are 0."""
    short = tf.maximum(count - tf.shape(scores)[-1], 0)
    found = tf.math.top_k(tf.pad(scores, [[0, 0], [0, 0], [0, short]]), count)
    last = tf.shape(scores)[-1] - 1
    return TopPeaks(found.values, tf.minimum(found.indices, last))
