"""Replicas of the network on several devices of one machine (`Mode.CLONES`).

Each replica takes an equal part of the batch. The loss is the mean of the replicas' losses, so the
gradient is that of the whole batch. Variables live on the CPU. Only the first replica's
`UPDATE_OPS` run, so the statistics of batch norm follow its part of the batch.
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


def replica_scope(index: int, count: int) -> str:
    """Return the name scope of a replica: `clone_<i>`, or '' where there is only one."""
    # The names of model_deploy.py of TF-Slim, which programs and summaries of that time look for.
    return f'clone_{index}' if count > 1 else ''


def place(device: str, variable_device: Device = HOST) -> Callable[[tf.Operation], str]:
    """Return a device function that places variables, and all other ops that have no device.

    Args:
        device: device of ops that compute.
        variable_device: device of variables, or a function that returns it for an op.
    """

    def choose_device(op: tf.Operation) -> str:
        if op.type not in VARIABLE_OPS:
            return op.device or device  # an op that reads a variable has the variable's device
        return variable_device(op) if callable(variable_device) else variable_device

    return choose_device


def build(
    count: int, replica_fn: Callable[[int, str], Any], replica_device: Callable[[int], Any]
) -> list:
    """Build replicas of a part of the graph that share their variables.

    Args:
        count: number of replicas.
        replica_fn: builds a replica; called with its index and name scope ('' or ending with '/').
        replica_device: returns the device, or device function, of a replica by its index.

    Returns:
        The results of `replica_fn`, replica by replica.
    """
    results: List[Any] = []
    for index in range(count):
        scope = replica_scope(index, count)
        name_scope = tf1.name_scope(scope) if scope else contextlib.nullcontext('')
        shared = tf1.variable_scope(tf1.get_variable_scope(), reuse=True if index else None)
        with shared, name_scope as name, tf1.device(replica_device(index)):
            results.append(replica_fn(index, name))
    return results


def mean(values: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return the mean over the replicas, whose gradient is that of the whole batch.

    Returns:
        A tensor of the shape of each value.
    """
    return tf.add_n(list(values)) / len(values)


def mean_losses(
    devices: Sequence[str],
    loss_fn: Callable[[Features, Labels], Tensors],
    features: Features,
    labels: Labels,
) -> Tensors:
    """Build the losses of a batch that several devices share.

    The entries of all replicas but the first are removed from `UPDATE_OPS` and
    `REGULARIZATION_LOSSES`.

    Args:
        devices: one device for each replica; a single one computes on the whole batch.
        loss_fn: builds the network and its losses, which are means over the given examples.
        features: features of the whole batch, whose size is a multiple of the number of devices.
        labels: labels of the whole batch.

    Returns:
        Scalars by name: the means over the replicas.
    """
    if len(devices) == 1:
        # tf1.device(None) would discard the device function of a cluster's variables.
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
        # As model_deploy.py of TF-Slim does for updates: batch norm's averages must not move once
        # for each device in a step. A regularization loss of shared variables would count as often.
        del collection[count:]
    with tf.device(HOST), tf1.name_scope('clones'):
        return {name: mean([each[name] for each in losses]) for name in losses[0]}


def split(batch: Any, count: int) -> List[Tuple[Any, ...]]:
    """Split a batch into parts of the same size, on the host.

    Args:
        batch: nested tensors, whose first dimension is a multiple of `count`.
        count: number of parts.

    Returns:
        The parts, each with the structure of the batch.
    """
    with tf.device(HOST), tf1.name_scope('split'):
        flat = [tf.split(tensor, count) for tensor in tf.nest.flatten(batch)]
    return [tf.nest.pack_sequence_as(batch, part) for part in zip(*flat)]
