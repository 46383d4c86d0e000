"""The workers of a cluster in eager TensorFlow: their strategy, and numbers that they agree on."""

from __future__ import annotations

from typing import Dict, List, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.python.distribute import collective_all_reduce_strategy, cross_device_utils
from tensorflow.python.eager import context

from estimator_lib import errors
from estimator_lib.distribution.modes import Plan
from estimator_lib.distribution.tf_config import CHIEF_ROLES


def create_strategy(plan: Plan) -> tf.distribute.Strategy:
    """Return the `MultiWorkerMirroredStrategy` of this process, which starts its server too.

    Args:
        plan: of a worker.

    Raises:
        errors.ConfigError: TensorFlow has begun to work in this process: it has no server then.
    """
    if plan.num_workers > 1 and context.context()._initialized:
        raise errors.ConfigError(
            'train_config.loop is TF_FUNCTION, and the mode is MULTI_WORKER_MIRRORED, but '
            'TensorFlow has begun to work in this program; expected this call before any other of '
            'TensorFlow, once in a process, or loop: ESTIMATOR.'
        )
    _configure_collectives()
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(_jobs(plan)),
        task_type=_job(plan.cluster.role),
        task_id=plan.cluster.index,
        rpc_layer='grpc',
        num_accelerators={'GPU': sum('GPU' in device for device in plan.devices)},
    )
    return tf.distribute.MultiWorkerMirroredStrategy(resolver)


def _jobs(plan: Plan) -> Dict[str, List[str]]:
    """The addresses of the workers, of whom the evaluator is none; one alone needs no server."""
    if plan.num_workers == 1:
        return {}
    return {
        _job(role): list(tasks)
        for role, tasks in plan.cluster.addresses.items()
        if role in (*CHIEF_ROLES, 'worker')
    }


def _job(role: str) -> str:
    """What TensorFlow calls a role: it knows a chief by one of its two names."""
    return 'chief' if role in CHIEF_ROLES else role


class MeanOfWorkers:
    """Numbers that all workers have in common; each call waits for all of them.

    Args:
        strategy: of `create_strategy`; not used by one worker.
        num_workers: how many there are.
    """

    def __init__(self, strategy: tf.distribute.Strategy, num_workers: int):
        self._strategy = strategy
        self._is_alone = num_workers <= 1
        # Traced for each shape: a collective op has one.
        self._mean = tf.function(self._reduced, autograph=False)

    def __call__(self, values: Sequence[float]) -> np.ndarray:
        """Return the means over the workers, which are the same bits on all of them.

        Args:
            values: of this worker; as many on each.

        Returns:
            float64, of the same length.
        """
        if self._is_alone:
            return np.array(values, np.float64)
        return self._mean(tf.constant(values, tf.float64)).numpy()

    def _reduced(self, values: tf.Tensor) -> tf.Tensor:
        return self._strategy.reduce(tf.distribute.ReduceOp.MEAN, values, axis=None)


def _configure_collectives() -> None:
    """Set, for the life of the process, how its collective ops work.

    They get their numbers when a graph is built, as in sessions: parts of a step's graph would not
    pass on a number that is given at each call. And only `cluster.supervision` watches the other
    workers: the service of TensorFlow that could, takes SIGTERM away from this program, and ends
    a chief that evaluates after the others have left.
    """
    launcher = cross_device_utils.CollectiveReplicaLauncher
    launcher._prefer_unique_instance_key = launcher._prefer_ordering_token = False
    collective_all_reduce_strategy.CollectiveAllReduceExtended._enable_check_health = False
    context.context().configure_coordination_service('')
