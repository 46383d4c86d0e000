"""Augmentations that combine several examples into one."""

from __future__ import annotations

import dataclasses
from typing import Callable, Sequence

import tensorflow as tf

from estimator_lib.task_interfaces.tensors import Example


@dataclasses.dataclass(frozen=True)
class Mixing:
    """An augmentation that combines each training example with others, its partners.

    The engine draws the partners among the examples that follow in the stream. To find the record
    that makes an input fail, it leaves out `combine`.

    Attributes:
        vary: (example, int64 [2] seed) -> example. It is applied to each example once, before the
            example is combined with others.
        combine: (examples, int64 [2] seed) -> example. The first of the examples is the one that
            the seed and the position in the stream belong to; the others are its partners. All
            have the same keys, and may differ in size.
        num_examples: number of examples that `combine` takes, at least 2.
    """

    vary: Callable[[Example, tf.Tensor], Example]
    combine: Callable[[Sequence[Example], tf.Tensor], Example]
    num_examples: int
