"""Training under a `tf.distribute.Strategy`: which one, and what its replicas have in common."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List, Optional

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.distribution import eager_workers
from estimator_lib.distribution.modes import Mode, Plan
from estimator_lib.optimization import gradients, partitioned
from estimator_lib.task import Tensors

tf1 = tf.compat.v1


def create_strategy(plan: Plan) -> Optional[tf.distribute.Strategy]:
    """Return the strategy of a plan; None where it uses none.

    For an Estimator a strategy of several workers reads `TF_CONFIG`. Eager execution is then off
    for the rest of the process: outside of a graph such a strategy would want to be the first thing
    that runs, and TensorFlow cannot copy it, as an Estimator does.

    Raises:
        errors.ConfigError: TensorFlow has begun to work, and cannot have this strategy any more.
    """
    if plan.mode is Mode.MULTI_WORKER_MIRRORED and plan.without_sessions:
        return eager_workers.create_strategy(plan)
    if plan.mode is Mode.MULTI_WORKER_MIRRORED:
        tf1.disable_eager_execution()
        return tf.distribute.experimental.MultiWorkerMirroredStrategy()
    if plan.mode is Mode.MIRRORED and plan.without_sessions:
        # As in the graphs of sessions. The default in eager TensorFlow, collective ops, asks for
        # a number at each call of a function, which parts of graphs do not pass on.
        exchange: tf.distribute.CrossDeviceOps = tf.distribute.NcclAllReduce()
        if 'CPU' in plan.devices[0]:
            _divide_cpu(len(plan.devices))
            exchange = tf.distribute.ReductionToOneDevice()
        return tf.distribute.MirroredStrategy(list(plan.devices), exchange)
    if plan.mode is Mode.MIRRORED:
        with tf.Graph().as_default():  # An eager one would look for the devices at once.
            return tf.distribute.MirroredStrategy(list(plan.devices))
    return None


@contextlib.contextmanager
def scope(strategy: Optional[tf.distribute.Strategy]) -> Iterator[None]:
    """Inside, a strategy is in use as in an Estimator: optimizers scale losses by the replicas.

    Args:
        strategy: None: nothing is changed.
    """
    if strategy is None:
        yield
        return
    with strategy.scope(), strategy._scale_loss_for_estimator_enabled():
        yield


def require(plan: Plan) -> None:
    """Raise where a plan's strategy is not in use.

    Raises:
        errors.ConfigError: the Estimator was made without it.
    """
    if plan.uses_strategy and not tf.distribute.has_strategy():
        raise errors.ConfigError(
            f'train_config.cluster.mode is {plan.mode.name}, but the Estimator has no strategy; '
            'expected the one of training.create_estimator(..., plan=cluster.create_plan(...)), or '
            'a RunConfig with train_distribute.'
        )


def configure_devices(plan: Plan, session_config: tf1.ConfigProto) -> None:
    """Let a session have as many CPU devices as a strategy uses: it hangs where they are fewer."""
    if plan.mode is Mode.MIRRORED and 'CPU' in plan.devices[0]:
        session_config.device_count['CPU'] = len(plan.devices)


def _divide_cpu(count: int) -> None:
    """Let eager TensorFlow have as many CPU devices as a strategy uses.

    Raises:
        errors.ConfigError: TensorFlow has begun to work with fewer.
    """
    processor = tf.config.list_physical_devices('CPU')[0]
    devices = tf.config.get_logical_device_configuration(processor) or [None]
    if len(devices) >= count:
        return
    try:
        tf.config.set_logical_device_configuration(
            processor, [tf.config.LogicalDeviceConfiguration()] * count
        )
    except RuntimeError:
        raise errors.ConfigError(
            f'train_config.cluster.num_clones is {count}, but TensorFlow has begun to work in this '
            f'program, with {len(devices)} CPU device(s); expected this call before any other of '
            'TensorFlow, or tf.config.set_logical_device_configuration at the start of the program.'
        ) from None


def replica_index() -> int:
    """Return which replica of a strategy is built; 0 outside of replicas."""
    context = tf.distribute.get_replica_context()
    if context is None or not tf.distribute.has_strategy():
        return 0
    return int(tf.get_static_value(context.replica_id_in_sync_group) or 0)


def regularization_loss() -> Optional[tf.Tensor]:
    """Return the sum of the graph's `REGULARIZATION_LOSSES`; None where there are none.

    The replicas of one process build one graph, and add to one collection. A regularization loss is
    a function of the weights of one replica, and belongs to that replica. One that only the first
    replica has added counts there once for each replica: so the mean over the replicas, and the sum
    of their gradients, are those of one device.
    """
    losses = tf1.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)
    context = tf.distribute.get_replica_context()
    if not losses:
        return None
    if not tf.distribute.has_strategy() or context.num_replicas_in_sync == 1:
        return tf.add_n(losses)

    @tf.autograph.experimental.do_not_convert
    def divide(strategy: tf.distribute.Strategy, replica_id: Any) -> List[tf.Tensor]:
        count = len(strategy.experimental_local_results(replica_id))
        return _regularization_by_replica(count)

    # What `tf.compat.v1.get_variable(regularizer=...)` adds becomes a tensor where it is asked for.
    of_variables = [tf.convert_to_tensor(one) for one in losses if not isinstance(one, tf.Tensor)]
    by_replica = context.merge_call(divide, args=(context.replica_id_in_sync_group,))
    return tf.add_n([*of_variables, by_replica[replica_index() % len(by_replica)]])


def _regularization_by_replica(count: int) -> List[tf.Tensor]:
    """Return the sum of the losses of each replica of this process, see `regularization_loss`."""
    by_replica: List[List[tf.Tensor]] = [[] for _ in range(count)]
    replicas = _replicas_of_handles()
    for loss in tf1.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES):
        if isinstance(loss, tf.Tensor):
            owners = {replicas[op] for op in gradients.ancestors([loss]) if op in replicas}
            by_replica[min(owners, default=0)].append(loss)
    factor = 1.0 if any(by_replica[1:]) else float(count)
    first = factor * tf.add_n([tf.zeros([]), *by_replica[0]])
    return [first, *(tf.add_n([tf.zeros([]), *each]) for each in by_replica[1:])]


def _replicas_of_handles() -> Dict[tf.Operation, int]:
    """Return the replica of this process that an op which holds a variable is of."""
    graph = tf1.get_default_graph()
    replicas = {}
    for variable in tf1.global_variables():
        for replica, component in enumerate(partitioned.components(variable)):
            handle = component.handle
            if partitioned.is_eager(component):
                handle = graph.capture(handle)
            replicas[handle.op] = replica
    return replicas


def mean_over_replicas(losses: Tensors) -> Tensors:
    """Return the losses of the whole batch, for reports: means over the replicas.

    Without a strategy the losses are those of the whole batch already.

    Args:
        losses: float scalars by name, of this replica.
    """
    context = tf.distribute.get_replica_context()
    if not tf.distribute.has_strategy() or context.num_replicas_in_sync == 1:
        return losses

    # One tensor, so that there is one message.
    stacked = tf.stop_gradient(tf.stack(list(losses.values())))
    means = tf.unstack(_reduced(stacked, tf.distribute.ReduceOp.MEAN), len(losses))
    return dict(zip(losses, means))


def num_replicas() -> int:
    """How many replicas of a strategy share a batch, where one of them is built; else 1."""
    context = tf.distribute.get_replica_context()
    return 1 if context is None else context.num_replicas_in_sync


def sum_over_replicas(values: tf.Tensor) -> tf.Tensor:
    """Return the sum of the values of all replicas; gradients reach those of each.

    Args:
        values: of one shape in all replicas.
    """

    @tf.custom_gradient
    def with_gradient(values: tf.Tensor, total: tf.Tensor) -> Any:
        del values
        return tf.identity(total), lambda upstream: (
            _reduced(upstream, tf.distribute.ReduceOp.SUM),
            None,
        )

    # The sum itself is outside: TensorFlow would look for the variables that it depends on, and
    # not find those of other replicas (`ReplicaContext.all_reduce` ends so in a TF1 graph).
    total = tf.stop_gradient(_reduced(values, tf.distribute.ReduceOp.SUM))
    return with_gradient(values, total)


def _reduced(values: tf.Tensor, how: tf.distribute.ReduceOp) -> tf.Tensor:
    """What the values of all replicas come to."""

    def reduce(strategy: tf.distribute.Strategy, values: Any) -> Any:
        return strategy.reduce(how, values, axis=None)

    return tf.distribute.get_replica_context().merge_call(reduce, args=(values,))


def all_of_this_process(values: tf.Tensor) -> tf.Tensor:
    """Return a batch's values of all replicas of this process, one after the other.

    Args:
        values: [batch, ...], of this replica.
    """
    if not tf.distribute.has_strategy():
        return values

    def join(strategy: tf.distribute.Strategy, values: Any) -> tf.Tensor:
        return tf.concat(strategy.experimental_local_results(values), axis=0)

    return tf.distribute.get_replica_context().merge_call(join, args=(values,))
