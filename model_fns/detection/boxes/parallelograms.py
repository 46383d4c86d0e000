"""Overlaps of rotated boxes: areas of intersections of parallelograms, in the graph.

A parallelogram is [..., 6]: its center and its two half edges, y before x each. Rotated rectangles
are parallelograms, and remain parallelograms if y and x are scaled by different factors. Ratios of
areas do not change with such a scaling.

The corners of an intersection are among 24 points: the corners of each parallelogram that are
inside the other, and the crossings of their edges. Ordered by their direction from their mean they
are the outline of the intersection. The graph is the same for any number of pairs, contains no
Python function, and its memory is bounded. Pairs whose enclosing boxes do not touch are skipped.
The other pairs are computed in blocks.
"""

from __future__ import annotations

from typing import NamedTuple, Tuple

import numpy as np
import tensorflow as tf

SIZE = 6  # numbers of a parallelogram

# The y and x of points.
_Points = Tuple[tf.Tensor, tf.Tensor]

# Tolerance for a point on an edge, in units of the longest edge. Without it rounding loses points
# on common edges, or equal corners. A much larger tolerance makes areas grow.
# Largest errors in float32 against shapely, of 16,600 pairs with nearly equal and tiny boxes:
# 1.4e-5 with 1e-6, 3e-4 with 1e-5, 3e-3 with 1e-4, and 1.0 without tolerance.
_SLACK = {tf.float32: 1e-6, tf.float64: 1e-12}
# Equal boxes have 16 of the 24 points; no other pair has more distinct ones.
# Boxes that differ by a rotation of 1e-6 have 20 valid points: with room for 16, a quarter of their
# common area was lost (fe2815d1).
_POINTS = 24
# Pairs that are computed at once: each tensor takes a few dozen kilobytes per thousand pairs.
_BLOCK = 1 << 15


def area(shapes: tf.Tensor) -> tf.Tensor:
    """Compute areas [...] of parallelograms [..., 6]."""
    _, first, second = tf.split(shapes, 3, axis=-1)
    return 4.0 * tf.abs(_cross(first, second))


def enclosing_boxes(shapes: tf.Tensor) -> tf.Tensor:
    """Compute the smallest axis-aligned boxes around parallelograms [..., 6]: [..., 4]."""
    center, first, second = tf.split(shapes, 3, axis=-1)
    half = tf.abs(first) + tf.abs(second)
    return tf.concat([center - half, center + half], axis=-1)


def corners(shapes: tf.Tensor) -> tf.Tensor:
    """Compute the corners [..., 4, 2], y and x, of parallelograms [..., 6]."""
    center, first, second = tf.split(shapes[..., tf.newaxis, :], 3, axis=-1)
    return center + first * _signs(shapes, 0) + second * _signs(shapes, 1)


