"""Values that have a row per box: selection of boxes, and values that a record omits."""

from __future__ import annotations

from typing import Any, Sequence

import tensorflow as tf

from estimator_lib import errors
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


def join_boxes(group: Sequence[Example]) -> Example:
    """Return the first example with the boxes of all, and everything that belongs to them.

    Args:
        group: examples with the same keys. Their boxes and keypoints are normalized to the same
            frame, and their masks have its size.

    Raises:
        errors.ConfigError: examples have features of other images, which belong to one image.
    """
    first = group[0]
    if fields.CONTEXT_FEATURES in first:
        raise errors.ConfigError(
            'examples have context features, which belong to one image; expected '
            'train_input_reader.load_context_features: false.'
        )
    joined = {
        name: tf.concat([example[name] for example in group], axis=0)
        for name in fields.PER_BOX
        if name in first
    }
    if fields.IMAGE_CLASSES in first:
        joined[fields.IMAGE_CLASSES] = tf.reduce_max(
            tf.stack([example[fields.IMAGE_CLASSES] for example in group]), axis=0
        )
    if fields.LABELED_CLASSES in first:  # known are the classes that were looked for in all parts
        joined[fields.LABELED_CLASSES] = tf.reduce_min(
            tf.stack([example[fields.LABELED_CLASSES] for example in group]), axis=0
        )
    return {**first, **joined}


def fill_missing(values: tf.Tensor, count: tf.Tensor, default: Any) -> tf.Tensor:
    """Return values [n], or the default n times if a record has none.

    Args:
        values: [n] or [0], as parsed.
        count: int32 scalar, n.
        default: converted to the type of the values.
    """
    # Of size 0 where the record has the values, so that no conditional is needed.
    missing = tf.fill([count - tf.size(values)], tf.constant(default, values.dtype))
    return tf.concat([values, missing], axis=0)
