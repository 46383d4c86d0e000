"""Search of the keypoints of detections in predictions.

The center of a detection predicts the place of a keypoint. The search replaces it by the best
nearby peak of the keypoint's heat map, if there is one.

B is the batch, N the number of detections, K that of the keypoints of the task, n that of the peaks
of a heat map, H x W the grid of cells.
"""

from __future__ import annotations

import dataclasses
from typing import Callable, Mapping, NamedTuple, Tuple

import tensorflow as tf

from estimator_lib.registry import Registry
from model_fns.detection.architectures.center_net import grid, keypoints, objects

# Distance of invalid candidates, in cells.
# As published: farther than any cell, and still a number for all rankings.
_FAR = 1e5


class Candidates(NamedTuple):
    """Best peaks of the heat maps.

    Attributes:
        places: float32 [B, K, n, 2], in cells.
        scores: float32 [B, K, n].
        valid: bool [B, K, n]: True for sufficient scores.
    """

    places: tf.Tensor
    scores: tf.Tensor
    valid: tf.Tensor


class Found(NamedTuple):
    """Keypoints of detections.

    Attributes:
        places: float32 [B, N, K, 2], in cells.
        scores: float32 [B, N, K].
    """

    places: tf.Tensor
    scores: tf.Tensor


@dataclasses.dataclass(frozen=True)
class Search:
    """Parameters of the search of keypoints.

    Attributes:
        task: task of the keypoints.
        ranking: ranking of candidates, a key of `RANKINGS`.
        least_score: least score of a candidate.
        max_candidates: n.
        peak_window: see `objects.Objects.peak_window`.
        unmatched_score: score of a keypoint without a nearby candidate.
        box_scale: candidates lie in the detection's box scaled by this factor.
        reach: largest distance of the nearest candidate, in units of the longer side of that box.
        distance_offset: for `score_distance_ratio`.
        distance_multiplier: for `score_scaled_distance_ratio`.
        deviation_multiplier: for `gaussian_weighted`.
        clips: True: keypoints beyond the image are moved to its border, with a score of 0.
        rescores: True: the score of a detection is multiplied by the mean score of its keypoints.
        rescoring_threshold: only scores of keypoints above it count for that.
    """

    task: keypoints.KeypointTask
    ranking: str = 'min_distance'
    least_score: float = 0.1
    max_candidates: int = 100
    peak_window: int = 3
    unmatched_score: float = 0.1
    box_scale: float = 1.2
    reach: float = 0.3
    distance_offset: float = 1.0
    distance_multiplier: float = 0.1
    deviation_multiplier: float = 1.0
    clips: bool = False
    rescores: bool = False
    rescoring_threshold: float = 0.0

    def find(
        self, predictions: Mapping[str, objects.Maps], cells: tf.Tensor, boxes: tf.Tensor
    ) -> Found:
        """Find the keypoints of detections, as if all were of the task's class.

        Args:
            predictions: predictions by head; those of the last feature map are used.
            cells: int32 [B, N, 2]: the detections' centers.
            boxes: float32 [B, N, 4], in cells.
        """
        task, count = self.task, len(self.task.keypoints)
        regression = grid.gather_cells(predictions[task.regression_head.name][-1], cells)
        shape = [-1, cells.shape[1], count, 2]
        # From the cell itself: as published, the offset of the object's center does not count here.
        expected = tf.reshape(regression, shape) + tf.cast(cells, tf.float32)[:, :, tf.newaxis]
        candidates = self.candidates(
            predictions[task.heatmap_head.name][-1], predictions[task.offset_head.name][-1]
        )
        return self.matched(expected, candidates, boxes)

    def candidates(self, logits: tf.Tensor, offsets: tf.Tensor) -> Candidates:
        """Find the best peaks of heat maps.

        Args:
            logits: float32 [B, H, W, K].
            offsets: float32 [B, H, W, 2 or 2 K].
        """
        height, width = grid.spatial_size(logits)
        count = len(self.task.keypoints)
        scores = objects.keep_peaks(tf.sigmoid(logits), self.peak_window)
        rows = tf.reshape(tf.transpose(scores, [0, 3, 1, 2]), [-1, count, height * width])
        peaks = objects.top_peaks(rows, self.max_candidates)
        cells = tf.stack([peaks.places // width, peaks.places % width], axis=-1)
        if self.task.own_offsets:
            moved = keypoints.gather_keypoints(offsets, cells[:, tf.newaxis], count)[:, 0]
        else:
            moved = grid.gather_cells(offsets, cells)
        # A threshold of 0 would take cells that are no peaks, whose score is set to 0.
        valid = tf.logical_and(peaks.scores >= self.least_score, peaks.scores > 0.0)
        return Candidates(tf.cast(cells, tf.float32) + moved, peaks.scores, valid)

    def matched(self, expected: tf.Tensor, found: Candidates, boxes: tf.Tensor) -> Found:
        """Replace expected keypoints by the best candidates that are good enough.

        Args:
            expected: float32 [B, N, K, 2], in cells: places that the centers predict.
            found: the candidates.
            boxes: float32 [B, N, 4], in cells.
        """
        apart = expected[:, :, :, tf.newaxis] - found.places[:, tf.newaxis]
        distances = tf.where(found.valid[:, tf.newaxis], tf.norm(apart, axis=-1), _FAR)
        best = tf.argmax(self._rank(distances, found.scores, boxes), axis=-1, output_type=tf.int32)
        # Gather [B, N, K] from [B, K, n]: by kind of keypoint, for each detection.
        by_kind = tf.transpose(best, [0, 2, 1])
        places = tf.transpose(tf.gather(found.places, by_kind, batch_dims=2), [0, 2, 1, 3])
        scores = tf.transpose(tf.gather(found.scores, by_kind, batch_dims=2), [0, 2, 1])
        center, half = (
            (boxes[..., :2] + boxes[..., 2:]) / 2.0,
            (boxes[..., 2:] - boxes[..., :2]) / 2.0,
        )
        # The reach below is measured by the scaled box too, so 0.3 is 0.36 of the longer side. As
        # published, rankings use the box without the scale.
        half *= self.box_scale
        off = tf.abs(places - center[:, :, tf.newaxis])
        inside = tf.reduce_all(off <= half[:, :, tf.newaxis], axis=-1)
        reach = 2.0 * tf.reduce_max(half, axis=-1, keepdims=True) * self.reach
        # As published: the nearest candidate, even if another one has the best rank.
        near = tf.reduce_min(distances, axis=-1) <= reach
        taken = tf.logical_and(tf.logical_and(inside, near), scores >= self.least_score)
        return Found(
            tf.where(taken[..., tf.newaxis], places, expected),
            tf.where(taken, scores, self.unmatched_score),
        )

    def finished(self, found: Found, sides: tf.Tensor) -> Found:
        """Normalize keypoints to the image.

        Args:
            found: keypoints in cells.
            sides: height and width of the image in cells, float32 [B, 1, 1, 2] or a shape that
                broadcasts to it.
        """
        places, scores = found.places / sides, found.scores
        if self.clips:
            inside = tf.reduce_all(tf.logical_and(places >= 0.0, places <= 1.0), axis=-1)
            places = tf.clip_by_value(places, 0.0, 1.0)
            scores = tf.where(inside, scores, 0.0)
        return Found(places, scores)

    def rescored(self, scores: tf.Tensor, keypoint_scores: tf.Tensor) -> tf.Tensor:
        """Rescore detections [B, N] by the scores of their keypoints [B, N, K], if configured."""
        if not self.rescores:
            return scores
        counted = tf.cast(keypoint_scores > self.rescoring_threshold, tf.float32)
        total = tf.reduce_sum(keypoint_scores * counted, axis=-1)
        return scores * total / tf.maximum(tf.reduce_sum(counted, axis=-1), 1.0)

    def _rank(self, distances: tf.Tensor, scores: tf.Tensor, boxes: tf.Tensor) -> tf.Tensor:
        """Compute ranks of candidates, float32 [B, N, K, n]; the highest is best.

        Args:
            distances: float32 [B, N, K, n], in cells.
            scores: float32 [B, K, n].
            boxes: float32 [B, N, 4], in cells.
        """
        sizes = (boxes[..., 2:] - boxes[..., :2])[:, :, tf.newaxis, tf.newaxis]
        return RANKINGS.get(self.ranking)(self, distances, scores[:, tf.newaxis], sizes)


# (search, distances [B, N, K, n], scores [B, 1, K, n], sizes [B, N, 1, 1, 2]) -> ranks.
Ranking = Callable[[Search, tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]
RANKINGS: Registry[Ranking] = Registry('ranking of candidates')


def _rank_by_distance(
    search: Search, distances: tf.Tensor, scores: tf.Tensor, sizes: tf.Tensor
) -> tf.Tensor:
    del search, scores, sizes
    return -distances


def _rank_by_ratio(
    search: Search, distances: tf.Tensor, scores: tf.Tensor, sizes: tf.Tensor
) -> tf.Tensor:
    del sizes
    return scores / (distances + search.distance_offset)


def _rank_by_scaled_ratio(
    search: Search, distances: tf.Tensor, scores: tf.Tensor, sizes: tf.Tensor
) -> tf.Tensor:
    longest = tf.reduce_max(sizes, axis=-1)
    # Both summands are 0 for a box without a size at the place of a candidate.
    return tf.math.divide_no_nan(scores, distances + search.distance_multiplier * longest)


def _rank_by_gaussian(
    search: Search, distances: tf.Tensor, scores: tf.Tensor, sizes: tf.Tensor
) -> tf.Tensor:
    box_sigmas = grid.sigmas(sizes[..., 0], sizes[..., 1], keypoints.LEAST_OVERLAP)
    deviations = tf.constant(search.task.deviations, tf.float32)[:, tf.newaxis]
    spread = box_sigmas * deviations * search.deviation_multiplier
    return scores * tf.exp(-tf.square(distances) / (2.0 * tf.square(spread)))


for _name, _ranking in (
    ('min_distance', _rank_by_distance),
    ('score_distance_ratio', _rank_by_ratio),
    ('score_scaled_distance_ratio', _rank_by_scaled_ratio),
    ('gaussian_weighted', _rank_by_gaussian),
):
    RANKINGS.add(_name, _ranking)


def scatter_keypoints(
    found: Found, task: keypoints.KeypointTask, classes: tf.Tensor, total: int
) -> Tuple[tf.Tensor, tf.Tensor]:
    """Scatter the keypoints of one task to those of all tasks; 0 for other classes.

    Args:
        found: keypoints of the task.
        task: the task.
        classes: int32 [B, N], classes of the detections, from 0.
        total: number of keypoints of all tasks.

    Returns:
        float32 [B, N, total, 2] and [B, N, total].
    """
    has_class = tf.cast(tf.equal(classes, task.class_index), tf.float32)[..., tf.newaxis]
    columns = tf.one_hot(task.keypoints, total)
    places = tf.einsum('bnkc,kt->bntc', found.places, columns) * has_class[..., tf.newaxis]
    return places, tf.einsum('bnk,kt->bnt', found.scores, columns) * has_class
