"""Training under a `tf.distribute.Strategy`: which one, and what its replicas have in common."""

from __future__ import annotations

import contextlib
from typing import Iterator, Optional

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.distribution import eager_workers
from estimator_lib.distribution.modes import Mode, Plan

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
