"""The `RunConfig` of an Estimator in each mode."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_lib import tf_estimator
from estimator_lib.distribution import placement, strategies, tf_config
from estimator_lib.distribution.modes import Mode, Plan
from estimator_lib.tf_estimator import callers


def create(plan: Plan, session_config: tf.compat.v1.ConfigProto, **options: Any):
    """Create the `RunConfig` of this process.

    Args:
        plan: the plan of this process. The evaluator, which no other task talks to, and a single
            worker get the config of one machine.
        session_config: the session's options; those that the mode needs are added.
        **options: the other arguments of `RunConfig`.
    """
    cluster = plan.cluster
    trains = cluster is None or cluster.name in cluster.workers
    if plan.uses_parameter_servers and trains:
        options['device_fn'] = placement.device_fn(cluster)
        # TensorFlow would wait for a ready model without messages; `cluster.running` waits instead.
        # It would look every 30 s only (`recovery_wait_secs` of TensorFlow's SessionManager).
        options['session_creation_timeout_secs'] = 1
        session_config.device_filters.extend(placement.device_filters(cluster))
    strategies.configure_devices(plan, session_config)
    # TensorFlow 2.15 refuses an evaluator that TF_CONFIG does not list (KeyError), and one of a
    # cluster of workers without a chief (ValueError).
    is_alone = cluster is not None and cluster.role == 'evaluator'
    is_alone = is_alone or plan.mode in (Mode.ONE_DEVICE, Mode.CLONES, Mode.MIRRORED)
    with tf_config.environment(None if is_alone else cluster):
        if trains and plan.uses_strategy:
            options['train_distribute'] = strategies.create_strategy(plan)
        run_config = tf_estimator.RunConfig(session_config=session_config, **options)
    if trains and plan.mode is Mode.MULTI_WORKER_MIRRORED and plan.without_sessions:
        _set_task(run_config, plan)
    return run_config


def filter_devices(plan: Plan) -> None:
    """Add device filters to the session of the Estimator that builds the graph, if it has none.

    TensorFlow adds them unless a program gives a `session_config`. Without them a session waits for
    all tasks of the cluster, also for those that have ended.

    Args:
        plan: the plan of a process that trains with parameter servers.
    """
    estimator = callers.nearest_caller('_session_config')
    own = getattr(estimator, '_session_config', None)
    if own is None or own.device_filters:
        return
    filtered = tf.compat.v1.ConfigProto()
    filtered.CopyFrom(own)
    filtered.device_filters.extend(placement.device_filters(plan.cluster))
    estimator._session_config = filtered


def _set_task(run_config: tf_estimator.RunConfig, plan: Plan) -> None:
    """Set the task of a worker in its `RunConfig`.

    With a strategy of several workers TensorFlow sets the task only when it runs an Estimator, and
    every process is the first worker until then.
    """
    run_config._task_type, run_config._task_id = plan.cluster.role, plan.cluster.index
    run_config._is_chief = plan.cluster.is_chief
    run_config._num_worker_replicas = plan.num_workers
