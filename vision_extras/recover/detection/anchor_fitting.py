"""Configs of anchor generators that produce given anchors."""

from __future__ import annotations

import math
from typing import Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from estimator_lib import errors
from estimator_lib.config.section import Section
from model_fns.detection.boxes import anchors as anchors_lib
from model_fns.detection.boxes import rotated
from protos import anchors_pb2
from vision_extras.recover import bases

_Config = anchors_pb2.AnchorGenerator
_Size = Tuple[int, int]

_TOLERANCE = 2e-5  # of normalized boxes in float32
_PIXELS_TOLERANCE = 0.01
_BASE = 256.0  # pixels of an anchor of a grid with scale 1, as published
_SAME_ANGLE = 1e-3  # in radians
_ROUNDING = 1e-5  # in radians


class Level(NamedTuple):
    """Anchors of one feature map.

    Attributes:
        grid: (height, width) in cells.
        sizes: float64 [n, 2], height and width of the anchors of a cell.
        first: [2], (y, x) of the center of the first cell.
        stride: [2], distance between cells.
    """

    grid: _Size
    sizes: np.ndarray
    first: np.ndarray
    stride: np.ndarray


def fit(
    boxes: np.ndarray,
    counts: Sequence[int],
    grids: Sequence[_Size],
    image_size: _Size,
    in_pixels: bool = False,
) -> Optional[_Config]:
    """Find the config of a generator that produces anchors.

    Args:
        boxes: float [A, 4]: center y, center x, height, width; normalized, or in pixels as those of
            the first stage of two. They may be clipped to the image.
        counts: number of anchors of a cell of each map.
        grids: rows and columns of each map.
        image_size: (height, width) of the network's input in pixels.
        in_pixels: True: boxes are in pixels.

    Returns:
        The config; None where no generator produces them.
    """
    if len(boxes) != sum(count * rows * columns for count, (rows, columns) in zip(counts, grids)):
        return None
    levels = _split_levels(boxes.astype(np.float64), counts, grids)
    for candidate in _candidates(levels, image_size, in_pixels):
        if _produces(candidate, levels, boxes, image_size, in_pixels):
            return candidate
    return None


def _split_levels(boxes: np.ndarray, counts: Sequence[int], grids: Sequence[_Size]) -> List[Level]:
    """Measure the anchors of each map.

    Anchors may be clipped to the image, which moves the lower sides of the first boxes to its
    border, and leaves the upper ones. So the first cell is measured by the upper side of the
    smallest anchor, and the other anchors by the distance of their upper sides from its center.
    A grid also covers the padding of an image, where the last boxes end at the border with both
    sides. Clipping only shortens distances, so the stride is the larger one of both ends.
    """
    levels, start = [], 0
    for count, (rows, columns) in zip(counts, grids):
        end = start + rows * columns * count
        cells = boxes[start:end].reshape(rows, columns, count, 4)
        low, high = cells[..., :2] - cells[..., 2:] / 2, cells[..., :2] + cells[..., 2:] / 2
        largest = cells[..., 2:].max(axis=(0, 1))  # [count, 2]
        smallest = int(np.argmin(largest.prod(axis=1)))
        corner = high[0, 0]
        low, high = low[:, :, smallest], high[:, :, smallest]
        first = corner[smallest] - largest[smallest] / 2
        stride = np.array(
            [
                max(low[-1, 0, 0] - low[-2, 0, 0], high[1, 0, 0] - high[0, 0, 0])
                if rows > 1
                else 1.0,
                max(low[0, -1, 1] - low[0, -2, 1], high[0, 1, 1] - high[0, 0, 1])
                if columns > 1
                else 1.0,
            ]
        )
        levels.append(Level((rows, columns), 2 * (corner - first), first, stride))
        start = end
    return levels


def _candidates(levels: Sequence[Level], size: _Size, in_pixels: bool) -> Iterator[_Config]:
    """Yield configs that may produce anchors."""
    if in_pixels:
        yield from _grid(levels[0]) if len(levels) == 1 else _multiscale(levels, (1, 1), False)
        return
    generators = [_ssd(levels, size), _multiscale(levels, size), _flexible(levels, size)]
    # Anchors of one number a cell are usually those of a pyramid.
    if len({len(level.sizes) for level in levels}) == 1:
        generators[:2] = generators[1::-1]
    for generator in generators:
        yield from generator


