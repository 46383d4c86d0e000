"""Measurement of the geometry of rotated boxes: accuracy, time and memory.

    python -m benchmarks.accuracy.rotated [--pairs=100000] [--output=benchmark_rotated.json]

First random and degenerate pairs of boxes: intersection over union as the graph computes it, in 32
and 64 bits, against clipping in NumPy, which is another algorithm. Then CPU seconds of a call, and
how much the process's peak of memory grew by it: the overlaps of 2000 boxes with 100, those of the
159,600 anchors of a map of 38 x 50 cells (84 each) with 20, and suppression of 1000 boxes.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from typing import Any, Callable, Dict, List, Tuple

import numpy as np
import tensorflow as tf

from benchmarks import measuring
from model_fns.detection.boxes import rotated
from model_fns.detection.detections import overlap_suppression
from model_fns.structures import rotated_overlaps, rotated_rectangles

tf1 = tf.compat.v1

_BOUNDS = {'float64': 1e-9, 'float32': 1e-4}

# Two sets of boxes, to be compared row by row.
Pairs = Tuple[np.ndarray, np.ndarray]


def random_boxes(random: np.random.RandomState, count: int, size: float = 100.0) -> np.ndarray:
    """Return boxes float64 [count, 5] in a square; the longest sides are half of it."""
    centers = random.uniform(0, size, [count, 2])
    sides = np.exp(random.uniform(math.log(size / 50), math.log(size / 2), [count, 2]))
    return np.concatenate([centers, sides, random.uniform(-4, 4, [count, 1])], axis=1)


def pairs_of_boxes(random: np.random.RandomState, count: int) -> Dict[str, Pairs]:
    """Return pairs by kind, `count` of each."""
    first = random_boxes(random, count)
    near = first + random.normal(0, 1, first.shape) * [2, 2, 1, 1, 0.1]
    near[:, 2:4] = np.abs(near[:, 2:4]) + 0.1
    along = np.stack([np.sin(first[:, 4]), np.cos(first[:, 4])], axis=1) * first[:, 3:4]

    def shifted(part: float) -> np.ndarray:
        return np.concatenate([first[:, :2] + part * along, first[:, 2:]], axis=1)

    quarters = random.randint(-4, 5, count)
    rotated_by_quarters = first + np.stack([np.zeros(count)] * 4 + [quarters * math.pi / 2], axis=1)
    odd = quarters % 2 == 1
    rotated_by_quarters[odd, 2:4] = rotated_by_quarters[odd, 3:1:-1]
    slivers, others = first.copy(), near.copy()
    slivers[:, 2], others[:, 2] = 10.0 ** random.uniform(-3, 0, [2, count])
    flat = first.copy()
    flat[:, 2] = 0
    tiny = first + np.stack([np.zeros(count)] * 4 + [10.0 ** random.uniform(-7, -3, count)], axis=1)
    whole = [random.randint(0, 12, [count, 2]) for _ in range(2)]
    aligned = [
        np.concatenate([one, 2 * random.randint(1, 6, [count, 2]), np.zeros([count, 1])], axis=1)
        for one in whole
    ]
    square = first.copy()
    square[:, 3] = square[:, 2]
    eighth = square + [0, 0, 0, 0, math.pi / 4]
    far, unit = [20000, 20000, 0, 0, 0], [1e-3, 1e-3, 1e-3, 1e-3, 1]
    return {
        'random': (first, random_boxes(random, count)),
        'near': (first, near),
        'near, at 20000 pixels': (first + far, near + far),
        'near, normalized': (first * unit, near * unit),
        'identical': (first, first),
        'the same by another name': (first, rotated_by_quarters),
        'half a width along': (first, shifted(0.5)),
        'edge on edge': (first, shifted(1.0)),
        'one inside the other': (first, first * [1, 1, 0.5, 0.5, 1]),
        'squares, an eighth of a turn': (square, eighth),
        'axis-aligned, whole numbers': (aligned[0], aligned[1]),
        'slivers': (slivers, others),
        'tiny rotations': (first, tiny),
        'without height': (flat, first),
    }


def check(pairs: int, seed: int) -> List[Dict[str, Any]]:
    """Return the largest errors, by kind of pair."""
    random = np.random.RandomState(seed)
    kinds = pairs_of_boxes(random, 1)
    computed = tf.function(rotated.elementwise_iou)  # all kinds have as many pairs: one graph
    results = []
    for name, (first, second) in pairs_of_boxes(random, -(-pairs // len(kinds))).items():
        result: Dict[str, Any] = {'kind': name, 'pairs': len(first)}
        for dtype, bound in _BOUNDS.items():
            boxes = first.astype(dtype), second.astype(dtype)
            found = computed(*map(tf.constant, boxes))
            error = float(np.max(np.abs(found.numpy() - clipped_iou(*boxes))))
            result[dtype] = error
            result[f'{dtype}_within'] = bool(error <= bound)
        results.append(result)
    return results


def clipped_iou(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return intersection over union [n] of boxes [n, 5] in the same row, in 64 bits, by clipping.

    Of boxes in 32 bits, as they are: what rounding did to their numbers is no error of the graph.
    """
    outlines = [rotated_rectangles.corners(one.astype(np.float64)) for one in (first, second)]
    common = rotated_overlaps.clipped_areas(*outlines)
    union = rotated_overlaps.areas(outlines[0]) + rotated_overlaps.areas(outlines[1]) - common
    return np.divide(common, union, out=np.zeros_like(common), where=union > 0)


