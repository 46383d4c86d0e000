"""Keypoints of the objects of a class: their heat maps, offsets, and places from the center.

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

# As published the Gaussians of keypoints go by this overlap of boxes, whatever those of centers do.
LEAST_OVERLAP = 0.7
# Weights below it are none, as published.
_LEAST_WEIGHT = 1e-3


class Points(NamedTuple):
    """Groundtruth keypoints on the grid.

    Attributes:
        places: float32 [B, M, K, 2], in cells; 0 where there is none.
        weights: float32 [B, M, K]; 0 where there is none, or the object is of another class.
    """

    places: tf.Tensor
    weights: tf.Tensor


@dataclasses.dataclass(frozen=True)
class KeypointTask:
    """What is learned of the keypoints of one class.

    Attributes:
        name: before the names of its values.
        class_index: of the objects, from 0.
        keypoints: the places of its K keypoints among those of an example.
        deviations: how widely a groundtruth keypoint is spread, for each of the K.
        heatmap_loss: of the heat maps.
        point_loss: of offsets and regression.
        heatmap_weight: factor of the loss of the heat maps.
        offset_weight: factor of the loss of offsets.
        regression_weight: factor of the loss of regression.
        radius: offsets and regression are learned in all cells so far from a place.
        own_offsets: whether each of the K has offsets of its own.
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
        """All that is predicted."""
        return (self.heatmap_head, self.regression_head, self.offset_head)

    @property
    def loss_names(self) -> Sequence[str]:
        """Of what `losses` gives."""
        return tuple(head.name for head in self.heads)

    def losses(
        self,
        predictions: Dict[str, objects.Maps],
        groundtruth: Groundtruth,
        true_shapes: Optional[tf.Tensor],
    ) -> Dict[str, tf.Tensor]:
        """Weighted scalars; see `objects.Objects.losses`."""
        maps = predictions[self.heatmap_head.name]
        places = objects.places_of(groundtruth, maps[0])
        points = self.points(groundtruth, places, maps[0])
        centers = tf.broadcast_to(places.centers[:, :, tf.newaxis], tf.shape(points.places))
        offsets = self._at_points(predictions[self.offset_head.name], points.places, points)
        regression = self._at_points(
            predictions[self.regression_head.name], centers, points, by_keypoint=True
        )
        return {
            self.heatmap_head.name: self._of_heat(maps, places, points, true_shapes),
            self.regression_head.name: regression * self.regression_weight,
            self.offset_head.name: offsets * self.offset_weight,
        }

    def points(self, groundtruth: Groundtruth, places: objects.Places, maps: tf.Tensor) -> Points:
        """Return the keypoints of the task's class on the grid of [B, H, W, channels].

        Raises:
            errors.ConfigError: examples have fewer.
        """
        read = groundtruth.keypoints.shape[2]
        if max(self.keypoints) >= read:
            raise errors.ConfigError(
                f'train_input_reader.num_keypoints: {read}; expected at least '
                f'{max(self.keypoints) + 1}, for the keypoints of {self.name!r}.'
            )
        wanted = tf.gather(groundtruth.keypoints, self.keypoints, axis=2)
        known = tf.logical_not(tf.math.is_nan(wanted))
        of_object = places.weights * groundtruth.classes[..., self.class_index]
        weights = of_object[..., tf.newaxis] * tf.cast(known[..., 0], tf.float32)
        return Points(tf.where(known, wanted, 0.0) * grid.sides_of(maps), weights)

    def _of_heat(
        self,
        maps: objects.Maps,
        places: objects.Places,
        points: Points,
        true_shapes: Optional[tf.Tensor],
    ) -> tf.Tensor:
        """Return the loss of the heat maps, over the number of keypoints and of feature maps."""
        heat = self.heat(places, points, maps[0])
        weights = grid.image_weights(maps[0], true_shapes) * _unlabeled(places, points, maps[0])
        # As published the weights of a kind of keypoint in an image count as a whole number.
        counted = tf.reduce_sum(tf.floor(tf.reduce_sum(points.weights, axis=1)))
        losses = [self.heatmap_loss(logits, heat, weights) for logits in maps]
        share = self.heatmap_weight / (tf.maximum(counted, 1.0) * len(maps))
        return tf.add_n(losses) * share

    def heat(self, places: objects.Places, points: Points, maps: tf.Tensor) -> tf.Tensor:
        """Return targets of the heat maps, float32 [B, H, W, K].

        Args:
            places: of the boxes.
            points: of their keypoints.
            maps: [B, H, W, channels].
        """
        height, width = grid.spatial_size(maps)
        batch, count = tf.shape(maps)[0], len(self.keypoints)
        of_box = grid.sigmas(places.sizes[..., 0], places.sizes[..., 1], LEAST_OVERLAP)
        spread = of_box[..., tf.newaxis] * tf.constant(self.deviations, tf.float32)
        of_map = tf.range(batch * count)
        of_map = tf.reshape(of_map, [batch, 1, count])
        heat = heatmaps.largest_gaussians(
            tf.reshape(tf.floor(points.places), [-1, 2]),
            tf.reshape(spread, [-1]),
            tf.reshape(points.weights, [-1]),
            tf.reshape(tf.broadcast_to(of_map, tf.shape(spread)), [-1]),
            batch * count,
            height,
            width,
        )
        return tf.transpose(tf.reshape(heat, [batch, count, height, width]), [0, 2, 3, 1])

    def _at_points(
        self,
        predictions: objects.Maps,
        sources: tf.Tensor,
        points: Points,
        by_keypoint: bool = False,
    ) -> tf.Tensor:
        """Return the loss of differences from cells to keypoints, by weight and feature map.

        Args:
            predictions: [B, H, W, 2 or 2 K] each.
            sources: float32 [B, M, K, 2]: the cells around these predict.
            points: the keypoints.
            by_keypoint: whether predictions have 2 K channels, whatever `own_offsets` says.
        """
        cells, inside = grid.around(sources, self.radius, predictions[0])
        targets = points.places[..., tf.newaxis, :] - cells
        weights = points.weights[..., tf.newaxis] * inside
        places = tf.cast(cells, tf.int32)
        losses = []
        for maps in predictions:
            if by_keypoint or self.own_offsets:
                values = at_keypoints(maps, places, len(self.keypoints))
            else:
                values = grid.at_cells(maps, places)
            losses.append(tf.reduce_sum(self.point_loss(values, targets, weights)))
        total = tf.maximum(tf.reduce_sum(weights), 1.0)
        return tf.add_n(losses) / (total * len(predictions))


