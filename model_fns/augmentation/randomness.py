"""Random numbers of augmentation steps, as functions of an example's seed."""

from __future__ import annotations

from typing import List, Union

import numpy as np
import tensorflow as tf

# Odd numbers, so that distinct multiples stay distinct modulo 2^64.
# The first is 2^64 by the golden ratio (SplitMix64), the second the multiplier of Knuth's MMIX.
_STRIDES = np.array([0x9E3779B97F4A7C15, 0x5851F42D4C957F2D], np.uint64)

Integer = Union[int, tf.Tensor]


def step_seed(seed: tf.Tensor, index: int) -> tf.Tensor:
    """Derive the seed of the step at an index, int64 [2], from the seed of the example."""
    return _moved(seed, index + 1, _STRIDES)


def stream_seed(seed: tf.Tensor, index: int) -> tf.Tensor:
    """Derive a further seed of a step that draws more than once, int64 [2]; indices from 1."""
    return _moved(seed, index, _STRIDES[::-1])


def uniforms(seed: tf.Tensor, *shape: int) -> List[tf.Tensor]:
    """Draw independent float32 numbers in [0, 1).

    Args:
        seed: int64 [2].
        *shape: number of tensors, then the shape of each: `uniforms(seed, 3)` are three scalars.
    """
    # `tf.random.stateless_uniform` would add fifty operations to the graph instead of one.
    return tf.unstack(tf.raw_ops.StatelessRandomUniform(shape=shape, seed=seed))


def uniform_tensor(seed: tf.Tensor, shape: tf.Tensor) -> tf.Tensor:
    """Draw independent float32 numbers in [0, 1), of a shape that the graph computes."""
    return tf.raw_ops.StatelessRandomUniform(shape=shape, seed=seed)


def normal_tensor(seed: tf.Tensor, shape: tf.Tensor) -> tf.Tensor:
    """Draw independent float32 numbers of the standard normal distribution.

    Returns:
        float32 of that shape.
    """
    return tf.raw_ops.StatelessRandomNormal(shape=shape, seed=seed)


def beta(seed: tf.Tensor, alpha: float) -> tf.Tensor:
    """Draw a float32 scalar in [0, 1] from the distribution Beta(alpha, alpha)."""
    # The ratio of a gamma variable to the sum of two. For a small alpha both may be rounded to 0.
    first, second = tf.unstack(tf.random.stateless_gamma([2], seed, tf.constant(alpha)))
    return tf.math.divide_no_nan(first, first + second)


def between(uniform: tf.Tensor, low: float, high: float) -> tf.Tensor:
    """Map numbers in [0, 1) to [low, high): float32, of the same shape."""
    return low + uniform * (high - low)


def integer(uniform: tf.Tensor, low: Integer, high: Integer) -> tf.Tensor:
    """Map numbers in [0, 1) to int32 from low to high inclusive; at most 2^24 values.

    Args:
        uniform: in [0, 1).
        low: an int or int32.
        high: an int or int32, not below `low`.

    Returns:
        int32, of the shape of `uniform`.
    """
    # The kernel draws multiples of 2^-23, so that the product is below the count after rounding
    # too.
    count = tf.cast(high - low + 1, tf.float32)
    return low + tf.cast(uniform * count, tf.int32)


def _moved(seed: tf.Tensor, multiple: int, strides: np.ndarray) -> tf.Tensor:
    return seed + (strides * np.uint64(multiple)).view(np.int64)
