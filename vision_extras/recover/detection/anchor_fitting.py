"""Configs of anchor generators that produce given anchors."""

from __future__ import annotations

import math
from typing import List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from estimator_lib.config.section import Section
from model_fns.detection.boxes import anchors as anchors_lib
from protos import anchors_pb2

_TOLERANCE = 2e-5  # of normalized boxes in float32


class Level(NamedTuple):
    """Anchors of one feature map.

    Attributes:
        grid: (height, width) in cells.
        sizes: float64 [n, 2], height and width of the anchors of a cell, normalized.
        first: (y, x) of the center of the first cell.
        stride: distance between cells, normalized.
    """

    grid: Tuple[int, int]
    sizes: np.ndarray
    first: Tuple[float, float]
    stride: Tuple[float, float]


def split_levels(boxes: np.ndarray, counts: Sequence[int]) -> Optional[List[Level]]:
    """Split anchors into feature maps by the order of their centers.

    Args:
        boxes: float [A, 4]: center y, center x, height, width.
        counts: number of anchors of a cell of each map; one number for any number of maps.

    Returns:
        The levels; None where the anchors are in another order.
    """
    levels: List[Level] = []
    start = 0
    while start < len(boxes):
        if len(counts) > 1 and len(levels) == len(counts):
            return None
        count = counts[min(len(levels), len(counts) - 1)]
        centers = boxes[start::count, :2]
        columns = _run(centers[:, 1], centers[:, 0])
        rows = _run(centers[::columns, 0], np.zeros(len(centers[::columns])))
        end = start + rows * columns * count
        if end > len(boxes):
            return None
        stride = (
            float(centers[columns, 0] - centers[0, 0]) if rows > 1 else 1.0,
            float(centers[1, 1] - centers[0, 1]) if columns > 1 else 1.0,
        )
        first = (float(centers[0, 0]), float(centers[0, 1]))
        sizes = boxes[start : start + count, 2:].astype(np.float64)
        levels.append(Level((rows, columns), sizes, first, stride))
        start = end
    return levels


def _run(values: np.ndarray, others: np.ndarray) -> int:
    """Return the length of the first run of rising values, with equal other values."""
    steps = (np.diff(values) > 1e-7) & (np.abs(np.diff(others)) < 1e-6)
    if len(steps) > 1:  # the distance between cells is the same
        steps[1:] &= np.abs(np.diff(np.diff(values))) < 1e-4
    stops = np.flatnonzero(~steps)
    return int(stops[0]) + 1 if len(stops) else len(values)


def fit(
    boxes: np.ndarray, counts: Sequence[int], image_size: Tuple[int, int]
) -> Optional[anchors_pb2.AnchorGenerator]:
    """Find the config of a generator that produces anchors.

    Args:
        boxes: float [A, 4], normalized: center y, center x, height, width.
        counts: number of anchors of a cell of each map; one number for any number of maps.
        image_size: (height, width) of the network's input in pixels.

    Returns:
        The config; None where no generator produces them.
    """
    levels = split_levels(boxes, counts)
    if levels is None:
        return None
    # Anchors of one number a cell are usually those of a pyramid.
    generators = [_ssd, _multiscale, _flexible]
    if len(counts) == 1:
        generators = [_multiscale, _ssd, _flexible]
    for generator in generators:
        candidate = generator(levels, image_size)
        if candidate is not None and _produces(candidate, levels, boxes, image_size):
            return candidate
    return None


def modern_order(boxes: np.ndarray, counts: Sequence[int]) -> Optional[np.ndarray]:
    """Return the indices of anchors [A] in the order of the published generator.

    In graphs of the oldest exporter the anchor between the scales of two maps is the second of a
    cell; since then it is the last.

    Args:
        boxes: float [A, 4]: center y, center x, height, width.
        counts: number of anchors of a cell of each map; one number for any number of maps.

    Returns:
        The indices; None where no map has such cells.
    """
    indices: List[np.ndarray] = []
    start, is_moved = 0, False
    for level in split_levels(boxes, counts) or []:
        count, ratios = len(level.sizes), level.sizes[:, 1] / level.sizes[:, 0]
        places = np.arange(count)
        if count > 2 and abs(ratios[0] - ratios[1]) < 1e-3:
            places, is_moved = np.append(np.delete(places, 1), 1), True
        cells = level.grid[0] * level.grid[1]
        indices.append(start + count * np.arange(cells)[:, np.newaxis] + places)
        start += cells * count
    return np.concatenate([each.ravel() for each in indices]) if is_moved else None


