"""Training under a `tf.distribute.Strategy`: its creation, its scope and its devices."""

from __future__ import annotations

import contextlib
from typing import Iterator, Optional

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.distribution import eager_workers
from estimator_lib.distribution.modes import Mode, Plan

tf1 = tf.compat.v1


def create_strategy(plan: Plan) -> Optional[tf.distribute.Strategy]:
    """Create the strategy of a plan; return None where it uses none.

    For an Estimator, a strategy of several workers reads `TF_CONFIG`. Eager execution is then off
    for the rest of the process: in eager TensorFlow the strategy would have to be created before
    anything else, and an Estimator could not copy it.

    Raises:
        errors.ConfigError: TensorFlow is initialized, and cannot create this strategy any more.
    """
    if plan.mode is Mode.MULTI_WORKER_MIRRORED and plan.without_sessions:
        return eager_workers.create_strategy(plan)
    if plan.mode is Mode.MULTI_WORKER_MIRRORED:
        tf1.disable_eager_execution()
        return tf.distribute.experimental.MultiWorkerMirroredStrategy()
    if plan.mode is Mode.MIRRORED and plan.without_sessions:
        # The same exchange as in the graphs of sessions. Collective ops, the default in eager
        # TensorFlow, need a number at each call of a function, which parts of graphs do not pass
        # on.
        exchange: tf.distribute.CrossDeviceOps = tf.distribute.NcclAllReduce()
        if 'CPU' in plan.devices[0]:
            _divide_cpu(len(plan.devices))
            exchange = tf.distribute.ReductionToOneDevice()
        return tf.distribute.MirroredStrategy(list(plan.devices), exchange)
    if plan.mode is Mode.MIRRORED:
        with tf.Graph().as_default():  # an eager strategy would look for its devices at once
            return tf.distribute.MirroredStrategy(list(plan.devices))
    return None


@contextlib.contextmanager
def scope(strategy: Optional[tf.distribute.Strategy]) -> Iterator[None]:
    """Use a strategy in the block as an Estimator does: optimizers scale losses by the replicas.

    Args:
        strategy: the strategy; None changes nothing.
    """
    if strategy is None:
        yield
        return
    # Without the second scope optimizers do not divide losses by the replicas, and apply the sum of
    # the gradients in place of their mean.
    with strategy.scope(), strategy._scale_loss_for_estimator_enabled():
        yield


def require(plan: Plan) -> None:
    """Raise where a plan's strategy is not in use.

    Raises:
        errors.ConfigError: the Estimator was created without the strategy.
    """
    if plan.uses_strategy and not tf.distribute.has_strategy():
        raise errors.ConfigError(
            f'train_config.cluster.mode is {plan.mode.name}, but the Estimator has no strategy; '
            'expected the one of training.create_estimator(..., plan=cluster.create_plan(...)), or '
            'a RunConfig with train_distribute.'
        )


def configure_devices(plan: Plan, session_config: tf1.ConfigProto) -> None:
    """Give a session as many CPU devices as its strategy uses; with fewer it would hang."""
    if plan.mode is Mode.MIRRORED and 'CPU' in plan.devices[0]:
        session_config.device_count['CPU'] = len(plan.devices)


def _divide_cpu(count: int) -> None:
    """Give eager TensorFlow as many CPU devices as a strategy uses.

    Raises:
        errors.ConfigError: TensorFlow is initialized with fewer devices.
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
            f'train_config.cluster.num_clones is {count}, but TensorFlow is initialized in this '
            f'program with {len(devices)} CPU device(s); expected this call before any other of '
            'TensorFlow, or tf.config.set_logical_device_configuration at the start of the program.'
        ) from None