def elementwise_intersection(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Compute the areas [...] of intersections of parallelograms [..., 6] at the same index."""
    shape = tf.shape(first)[:-1]
    areas = _intersection(tf.reshape(first, [-1, SIZE]), tf.reshape(second, [-1, SIZE]))
    return tf.reshape(areas, shape)


def pairwise_intersection(first: tf.Tensor, second: tf.Tensor, at_once: bool = False) -> tf.Tensor:
    """Compute the areas of the intersections of all parallelograms of two sets.

    Args:
        first: float32 or float64 [..., N, 6].
        second: [..., P, 6]; leading dimensions broadcast against those of `first`.
        at_once: True: without blocks, so that there is no loop.

    Returns:
        [..., N, P], without a gradient.
    """
    # Sorting and masks make the gradient of the area 0 in whole regions. Losses use `gaussians`.
    first, second = tf.stop_gradient(first), tf.stop_gradient(second)
    # Of 200,000 pairs of which 2.6 % touch, this leaves 0.016 of 0.30 processor seconds.
    near = _boxes_touch(enclosing_boxes(first), enclosing_boxes(second))
    pairs = tf.where(near)
    rows = tf.broadcast_to(_row_numbers(first)[..., :, tf.newaxis], tf.shape(near))
    others = tf.broadcast_to(_row_numbers(second)[..., tf.newaxis, :], tf.shape(near))
    flat = tf.reshape(first, [-1, SIZE]), tf.reshape(second, [-1, SIZE])
    indices = tf.gather_nd(rows, pairs), tf.gather_nd(others, pairs)
    if at_once:
        common = _intersection(*map(tf.gather, flat, indices))
    else:
        common = _intersect_in_blocks(flat, indices)
    areas = tf.scatter_nd(pairs, common, tf.shape(near, tf.int64))
    return tf.ensure_shape(areas, near.shape)


def self_intersection(shapes: tf.Tensor) -> tf.Tensor:
    """Compute the areas [N, N] of intersections of parallelograms [N, 6]; the diagonal is 0."""
    shapes = tf.stop_gradient(shapes)
    numbers = tf.range(tf.shape(shapes)[0])
    bounds = enclosing_boxes(shapes)
    later = numbers[:, tf.newaxis] < numbers  # each pair once
    pairs = tf.where(tf.logical_and(later, _boxes_touch(bounds, bounds)))
    common = _intersect_in_blocks((shapes, shapes), tuple(tf.unstack(pairs, axis=1)))
    upper = tf.scatter_nd(pairs, common, tf.shape(later, tf.int64))
    return upper + tf.transpose(upper)


def _row_numbers(shapes: tf.Tensor) -> tf.Tensor:
    """Return the index int32 [...] of each parallelogram of [..., 6] in one list of them all."""
    rows = tf.shape(shapes)[:-1]
    return tf.reshape(tf.range(tf.reduce_prod(rows)), rows)


def _boxes_touch(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Check which boxes [..., N, 4] and [..., P, 4] have a common point: bool [..., N, P]."""
    ymin1, xmin1, ymax1, xmax1 = tf.split(first, 4, axis=-1)
    ymin2, xmin2, ymax2, xmax2 = tf.unstack(second[..., tf.newaxis, :, :], axis=-1)
    vertical = tf.logical_and(ymin1 <= ymax2, ymin2 <= ymax1)
    return tf.logical_and(vertical, tf.logical_and(xmin1 <= xmax2, xmin2 <= xmax1))


def _intersect_in_blocks(
    shapes: Tuple[tf.Tensor, tf.Tensor], rows: Tuple[tf.Tensor, tf.Tensor]
) -> tf.Tensor:
    """Compute the areas [n] of the intersections of the parallelograms at n pairs of rows."""
    count = tf.shape(rows[0])[0]
    blocks = tf.maximum((count + _BLOCK - 1) // _BLOCK, 1)  # one may be empty

    def step(index: tf.Tensor, areas: tf.TensorArray) -> Tuple[tf.Tensor, tf.TensorArray]:
        block = slice(index * _BLOCK, (index + 1) * _BLOCK)
        pairs = (tf.gather(shape, row[block]) for shape, row in zip(shapes, rows))
        return index + 1, areas.write(index, _intersection(*pairs))

    areas = tf.TensorArray(shapes[0].dtype, size=blocks, infer_shape=False, element_shape=[None])
    _, areas = tf.while_loop(
        lambda index, _: index < blocks, step, (tf.constant(0), areas), parallel_iterations=1
    )
    return areas.concat()


def _intersection(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Compute the areas [n] of the intersections of parallelograms [n, 6] in the same row.

    Coordinates are relative to the pair, in units of its longest edge. So rounding depends neither
    on the position of a pair in the image nor on the unit of its values. Internally the pairs are
    the last dimension of every tensor, because the kernels are fastest with that layout.
    """
    slack = _SLACK[first.dtype]
    one, other = _Shape(*tf.unstack(first, axis=1)), _Shape(*tf.unstack(second, axis=1))
    # Without this shift float32 loses three digits at pixel 20,000.
    origin = 0.5 * (one.y + other.y), 0.5 * (one.x + other.x)
    lengths = [2.0 * length for shape in (one, other) for length in shape.lengths()]
    unit = tf.reduce_max(tf.stack(lengths), axis=0)
    scale = tf.math.divide_no_nan(tf.ones_like(unit), unit)
    one, other = one.relative(origin, scale), other.relative(origin, scale)
    outlines = one.corners(), other.corners()
    crossings, cross = _crossings(*outlines, slack)
    points = [tf.concat(axis, axis=0) for axis in zip(*outlines, crossings)]
    inside = [other.holds(outlines[0], slack), one.holds(outlines[1], slack)]
    areas = _area_of_outline(*points, tf.concat([*inside, cross], axis=0))
    # The tolerance may have made the areas too large.
    areas = tf.minimum(areas, tf.minimum(one.area(), other.area()))
    return areas * tf.square(unit)


class _Shape(NamedTuple):
    """The values of n parallelograms, each [n]: the center and two half edges."""

    y: tf.Tensor
    x: tf.Tensor
    first_y: tf.Tensor
    first_x: tf.Tensor
    second_y: tf.Tensor
    second_x: tf.Tensor

    def lengths(self) -> Tuple[tf.Tensor, tf.Tensor]:
        """Compute the lengths of the half edges, each of the shape of `y`."""
        return (
            tf.sqrt(tf.square(self.first_y) + tf.square(self.first_x)),
            tf.sqrt(tf.square(self.second_y) + tf.square(self.second_x)),
        )

    def area(self) -> tf.Tensor:
        """Compute areas, of the shape of `y`."""
        return 4.0 * tf.abs(self.first_x * self.second_y - self.first_y * self.second_x)

    def relative(self, origin: _Points, scale: tf.Tensor) -> _Shape:
        """Return the parallelograms relative to an origin, in other units, of the same shape."""
        edges = (edge * scale for edge in self[2:])
        return _Shape((self.y - origin[0]) * scale, (self.x - origin[1]) * scale, *edges)

    def corners(self) -> _Points:
        """Compute y and x of the corners, [4, n] each, in the order of the outline."""
        axes = []
        for center, first, second in (
            (self.y, self.first_y, self.second_y),
            (self.x, self.first_x, self.second_x),
        ):
            ahead, behind = first + second, first - second
            axes.append(
                tf.stack([center - ahead, center - behind, center + ahead, center + behind])
            )
        return axes[0], axes[1]

    def holds(self, points: _Points, slack: float) -> tf.Tensor:
        """Check which points [k, n] are inside, up to a tolerance: bool [k, n]."""
        y, x = points[0] - self.y, points[1] - self.x
        reach = 0.25 * self.area()
        lengths = self.lengths()
        inside = [
            tf.abs(x * edge_y - y * edge_x) <= reach + slack * length
            for edge_y, edge_x, length in (
                (self.first_y, self.first_x, lengths[0]),
                (self.second_y, self.second_x, lengths[1]),
            )
        ]
        # An edge without length does not bound points along the other edge. The enclosing box does.
        inside += [
            tf.abs(y) <= tf.abs(self.first_y) + tf.abs(self.second_y) + slack,
            tf.abs(x) <= tf.abs(self.first_x) + tf.abs(self.second_x) + slack,
        ]
        return tf.logical_and(
            tf.logical_and(inside[0], inside[1]), tf.logical_and(inside[2], inside[3])
        )


def _crossings(first: _Points, second: _Points, slack: float) -> Tuple[_Points, tf.Tensor]:
    """Compute crossings [16, n] of the edges of outlines [4, n], and which of them exist."""
    (y, edge_y), (x, edge_x) = (
        (axis[:, tf.newaxis], _following(axis)[:, tf.newaxis]) for axis in first
    )
    other_y, other_x = second
    other_edge_y, other_edge_x = _following(other_y), _following(other_x)
    determinant = edge_x * other_edge_y - edge_y * other_edge_x
    apart_y, apart_x = other_y - y, other_x - x
    parallel = tf.abs(determinant) <= slack
    inverse = 1.0 / tf.where(parallel, tf.ones_like(determinant), determinant)
    along = (apart_x * other_edge_y - apart_y * other_edge_x) * inverse
    along_other = (apart_x * edge_y - apart_y * edge_x) * inverse
    # Both must lie in [0, 1], up to the tolerance.
    off = tf.maximum(tf.abs(along - 0.5), tf.abs(along_other - 0.5))
    cross = tf.logical_and(off <= 0.5 + slack, tf.logical_not(parallel))
    along = tf.clip_by_value(along, 0.0, 1.0)
    flat = [16, -1]  # in ONNX a computed 0 would be another side of the input
    points = tf.reshape(y + along * edge_y, flat), tf.reshape(x + along * edge_x, flat)
    return points, tf.reshape(cross, flat)


def _following(points: tf.Tensor) -> tf.Tensor:
    """Compute the differences from each of points [4, n] to the next one."""
    return tf.concat([points[1:], points[:1]], axis=0) - points


def _area_of_outline(y: tf.Tensor, x: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
    """Compute the areas [n] of the convex polygons of the valid points of [k, n]."""
    weights = tf.cast(valid, y.dtype)
    count = tf.reduce_sum(weights, axis=0)
    y, x = (
        axis - tf.math.divide_no_nan(tf.reduce_sum(axis * weights, axis=0), count)
        for axis in (y, x)
    )
    # A substitute for the angle: it grows with the direction, from 0 to 4.
    across = tf.math.divide_no_nan(x, tf.abs(x) + tf.abs(y))
    direction = tf.where(y >= 0.0, 1.0 - across, 3.0 + across)
    direction = tf.transpose(tf.where(valid, direction, -tf.ones_like(direction)))
    order = tf.math.top_k(direction, _POINTS).indices
    # A gather of a flat list is a few times faster than one by row.
    order += tf.range(tf.shape(order)[0])[:, tf.newaxis] * _POINTS
    y, x = (tf.gather(tf.reshape(tf.transpose(axis), [-1]), order) for axis in (y, x))
    # The first point replaces those after the last valid one: they add no area.
    kept = tf.range(_POINTS) < tf.cast(count, tf.int32)[:, tf.newaxis]
    y, x = (tf.where(kept, axis, axis[:, :1]) for axis in (y, x))
    doubled = tf.reduce_sum(x[:, :-1] * y[:, 1:] - y[:, :-1] * x[:, 1:], axis=1)
    doubled += x[:, -1] * y[:, 0] - y[:, -1] * x[:, 0]
    return tf.where(count >= 3.0, 0.5 * tf.abs(doubled), tf.zeros_like(doubled))


def _signs(shapes: tf.Tensor, edge: int) -> np.ndarray:
    """Return [4, 1]: the sign of one half edge in the position of each corner."""
    # In the order of `rotated_rectangles.CORNER_SIGNS`, with the height as the first half edge.
    signs = ((-1, -1, 1, 1), (-1, 1, 1, -1))[edge]
    return np.array(signs, shapes.dtype.as_numpy_dtype)[:, np.newaxis]


def _cross(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Compute the cross products [...] of vectors [..., 2], y and x."""
    return first[..., 1] * second[..., 0] - first[..., 0] * second[..., 1]
