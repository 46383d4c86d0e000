"""Random sampling of the rows of each image that count in a loss, with a balance of positives.

B is the batch size, A the number of rows (anchors or proposals) of an image. A draw only depends on
the example, the row, the step and the seed, so a resumed run repeats it.
"""

from __future__ import annotations

import dataclasses
from typing import Tuple

import tensorflow as tf

# The finalizer of SplitMix64 (Steele et al. 2014): (shift, factor) pairs, then a shift.
_ROUNDS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LAST_SHIFT = 31
# Odd factors, which map consecutive numbers to distant ones.
# The first is the increment of SplitMix64, 2^64 over the golden ratio.
_SEED_FACTOR, _STEP_FACTOR = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03
_EXAMPLE_FACTOR, _ROW_FACTOR = 0x8CB92BA72F3D8DD7, 0xAEF17502108EF2D9
_BITS = 24  # bits of a draw that a float32 represents exactly


def draws(seed: tf.Tensor, examples: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Draw pseudorandom numbers, one for each row of each example.

    Args:
        seed: int64 [2], from `forward_pass.step_seed`.
        examples: integers [B], a number for each example.
        rows: int32 scalar, A.

    Returns:
        float32 [B, A], in [0, 1).
    """
    start = _mixed(seed[0] * _int64(_SEED_FACTOR) + seed[1] * _int64(_STEP_FACTOR))
    example_numbers = _mixed(start + tf.cast(examples, tf.int64) * _int64(_EXAMPLE_FACTOR))
    row_numbers = tf.range(tf.cast(rows, tf.int64)) * _int64(_ROW_FACTOR)
    numbers = _mixed(example_numbers[:, tf.newaxis] + row_numbers)
    return tf.cast(_shifted(numbers, 64 - _BITS), tf.float32) * 2.0**-_BITS


@dataclasses.dataclass(frozen=True)
class BalancedSampler:
    """Sampler of positives up to a fraction, and of negatives for the rest.

    Attributes:
        size: number of rows of an image that are drawn, if there are as many.
        positive_fraction: largest fraction of positives; their number is rounded down.
        fill: True: the sampler always reaches the size, as for static shapes. If there are too few
            candidates the first other rows are added, and positives replace missing negatives.
    """

    size: int
    positive_fraction: float
    fill: bool = False

    def sample(self, positive: tf.Tensor, candidates: tf.Tensor, drawn: tf.Tensor) -> tf.Tensor:
        """Sample the rows that count.

        Args:
            positive: bool [B, A].
            candidates: bool [B, A].
            drawn: float32 [B, A], see `draws`; rows with the lowest draws are selected.

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
        # A quarter of 64 are 16 positives. Too few negatives do not bring more, as published.
        wanted = tf.constant(int(self.positive_fraction * self.size))
        if self.fill:
            wanted = tf.maximum(wanted, self.size - _count(negatives))
        num_positive = tf.minimum(wanted, _count(positives))
        return self._lowest(positives, num_positive, drawn) | self._lowest(
            negatives, self.size - num_positive, drawn
        )

    def _lowest(self, rows: tf.Tensor, counts: tf.Tensor, drawn: tf.Tensor) -> tf.Tensor:
        """Select the rows [B, A] with the counts [B] lowest draws of each image: bool [B, A]."""
        batch, total = tf.unstack(tf.shape(rows))
        most = tf.minimum(self.size, total)
        # top_k finds the highest values: draws below 1 leave a key above 0, other rows have -1.
        keys, indices = tf.math.top_k(tf.where(rows, 1.0 - drawn, -1.0), most)
        taken = (keys >= 0) & (tf.range(most) < counts[:, tf.newaxis])
        indices += total * tf.range(batch)[:, tf.newaxis]
        marks = tf.scatter_nd(
            tf.reshape(indices, [-1, 1]),
            tf.reshape(tf.cast(taken, tf.int32), [-1]),
            [batch * total],
        )
        return tf.reshape(marks > 0, [batch, total])


def gather_first(chosen: tf.Tensor, values: tf.Tensor, size: int) -> Tuple[tf.Tensor, tf.Tensor]:
    """Gather the chosen rows of each image in order, with zeros after the last.

    Args:
        chosen: bool [B, A]; at most `size` of each image are true.
        values: float32 [B, A, n].
        size: rows of the result; at most A.

    Returns:
        float32 [B, size, n], and int32 [B]: number of chosen rows.
    """
    total = tf.shape(chosen)[1]
    # Keys descend with the row, so top_k returns the chosen rows in their order.
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


def _shifted(numbers: tf.Tensor, count: int) -> tf.Tensor:
    """Shift to the right by a number of bits, filling with zeros."""
    # The shift of int64 repeats the sign. The mask makes it that of unsigned numbers, as SplitMix64
    # needs.
    moved = tf.bitwise.right_shift(numbers, tf.constant(count, tf.int64))
    return tf.bitwise.bitwise_and(moved, tf.constant((1 << (64 - count)) - 1, tf.int64))


def _int64(bits: int) -> tf.Tensor:
    """Reinterpret 64 bits as a signed number."""
    return tf.constant(bits - (1 << 64) if bits >> 63 else bits, tf.int64)
