"""Measurement of the prediction of a large picture in tiles: the effect of merging on detections.

    python -m benchmarks.accuracy.rotated_tiles --records='data/demo/scenes/val-*.tfrecord' MODEL

The picture is a mosaic of those of records, side by side; MODEL is the folder of an export of
rotated boxes. An object's own tile is the one that sees most around it: where its center is, up to
the middle of what neighbors share. Counted are the detections of own tiles above a score, those of
them that the merged ones have (the same class, more than half in common), merged ones that no own
tile has, and pairs of merged ones of a class that have more than half in common: doubles. Memory is
by how much the process's peak grew over a model that has run once, the mosaic itself included.

A model that is run on the pictures themselves gives other numbers: the outputs of a network depend
on the position of an object in its input and on what is next to it.
"""

from __future__ import annotations

import argparse
import time
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Sequence, Tuple

import numpy as np

from benchmarks import measuring
from benchmarks.accuracy import rotated_accuracy
from estimator_lib.drawing.tiling import Tiling, Window
from estimator_lib.export import exported_model
from model_fns.detection import fields
from model_fns.detection.detections import merging
from model_fns.structures import rotated_overlaps

_SAME = 0.5  # intersection over union from which two boxes are taken for one


class Boxes(NamedTuple):
    """Outlines float [n, 4, 2] in pixels, and their classes [n]."""

    outlines: np.ndarray
    classes: np.ndarray


def mosaic(pictures: Sequence[rotated_accuracy.Picture], side: int) -> Tuple[np.ndarray, Boxes]:
    """Build a mosaic of pictures of one size; return it with the objects that are whole in it."""
    height, width, channels = pictures[0].pixels.shape
    canvas = np.zeros([side, side, channels], np.uint8)
    outlines, classes, number = [], [], 0
    for top in range(0, side, height):
        for left in range(0, side, width):
            one = pictures[number % len(pictures)]
            number += 1
            part = canvas[top : top + height, left : left + width]
            part[...] = one.pixels[: part.shape[0], : part.shape[1]]
            outlines.append(one.groundtruth.boxes + [top, left])
            classes.append(one.groundtruth.classes)
    found = Boxes(np.concatenate(outlines), np.concatenate(classes))
    whole = np.all(found.outlines <= side, axis=(1, 2))
    return canvas, Boxes(found.outlines[whole], found.classes[whole])


def run(
    predictor: Any, image: np.ndarray, windows: Sequence[Window], batch_size: int
) -> Iterator[Tuple[Window, Dict[str, np.ndarray]]]:
    """Yield each tile and what the model says of it."""
    for start in range(0, len(windows), batch_size):
        some = windows[start : start + batch_size]
        pixels = [
            image[one.top : one.top + one.height, one.left : one.left + one.width] for one in some
        ]
        outputs = predictor.predict(np.stack(pixels))
        for index, window in enumerate(some):
            yield window, {name: values[index] for name, values in outputs.items()}


def _nearest(centers: np.ndarray, windows: Sequence[Window]) -> np.ndarray:
    """Return the index of the tile whose middle is nearest to each point [n, 2]."""
    middles = np.array([[one.top + one.height / 2, one.left + one.width / 2] for one in windows])
    rows = np.abs(centers[:, np.newaxis, 0] - middles[:, 0])
    columns = np.abs(centers[:, np.newaxis, 1] - middles[:, 1])
    return np.lexsort((columns, rows), axis=1)[:, 0]


class OwnTiles:
    """Collection of the detections of tiles, each only from its own tile.

    Args:
        windows: all tiles.
        least_score: detections below it are left out.
    """

    def __init__(self, windows: Sequence[Window], least_score: float):
        self._windows, self._least_score = windows, least_score
        self._found: List[Boxes] = []

    def listen(
        self, tiles: Iterable[Tuple[Window, Dict[str, np.ndarray]]]
    ) -> Iterator[Tuple[Window, Dict[str, np.ndarray]]]:
        """Yield the tiles unchanged, and collect their detections."""
        for number, (window, outputs) in enumerate(tiles):
            place = [window.top, window.left], [window.height, window.width]
            boxes = _detections(outputs, *place, self._least_score)
            is_own = _nearest(boxes.outlines.mean(axis=1), self._windows) == number
            self._found.append(Boxes(boxes.outlines[is_own], boxes.classes[is_own]))
            yield window, outputs

    def found(self) -> Boxes:
        """Return the collected detections of all tiles."""
        return Boxes(*(np.concatenate(values) for values in zip(*self._found)))


