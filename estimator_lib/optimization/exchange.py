"""What the train op asks of replicas on other machines; `distribution` implements it."""

from __future__ import annotations

from typing import List, Protocol, Sequence

import tensorflow as tf

from estimator_lib.optimization.gradients import Pair


class GradientExchange(Protocol):
    """Gradients of several replicas become those of one step.

    `average` comes before the gradients are applied, `finish` after.
    """

    def average(self, pairs: Sequence[Pair]) -> List[Pair]:
        """Return gradients to apply, from this replica's (gradient, variable) pairs."""

    def finish(self, update: tf.Operation) -> tf.Operation:
        """Return the train op of this replica, from the op that applies the gradients."""