def measure(name: str, function: Callable[..., tf.Tensor], arrays: Any, runs: int) -> Dict:
    """Measure CPU seconds of a call (the median), and MiB by which the peak of memory grew."""
    with tf.Graph().as_default(), tf1.Session() as session:
        fed = [tf1.placeholder(tf.float32, array.shape) for array in arrays]
        fetched, feeds = function(*fed), dict(zip(fed, arrays))
        session.run(fetched, feeds)  # prepares the graph
        measuring.forget_peak_memory()
        before, seconds, walls = measuring.peak_memory_mib(), [], []
        for _ in range(runs):
            begun = measuring.clocks()
            session.run(fetched, feeds)
            done = measuring.clocks()
            seconds.append(done.cpu - begun.cpu)
            walls.append(done.wall - begun.wall)
        return {
            'case': name,
            'cpu_seconds': statistics.median(seconds),
            'seconds': statistics.median(walls),
            'memory_mib': measuring.peak_memory_mib() - before,
        }


def grid_of_anchors(rows: int = 38, columns: int = 50, stride: float = 16.0) -> np.ndarray:
    """Return the anchors of the published example for ships: 84 of each cell, float32 [n, 5]."""
    y, x = (stride * np.arange(count) for count in (rows, columns))
    shapes = [
        (256 * scale / math.sqrt(ratio), 256 * scale * math.sqrt(ratio), math.radians(angle))
        for ratio in (3, 5, 7)
        for scale in (0.25, 0.5, 0.75, 1.0)
        for angle in range(-90, 91, 30)
    ]
    centers = np.stack(np.meshgrid(y, x, indexing='ij'), axis=-1).reshape([-1, 1, 2])
    cells = np.broadcast_to(centers, [rows * columns, len(shapes), 2])
    sizes = np.broadcast_to(np.array(shapes), [rows * columns, len(shapes), 3])
    return np.concatenate([cells, sizes], axis=-1).reshape([-1, 5]).astype(np.float32)


def suppressed(boxes: tf.Tensor) -> tf.Tensor:
    """Return the indices that suppression of boxes [n, 5] with falling scores keeps."""
    count = boxes.shape[0]
    scores = tf.linspace(1.0, 0.1, count)
    places, _ = overlap_suppression.suppress(
        boxes[tf.newaxis, :, tf.newaxis],
        scores[tf.newaxis, tf.newaxis],
        rotated.self_iou,
        count,
        0.3,
        tf.constant([0.05]),
    )
    return places


def measurements(runs: int, seed: int) -> List[Dict[str, Any]]:
    """Measure all cases; see `measure`."""
    random = np.random.RandomState(seed)

    def boxes(count: int, size: float, sides: float = 120) -> np.ndarray:
        found = random_boxes(random, count, size)
        found[:, 2:4] = random.uniform(20, sides, [count, 2])
        return found.astype(np.float32)

    iou = rotated.pairwise_iou
    few, objects = boxes(100, 1000), boxes(20, 600)
    return [
        measure('IoU of 2000 x 100 boxes', iou, (boxes(2000, 1000), few), runs),
        measure('IoU of 159600 anchors x 20 boxes', iou, (grid_of_anchors(), objects), runs),
        measure('suppression of 1000 boxes', suppressed, (boxes(1000, 1000),), runs),
        measure('suppression of 1000 dense boxes', suppressed, (boxes(1000, 250),), runs),
    ]


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--pairs', type=int, default=100_000, help='that are checked')
    parser.add_argument('--runs', type=int, default=10, help='of each measurement')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--output', default='benchmark_rotated.json', help='where it goes')
    arguments = parser.parse_args()
    measuring.quiet()
    errors = check(arguments.pairs, arguments.seed)
    print('(largest error of the intersection over union, against clipping in NumPy)')
    for one in errors:
        within = one['float64_within'] and one['float32_within']
        print(
            f'{one["kind"]:30s} {one["pairs"]:8d} pairs  float64 {one["float64"]:8.1e}  '
            f'float32 {one["float32"]:8.1e}  {"" if within else "BEYOND ITS BOUND"}'
        )
    times = measurements(arguments.runs, arguments.seed)
    for one in times:
        print(
            f'{one["case"]:34s} {one["cpu_seconds"]:8.3f} CPU s {one["seconds"]:8.3f} s '
            f'{one["memory_mib"]:8.0f} MiB'
        )
    with open(arguments.output, 'w') as file:
        json.dump({'errors': errors, 'times': times}, file, indent=2)


if __name__ == '__main__':
    main()