def _detections(
    outputs: Dict[str, np.ndarray],
    origin: Sequence[int],
    size: Sequence[int],
    least_score: float,
) -> Boxes:
    count = int(outputs[fields.NUM_DETECTIONS])
    chosen = outputs[fields.DETECTION_SCORES][:count] >= least_score
    corners = outputs[fields.DETECTION_CORNERS][:count][chosen].reshape([-1, 4, 2])
    classes = outputs[fields.DETECTION_CLASSES][:count][chosen].astype(int)
    return Boxes(corners * np.array(size) + np.array(origin), classes)


def count_common(first: Boxes, second: Boxes) -> int:
    """Count the first that have one of the second of their class at their place."""
    total = 0
    for class_id in np.unique(first.classes):
        ours = first.outlines[first.classes == class_id]
        theirs = second.outlines[second.classes == class_id]
        total += int(np.sum(rotated_overlaps.iou(ours, theirs).max(axis=1, initial=0) > _SAME))
    return total


def doubles(boxes: Boxes) -> int:
    """Return pairs of a class at one place."""
    total = 0
    for class_id in np.unique(boxes.classes):
        outlines = boxes.outlines[boxes.classes == class_id]
        overlaps = rotated_overlaps.iou(outlines, outlines)
        total += int(np.sum(np.triu(overlaps, 1) > _SAME))
    return total


def measure(
    predictor: Any,
    pictures: Sequence[rotated_accuracy.Picture],
    side: int,
    tiling: Tiling,
    least_score: float = 0.5,
    batch_size: int = 32,
) -> Dict[str, Any]:
    """Predict a mosaic in tiles; return the counts and times that the module describes."""
    predictor.predict(np.zeros([batch_size, tiling.size, tiling.size, 3], np.uint8))
    measuring.forget_peak_memory()
    before, begun = measuring.peak_memory_mib(), time.perf_counter()
    image, objects = mosaic(pictures, side)
    windows = tiling.windows(side, side)
    own = OwnTiles(windows, least_score)
    merged = merging.merge(own.listen(run(predictor, image, windows, batch_size)), (side, side))
    seconds, memory = time.perf_counter() - begun, measuring.peak_memory_mib() - before
    found, expected = _detections(merged, [0, 0], [side, side], least_score), own.found()
    return {
        'tiles': len(windows),
        'objects': len(objects.classes),
        'objects_found_by_own_tiles': count_common(objects, expected),
        'objects_found_merged': count_common(objects, found),
        'detections_of_own_tiles': len(expected.classes),
        'of_them_merged': count_common(expected, found),
        'merged': len(found.classes),
        'merged_of_no_own_tile': len(found.classes) - count_common(found, expected),
        'doubles': doubles(found),
        'seconds': seconds,
        'memory_mib': memory,
        'image_mib': image.nbytes / 2**20,
    }


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('model', help='the folder of an export')
    parser.add_argument('--records', required=True, help='pattern of TFRecords')
    parser.add_argument('--side', type=int, default=4000, help='of the mosaic, in pixels')
    parser.add_argument('--tile', type=int, default=128, help='side of a tile')
    parser.add_argument('--overlap', type=int, default=56, help='pixels that neighbors share')
    parser.add_argument('--score', type=float, default=0.5, help='detections from it on count')
    parser.add_argument('--output', default='benchmark_rotated_tiles.json')
    arguments = parser.parse_args()
    measuring.quiet()
    results = measure(
        exported_model.Predictor(arguments.model),
        rotated_accuracy.read(arguments.records),
        arguments.side,
        Tiling(arguments.tile, arguments.overlap),
        arguments.score,
    )
    measuring.report(results, arguments.output)


if __name__ == '__main__':
    main()
