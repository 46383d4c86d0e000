"""Keypoints of the objects of a class: heat maps, offsets, and regression from the center.

B is the batch, M the number of groundtruth boxes that an image is padded to, K that of the
keypoints of the task, H x W the grid of cells.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, NamedTuple, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib import errors
from model_fns.detection.architectures.center_net import grid, heads, objects
from model_fns.detection.boxes.targets import Groundtruth
from model_fns.detection.losses.heatmap_losses import PenaltyReducedFocalLoss
from model_fns.detection.losses.losses import LocalizationLoss
from model_fns.structures import heatmaps

HEATMAP = 'keypoint/heatmap'
OFFSET = 'keypoint/offset'
REGRESSION = 'keypoint/regression'

# As published the Gaussians of keypoints always use this overlap of boxes, unlike those of centers.
LEAST_OVERLAP = 0.7
# Lower weights count as 0, as published.
_LEAST_WEIGHT = 1e-3


class Points(NamedTuple):
    """Groundtruth keypoints on the grid.

    Attributes:
        places: float32 [B, M, K, 2], in cells; 0 for missing keypoints.
        weights: float32 [B, M, K]; 0 for missing keypoints and objects of other classes.
    """

    places: tf.Tensor
    weights: tf.Tensor


@dataclasses.dataclass(frozen=True)
class KeypointTask:
    """Learning of the keypoints of one class.

    Attributes:
        name: prefix of the names of its values.
        class_index: class of the objects, from 0.
        keypoints: indices of its K keypoints among those of an example.
        deviations: factor of the standard deviation of each of the K keypoints.
        heatmap_loss: loss of the heat maps.
        point_loss: loss of offsets and regression.
        heatmap_weight: factor of the loss of the heat maps.
        offset_weight: factor of the loss of offsets.
        regression_weight: factor of the loss of regression.
        radius: offsets and regression are learned in all cells within this distance.
        own_offsets: True: each of the K keypoints has separate offsets.
        heatmap_head: K channels.
        offset_head: 2 channels, or 2 K.
        regression_head: 2 K channels.
    """

    name: str
    class_index: int
    keypoints: Tuple[int, ...]
    deviations: Tuple[float, ...]
    heatmap_loss: PenaltyReducedFocalLoss
    point_loss: LocalizationLoss
    heatmap_weight: float
    offset_weight: float
    regression_weight: float
    radius: int
    own_offsets: bool
    heatmap_head: heads.Head
    offset_head: heads.Head
    regression_head: heads.Head

    @property
    def heads(self) -> Sequence[heads.Head]:
        """All heads."""
        return (self.heatmap_head, self.regression_head, self.offset_head)

    @property
    def loss_names(self) -> Sequence[str]:
        """Names of the values of `losses`."""
        return tuple(head.name for head in self.heads)

    def losses(
        self,
        predictions: Dict[str, objects.Maps],
        groundtruth: Groundtruth,
        true_shapes: Optional[tf.Tensor],
    ) -> Dict[str, tf.Tensor]:
        """Compute weighted scalars; see `objects.Objects.losses`."""
        maps = predictions[self.heatmap_head.name]
        places = objects.place_boxes(groundtruth, maps[0])
        points = self.points(groundtruth, places, maps[0])
        centers = tf.broadcast_to(places.centers[:, :, tf.newaxis], tf.shape(points.places))
        offsets = self._difference_loss(predictions[self.offset_head.name], points.places, points)
        regression = self._difference_loss(
            predictions[self.regression_head.name], centers, points, by_keypoint=True
        )
        return {
            self.heatmap_head.name: self._heatmap_loss(maps, places, points, true_shapes),
            self.regression_head.name: regression * self.regression_weight,
            self.offset_head.name: offsets * self.offset_weight,
        }

    def points(self, groundtruth: Groundtruth, places: objects.Places, maps: tf.Tensor) -> Points:
        """Return the keypoints of the task's class on the grid of [B, H, W, channels].

        Raises:
            errors.ConfigError: examples have fewer keypoints.
        """
        read = groundtruth.keypoints.shape[2]
        if max(self.keypoints) >= read:
            raise errors.ConfigError(
                f'train_input_reader.num_keypoints: {read}; expected at least '
                f'{max(self.keypoints) + 1}, for the keypoints of {self.name!r}.'
            )
        wanted = tf.gather(groundtruth.keypoints, self.keypoints, axis=2)
        # A visibility only counts here as NaN, as published: the weights of keypoints in records
        # are not passed on.
        known = tf.logical_not(tf.math.is_nan(wanted))
        object_weights = places.weights * groundtruth.classes[..., self.class_index]
        weights = object_weights[..., tf.newaxis] * tf.cast(known[..., 0], tf.float32)
        # NaN times a weight of 0 is NaN, so missing places become numbers.
        return Points(tf.where(known, wanted, 0.0) * grid.float_sides(maps), weights)

    def _heatmap_loss(
        self,
        maps: objects.Maps,
        places: objects.Places,
        points: Points,
        true_shapes: Optional[tf.Tensor],
    ) -> tf.Tensor:
        """Compute the loss of the heat maps, over the numbers of keypoints and feature maps."""
        heat = self.heat(places, points, maps[0])
        weights = grid.image_weights(maps[0], true_shapes) * _unlabeled(places, points, maps[0])
        # As published the sum of the weights of a kind of keypoint in an image is truncated.
        counted = tf.reduce_sum(tf.floor(tf.reduce_sum(points.weights, axis=1)))
        losses = [self.heatmap_loss(logits, heat, weights) for logits in maps]
        share = self.heatmap_weight / (tf.maximum(counted, 1.0) * len(maps))
        return tf.add_n(losses) * share

    def heat(self, places: objects.Places, points: Points, maps: tf.Tensor) -> tf.Tensor:
        """Compute targets of the heat maps, float32 [B, H, W, K].

        Args:
            places: places of the boxes.
            points: their keypoints.
            maps: [B, H, W, channels].
        """
        height, width = grid.spatial_size(maps)
        batch, count = tf.shape(maps)[0], len(self.keypoints)
        box_sigmas = grid.sigmas(places.sizes[..., 0], places.sizes[..., 1], LEAST_OVERLAP)
        spread = box_sigmas[..., tf.newaxis] * tf.constant(self.deviations, tf.float32)
        map_numbers = tf.reshape(tf.range(batch * count), [batch, 1, count])
        heat = heatmaps.largest_gaussians(
            tf.reshape(tf.floor(points.places), [-1, 2]),
            tf.reshape(spread, [-1]),
            tf.reshape(points.weights, [-1]),
            tf.reshape(tf.broadcast_to(map_numbers, tf.shape(spread)), [-1]),
            batch * count,
            height,
            width,
        )
        return tf.transpose(tf.reshape(heat, [batch, count, height, width]), [0, 2, 3, 1])

    def _difference_loss(
        self,
        predictions: objects.Maps,
        sources: tf.Tensor,
        points: Points,
        by_keypoint: bool = False,
    ) -> tf.Tensor:
        """Compute the loss of differences from cells to keypoints, over weights and maps.

        Args:
            predictions: [B, H, W, 2 or 2 K] each.
            sources: float32 [B, M, K, 2]: the cells around these predict.
            points: the keypoints.
            by_keypoint: True: predictions have 2 K channels, whatever `own_offsets` says.
        """
        cells, inside = grid.around(sources, self.radius, predictions[0])
        # From each cell of the disc, so that a peak may be a few cells off and still be moved to
        # its keypoint.
        targets = points.places[..., tf.newaxis, :] - cells
        weights = points.weights[..., tf.newaxis] * inside
        places = tf.cast(cells, tf.int32)
        losses = []
        for maps in predictions:
            if by_keypoint or self.own_offsets:
                values = gather_keypoints(maps, places, len(self.keypoints))
            else:
                values = grid.gather_cells(maps, places)
            losses.append(tf.reduce_sum(self.point_loss(values, targets, weights)))
        total = tf.maximum(tf.reduce_sum(weights), 1.0)
        return tf.add_n(losses) / (total * len(predictions))


def gather_keypoints(maps: tf.Tensor, cells: tf.Tensor, count: int) -> tf.Tensor:
    """Gather the two values of each kind of keypoint at its cells.

    Args:
        maps: float32 [B, H, W, 2 K]: y and x of each kind.
        cells: int32 [B, M, K, n, 2].
        count: K.

    Returns:
        float32 [B, M, K, n, 2].
    """
    height, width = grid.spatial_size(maps)
    # One row has the cells of all kinds, so that only values of one kind are gathered.
    flat = tf.reshape(maps, [-1, height * width * count, 2])
    indices = cells[..., 0] * width + cells[..., 1]
    # As in `grid.gather_cells`. tf.gather fails out of range on a CPU and returns zeros on a GPU.
    indices = tf.clip_by_value(indices, 0, height * width - 1)
    return tf.gather(flat, indices * count + tf.range(count)[:, tf.newaxis], batch_dims=1)


def _unlabeled(places: objects.Places, points: Points, maps: tf.Tensor) -> tf.Tensor:
    """Compute 0 in boxes of objects without a kind of keypoint, else 1: float32 [B, H, W, K]."""
    missing = tf.cast(points.weights < _LEAST_WEIGHT, tf.float32)
    height, width = grid.spatial_size(maps)

    def within(side: tf.Tensor, axis: int) -> tf.Tensor:
        cells = tf.cast(tf.range(side), tf.float32)
        first = places.boxes[..., axis, tf.newaxis]
        last = places.boxes[..., axis + 2, tf.newaxis]
        return tf.cast(tf.logical_and(cells >= first, cells < last), tf.float32)

    # Number of such boxes around each cell: [B, H, W, K].
    count = tf.einsum('bmh,bmw,bmk->bhwk', within(height, 0), within(width, 1), missing)
    # Whole numbers in float32: 0.5 is between none and one.
    return tf.cast(count < 0.5, tf.float32)
