"""Detections of the tiles of an image as those of the image.

A detection counts in the tile that its center is well inside of: up to the middle of what two
neighbors share, and a little beyond, as they do not find the center of an object at quite the same
place. An object that a tile cuts is cut at its border, and its part's center is nearer to that than
this. What two tiles both have, suppression makes one: what is beyond the middle gives way, as the
neighbor sees more of what is around it. Two detections of one tile stay: the model's own
suppression has left them.

No tile sees the whole of an object that is larger than what neighbors share. The axis-aligned boxes
of its parts are joined: each ends at the border of its tile, and they agree on what both tiles see.
Where the model has looked at the whole image too, what it found there counts where it fits in no
tile, and takes the place of its parts.
"""

from __future__ import annotations

import itertools
from typing import Dict, Iterable, List, Mapping, Sequence, Tuple

import numpy as np

from estimator_lib.drawing.tiling import Window
from estimator_lib.task import Arrays
from model_fns.detection import fields
from model_fns.detection.boxes import overlaps
from model_fns.structures import rotated_overlaps, rotated_rectangles

# Of boxes of one class: those that overlap a better one more are dropped. What is usual for merging
# aerial pictures, where turned boxes hardly overlap, and upright ones of neighbors do.
_ROTATED_THRESHOLD = 0.1
_UPRIGHT_THRESHOLD = 0.5
# How far beyond the middle of what two tiles share a detection still counts, as a part of that.
_MARGIN = 0.1
# What its score is multiplied by there, when it is compared with what other tiles have.
_BEYOND = 0.5

# Parts of an object agree when the intersection is more of the smaller one than this, in what both
# tiles see, and the lower score is no less of the higher one than this.
_SAME_OBJECT = 0.5

# What ends as near to the border of its tile as this part of the tile's side may be cut there.
_BORDER = 0.02

# What is kept of the outputs of a tile.
_KEPT = (fields.DETECTION_SCORES, fields.DETECTION_CLASSES)
# Numbers of a tile, and scores by which detections of several tiles are compared.
_TILE, _RANK = 'tile', 'rank'


def merge(tiles: Iterable[Tuple[Window, Arrays]], size: Tuple[int, int]) -> Arrays:
    """Return the detections of an image, the one with the highest score first.

    Args:
        tiles: parts of the image, and the detections of each, normalized to it; at least one. Of
            each, detections alone are kept. The last may be the whole image.
        size: height and width of the image.

    Returns:
        Boxes, scores, classes, their number, and corners of rotated boxes, normalized to the image.
    """
    of_tiles = [(window, _in_image(window, outputs)) for window, outputs in tiles]
    whole = None
    if len(of_tiles) > 1 and of_tiles[-1][0][2:] == tuple(size):
        whole = of_tiles.pop()[1]
    windows = [window for window, _ in of_tiles]
    own, wide = (_cores(windows, margin) for margin in (0.0, _MARGIN))
    parts: Dict[str, List[np.ndarray]] = {}
    for number, (_, found) in enumerate(of_tiles):
        found = _taken(found, _is_inside(found, wide[number]))
        scores = found[fields.DETECTION_SCORES]
        ranks = np.where(_is_inside(found, own[number]), 1.0, _BEYOND) * scores
        for name, values in {
            **found,
            _RANK: ranks,
            _TILE: np.full(len(scores), number),
        }.items():
            parts.setdefault(name, []).append(values)
    found = {name: np.concatenate(values) for name, values in parts.items()}
    if fields.DETECTION_CORNERS not in found:
        found = _joined(found, windows)
    if whole is not None:
        found = _with_larger(found, whole, windows)
    found = _taken(found, np.argsort(-found[_RANK], kind='stable'))
    found = _taken(found, _unsuppressed(found))
    found = _taken(found, np.argsort(-found[fields.DETECTION_SCORES], kind='stable'))
    found = {name: values for name, values in found.items() if name not in (_TILE, _RANK)}
    boxes = found[fields.DETECTION_BOXES]
    found[fields.DETECTION_BOXES] = boxes / _sides(boxes, size)
    if fields.DETECTION_CORNERS in found:
        corners = found[fields.DETECTION_CORNERS]
        found[fields.DETECTION_CORNERS] = corners / np.tile(size, 4)
    count = np.float32(len(boxes))
    return {**found, fields.NUM_DETECTIONS: count}


def _cores(windows: Sequence[Window], margin: float) -> List[Tuple[float, float, float, float]]:
    """Of each tile ymin, xmin, ymax, xmax of its own part, and a margin."""
    rows = _bounds([(one.top, one.height) for one in windows], margin)
    columns = _bounds([(one.left, one.width) for one in windows], margin)
    cores = []
    for window in windows:
        (top, bottom), (left, right) = rows[window.top], columns[window.left]
        cores.append((top, left, bottom, right))
    return cores


