"""The workers of a cluster in eager TensorFlow: their strategy, and means over the workers."""

from __future__ import annotations

from typing import Dict, List, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.python.distribute import collective_all_reduce_strategy, cross_device_utils
from tensorflow.python.eager import context

from estimator_lib import errors
from estimator_lib.distribution.modes import Plan


def create_strategy(plan: Plan) -> tf.distribute.Strategy:
    """Create the `MultiWorkerMirroredStrategy` of this process, and start its server.

    Args:
        plan: the plan of a worker.

    Raises:
        errors.ConfigError: TensorFlow is initialized in this process, and can start no server.
    """
    # TensorFlow has no public question for it, and its own error ("Collective ops must be
    # configured at program startup") names no way out.
    if plan.num_workers > 1 and context.context()._initialized:
        raise errors.ConfigError(
            f'train_config.loop is TF_FUNCTION, with {plan.num_workers} workers, but '
            'TensorFlow is initialized in this program; expected this call once in a process, '
            'before any other of TensorFlow, or loop: ESTIMATOR.'
        )
    _configure_collectives()
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(_jobs(plan)),
        task_type=plan.cluster.role,
        task_id=plan.cluster.index,
        rpc_layer='grpc',
        # This resolver looks for no devices: without the number the strategy sees no GPU.
        num_accelerators={'GPU': sum('GPU' in device for device in plan.devices)},
    )
    return tf.distribute.MultiWorkerMirroredStrategy(resolver)


def _jobs(plan: Plan) -> Dict[str, List[str]]:
    """Return the addresses of the workers, without the evaluator; empty for a single worker."""
    if plan.num_workers == 1:
        return {}
    return {
        role: list(tasks)
        for role, tasks in plan.cluster.addresses.items()
        if role in ('chief', 'worker')
    }


class MeanOfWorkers:
    """Means of numbers over all workers; each call waits for all workers.

    Args:
        strategy: the strategy of `create_strategy`; unused with one worker.
        num_workers: number of workers.
    """

    def __init__(self, strategy: tf.distribute.Strategy, num_workers: int):
        self._strategy = strategy
        self._is_alone = num_workers <= 1
        # Traced once for each shape, as a collective op has a static shape.
        self._mean = tf.function(self._reduce, autograph=False)

    def __call__(self, values: Sequence[float]) -> np.ndarray:
        """Return the means over the workers, bitwise equal on all of them.

        Args:
            values: numbers of this worker; as many on each worker.

        Returns:
            float64, of the same length.
        """
        if self._is_alone:
            return np.array(values, np.float64)
        # float64 holds global steps exactly up to 2^53, and `trainer._check_start` compares them.
        return self._mean(tf.constant(values, tf.float64)).numpy()

    def _reduce(self, values: tf.Tensor) -> tf.Tensor:
        return self._strategy.reduce(tf.distribute.ReduceOp.MEAN, values, axis=None)


def _configure_collectives() -> None:
    """Configure the collective ops for the life of the process.

    The ops get their instance numbers when a graph is built, as in sessions: the parts of a step's
    graph would not pass on a number given at each call. TensorFlow's service that watches other
    workers is switched off: it takes over SIGTERM, and ends a chief that evaluates after the others
    have left. `cluster.supervision` watches the workers instead.
    """
    launcher = cross_device_utils.CollectiveReplicaLauncher
    launcher._prefer_unique_instance_key = launcher._prefer_ordering_token = False
    collective_all_reduce_strategy.CollectiveAllReduceExtended._enable_check_health = False
    context.context().configure_coordination_service('')
