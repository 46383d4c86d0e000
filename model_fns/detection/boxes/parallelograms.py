"""How much turned boxes overlap: areas of intersections of parallelograms, in the graph.

A parallelogram is [..., 6]: its center and its two half edges, y before x each. Turned rectangles
are parallelograms, and remain ones when y and x are scaled by different factors; shares of areas do
not change by that.

The corners of an intersection are among 24 points: the corners of either that are inside the other,
and the crossings of their edges. Those that are, in the order of their directions from their mean,
are its outline. The graph is the same for any number of pairs, has no Python of its own, and keeps
to a bound of memory: pairs whose hulls do not meet are left out, the others come in blocks.
"""

from __future__ import annotations

from typing import NamedTuple, Tuple

import numpy as np
import tensorflow as tf

SIZE = 6  # numbers of a parallelogram

# The y and x of points.
_Points = Tuple[tf.Tensor, tf.Tensor]

# By how much of the longest edge a point may be outside of what it is on. Without it points on
# common edges, or equal corners, are lost to rounding; with much more areas grow.
_SLACK = {tf.float32: 1e-6, tf.float64: 1e-12}
# Equal boxes have 16 of the 24 points; no two have more that matter.
_POINTS = 24
# Pairs that are computed at once: a few dozen kilobytes for each thousand, and tensor.
_BLOCK = 1 << 15


def area(shapes: tf.Tensor) -> tf.Tensor:
    """Return areas [...] of parallelograms [..., 6]."""
    _, first, second = tf.split(shapes, 3, axis=-1)
    return 4.0 * tf.abs(_cross(first, second))


def hull(shapes: tf.Tensor) -> tf.Tensor:
    """Return the smallest upright boxes around parallelograms [..., 6]: [..., 4]."""
    center, first, second = tf.split(shapes, 3, axis=-1)
    half = tf.abs(first) + tf.abs(second)
    return tf.concat([center - half, center + half], axis=-1)


def corners(shapes: tf.Tensor) -> tf.Tensor:
    """Return the corners [..., 4, 2], y and x, around parallelograms [..., 6]."""
    center, first, second = tf.split(shapes[..., tf.newaxis, :], 3, axis=-1)
    return center + first * _signs(shapes, 0) + second * _signs(shapes, 1)


