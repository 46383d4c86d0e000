"""Selection of boxes of an example, together with everything that has a row per box."""

from __future__ import annotations

import tensorflow as tf

from estimator_lib.task import Example
from model_fns.detection import fields


def take_boxes(example: Example, rows: tf.Tensor) -> Example:
    """Return the example with these boxes and everything that belongs to them.

    Args:
        example: an example with any of `fields.PER_BOX`.
        rows: int [m], indices of boxes.
    """
    return {
        name: tf.gather(values, rows) if name in fields.PER_BOX else values
        for name, values in example.items()
    }


def keep_boxes(example: Example, kept: tf.Tensor) -> Example:
    """Return the example with the boxes for which `kept`, bool [n], is true; see `take_boxes`."""
    return take_boxes(example, tf.where(kept)[:, 0])