def modern_order(
    boxes: np.ndarray, counts: Sequence[int], grids: Sequence[_Size]
) -> Optional[np.ndarray]:
    """Return the indices of anchors [A] in the order of the published generator.

    In graphs of the oldest exporter the anchor between the scales of two maps is the second of a
    cell; since then it is the last.

    Args:
        boxes: float [A, 4]: center y, center x, height, width.
        counts: number of anchors of a cell of each map.
        grids: rows and columns of each map.

    Returns:
        The indices; None where no map has such cells.
    """
    indices: List[np.ndarray] = []
    start, is_moved = 0, False
    for level in _split_levels(boxes.astype(np.float64), counts, grids):
        count, ratios = len(level.sizes), level.sizes[:, 1] / level.sizes[:, 0]
        places = np.arange(count)
        if count > 2 and abs(ratios[0] - ratios[1]) < 1e-3:
            places, is_moved = np.append(np.delete(places, 1), 1), True
        cells = level.grid[0] * level.grid[1]
        indices.append(start + count * np.arange(cells)[:, np.newaxis] + places)
        start += cells * count
    return np.concatenate([each.ravel() for each in indices]) if is_moved else None


def fit_rotated(
    boxes: np.ndarray, counts: Sequence[int], grids: Sequence[_Size], size: _Size
) -> Optional[_Config]:
    """Find the config of a generator that produces rotated anchors.

    Args:
        boxes: float64 [A, 5] in pixels, in their long edge form.
        counts: number of anchors of a cell of each map.
        grids: rows and columns of each map.
        size: height and width of the network's input.

    Returns:
        The config; None where no generator produces them.
    """
    # The angle varies fastest.
    same = np.abs(boxes[:, :4] - boxes[0, :4]).max(axis=1) < 1e-3
    num_angles = int(np.argmin(same)) if not same.all() else len(boxes)
    if any(count % num_angles for count in counts):
        return None
    groups = boxes.reshape([-1, num_angles, rotated.SIZE])
    angles = groups[0, :, 4]
    # A box that is higher than wide has its sides exchanged, and is rotated by a right angle.
    straight = (_distance(groups[..., 4], angles) < _SAME_ANGLE).all(axis=1)
    exchanged = (_distance(groups[..., 4], angles + math.pi / 2) < _SAME_ANGLE).all(axis=1)
    if not (straight | exchanged).all():
        return None
    sides = groups[:, 0, 2:4]
    sides = np.where(straight[:, np.newaxis], sides, sides[:, ::-1])
    normalized = np.concatenate([groups[:, 0, :2], sides], axis=1) / np.tile(size, 2)
    config = fit(normalized, [count // num_angles for count in counts], grids, size)
    if config is not None:
        kind = config.WhichOneof('anchor_generator_oneof') or ''
        getattr(config, kind).angles.extend(map(_plain_angle, angles))
    return config


def _produces(
    config: _Config,
    levels: Sequence[Level],
    boxes: np.ndarray,
    image_size: _Size,
    in_pixels: bool,
) -> bool:
    """Check whether a generator produces anchors, as they are or clipped to the image."""
    try:
        generator = anchors_lib.build_anchor_generator(Section(config, 'anchor_generator'))
    except errors.ConfigError:  # measured numbers may be none of a generator
        return False
    if len(generator.anchors_per_location()) != len(levels):
        return False
    corners = generator.generate([level.grid for level in levels], image_size)
    if corners.shape != boxes.shape:
        return False
    half = boxes[:, 2:] / 2
    expected = np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], axis=1)
    limit = np.array(image_size if in_pixels else (1, 1), np.float32)
    tolerance = _PIXELS_TOLERANCE if in_pixels else _TOLERANCE
    clipped = np.clip(corners, 0, np.tile(limit, 2))
    return any(np.abs(each - expected).max() <= tolerance for each in (corners, clipped))


def _grid(level: Level) -> Iterator[_Config]:
    """Yield anchors of every scale with every ratio, by their sizes or as published.

    Anchors that are much larger than the image cannot be measured.
    """
    config = _Config()
    grid = config.grid_anchor_generator
    grid.height_stride, grid.width_stride = map(round, level.stride)
    grid.height_offset, grid.width_offset = map(round, level.first)
    shapes = _shapes(level.sizes)
    usual = bases.published('faster_rcnn').faster_rcnn.first_stage_anchor_generator
    scales, ratios = usual.grid_anchor_generator.scales, usual.grid_anchor_generator.aspect_ratios
    sides, measured = (_distinct([shape[index] for shape in shapes]) for index in (0, 1))
    sides = [side / _BASE for side in sides]
    for candidate in ((sides, measured), (scales, ratios), (scales[1:], ratios)):
        del grid.scales[:], grid.aspect_ratios[:]
        grid.scales.extend(candidate[0])
        grid.aspect_ratios.extend(candidate[1])
        yield config


