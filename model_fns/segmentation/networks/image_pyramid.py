"""Image pyramid: merging of the logits and statistics of one network at several scales."""

from __future__ import annotations

import contextlib
from typing import Dict, Iterator, List, Mapping, Sequence

import tensorflow as tf

from model_fns.segmentation import fields
from model_fns.segmentation.networks.heads import Head

tf1 = tf.compat.v1

MERGED_LOGITS = 'merged_logits'


def scale_name(scale: float) -> str:
    """Return the key of the logits of one scale."""
    return f'logits_{scale:.2f}'


def unscale_logits(head: Head, logits: tf.Tensor, scale: float) -> tf.Tensor:
    """Convert logits to the units of the image: divide the offsets of a scale by it."""
    if head.name == fields.OFFSET_HEAD and scale != 1.0:
        return logits * (1.0 / scale)
    return logits


def merge(head: Head, by_scale: Mapping[float, tf.Tensor], average: bool) -> Dict[str, tf.Tensor]:
    """Return the logits of each scale and the merged ones.

    Args:
        head: of the logits.
        by_scale: float32 [batch, height, width, channels] by scale, all of one shape.
        average: whether classes get the mean of their logits; else the largest. Heads of values
            (centers, offsets) always get the mean: the largest of several offsets has no meaning.

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
def sum_updates() -> Iterator[None]:
    """Sum the updates of each moving statistic by several passes.

    Each pass would assign old + change to the same variable, and the last one would win. This
    replaces them in `UPDATE_OPS` by one assignment of old + the sum of the changes, as if passes
    were steps.
    """
    collection = tf1.get_collection_ref(tf1.GraphKeys.UPDATE_OPS)
    before = len(collection)
    yield
    updates = collection[before:]
    del collection[before:]
    collection.extend(_sum_by_variable(updates))


def _sum_by_variable(updates: Sequence[tf.Operation]) -> List[tf.Operation]:
    by_variable: Dict[str, List[tf.Operation]] = {}
    for update in updates:
        # By the handle: names of updates differ with each pass.
        by_variable.setdefault(update.inputs[0].name, []).append(update)
    return [_sum_assignments(same) if len(same) > 1 else same[0] for same in by_variable.values()]


def _sum_assignments(updates: Sequence[tf.Operation]) -> tf.Operation:
    """Build one assignment with the sum of the changes of a variable."""
    handle = updates[0].inputs[0]
    if handle.dtype != tf.resource:
        raise ValueError(f'{handle.name} is not a resource variable, which a pyramid needs.')
    values = [update.inputs[1] for update in updates]
    # Each value is the old one + its change: the old one is in the sum once for each pass.
    old = tf.raw_ops.ReadVariableOp(resource=handle, dtype=values[0].dtype)
    new = tf.add_n(values) - (len(values) - 1.0) * old
    return tf.raw_ops.AssignVariableOp(resource=handle, value=new)