def _bounds(spans: Sequence[Tuple[int, int]], margin: float) -> Dict[int, Tuple[float, float]]:
    """By the start of a span: where its own part, with a margin, begins and ends."""
    ordered = sorted(set(spans))
    bounds = {}
    for place, (start, length) in enumerate(ordered):
        low, high = -np.inf, np.inf
        if place > 0:
            before = sum(ordered[place - 1])
            low = (start + before) / 2 - margin * (before - start)
        if place + 1 < len(ordered):
            after = ordered[place + 1][0]
            high = (start + length + after) / 2 + margin * (start + length - after)
        bounds[start] = low, high
    return bounds


def _in_image(window: Window, outputs: Arrays) -> Dict[str, np.ndarray]:
    """Return the detections of a tile, in pixels of the image."""
    count = int(outputs[fields.NUM_DETECTIONS])
    # Copies, which do not keep the rest of the outputs in memory.
    found = {name: np.array(outputs[name][:count]) for name in _KEPT}
    boxes = np.asarray(outputs[fields.DETECTION_BOXES], np.float64)[:count]
    origin, shape = [window.top, window.left], (window.height, window.width)
    boxes = boxes * _sides(boxes, shape)
    if fields.DETECTION_CORNERS not in outputs:
        return {**found, fields.DETECTION_BOXES: boxes + np.tile(origin, 2)}
    boxes[:, :2] += origin
    corners = np.asarray(outputs[fields.DETECTION_CORNERS], np.float64)[:count]
    corners = corners * np.tile(shape, 4) + np.tile(origin, 4)
    return {**found, fields.DETECTION_BOXES: boxes, fields.DETECTION_CORNERS: corners}


def _sides(boxes: np.ndarray, size: Tuple[int, int]) -> np.ndarray:
    """What numbers of boxes are fractions of: height, width, height, width; an angle of none."""
    sides = np.tile(np.asarray(size, np.float64), 2)
    return sides if boxes.shape[1] == 4 else np.append(sides, 1.0)


def _is_inside(
    found: Mapping[str, np.ndarray], core: Tuple[float, float, float, float]
) -> np.ndarray:
    """Return bool [n]: detections whose centers are in a part of the image."""
    boxes = found[fields.DETECTION_BOXES]
    centers = boxes[:, :2]
    if boxes.shape[1] == 4:
        centers = (boxes[:, :2] + boxes[:, 2:]) / 2
    low, high = np.array(core[:2]), np.array(core[2:])
    return np.all((centers >= low) & (centers <= high), axis=1)


def _joined(found: Dict[str, np.ndarray], windows: Sequence[Window]) -> Dict[str, np.ndarray]:
    """Join the parts of objects that tiles cut: boxes around them, with the highest score."""
    groups = np.arange(len(found[_TILE]))
    for first, second in itertools.combinations(range(len(windows)), 2):
        rows, columns = (np.flatnonzero(found[_TILE] == tile) for tile in (first, second))
        if len(rows) and len(columns):
            for one, other in _parts_of_one(found, rows, columns, windows[first], windows[second]):
                groups[groups == groups[other]] = groups[one]
    rows, sizes = np.unique(groups, return_counts=True)
    joined = _taken(found, rows)
    for place in np.flatnonzero(sizes > 1):
        parts = _taken(found, np.flatnonzero(groups == rows[place]))
        best = parts[fields.DETECTION_SCORES].max()
        boxes = parts[fields.DETECTION_BOXES]
        box = np.concatenate([boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)])
        joined[fields.DETECTION_BOXES][place] = box
        joined[fields.DETECTION_SCORES][place] = joined[_RANK][place] = best
        joined[_TILE][place] = -1 - place  # it is of no tile alone
    return joined


def _with_larger(
    found: Dict[str, np.ndarray], whole: Dict[str, np.ndarray], windows: Sequence[Window]
) -> Dict[str, np.ndarray]:
    """Add the detections of the whole image that fit in no tile, in place of their parts."""
    low, high = _hulls(whole)
    fits = np.zeros(len(low), bool)
    for window in windows:
        start = np.array(window[:2])
        fits |= np.all((low >= start) & (high <= start + window[2:]), axis=1)
    larger = _taken(whole, np.flatnonzero(~fits))
    scores = larger[fields.DETECTION_SCORES]
    numbers = np.full(len(scores), len(windows))
    larger = {**larger, _RANK: 1.0 * scores, _TILE: numbers}
    parts, boxes = (np.concatenate(_hulls(one), axis=1) for one in (found, larger))
    inside = overlaps.ioa(parts, boxes) > _SAME_OBJECT
    same = found[fields.DETECTION_CLASSES][:, np.newaxis] == larger[fields.DETECTION_CLASSES]
    alike = scores >= _SAME_OBJECT * found[fields.DETECTION_SCORES][:, np.newaxis]
    is_part = np.any(inside & same & alike, axis=1) & _is_cut(parts, found[_TILE], windows)
    found = _taken(found, np.flatnonzero(~is_part))
    return {name: np.concatenate([found[name], larger[name]]) for name in found}


