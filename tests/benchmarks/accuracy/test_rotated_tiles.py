"""Counts of what merging the detections of tiles keeps."""

import numpy as np

from benchmarks.accuracy import rotated_accuracy, rotated_tiles
from estimator_lib.drawing.tiling import Tiling
from model_fns.detection import fields
from model_fns.detection.metrics.evaluator import Groundtruth
from model_fns.structures import rotated_rectangles


class SeesWholeBoxes:
    """A model that knows the objects of a picture, and where a tile is by its pixels.

    It finds those that are whole in a tile, and of others a part that looks better.
    """

    def __init__(self, boxes):
        self.boxes = boxes

    def predict(self, tiles):
        found = [self.predict_one(tile) for tile in tiles]
        return {name: np.stack([one[name] for one in found]) for name in found[0]}

    def predict_one(self, tile):
        (top, left), side = tile[0, 0, :2], len(tile)
        boxes = self.boxes - [top, left, 0, 0, 0]
        corners = rotated_rectangles.corners(boxes) / side
        whole = np.all((corners >= 0) & (corners <= 1), axis=(1, 2))
        cut = np.all((boxes[:, :2] > 0) & (boxes[:, :2] < side), axis=1) & ~whole
        order = np.argsort(~(whole | cut), kind='stable')
        scores = np.where(whole, 0.8, np.where(cut, 0.9, 0.0))[order]
        shorter = np.where(whole, 1.0, 0.4)[:, np.newaxis]
        numbers = rotated_rectangles.to_record(
            np.concatenate([boxes[:, :3], boxes[:, 3:4] * shorter, boxes[:, 4:]], 1), side, side
        )
        middle = corners.mean(axis=1, keepdims=True)
        corners = middle + (corners - middle) * shorter[:, np.newaxis]
        return {
            fields.DETECTION_BOXES: numbers[order],
            fields.DETECTION_CORNERS: corners[order].reshape([-1, 8]),
            fields.DETECTION_SCORES: scores.astype(np.float32),
            fields.DETECTION_CLASSES: np.ones(len(boxes), np.float32),
            fields.NUM_DETECTIONS: np.float32(np.sum(whole | cut)),
        }


def test_tiles_of_a_perfect_model_are_merged_without_loss_and_doubles():
    places = np.arange(16) * 15.0
    boxes = np.array([[y + 8, x + 8, 6, 12, 0.1 * (y + x)] for y in places[1:13] for x in places])
    pixels = np.stack([*np.mgrid[:250, :250], np.zeros([250, 250])], axis=-1).astype(np.uint8)
    groundtruth = Groundtruth(
        rotated_rectangles.corners(boxes), np.ones(len(boxes), int), *[None] * 5
    )
    picture = rotated_accuracy.Picture('one', pixels, groundtruth)
    found = rotated_tiles.measure(
        SeesWholeBoxes(boxes), [picture], 250, Tiling(70, 30), batch_size=5
    )
    assert found['objects'] == found['objects_found_merged'] == len(boxes) == 192
    assert found['merged'] == found['detections_of_own_tiles'] == found['of_them_merged'] == 192
    assert found['merged_of_no_own_tile'] == 0 and found['doubles'] == 0
