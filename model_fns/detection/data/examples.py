"""Choosing among the boxes of an example, with all that has a row for each of them."""

from __future__ import annotations

import tensorflow as tf

from estimator_lib.task import Example
from model_fns.detection import fields


def take_boxes(example: Example, rows: tf.Tensor) -> Example:
    """Return the example with these boxes, and all that is theirs.

    Args:
        example: has any of `fields.PER_BOX`.
        rows: int [m], indices of boxes.
    """
    return {
        name: tf.gather(values, rows) if name in fields.PER_BOX else values
        for name, values in example.items()
    }


def keep_boxes(example: Example, kept: tf.Tensor) -> Example:
    """The example with the boxes for which `kept`, bool [n], is true, and all that is theirs."""
    return take_boxes(example, tf.where(kept)[:, 0])