def _is_cut(hulls: np.ndarray, tiles: np.ndarray, windows: Sequence[Window]) -> np.ndarray:
    """Return which boxes [n, 4] end at the border of their tile; joined ones do: bool [n]."""
    starts = np.array([window[:2] for window in windows])[tiles]
    ends = starts + np.array([window[2:] for window in windows])[tiles]
    margin = _BORDER * (ends - starts)
    ends_there = (hulls[:, :2] <= starts + margin) | (hulls[:, 2:] >= ends - margin)
    return ends_there.any(axis=1) | (tiles < 0)


def _hulls(found: Mapping[str, np.ndarray]) -> Tuple[np.ndarray, np.ndarray]:
    """Return the first and the last y and x of each detection: [n, 2] each."""
    boxes = found[fields.DETECTION_BOXES]
    is_rotated = boxes.shape[1] == rotated_rectangles.SIZE
    shapes = rotated_rectangles.corners(boxes) if is_rotated else rotated_overlaps.corners(boxes)
    return shapes.min(axis=1), shapes.max(axis=1)


def _parts_of_one(
    found: Mapping[str, np.ndarray],
    rows: np.ndarray,
    columns: np.ndarray,
    first: Window,
    second: Window,
) -> List[Tuple[int, int]]:
    """Return the pairs of detections of two tiles that are parts of the same object.

    Args:
        found: the detections.
        rows: those of the first tile.
        columns: those of the second one.
        first: the one tile.
        second: the other.
    """
    starts = np.array([first[:2], second[:2]])
    ends = starts + [first[2:], second[2:]]
    low, high = starts.max(axis=0), ends.min(axis=0)  # what both tiles see
    if np.any(low >= high):
        return []
    boxes, scores = found[fields.DETECTION_BOXES], found[fields.DETECTION_SCORES]
    ours, theirs = boxes[rows][:, np.newaxis], boxes[columns][np.newaxis]
    margin = _MARGIN * (high - low)
    goes_on = np.ones([len(rows), len(columns)], bool)
    for axis in np.flatnonzero(starts[0] != starts[1]):
        before, after = (ours, theirs) if starts[0, axis] < starts[1, axis] else (theirs, ours)
        end, start = high[axis], low[axis]  # of the tile before, and of the one after
        past_end = (before[..., 2 + axis] >= end - margin[axis]) & (after[..., 2 + axis] > end)
        past_start = (after[..., axis] <= start + margin[axis]) & (before[..., axis] < start)
        goes_on &= past_end | past_start
    seen = np.tile(low, 2), np.tile(high, 2)
    clipped = np.clip(boxes[rows], *seen), np.clip(boxes[columns], *seen)
    smaller = np.minimum(overlaps.areas(clipped[0])[:, np.newaxis], overlaps.areas(clipped[1]))
    share = overlaps.intersections(*clipped) / np.maximum(smaller, 1e-9)
    pair = scores[rows][:, np.newaxis], scores[columns][np.newaxis]
    alike = np.minimum(*pair) >= _SAME_OBJECT * np.maximum(*pair)
    classes = found[fields.DETECTION_CLASSES]
    same = classes[rows][:, np.newaxis] == classes[columns]
    share = np.where(goes_on & alike & same, share, 0.0)
    return [
        (rows[row], columns[column])
        for row, column in enumerate(share.argmax(axis=1))
        if share[row, column] > _SAME_OBJECT and share[:, column].argmax() == row
    ]


def _unsuppressed(found: Mapping[str, np.ndarray]) -> np.ndarray:
    """Indices of what greedy suppression leaves, each class by itself; by falling rank already."""
    boxes, classes, tiles = (
        found[fields.DETECTION_BOXES],
        found[fields.DETECTION_CLASSES],
        found[_TILE],
    )
    is_rotated = boxes.shape[1] == rotated_rectangles.SIZE
    shapes = rotated_rectangles.corners(boxes) if is_rotated else rotated_overlaps.corners(boxes)
    low, high = _hulls(found)
    threshold = _ROTATED_THRESHOLD if is_rotated else _UPRIGHT_THRESHOLD
    kept: List[int] = []
    for class_id in np.unique(classes):
        left = np.flatnonzero(classes == class_id)
        while len(left):
            best, left = left[0], left[1:]
            kept.append(best)
            meet = np.all((low[left] < high[best]) & (low[best] < high[left]), axis=1)
            near = np.flatnonzero(meet & (tiles[left] != tiles[best]))
            if len(near):
                shared = rotated_overlaps.iou(shapes[best : best + 1], shapes[left[near]])[0]
                left = np.delete(left, near[shared > threshold])
    return np.sort(np.array(kept, np.int64))


def _taken(found: Dict[str, np.ndarray], rows: np.ndarray) -> Dict[str, np.ndarray]:
    return {name: values[rows] for name, values in found.items()}
