"""Distances of rotated boxes as normal distributions, with gradients everywhere.

A box becomes a normal distribution. Its mean is the center of the box and its covariance is
R diag(w^2/4, h^2/4) R^T, with R the rotation by the angle. Exchanging the sides and rotating by 90
degrees does not change the distribution, nor does the angle of a square.
"""

from __future__ import annotations

from typing import Callable, NamedTuple

import tensorflow as tf

# The bounds of MMRotate: 1e-7 for sides and for the arguments of roots.
_LEAST_SIDE = 1e-7
# Lower bounds under square roots, whose slope is infinite at 0: of sizes, and of distances.
_LEAST_SIZE = 1e-14
_LEAST_DISTANCE = 1e-7

# A distance of boxes [..., 5] at the same index: [...].
Distance = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


class _Gaussian(NamedTuple):
    """Normal distributions: the mean, and the covariance [[xx, xy], [xy, yy]]."""

    x: tf.Tensor
    y: tf.Tensor
    xx: tf.Tensor
    yy: tf.Tensor
    xy: tf.Tensor

    @property
    def determinant(self) -> tf.Tensor:
        """Determinant of the covariance; rounding may make it negative, so it is bounded.

        Returns:
            [...] of the entries' shape.
        """
        return tf.maximum(self.xx * self.yy - self.xy * self.xy, _LEAST_SIDE**4)


def squared_wasserstein(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Compute the squared 2-Wasserstein distance of boxes [..., 5] (Yang et al. 2021).

    For the boxes at the same index, with means m and n and covariances S and T:
    |m - n|^2 + tr S + tr T - 2 sqrt(tr(S T) + 2 sqrt(det S det T)).
    """
    one, other = _gaussian(first), _gaussian(second)
    centers = tf.square(one.x - other.x) + tf.square(one.y - other.y)
    traces = one.xx + one.yy + other.xx + other.yy
    product = one.xx * other.xx + one.yy * other.yy + 2.0 * one.xy * other.xy
    roots = _root(one.determinant * other.determinant)
    return tf.maximum(centers + traces - 2.0 * _root(product + 2.0 * roots), 0.0)


def normalized_wasserstein(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Compute the 2-Wasserstein distance over 2 (det S det T)^(1/8), independent of units.

    Returns:
        [...] of boxes [..., 5].
    """
    distance = _root(squared_wasserstein(first, second), _LEAST_DISTANCE)
    determinants = _gaussian(first).determinant * _gaussian(second).determinant
    return distance / (2.0 * tf.maximum(tf.pow(determinants, 0.125), _LEAST_SIDE))


def kullback_leibler(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Compute the divergence of boxes [..., 5], S, from boxes T (Yang et al. 2021b).

    d^T S^-1 d / 2 + tr(S^-1 T) / 2 + ln(det S / det T) / 2 - 1, with d the distance of the centers.
    """
    one, other = _gaussian(first), _gaussian(second)
    x, y = one.x - other.x, one.y - other.y
    # The inverse is the matrix of the cofactors over the determinant.
    squares = one.yy * x * x + one.xx * y * y - 2.0 * one.xy * x * y
    trace = one.yy * other.xx + one.xx * other.yy - 2.0 * one.xy * other.xy
    sizes = tf.math.log(one.determinant) - tf.math.log(other.determinant)
    divergence = 0.5 * ((squares + trace) / one.determinant + sizes) - 1.0
    return tf.maximum(divergence, 0.0)


def closeness(distance: Distance, tau: float, root: bool = False) -> Distance:
    """Build the function 1 / (tau + f(distance)), which falls from 1 / tau at distance 0.

    Args:
        distance: a distance, at least 0.
        tau: at least 1.
        root: True: f is the square root; False: ln(1 + distance).

    Returns:
        A function of boxes. A loss is 1 minus its values.
    """

    def compare(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        # The two forms are those of `postprocess` in MMRotate; its configs have log1p and a tau of
        # 1.
        apart = distance(first, second)
        return 1.0 / (tau + (_root(apart, _LEAST_DISTANCE) if root else tf.math.log1p(apart)))

    return compare


def _gaussian(boxes: tf.Tensor) -> _Gaussian:
    y, x, height, width, angle = tf.unstack(boxes, axis=-1)
    along = tf.square(0.5 * tf.maximum(width, _LEAST_SIDE))
    across = tf.square(0.5 * tf.maximum(height, _LEAST_SIDE))
    cosine, sine = tf.cos(angle), tf.sin(angle)
    return _Gaussian(
        x=x,
        y=y,
        xx=along * cosine * cosine + across * sine * sine,
        yy=along * sine * sine + across * cosine * cosine,
        xy=(along - across) * sine * cosine,
    )


def _root(values: tf.Tensor, least: float = _LEAST_SIZE) -> tf.Tensor:
    return tf.sqrt(tf.maximum(values, least))