def _produces(
    config: anchors_pb2.AnchorGenerator,
    levels: Sequence[Level],
    boxes: np.ndarray,
    image_size: Tuple[int, int],
) -> bool:
    generator = anchors_lib.build_anchor_generator(Section(config, 'anchor_generator'))
    if len(generator.anchors_per_location()) != len(levels):
        return False
    corners = generator.generate([level.grid for level in levels], image_size)
    if corners.shape != boxes.shape:
        return False
    expected = np.concatenate(
        [boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], axis=1
    )
    return bool(np.abs(corners - expected).max() <= _TOLERANCE)


def _ssd(
    levels: Sequence[Level], image_size: Tuple[int, int]
) -> Optional[anchors_pb2.AnchorGenerator]:
    shorter = min(image_size)
    sides = np.array(image_size) / shorter
    shapes = [_shapes(level.sizes * sides) for level in levels]
    full = shapes[-1]
    reduces = len(shapes[0]) == 3 and len(full) != 3
    ratios = [ratio for _, ratio in full]
    scales = [shape[0][0] for shape in shapes]
    if reduces:
        scales[0] = shapes[0][1][0]
    # The last anchor lies between the scale of its map and the next.
    last = full[-1][0]
    interpolates = len(full) > 1 and abs(last - math.sqrt(scales[-1])) < 1e-3
    config = anchors_pb2.AnchorGenerator()
    ssd = config.ssd_anchor_generator
    ssd.num_layers = len(levels)
    if len(scales) > 1:
        step = (scales[-1] - scales[0]) / (len(scales) - 1)
        even = [scales[0] + step * index for index in range(len(scales))]
        if np.allclose(even, scales, atol=2e-5):
            ssd.min_scale, ssd.max_scale = plain(scales[0]), plain(scales[-1])
        else:
            ssd.scales.extend(map(plain, scales))
    else:
        ssd.min_scale = plain(scales[0])
    ssd.aspect_ratios.extend(plain(ratio) for ratio in (ratios[:-1] if interpolates else ratios))
    ssd.interpolated_scale_aspect_ratio = plain(ratios[-1]) if interpolates else 0.0
    ssd.reduce_boxes_in_lowest_layer = reduces
    for level in levels:
        centered = np.allclose(level.first, np.array(level.stride) / 2, atol=1e-5)
        if not centered and level.grid != (1, 1):
            return None
    return config


def _multiscale(
    levels: Sequence[Level], image_size: Tuple[int, int]
) -> Optional[anchors_pb2.AnchorGenerator]:
    if len({len(level.sizes) for level in levels}) != 1:
        return None
    strides = [level.stride[0] * image_size[0] for level in levels if level.grid[0] > 1]
    if not strides or strides[0] < 1:
        return None
    min_level = round(math.log2(strides[0]))
    shapes = _shapes(levels[0].sizes * np.array(image_size))
    ratios: List[float] = []
    for _, ratio in shapes:
        if not any(abs(ratio - known) < 1e-3 for known in ratios):
            ratios.append(ratio)
    if len(shapes) % len(ratios):
        return None
    config = anchors_pb2.AnchorGenerator()
    multiscale = config.multiscale_anchor_generator
    multiscale.min_level = min_level
    multiscale.max_level = min_level + len(levels) - 1
    multiscale.anchor_scale = plain(shapes[0][0] / 2**min_level)
    multiscale.aspect_ratios.extend(map(plain, ratios))
    multiscale.scales_per_octave = len(shapes) // len(ratios)
    return config


def _flexible(
    levels: Sequence[Level], image_size: Tuple[int, int]
) -> Optional[anchors_pb2.AnchorGenerator]:
    config = anchors_pb2.AnchorGenerator()
    size = np.array(image_size, np.float64)
    for level in levels:
        grid = config.flexible_grid_anchor_generator.anchor_grid.add()
        for scale, ratio in _shapes(level.sizes * size):
            grid.base_sizes.append(plain(scale))
            grid.aspect_ratios.append(plain(ratio))
        stride, first = np.array(level.stride) * size, np.array(level.first) * size
        grid.height_stride, grid.width_stride = (max(1, round(side)) for side in stride)
        grid.height_offset, grid.width_offset = (round(side) for side in first)
    return config


def _shapes(sizes: np.ndarray) -> List[Tuple[float, float]]:
    """Return (scale, aspect ratio) of heights and widths."""
    return [(math.sqrt(height * width), width / height) for height, width in sizes]


def plain(value: float) -> float:
    """Return the number of fewest digits within the precision of float32 boxes."""
    for digits in range(1, 7):
        rounded = round(float(value), digits)
        if abs(rounded - value) <= 5e-6 * max(1.0, abs(value)):
            return rounded
    return float(np.float32(value))
