"""How much turned boxes overlap: areas of intersections of parallelograms, in the graph.

A parallelogram is [..., 6]: its centre and its two half edges, y before x each. Turned rectangles
are parallelograms, and remain ones when y and x are scaled by different factors; shares of areas do
not change by that.

The corners of an intersection are among 24 points: the corners of either that are inside the other,
and the crossings of their edges. Those that are, in the order of their directions from their mean,
are its outline. The graph is the same for any number of pairs, has no Python of its own, and keeps
to a bound of memory: pairs whose hulls do not meet are left out, the others come in blocks.
"""

from __future__ import annotations

from typing import Tuple

import numpy as np
import tensorflow as tf

SIZE = 6  # numbers of a parallelogram

# By how much of the longest edge a point may be outside of what it is on. Without it points on
# common edges, or equal corners, are lost to rounding; with much more areas grow.
_SLACK = {tf.float32: 1e-6, tf.float64: 1e-12}
# Equal boxes have 16 of the 24 points; no two have more that matter.
_POINTS = 16
# Pairs that are computed at once: a few dozen kilobytes for each thousand, and tensor.
_BLOCK = 1 << 15


def area(shapes: tf.Tensor) -> tf.Tensor:
    """Areas [...] of parallelograms [..., 6]."""
    _, first, second = tf.split(shapes, 3, axis=-1)
    return 4.0 * tf.abs(_cross(first, second))


def hull(shapes: tf.Tensor) -> tf.Tensor:
    """The smallest upright boxes around parallelograms [..., 6]: [..., 4]."""
    center, first, second = tf.split(shapes, 3, axis=-1)
    half = tf.abs(first) + tf.abs(second)
    return tf.concat([center - half, center + half], axis=-1)


def corners(shapes: tf.Tensor) -> tf.Tensor:
    """The corners [..., 4, 2], y and x, around parallelograms [..., 6]."""
    center, first, second = tf.split(shapes[..., tf.newaxis, :], 3, axis=-1)
    return center + first * _signs(shapes, 0) + second * _signs(shapes, 1)


