"""Replicas of the network on several devices of one machine (`Mode.CLONES`).

Each takes an equal part of the batch; the loss is the mean of theirs, so that the gradient is
that of the whole batch. Variables live on the CPU. Only the first replica's `UPDATE_OPS` run: batch
norm's statistics follow its part of the batch.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, List, Sequence, Tuple, Union

import tensorflow as tf

from estimator_lib.optimization.partitioned import VARIABLE_OPS
from estimator_lib.task_interfaces.tensors import Features, Labels, Tensors

tf1 = tf.compat.v1

HOST = '/device:CPU:0'

# A device, or a function that chooses one for an op.
Device = Union[str, Callable[[tf.Operation], str]]


def scope_of(index: int, count: int) -> str:
    """Return the name scope of a replica: `clone_<i>`, or none where there is only one."""
    return f'clone_{index}' if count > 1 else ''


def place(device: str, variable_device: Device = HOST) -> Callable[[tf.Operation], str]:
    """Return a device function: variables on one device, all else that has none yet on another.

    Args:
        device: of what computes.
        variable_device: of what is stored: a device, or a function of the op.
    """

    def device_of(op: tf.Operation) -> str:
        if op.type not in VARIABLE_OPS:
            return op.device or device  # The op that reads a variable has the variable's.
        return variable_device(op) if callable(variable_device) else variable_device

    return device_of


def build(
    count: int, replica_fn: Callable[[int, str], Any], device_of: Callable[[int], Any]
) -> list:
    """Build replicas of a part of the graph that share their variables.

    Args:
        count: how many.
        replica_fn: builds one; called with its index and its name scope ('' or ending with '/').
        device_of: the device, or device function, of a replica by its index.

    Returns:
        What `replica_fn` returned, replica by replica.
    """
    results: List[Any] = []
    for index in range(count):
        scope = scope_of(index, count)
        name_scope = tf1.name_scope(scope) if scope else contextlib.nullcontext('')
        shared = tf1.variable_scope(tf1.get_variable_scope(), reuse=True if index else None)
        with shared, name_scope as name, tf1.device(device_of(index)):
            results.append(replica_fn(index, name))
    return results


def mean(values: Sequence[tf.Tensor]) -> tf.Tensor:
    """The mean of what the replicas computed: what makes the gradient that of the whole batch."""
    return tf.add_n(list(values)) / len(values)


def mean_losses(
    devices: Sequence[str],
    loss_fn: Callable[[Features, Labels], Tensors],
    features: Features,
    labels: Labels,
) -> Tensors:
    """Return the losses of a batch that several devices share.

    What the second and later replicas add to `UPDATE_OPS` and `REGULARIZATION_LOSSES` is taken out
    again.

    Args:
        devices: one for each replica; a single one computes on the batch as it is.
        loss_fn: builds the network and its losses, means over the examples it is given.
        features: of the whole batch, whose size is a multiple of the number of devices.
        labels: likewise.

    Returns:
        Scalars by name: the means over the replicas.
    """
    if len(devices) == 1:
        # Not tf1.device(None): that would forget where the variables of a cluster go.
        with tf1.device(place(devices[0])) if devices[0] else contextlib.nullcontext():
            return loss_fn(features, labels)
    parts = split((features, labels), len(devices))
    collections = [
        tf1.get_collection_ref(key)
        for key in (tf1.GraphKeys.UPDATE_OPS, tf1.GraphKeys.REGULARIZATION_LOSSES)
    ]
    counts: List[List[int]] = []

    def replica(index: int, scope: str) -> Tensors:
        del scope
        losses = loss_fn(*parts[index])
        counts.append([len(collection) for collection in collections])
        return losses

    losses = build(len(devices), replica, lambda index: place(devices[index]))
    for collection, count in zip(collections, counts[0]):
        del collection[count:]
    with tf.device(HOST), tf1.name_scope('clones'):
        return {name: mean([one[name] for one in losses]) for name in losses[0]}


def split(batch: Any, count: int) -> List[Tuple[Any, ...]]:
    """Return a batch in parts of the same size, on the host.

    Args:
        batch: nested tensors, whose first dimension is a multiple of `count`.
        count: of the parts.

    Returns:
        Each with the structure of the batch.
    """
    with tf.device(HOST), tf1.name_scope('split'):
        flat = [tf.split(tensor, count) for tensor in tf.nest.flatten(batch)]
    return [tf.nest.pack_sequence_as(batch, part) for part in zip(*flat)]
