"""Anchors: the boxes that predictions are relative to, at every cell of every feature map.

Anchors depend on sizes only. For static sizes they are computed once, in NumPy. For sizes that are
tensors the same functions compute them in the graph, in the same precision. Anchors are ordered by
feature map, then by cell (row by row), then by anchor of the cell.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from typing import Any, List, Optional, Sequence, Tuple, Union

import numpy as np
import tensorflow as tf

from estimator_lib.config.section import Section
from model_fns.detection.boxes import axis_aligned
from model_fns.detection.config_rules import checks
from protos import anchors_pb2

Array = Union[np.ndarray, tf.Tensor]
# Height and width: ints, or int32 scalars where they are only known at run time.
Size = Tuple[Union[int, tf.Tensor], Union[int, tf.Tensor]]


class AnchorGenerator(abc.ABC):
    """Anchors for feature maps of given sizes.

    Attributes:
        in_pixels: True for boxes in pixels of the input, False for normalized boxes.
        keeps_outside: True: two-stage detectors use anchors that extend beyond the input as they
            are, whatever the config says of them.
    """

    in_pixels: bool = False
    keeps_outside: bool = False

    @abc.abstractmethod
    def anchors_per_location(self) -> List[int]:
        """Return the number of anchors of a cell, for each feature map."""

    @abc.abstractmethod
    def level(self, index: int, grid: Size, image_size: Size) -> Array:
        """Compute the anchors of one feature map.

        Args:
            index: index of the feature map.
            grid: (height, width) of the feature map in cells.
            image_size: (height, width) of the network's input in pixels.

        Returns:
            float64 [height * width * anchors_per_location, 4].
        """

    def enclosing_boxes(self, boxes: Array) -> Array:
        """Return the smallest axis-aligned boxes [A, 4] that enclose the boxes of anchors."""
        return boxes

    def generate(self, grids: Sequence[Size], image_size: Size) -> Array:
        """Compute the anchors of all feature maps.

        Args:
            grids: (height, width) of each feature map in cells.
            image_size: (height, width) of the network's input in pixels.

        Returns:
            Boxes float32 [A, 4], ymin, xmin, ymax, xmax, which may reach over the image's border;
            rotated ones [A, 5], see `rotated_anchors`. An array where all sizes are static, else a
            tensor.

        Raises:
            ValueError: the number of feature maps is not the number of levels of the generator.
        """
        expected = len(self.anchors_per_location())
        if len(grids) != expected:
            raise ValueError(
                f'the anchor generator has {expected} levels, and the network {len(grids)} feature '
                'maps'
            )
        levels = [self.level(index, grid, image_size) for index, grid in enumerate(grids)]
        if any(tf.is_tensor(level) for level in levels):
            return tf.cast(tf.concat(levels, axis=0), tf.float32)
        # Rounded only here: the array and the tensor come from the same float64 numbers.
        return np.concatenate(levels).astype(np.float32)


class SsdAnchorGenerator(AnchorGenerator):
    """Scales that grow from map to map, normalized to the image (Liu et al. 2016, section 2.2).

    Args:
        shapes: for each feature map, (scale, aspect ratio) of each anchor of a cell.
        base_size: (height, width) of an anchor of scale 1 and ratio 1, in units of the image's
            shorter side.
        strides: for each map, (vertical, horizontal) distance between cells in pixels; None: the
            size of the image divided by that of the map.
        offsets: for each map, the center of the first cell in pixels; None: half a stride.
    """

    def __init__(
        self,
        shapes: Sequence[Sequence[Tuple[float, float]]],
        base_size: Tuple[float, float] = (1.0, 1.0),
        strides: Optional[Sequence[Tuple[float, float]]] = None,
        offsets: Optional[Sequence[Tuple[float, float]]] = None,
    ):
        self._shapes = [list(shape) for shape in shapes]
        self._base_size = base_size
        self._strides = strides
        self._offsets = offsets

    def anchors_per_location(self) -> List[int]:
        """Return the number of (scale, aspect ratio) pairs of each feature map."""
        return [len(shape) for shape in self._shapes]

    def level(self, index: int, grid: Size, image_size: Size) -> Array:
        """Compute the anchors of one feature map, normalized to the image."""
        sides = _as_floats(image_size)
        # As published: a base of 1 is the shorter side, so that a ratio of 1 is a square in pixels.
        shorter = _ops(*sides).minimum(*sides)
        base = [part * shorter / side for part, side in zip(self._base_size, sides)]
        if self._strides is None:
            # Not a power of 2: the 19 cells of 300 pixels are 15.79 apart, as published.
            strides = [1.0 / cells for cells in _as_floats(grid)]
        else:
            strides = [stride / side for stride, side in zip(self._strides[index], sides)]
        if self._offsets is None:
            offsets = [0.5 * stride for stride in strides]
        else:
            offsets = [offset / side for offset, side in zip(self._offsets[index], sides)]
        scales, ratios = np.array(self._shapes[index], np.float64).T
        return _tile(grid, _sizes(scales, ratios, base), strides, offsets)


class MultiscaleAnchorGenerator(AnchorGenerator):
    """Octaves of scales on the levels of a feature pyramid (Lin et al. 2017, section 4).

    Args:
        min_level: level L has a stride of 2^L pixels.
        max_level: the last level.
        anchor_scale: size of the smallest square anchor, in strides.
        aspect_ratios: width over height.
        scales_per_octave: anchors of a ratio are 2^(k / scales_per_octave) apart.
        normalize: whether boxes are normalized; else in pixels.
    """

    def __init__(
        self,
        min_level: int,
        max_level: int,
        anchor_scale: float,
        aspect_ratios: Sequence[float],
        scales_per_octave: int,
        normalize: bool = True,
    ):
        self._levels = list(range(min_level, max_level + 1))
        octave = [2.0 ** (k / scales_per_octave) for k in range(scales_per_octave)]
        # The scale varies fastest, as published: the channels of the predictors have this order.
        shapes = [(scale, ratio) for ratio in aspect_ratios for scale in octave]
        self._scales, self._ratios = np.array(shapes, np.float64).T
        self._anchor_scale = anchor_scale
        self.in_pixels = not normalize

    def anchors_per_location(self) -> List[int]:
        """Return the number of scales times ratios, the same for each level."""
        return [len(self._scales)] * len(self._levels)

    def level(self, index: int, grid: Size, image_size: Size) -> Array:
        """Compute the anchors of one pyramid level, normalized or in pixels as configured."""
        stride = 2 ** self._levels[index]
        base = self._anchor_scale * stride
        # As published: if the stride does not divide a static size, the cells start at the border
        # of the image. The cells of a size that is only known at run time never do.
        offsets = [
            0.5 * stride if tf.is_tensor(size) or size % stride == 0 else 0.0 for size in image_size
        ]
        boxes = _tile(
            grid, _sizes(self._scales, self._ratios, (base, base)), (stride,) * 2, offsets
        )
        return boxes if self.in_pixels else _normalized(boxes, image_size)


class TorchvisionAnchorGenerator(MultiscaleAnchorGenerator):
    """Anchors of torchvision's detectors, whose numbers are whole pixels.

    Scales are rounded down, and half sides to the nearest integer. The first cell is at the corner
    of the image, and a stride is the side of the image by that of the map, rounded down.

    Example: level 3 has squares of 32, 32 * 2^(1/3) = 40.3 and 50.8 pixels, so of 32, 40 and 50.
    A map of 3 cells for 160 pixels has a stride of 53.
    """

    keeps_outside = True

    def level(self, index: int, grid: Size, image_size: Size) -> Array:
        """Compute the anchors of one pyramid level, normalized or in pixels as configured."""
        # `int(x * 2 ** (1.0 / 3))` in torchvision's retinanet.py.
        scales = np.floor(self._anchor_scale * 2 ** self._levels[index] * self._scales)
        # `AnchorGenerator` of torchvision rounds the corners around 0, half to even as NumPy does.
        sizes = 2.0 * np.round(0.5 * _sizes(scales, self._ratios, (1.0, 1.0)))
        strides = _as_floats((image_size[0] // grid[0], image_size[1] // grid[1]))
        boxes = _tile(grid, sizes, strides, (0.0, 0.0))
        return boxes if self.in_pixels else _normalized(boxes, image_size)


class GridAnchorGenerator(AnchorGenerator):
    """Every scale with every ratio on one feature map, in pixels (Ren et al. 2015).

    Args:
        scales: factors on the base size.
        aspect_ratios: width over height.
        base_size: (height, width) in pixels.
        stride: (vertical, horizontal) distance between cells in pixels.
        offset: the first cell's center in pixels.
    """

    in_pixels = True

    def __init__(
        self,
        scales: Sequence[float],
        aspect_ratios: Sequence[float],
        base_size: Tuple[float, float] = (256.0, 256.0),
        stride: Tuple[float, float] = (16.0, 16.0),
        offset: Tuple[float, float] = (0.0, 0.0),
    ):
        # The scale varies fastest, as published: the channels of the predictors have this order.
        shapes = [(scale, ratio) for ratio in aspect_ratios for scale in scales]
        self._scales, self._ratios = np.array(shapes, np.float64).T
        self._base_size = base_size
        self._stride = stride
        self._offset = offset

    def anchors_per_location(self) -> List[int]:
        """Return the number of scales times ratios of the only feature map."""
        return [len(self._scales)]

    def level(self, index: int, grid: Size, image_size: Size) -> Array:
        """Compute the anchors of the feature map, in pixels."""
        sizes = _sizes(self._scales, self._ratios, self._base_size)
        # With an offset of 0, as published, the first center is the corner of the image, not half a
        # stride inside as in the other generators.
        return _tile(grid, sizes, self._stride, self._offset)


@dataclasses.dataclass(frozen=True)
class GridLevel:
    """One feature map of a flexible grid.

    Attributes:
        sizes: (base size in pixels, aspect ratio) of each anchor of a cell.
        stride: (vertical, horizontal), in pixels.
        offset: the first cell's center in pixels.
    """

    sizes: Tuple[Tuple[float, float], ...]
    stride: Tuple[float, float]
    offset: Tuple[float, float]


class FlexibleGridAnchorGenerator(AnchorGenerator):
    """Anchors whose sizes, strides and offsets are configured for each feature map.

    Args:
        levels: one for each feature map.
        normalize: whether boxes are normalized; else in pixels.
    """

    def __init__(self, levels: Sequence[GridLevel], normalize: bool = True):
        self._levels = list(levels)
        self.in_pixels = not normalize

    def anchors_per_location(self) -> List[int]:
        """Return the number of configured sizes of each feature map."""
        return [len(level.sizes) for level in self._levels]

    def level(self, index: int, grid: Size, image_size: Size) -> Array:
        """Compute the anchors of one feature map, normalized or in pixels as configured."""
        level = self._levels[index]
        scales, ratios = np.array(level.sizes, np.float64).T
        boxes = _tile(grid, _sizes(scales, ratios, (1.0, 1.0)), level.stride, level.offset)
        return boxes if self.in_pixels else _normalized(boxes, image_size)


def spatial_size(images: tf.Tensor) -> Size:
    """Return height and width of [B, height, width, channels]: ints where they are static."""
    static = images.shape.as_list()[1:3]
    if None not in static:
        return tuple(static)
    dynamic = tf.unstack(tf.shape(images)[1:3])
    return tuple(known or side for known, side in zip(static, dynamic))


def ssd_shapes(
    scales: Sequence[float],
    aspect_ratios: Sequence[float],
    interpolated_ratio: float = 1.0,
    reduce_lowest: bool = True,
) -> List[List[Tuple[float, float]]]:
    """List the (scale, aspect ratio) of each anchor of a cell, for each feature map.

    Args:
        scales: scale of each map.
        aspect_ratios: each map has an anchor of each ratio at its scale, and one more anchor whose
            scale lies between its own and the next map's (1 after the last).
        interpolated_ratio: aspect ratio of that additional anchor; 0 for no such anchor.
        reduce_lowest: the first map has three anchors instead: (0.1, 1), (s0, 2), (s0, 1/2).
    """
    levels = []
    for index, (scale, following) in enumerate(zip(scales, [*scales[1:], 1.0])):
        # As in the published `create_ssd_anchors`: 0.1 is a constant, whatever the scales are.
        if index == 0 and reduce_lowest:
            levels.append([(0.1, 1.0), (scale, 2.0), (scale, 0.5)])
            continue
        shapes = [(scale, ratio) for ratio in aspect_ratios]
        if interpolated_ratio > 0:
            shapes.append((math.sqrt(scale * following), interpolated_ratio))
        levels.append(shapes)
    return levels


def build_anchor_generator(section: Section[anchors_pb2.AnchorGenerator]) -> AnchorGenerator:
    """Build the anchor generator that a config describes.

    Args:
        section: configuration message.

    Raises:
        errors.ConfigError: the message is empty, or its values contradict each other.
    """
    config = section.message
    builders = {
        'ssd_anchor_generator': _build_ssd,
        'multiscale_anchor_generator': _build_multiscale,
        'grid_anchor_generator': _build_grid,
        'flexible_grid_anchor_generator': _build_flexible,
    }
    kind = config.WhichOneof('anchor_generator_oneof')
    if kind is None:
        raise section.error('', f'empty; expected one of {", ".join(sorted(builders))}.')
    checks.check_part(section, checks.anchor_problems(section))
    return builders[kind](getattr(config, kind))


def _build_ssd(config: anchors_pb2.SsdAnchorGenerator) -> SsdAnchorGenerator:
    if config.scales:
        scales = list(config.scales)
    # The published formula divides by `num_layers - 1`.
    elif config.num_layers == 1:
        scales = [config.min_scale]
    else:
        step = (config.max_scale - config.min_scale) / (config.num_layers - 1)
        scales = [config.min_scale + step * index for index in range(config.num_layers)]
    shapes = ssd_shapes(
        scales,
        list(config.aspect_ratios),
        config.interpolated_scale_aspect_ratio,
        config.reduce_boxes_in_lowest_layer,
    )
    return SsdAnchorGenerator(
        shapes,
        (config.base_anchor_height, config.base_anchor_width),
        list(zip(config.height_stride, config.width_stride)) or None,
        list(zip(config.height_offset, config.width_offset)) or None,
    )


def _build_multiscale(config: anchors_pb2.MultiscaleAnchorGenerator) -> MultiscaleAnchorGenerator:
    of_torchvision = config.layout == config.TORCHVISION
    kind = TorchvisionAnchorGenerator if of_torchvision else MultiscaleAnchorGenerator
    return kind(
        config.min_level,
        config.max_level,
        config.anchor_scale,
        list(config.aspect_ratios),
        config.scales_per_octave,
        config.normalize_coordinates,
    )


def _build_grid(config: anchors_pb2.GridAnchorGenerator) -> GridAnchorGenerator:
    return GridAnchorGenerator(
        list(config.scales),
        list(config.aspect_ratios),
        (config.height, config.width),
        (config.height_stride, config.width_stride),
        (config.height_offset, config.width_offset),
    )


def _build_flexible(config: anchors_pb2.FlexibleGridAnchorGenerator) -> FlexibleGridAnchorGenerator:
    levels = [
        GridLevel(
            tuple(zip(grid.base_sizes, grid.aspect_ratios)),
            (grid.height_stride, grid.width_stride),
            (grid.height_offset, grid.width_offset),
        )
        for grid in config.anchor_grid
    ]
    return FlexibleGridAnchorGenerator(levels, config.normalize_coordinates)


def _sizes(scales: np.ndarray, ratios: np.ndarray, base: Sequence[Any]) -> Array:
    """Compute heights and widths [n, 2] of anchors; a ratio is width over height."""
    roots = np.sqrt(ratios)
    heights, widths = scales / roots * base[0], scales * roots * base[1]
    return _ops(heights, widths).stack([heights, widths], axis=1)


def _tile(grid: Size, sizes: Array, strides: Sequence[Any], offsets: Sequence[Any]) -> Array:
    """Compute boxes [height * width * n, 4] of n sizes around the center of each cell."""
    ops = _ops(sizes, *grid, *strides, *offsets)
    arange = np.arange if ops is np else tf.range
    rows, columns = (
        # A product for each cell, not a sum of strides, whose rounding would grow along the map.
        offset + stride * arange(cells, dtype=np.float64)
        for offset, stride, cells in zip(offsets, strides, grid)
    )
    half = 0.5 * sizes
    y, x = rows[:, np.newaxis, np.newaxis], columns[np.newaxis, :, np.newaxis]
    sides = [y - half[:, 0], x - half[:, 1], y + half[:, 0], x + half[:, 1]]
    shape = (*grid, half.shape[0])
    boxes = ops.stack([ops.broadcast_to(side, shape) for side in sides], axis=-1)
    return ops.reshape(boxes, (-1, axis_aligned.SIZE))


def _normalized(boxes: Array, image_size: Size) -> Array:
    height, width = _as_floats(image_size)
    return boxes / _ops(height, width).stack([height, width, height, width])


def _as_floats(sides: Size) -> List[Any]:
    """Convert sides to 64 bits, the precision in which anchors are computed."""
    return [tf.cast(side, tf.float64) if tf.is_tensor(side) else float(side) for side in sides]


def _ops(*values: Any) -> Any:
    """Return `tf` if any value is a tensor, else `np`; callers use names that both have."""
    return tf if any(tf.is_tensor(value) for value in values) else np