def at_keypoints(maps: tf.Tensor, cells: tf.Tensor, count: int) -> tf.Tensor:
    """Return the two values that a kind of keypoint has in its cells.

    Args:
        maps: float32 [B, H, W, 2 K]: y and x of each kind.
        cells: int32 [B, M, K, n, 2].
        count: K.

    Returns:
        float32 [B, M, K, n, 2].
    """
    height, width = grid.spatial_size(maps)
    # Cells of all kinds in one row, so that no value of another kind is gathered.
    flat = tf.reshape(maps, [-1, height * width * count, 2])
    places = cells[..., 0] * width + cells[..., 1]
    places = tf.clip_by_value(places, 0, height * width - 1)
    return tf.gather(flat, places * count + tf.range(count)[:, tf.newaxis], batch_dims=1)


def _unlabeled(places: objects.Places, points: Points, maps: tf.Tensor) -> tf.Tensor:
    """0 in the boxes of objects without a kind of keypoint, else 1: float32 [B, H, W, K]."""
    missing = tf.cast(points.weights < _LEAST_WEIGHT, tf.float32)
    height, width = grid.spatial_size(maps)

    def within(side: tf.Tensor, axis: int) -> tf.Tensor:
        cells = tf.cast(tf.range(side), tf.float32)
        first = places.boxes[..., axis, tf.newaxis]
        last = places.boxes[..., axis + 2, tf.newaxis]
        return tf.cast(tf.logical_and(cells >= first, cells < last), tf.float32)

    # How many such boxes a cell is in: [B, H, W, K].
    count = tf.einsum('bmh,bmw,bmk->bhwk', within(height, 0), within(width, 1), missing)
    return tf.cast(count < 0.5, tf.float32)