def elementwise_intersection(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Areas [...] that the parallelograms [..., 6] at the same place have in common."""
    shape = tf.shape(first)[:-1]
    areas = _intersection(tf.reshape(first, [-1, SIZE]), tf.reshape(second, [-1, SIZE]))
    return tf.reshape(areas, shape)


def pairwise_intersection(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Areas that every parallelogram of one set has in common with every one of another.

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
    """Areas [n] of the intersections of the parallelograms at n pairs of rows."""
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
    """Areas [n] that parallelograms [n, 6] have in common with those in the same row.

    Places are taken relative to the pair, in units of its longest edge: rounding then does not
    depend on where in an image a pair is, nor on the unit of its numbers.
    """
    slack = _SLACK[first.dtype]
    origin = 0.5 * (first[:, :2] + second[:, :2])
    longest = [2.0 * tf.norm(one, axis=-1) for one in (*_edges(first), *_edges(second))]
    unit = tf.reduce_max(tf.stack(longest), axis=0)
    scale = tf.math.divide_no_nan(tf.ones_like(unit), unit)[:, tf.newaxis]
    shift = tf.concat([origin, tf.zeros_like(origin), tf.zeros_like(origin)], axis=1)
    first, second = (first - shift) * scale, (second - shift) * scale
    outlines = corners(first), corners(second)
    crossings, cross = _crossings(*outlines, slack)
    points = tf.concat([*outlines, crossings], axis=1)
    valid = tf.concat(
        [_is_inside(outlines[0], second, slack), _is_inside(outlines[1], first, slack), cross],
        axis=1,
    )
    areas = _area_of_outline(points, valid)
    # Slack may have let it grow.
    areas = tf.minimum(areas, tf.minimum(area(first), area(second)))
    return areas * tf.square(unit)


def _edges(shapes: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
    return shapes[..., 2:4], shapes[..., 4:]


def _is_inside(points: tf.Tensor, shapes: tf.Tensor, slack: float) -> tf.Tensor:
    """Bool [n, k]: whether points [n, k, 2] are inside of the parallelogram [n, 6] of their row."""
    from_center = points - shapes[:, tf.newaxis, :2]
    edges = [edge[:, tf.newaxis] for edge in _edges(shapes)]
    reach = tf.abs(_cross(*edges))
    within = [
        tf.abs(_cross(from_center, edge)) <= reach + slack * tf.norm(edge, axis=-1)
        for edge in edges
    ]
    # Along an edge without length nothing is told by it: the hull tells.
    bounds = hull(shapes)[:, tf.newaxis]
    beyond = tf.logical_or(points < bounds[..., :2] - slack, points > bounds[..., 2:] + slack)
    outside = tf.reduce_any(beyond, axis=-1)
    return tf.logical_and(tf.logical_and(*within), tf.logical_not(outside))


def _crossings(first: tf.Tensor, second: tf.Tensor, slack: float) -> Tuple[tf.Tensor, tf.Tensor]:
    """Where the edges of outlines [n, 4, 2] cross: points [n, 16, 2], and whether they do."""
    start, other_start = first[:, :, tf.newaxis], second[:, tf.newaxis]
    edge = tf.roll(first, -1, axis=1)[:, :, tf.newaxis] - start
    other_edge = tf.roll(second, -1, axis=1)[:, tf.newaxis] - other_start
    determinant = _cross(edge, other_edge)
    apart = other_start - start
    parallel = tf.abs(determinant) <= slack
    safe = tf.where(parallel, tf.ones_like(determinant), determinant)
    along, along_other = _cross(apart, other_edge) / safe, _cross(apart, edge) / safe
    on_both = [tf.logical_and(one >= -slack, one <= 1.0 + slack) for one in (along, along_other)]
    cross = tf.logical_and(tf.logical_and(*on_both), tf.logical_not(parallel))
    points = start + tf.clip_by_value(along, 0.0, 1.0)[..., tf.newaxis] * edge
    return tf.reshape(points, [-1, 16, 2]), tf.reshape(cross, [-1, 16])


def _area_of_outline(points: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
    """Areas [n] of the convex polygons of the valid ones of points [n, k, 2]."""
    some = tf.cast(valid, points.dtype)[..., tf.newaxis]
    count = tf.reduce_sum(some, axis=1, keepdims=True)
    mean = tf.math.divide_no_nan(tf.reduce_sum(points * some, axis=1, keepdims=True), count)
    y, x = tf.unstack(points - mean, axis=-1)
    # Grows with the direction, as an angle does, from 0 to 4.
    across = tf.math.divide_no_nan(x, tf.abs(x) + tf.abs(y))
    direction = tf.where(y >= 0.0, 1.0 - across, 3.0 + across)
    order = tf.math.top_k(tf.where(valid, direction, -tf.ones_like(direction)), _POINTS).indices
    y, x = tf.gather(y, order, batch_dims=1), tf.gather(x, order, batch_dims=1)
    kept = tf.range(_POINTS) < tf.cast(count[:, :, 0], tf.int32)
    y, x = tf.where(kept, y, y[:, :1]), tf.where(kept, x, x[:, :1])
    doubled = x * tf.roll(y, -1, axis=1) - y * tf.roll(x, -1, axis=1)
    areas = 0.5 * tf.abs(tf.reduce_sum(doubled, axis=1))
    return tf.where(count[:, 0, 0] >= 3.0, areas, tf.zeros_like(areas))


def _signs(shapes: tf.Tensor, edge: int) -> np.ndarray:
    """[4, 1]: on which side of each corner's centre it is, along one of the half edges."""
    # In the order of `rotated_rectangles.CORNER_SIGNS`, with the height as the first half edge.
    signs = ((-1, -1, 1, 1), (-1, 1, 1, -1))[edge]
    return np.array(signs, shapes.dtype.as_numpy_dtype)[:, np.newaxis]


def _cross(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Cross products [...] of vectors [..., 2], y and x."""
    return first[..., 1] * second[..., 0] - first[..., 0] * second[..., 1]
