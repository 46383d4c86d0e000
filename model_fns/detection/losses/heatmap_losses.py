"""Losses of heat maps."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

# Least distance of probabilities from 0 and 1, as published.
_LEAST_PROBABILITY = 1e-4


@dataclasses.dataclass(frozen=True)
class PenaltyReducedFocalLoss:
    """Focal loss on heat maps, reduced near centers (Law and Deng 2018, equation 1).

    With the probability p of a cell and its target y it is -(1 - p)^alpha ln(p) at a center, where
    y is 1, and -(1 - y)^beta p^alpha ln(1 - p) everywhere else.

    Attributes:
        alpha: exponent that reduces the loss of easy cells.
        beta: exponent that reduces the loss of cells near a center.
    """

    alpha: float = 2.0
    beta: float = 4.0

    def __call__(self, logits: tf.Tensor, targets: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the sum over all cells, a scalar.

        Args:
            logits: float32 [B, height, width, channels].
            targets: the same shape, in [0, 1].
            weights: factors that broadcast to that shape.
        """
        # In float32 the sigmoid of a logit from 17 on is 1, and ln(1 - p) would be infinite.
        p = tf.clip_by_value(tf.sigmoid(logits), _LEAST_PROBABILITY, 1.0 - _LEAST_PROBABILITY)
        at_center = tf.pow(1.0 - p, self.alpha) * tf.math.log(p)
        elsewhere = tf.pow(1.0 - targets, self.beta) * tf.pow(p, self.alpha) * tf.math.log(1.0 - p)
        # An exact comparison is safe: exp(0) is 1 at the floored center of a box, and less
        # elsewhere. As published, an object of a weight below 1 has no center.
        return -tf.reduce_sum(tf.where(tf.equal(targets, 1.0), at_center, elsewhere) * weights)