def elementwise_intersection(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Return areas [...] that the parallelograms [..., 6] at the same place have in common."""
    shape = tf.shape(first)[:-1]
    areas = _intersection(tf.reshape(first, [-1, SIZE]), tf.reshape(second, [-1, SIZE]))
    return tf.reshape(areas, shape)


def pairwise_intersection(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Return areas that every parallelogram of one set has in common with every one of another.

    Args:
        first: float32 or float64 [..., N, 6].
        second: [..., P, 6]; leading dimensions broadcast against those of `first`.

    Returns:
        [..., N, P]; no gradient goes through it.
    """
    first, second = tf.stop_gradient(first), tf.stop_gradient(second)
    near = _hulls_meet(hull(first), hull(second))
    pairs = tf.where(near)
    places = tf.broadcast_to(_row_numbers(first)[..., :, tf.newaxis], tf.shape(near))
    others = tf.broadcast_to(_row_numbers(second)[..., tf.newaxis, :], tf.shape(near))
    found = _in_blocks(
        (tf.reshape(first, [-1, SIZE]), tf.reshape(second, [-1, SIZE])),
        (tf.gather_nd(places, pairs), tf.gather_nd(others, pairs)),
    )
    areas = tf.scatter_nd(pairs, found, tf.shape(near, tf.int64))
    return tf.ensure_shape(areas, near.shape)


def self_intersection(shapes: tf.Tensor) -> tf.Tensor:
    """Areas [N, N] that parallelograms [N, 6] have in common with each other, 0 with themselves."""
    shapes = tf.stop_gradient(shapes)
    numbers = tf.range(tf.shape(shapes)[0])
    hulls = hull(shapes)
    later = numbers[:, tf.newaxis] < numbers  # each pair once
    pairs = tf.where(tf.logical_and(later, _hulls_meet(hulls, hulls)))
    found = _in_blocks((shapes, shapes), tuple(tf.unstack(pairs, axis=1)))
    upper = tf.scatter_nd(pairs, found, tf.shape(later, tf.int64))
    return upper + tf.transpose(upper)


def _row_numbers(shapes: tf.Tensor) -> tf.Tensor:
    """int32 [...]: the number of each parallelogram of [..., 6] in one list of them all."""
    rows = tf.shape(shapes)[:-1]
    return tf.reshape(tf.range(tf.reduce_prod(rows)), rows)


def _hulls_meet(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Bool [..., N, P]: whether upright boxes [..., N, 4] and [..., P, 4] have a common point."""
    ymin1, xmin1, ymax1, xmax1 = tf.split(first, 4, axis=-1)
    ymin2, xmin2, ymax2, xmax2 = tf.unstack(second[..., tf.newaxis, :, :], axis=-1)
    vertical = tf.logical_and(ymin1 <= ymax2, ymin2 <= ymax1)
    return tf.logical_and(vertical, tf.logical_and(xmin1 <= xmax2, xmin2 <= xmax1))


def _in_blocks(shapes: Tuple[tf.Tensor, tf.Tensor], rows: Tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
    """Return areas [n] of the intersections of the parallelograms at n pairs of rows."""
    count = tf.shape(rows[0])[0]
    blocks = tf.maximum((count + _BLOCK - 1) // _BLOCK, 1)  # one may be empty

    def step(index: tf.Tensor, areas: tf.TensorArray) -> Tuple[tf.Tensor, tf.TensorArray]:
        chosen = [one[index * _BLOCK : (index + 1) * _BLOCK] for one in rows]
        some = _intersection(*(tf.gather(one, each) for one, each in zip(shapes, chosen)))
        return index + 1, areas.write(index, some)

    areas = tf.TensorArray(shapes[0].dtype, size=blocks, infer_shape=False, element_shape=[None])
    _, areas = tf.while_loop(
        lambda index, _: index < blocks, step, (tf.constant(0), areas), parallel_iterations=1
    )
    return areas.concat()


def _intersection(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Return areas [n] that parallelograms [n, 6] have in common with those in the same row.

    Places are taken relative to the pair, in units of its longest edge: rounding then does not
    depend on where in an image a pair is, nor on the unit of its numbers. Inside, the pairs are the
    last dimension of every tensor: that is what the kernels are fast with.
    """
    slack = _SLACK[first.dtype]
    one, other = _Shape(*tf.unstack(first, axis=1)), _Shape(*tf.unstack(second, axis=1))
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
    # Slack may have let it grow.
    areas = tf.minimum(areas, tf.minimum(one.area(), other.area()))
    return areas * tf.square(unit)


class _Shape(NamedTuple):
    """The numbers of n parallelograms, each [n]: the center and two half edges."""

    y: tf.Tensor
    x: tf.Tensor
    first_y: tf.Tensor
    first_x: tf.Tensor
    second_y: tf.Tensor
    second_x: tf.Tensor

    def lengths(self) -> Tuple[tf.Tensor, tf.Tensor]:
        """Of the half edges."""
        return (
            tf.sqrt(tf.square(self.first_y) + tf.square(self.first_x)),
            tf.sqrt(tf.square(self.second_y) + tf.square(self.second_x)),
        )

    def area(self) -> tf.Tensor:
        """Return areas."""
        return 4.0 * tf.abs(self.first_x * self.second_y - self.first_y * self.second_x)

    def relative(self, origin: _Points, scale: tf.Tensor) -> _Shape:
        """Return the same as seen from a place, in other units."""
        edges = (one * scale for one in self[2:])
        return _Shape((self.y - origin[0]) * scale, (self.x - origin[1]) * scale, *edges)

    def corners(self) -> _Points:
        """Their y and x, [4, n] each, all the way around."""
        found = []
        for center, first, second in (
            (self.y, self.first_y, self.second_y),
            (self.x, self.first_x, self.second_x),
        ):
            ahead, behind = first + second, first - second
            found.append(
                tf.stack([center - ahead, center - behind, center + ahead, center + behind])
            )
        return found[0], found[1]

    def holds(self, points: _Points, slack: float) -> tf.Tensor:
        """Return bool [k, n]: whether points [k, n] are inside, or closer to it than some slack."""
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
        # An edge without length tells nothing about places along the other one: the hull does.
        inside += [
            tf.abs(y) <= tf.abs(self.first_y) + tf.abs(self.second_y) + slack,
            tf.abs(x) <= tf.abs(self.first_x) + tf.abs(self.second_x) + slack,
        ]
        return tf.logical_and(
            tf.logical_and(inside[0], inside[1]), tf.logical_and(inside[2], inside[3])
        )


def _crossings(first: _Points, second: _Points, slack: float) -> Tuple[_Points, tf.Tensor]:
    """Where the edges of outlines [4, n] cross: points [16, n], and whether they do."""
    (y, edge_y), (x, edge_x) = (
        (one[:, tf.newaxis], _following(one)[:, tf.newaxis]) for one in first
    )
    other_y, other_x = second
    other_edge_y, other_edge_x = _following(other_y), _following(other_x)
    determinant = edge_x * other_edge_y - edge_y * other_edge_x
    apart_y, apart_x = other_y - y, other_x - x
    parallel = tf.abs(determinant) <= slack
    inverse = 1.0 / tf.where(parallel, tf.ones_like(determinant), determinant)
    along = (apart_x * other_edge_y - apart_y * other_edge_x) * inverse
    along_other = (apart_x * edge_y - apart_y * edge_x) * inverse
    # Both are in [0, 1], or out of it by no more than the slack.
    off = tf.maximum(tf.abs(along - 0.5), tf.abs(along_other - 0.5))
    cross = tf.logical_and(off <= 0.5 + slack, tf.logical_not(parallel))
    along = tf.clip_by_value(along, 0.0, 1.0)
    flat = [16, tf.shape(y)[-1]]
    points = tf.reshape(y + along * edge_y, flat), tf.reshape(x + along * edge_x, flat)
    return points, tf.reshape(cross, flat)


def _following(points: tf.Tensor) -> tf.Tensor:
    """From each of points [4, n] to the next one."""
    return tf.concat([points[1:], points[:1]], axis=0) - points


def _area_of_outline(y: tf.Tensor, x: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
    """Return areas [n] of the convex polygons of the valid ones of points [k, n]."""
    some = tf.cast(valid, y.dtype)
    count = tf.reduce_sum(some, axis=0)
    y, x = (one - tf.math.divide_no_nan(tf.reduce_sum(one * some, axis=0), count) for one in (y, x))
    # Grows with the direction, as an angle does, from 0 to 4.
    across = tf.math.divide_no_nan(x, tf.abs(x) + tf.abs(y))
    direction = tf.where(y >= 0.0, 1.0 - across, 3.0 + across)
    direction = tf.transpose(tf.where(valid, direction, -tf.ones_like(direction)))
    order = tf.math.top_k(direction, _POINTS).indices
    # A gather of a flat list is a few times faster than one by row.
    order += tf.range(tf.shape(order)[0])[:, tf.newaxis] * _POINTS
    y, x = (tf.gather(tf.reshape(tf.transpose(one), [-1]), order) for one in (y, x))
    # What is behind the last valid point is the first one again: that has no area.
    kept = tf.range(_POINTS) < tf.cast(count, tf.int32)[:, tf.newaxis]
    y, x = (tf.where(kept, one, one[:, :1]) for one in (y, x))
    doubled = tf.reduce_sum(x[:, :-1] * y[:, 1:] - y[:, :-1] * x[:, 1:], axis=1)
    doubled += x[:, -1] * y[:, 0] - y[:, -1] * x[:, 0]
    return tf.where(count >= 3.0, 0.5 * tf.abs(doubled), tf.zeros_like(doubled))


def _signs(shapes: tf.Tensor, edge: int) -> np.ndarray:
    """[4, 1]: on which side of each corner's center it is, along one of the half edges."""
    # In the order of `rotated_rectangles.CORNER_SIGNS`, with the height as the first half edge.
    signs = ((-1, -1, 1, 1), (-1, 1, 1, -1))[edge]
    return np.array(signs, shapes.dtype.as_numpy_dtype)[:, np.newaxis]


def _cross(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Cross products [...] of vectors [..., 2], y and x."""
    return first[..., 1] * second[..., 0] - first[..., 0] * second[..., 1]
