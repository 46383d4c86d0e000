"""Types of the arguments and results of tasks."""

from __future__ import annotations

import dataclasses
from typing import Callable, Dict, Mapping, Sequence, Tuple

import numpy as np
import tensorflow as tf

Example = Dict[str, tf.Tensor]
Features = Dict[str, tf.Tensor]
Labels = Dict[str, tf.Tensor]
Tensors = Dict[str, tf.Tensor]
Metric = Tuple[tf.Tensor, tf.Operation]  # the value, and the update op
Arrays = Mapping[str, np.ndarray]

# Every task's features hold these.
IMAGE = 'image'  # [batch, height, width, channels]
SOURCE_ID = 'source_id'  # string [batch]: names the example in messages


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
