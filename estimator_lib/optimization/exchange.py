"""The interface of gradient exchange between machines; `distribution` implements it."""

from __future__ import annotations

from typing import List, Protocol, Sequence

import tensorflow as tf

from estimator_lib.optimization.gradients import Pair


class GradientExchange(Protocol):
    """Exchange of gradients between the replicas of one step.

    `average` is called before the gradients are applied, `finish` after that.
    """

    def average(self, pairs: Sequence[Pair]) -> List[Pair]:
        """Return the gradients to apply, given this replica's (gradient, variable) pairs."""

    def finish(self, update: tf.Operation) -> tf.Operation:
        """Return the train op of this replica, given the op that applies the gradients."""
