"""The placement of variables on parameter servers."""

from __future__ import annotations

import contextlib
import math
import weakref
from typing import Any, Callable, ContextManager, Dict, List, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib.distribution.modes import Plan
from estimator_lib.distribution.tf_config import Cluster
from estimator_lib.optimization.partitioned import VARIABLE_OPS

tf1 = tf.compat.v1


def worker_device(cluster: Cluster) -> str:
    """Return the device of a worker's computations."""
    return f'/job:{cluster.role}/task:{cluster.index}'


def device_fn(cluster: Cluster) -> Callable[[tf.Operation], str]:
    """Return the device function of a worker: variables on the parameter servers, the rest here.

    Each new variable goes to the server with the fewest bytes of variables so far (the first of
    equals). All workers agree, because they build the same graph.
    """
    addresses = {role: list(tasks) for role, tasks in cluster.addresses.items()}
    addresses.pop('evaluator', None)
    return tf1.train.replica_device_setter(
        cluster=tf.train.ClusterSpec(addresses),
        worker_device=worker_device(cluster),
        ps_ops=list(VARIABLE_OPS),
        # TensorFlow's default takes one server after the other whatever the sizes: one of them may
        # get all large layers.
        ps_strategy=_fewest_bytes(len(addresses['ps'])),
    )


def device_filters(cluster: Cluster) -> List[str]:
    """Return the devices that a worker talks to, so that it need not wait for other workers."""
    own = f'/job:{cluster.role}'
    return ['/job:ps', own if cluster.role != 'worker' else f'{own}/task:{cluster.index}']


def variable_scope(plan: Plan) -> ContextManager[Any]:
    """Return a scope that creates variables as a mode needs them.

    With parameter servers a worker fetches each variable once a step, even if several ops read it
    (a layer and its regularizer). Large variables are split into parts, one for each server.
    """
    if not plan.uses_parameter_servers:
        return contextlib.nullcontext()
    # The device of the op itself, which is the worker's.
    options: Dict[str, Any] = {'caching_device': lambda op: op.device}
    if plan.partition_over_bytes:
        servers = len(plan.cluster.addresses['ps'])
        options['custom_getter'] = _getter(servers, plan.partition_over_bytes)
    return tf1.variable_scope(tf1.get_variable_scope(), **options)


def count_parts(shape: Sequence[int], item_bytes: int, servers: int, over_bytes: int) -> List[int]:
    """Count the parts of a variable along each of its dimensions.

    Args:
        shape: shape of the variable.
        item_bytes: bytes of one number.
        servers: number of parameter servers.
        over_bytes: smallest size in bytes of a variable that is split.

    Returns:
        Ones, except for the longest dimension of a variable that is large enough.
    """
    parts = [1] * len(shape)
    if parts and math.prod(shape) * item_bytes >= over_bytes:
        # TensorFlow cuts a variable along one axis only (partitioned_variables.py).
        axis = int(np.argmax(shape))
        parts[axis] = min(servers, shape[axis])
    return parts


def _getter(servers: int, over_bytes: int) -> Callable[..., Any]:
    def get(getter: Callable[..., Any], name: str, *args: Any, **options: Any) -> Any:
        dtype = tf.as_dtype(options.get('dtype') or tf.float32)
        parts = count_parts(tf.TensorShape(options['shape']), dtype.size, servers, over_bytes)
        # A partitioner would change the variable's name even if it made one part only.
        if max(parts, default=1) > 1:
            options['partitioner'] = lambda shape, dtype: parts
        return getter(name, *args, **options)

    return get


def _fewest_bytes(servers: int) -> Callable[[tf.Operation], int]:
    """Return a function that chooses a server for each variable; it counts by graph."""
    loads: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()

    def choose(op: tf.Operation) -> int:
        bytes_on, newest = loads.setdefault(op.graph, ([0] * servers, []))
        # The actual device of the last variable counts, not the choice: an optimizer's slots are
        # placed beside their variables whatever this function returns.
        for variable in newest:
            device = tf.DeviceSpec.from_string(variable.device)
            if device.job == 'ps':
                bytes_on[device.task or 0] += _num_bytes(variable)
        newest[:] = [op]
        return bytes_on.index(min(bytes_on))

    return choose


def _num_bytes(op: tf.Operation) -> int:
    sizes = [dim.size for dim in op.get_attr('shape').dim]
    return max(0, math.prod(sizes)) * tf.as_dtype(op.get_attr('dtype')).size
