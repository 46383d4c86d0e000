"""Which rows of each image count in a loss: so many, of which so many positive, drawn at random.

B is the batch size, A the number of rows (anchors or proposals) of an image. A draw depends on the
example, the row, the step and the seed alone, so a run that was resumed repeats it.
"""

from __future__ import annotations

import dataclasses
from typing import Tuple

import tensorflow as tf

# The finalizer of SplitMix64 (Steele et al. 2014): (shift, factor) pairs, then a shift.
_ROUNDS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LAST_SHIFT = 31
# Odd factors, by which numbers that follow each other become numbers far apart.
_SEED_FACTOR, _STEP_FACTOR = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03
_EXAMPLE_FACTOR, _ROW_FACTOR = 0x8CB92BA72F3D8DD7, 0xAEF17502108EF2D9
_BITS = 24  # of a draw: what a float32 holds exactly


def draws(seed: tf.Tensor, examples: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Return numbers that look random, one for each row of each example.

    Args:
        seed: int64 [2], as `forward_pass.step_seed` gives it.
        examples: integers [B], a number for each example.
        rows: int32 scalar, A.

    Returns:
        float32 [B, A], in [0, 1).
    """
    start = _mixed(seed[0] * _int64(_SEED_FACTOR) + seed[1] * _int64(_STEP_FACTOR))
    example_numbers = _mixed(start + tf.cast(examples, tf.int64) * _int64(_EXAMPLE_FACTOR))
    of_rows = tf.range(tf.cast(rows, tf.int64)) * _int64(_ROW_FACTOR)
    numbers = _mixed(example_numbers[:, tf.newaxis] + of_rows)
    return tf.cast(_shifted(numbers, 64 - _BITS), tf.float32) * 2.0**-_BITS


@dataclasses.dataclass(frozen=True)
class BalancedSampler:
    """Draws positives up to a share, and negatives for the rest.

    Attributes:
        size: rows of an image that are drawn, where there are as many.
        positive_fraction: largest share of positives; their number is rounded down.
        fill: how the sampler of static shapes keeps to the size: the first rows that are no
            candidates are added where candidates are too few, and positives take the places that
            negatives leave.
    """

    size: int
    positive_fraction: float
    fill: bool = False

    def sample(self, positive: tf.Tensor, candidates: tf.Tensor, drawn: tf.Tensor) -> tf.Tensor:
        """Return the rows that count.

        Args:
            positive: bool [B, A].
            candidates: bool [B, A].
            drawn: float32 [B, A], see `draws`: the lowest are taken.

        Returns:
            bool [B, A].
        """
        if self.fill:
            others = tf.logical_not(candidates)
            missing = self.size - _count(candidates)
            first = tf.cumsum(tf.cast(others, tf.int32), axis=1) <= missing[:, tf.newaxis]
            candidates = candidates | (others & first)
        positives = candidates & positive
        negatives = candidates & tf.logical_not(positive)
        wanted = tf.constant(int(self.positive_fraction * self.size))
        if self.fill:
            wanted = tf.maximum(wanted, self.size - _count(negatives))
        num_positive = tf.minimum(wanted, _count(positives))
        return self._lowest(positives, num_positive, drawn) | self._lowest(
            negatives, self.size - num_positive, drawn
        )

    def _lowest(self, rows: tf.Tensor, counts: tf.Tensor, drawn: tf.Tensor) -> tf.Tensor:
        """Of the rows [B, A] of each image the first counts [B] by their draws: bool [B, A]."""
        batch, total = tf.unstack(tf.shape(rows))
        most = tf.minimum(self.size, total)
        keys, places = tf.math.top_k(tf.where(rows, 1.0 - drawn, -1.0), most)
        taken = (keys >= 0) & (tf.range(most) < counts[:, tf.newaxis])
        places += total * tf.range(batch)[:, tf.newaxis]
        marks = tf.scatter_nd(
            tf.reshape(places, [-1, 1]),
            tf.reshape(tf.cast(taken, tf.int32), [-1]),
            [batch * total],
        )
        return tf.reshape(marks > 0, [batch, total])


def gather_first(chosen: tf.Tensor, values: tf.Tensor, size: int) -> Tuple[tf.Tensor, tf.Tensor]:
    """Return the chosen rows of each image in their order, with zeros behind the last.

    Args:
        chosen: bool [B, A]; at most `size` of each image are true.
        values: float32 [B, A, n].
        size: rows of the result; at most A.

    Returns:
        float32 [B, size, n], and int32 [B]: how many were chosen.
    """
    total = tf.shape(chosen)[1]
    order = tf.where(chosen, total - tf.range(total), 0)
    rows = tf.math.top_k(order, size).indices
    counts = _count(chosen)
    valid = tf.sequence_mask(counts, size)[..., tf.newaxis]
    return tf.where(valid, tf.gather(values, rows, batch_dims=1), 0.0), counts


def _count(marks: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.cast(marks, tf.int32), axis=1)


def _mixed(numbers: tf.Tensor) -> tf.Tensor:
    for shift, factor in _ROUNDS:
        numbers = tf.bitwise.bitwise_xor(numbers, _shifted(numbers, shift)) * _int64(factor)
    return tf.bitwise.bitwise_xor(numbers, _shifted(numbers, _LAST_SHIFT))


def _shifted(numbers: tf.Tensor, places: int) -> tf.Tensor:
    """Shifted to the right, zeros coming in from the left."""
    moved = tf.bitwise.right_shift(numbers, tf.constant(places, tf.int64))
    return tf.bitwise.bitwise_and(moved, tf.constant((1 << (64 - places)) - 1, tf.int64))


def _int64(bits: int) -> tf.Tensor:
    """Return the signed number of 64 bits."""
    return tf.constant(bits - (1 << 64) if bits >> 63 else bits, tf.int64)