def _ssd(levels: Sequence[Level], image_size: _Size) -> Iterator[_Config]:
    sides = np.array(image_size) / min(image_size)
    shapes = [_shapes(level.sizes * sides) for level in levels]
    full = shapes[-1]
    reduces = len(shapes[0]) == 3 and len(full) != 3
    ratios = [ratio for _, ratio in full]
    scales = [shape[0][0] for shape in shapes]
    if reduces:
        scales[0] = shapes[0][1][0]
    # The last anchor lies between the scale of its map and the next.
    interpolates = len(full) > 1 and abs(full[-1][0] - math.sqrt(scales[-1])) < 1e-3
    config = _Config()
    ssd = config.ssd_anchor_generator
    ssd.num_layers = len(levels)
    even = np.linspace(scales[0], scales[-1], len(scales))
    if not np.allclose(even, scales, atol=2e-5):
        ssd.scales.extend(map(plain, scales))
    else:
        ssd.min_scale = plain(scales[0])
        if len(scales) > 1:
            ssd.max_scale = plain(scales[-1])
    ssd.aspect_ratios.extend(map(plain, ratios[:-1] if interpolates else ratios))
    ssd.interpolated_scale_aspect_ratio = plain(ratios[-1]) if interpolates else 0.0
    ssd.reduce_boxes_in_lowest_layer = reduces
    if all(
        np.allclose(level.first, level.stride / 2, atol=1e-5) or level.grid == (1, 1)
        for level in levels
    ):
        yield config


def _multiscale(
    levels: Sequence[Level], image_size: _Size, normalized: bool = True
) -> Iterator[_Config]:
    strides = [level.stride[0] * image_size[0] for level in levels if level.grid[0] > 1]
    if len({len(level.sizes) for level in levels}) > 1 or not strides or strides[0] < 1:
        return
    config = _Config()
    multiscale = config.multiscale_anchor_generator
    multiscale.min_level = round(math.log2(strides[0]))
    multiscale.max_level = multiscale.min_level + len(levels) - 1
    shapes = _shapes(levels[0].sizes * np.array(image_size))
    ratios = _distinct([ratio for _, ratio in shapes])
    multiscale.anchor_scale = plain(shapes[0][0] / 2**multiscale.min_level)
    multiscale.aspect_ratios.extend(ratios)
    multiscale.scales_per_octave = max(1, len(shapes) // len(ratios))
    if not normalized:
        multiscale.normalize_coordinates = False
    yield config


def _flexible(levels: Sequence[Level], image_size: _Size) -> Iterator[_Config]:
    config = _Config()
    size = np.array(image_size, np.float64)
    for level in levels:
        grid = config.flexible_grid_anchor_generator.anchor_grid.add()
        for scale, ratio in _shapes(level.sizes * size):
            grid.base_sizes.append(plain(scale))
            grid.aspect_ratios.append(plain(ratio))
        grid.height_stride, grid.width_stride = (max(1, round(s)) for s in level.stride * size)
        grid.height_offset, grid.width_offset = map(round, level.first * size)
    yield config


def _shapes(sizes: np.ndarray) -> List[Tuple[float, float]]:
    """Return (scale, aspect ratio) of heights and widths."""
    return [(math.sqrt(max(h * w, 0.0)), w / max(h, 1e-9)) for h, w in sizes]


def _distinct(values: Sequence[float]) -> List[float]:
    """Return the values that are not almost equal to one before."""
    known: List[float] = []
    for value in values:
        if not any(abs(value - each) < 1e-3 * max(1.0, each) for each in known):
            known.append(value)
    return list(map(plain, known))


def plain(value: float) -> float:
    """Return the number of fewest digits within the precision of float32 boxes."""
    for digits in range(1, 7):
        rounded = round(float(value), digits)
        if abs(rounded - value) <= 5e-6 * max(1.0, abs(value)):
            return rounded
    return float(np.float32(value))


def _plain_angle(angle: float) -> float:
    """Return the number of fewest digits that stands for an angle.

    The sign of an angle at the end of its range matters, so the number must be wrapped to the same
    end.
    """
    is_at_end = abs(abs(angle) - math.pi / 2) < _SAME_ANGLE
    for digits in range(1, 7):
        for same in (angle, angle - math.pi, angle + math.pi) if is_at_end else (angle,):
            short = round(float(same), digits)
            wrapped = np.mod(short + math.pi / 2, math.pi) - math.pi / 2
            if abs(wrapped - angle) < _ROUNDING:
                return short
    return float(angle)


def _distance(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the angles between directions, in [0, pi / 2]."""
    difference = np.mod(first - second, math.pi)
    return np.minimum(difference, math.pi - difference)
