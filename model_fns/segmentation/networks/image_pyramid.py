"""One network on the same images at several scales: how its logits and statistics become one."""

from __future__ import annotations

import contextlib
from typing import Dict, Iterator, List, Mapping, Sequence

import tensorflow as tf

from model_fns.segmentation import fields
from model_fns.segmentation.networks.heads import Head

tf1 = tf.compat.v1

MERGED_LOGITS = 'merged_logits'


def scale_name(scale: float) -> str:
    """Return the key of the logits of one scale of several."""
    return f'logits_{scale:.2f}'


def unscaled(head: Head, logits: tf.Tensor, scale: float) -> tf.Tensor:
    """Logits in the units of the image: offsets that were made at a scale are divided by it."""
    if head.name == fields.OFFSET_HEAD and scale != 1.0:
        return logits * (1.0 / scale)
    return logits


def merge(head: Head, by_scale: Mapping[float, tf.Tensor], average: bool) -> Dict[str, tf.Tensor]:
    """Return the logits of each scale and what they become together.

    Args:
        head: whose.
        by_scale: float32 [batch, height, width, channels] by scale, all of one shape.
        average: whether classes get the mean of their logits; else the largest. Heads of values
            (centers, offsets) always get the mean: the largest of several offsets is nowhere.

    Returns:
        Only `MERGED_LOGITS` where there is one scale.
    """
    values = list(by_scale.values())
    if len(values) == 1:
        return {MERGED_LOGITS: values[0]}
    stacked = tf.stack(values)
    if head.is_classes and not average:
        merged = tf.reduce_max(stacked, 0)
    else:
        merged = tf.reduce_mean(stacked, 0)
    named = {scale_name(scale): logits for scale, logits in by_scale.items()}
    return {**named, MERGED_LOGITS: merged}


@contextlib.contextmanager
def summed_updates() -> Iterator[None]:
    """Make one update of each moving statistic out of those of several passes.

    Each pass would assign old + change to the same variable, and whichever came last would win. In
    their place in `UPDATE_OPS` comes one assignment of old + the sum of the changes, as though the
    passes were steps.
    """
    collection = tf1.get_collection_ref(tf1.GraphKeys.UPDATE_OPS)
    before = len(collection)
    yield
    updates = collection[before:]
    del collection[before:]
    collection.extend(_summed(updates))


def _summed(updates: Sequence[tf.Operation]) -> List[tf.Operation]:
    by_variable: Dict[str, List[tf.Operation]] = {}
    for update in updates:
        by_variable.setdefault(update.inputs[0].name, []).append(update)
    return [_one(same) if len(same) > 1 else same[0] for same in by_variable.values()]


def _one(updates: Sequence[tf.Operation]) -> tf.Operation:
    """Return the sum of assignments to one variable."""
    handle = updates[0].inputs[0]
    if handle.dtype != tf.resource:
        raise ValueError(f'{handle.name} is not a resource variable; a pyramid needs those.')
    values = [update.inputs[1] for update in updates]
    old = tf.raw_ops.ReadVariableOp(resource=handle, dtype=values[0].dtype)
    new = tf.add_n(values) - (len(values) - 1.0) * old
    return tf.raw_ops.AssignVariableOp(resource=handle, value=new)
