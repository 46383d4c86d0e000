"""The `RunConfig` of an Estimator in each mode."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_lib.distribution import placement, strategies, tf_config
from estimator_lib.distribution.modes import Mode, Plan


def create(plan: Plan, session_config: tf.compat.v1.ConfigProto, **options: Any):
    """The `RunConfig` of this process.

    Args:
        plan: which task of which cluster it is. The evaluator, which no other task talks to, and a
            worker without others get the config of one machine.
        session_config: what the mode needs is added to it.
        options: all others of a `RunConfig`.
    """
    cluster = plan.cluster
    trains = cluster is None or cluster.name in cluster.workers
    if plan.uses_parameter_servers and trains:
        options['device_fn'] = placement.device_fn(cluster)
        # TensorFlow would look for a ready model every 30 s, in silence; `running` waits instead.
        options['session_creation_timeout_secs'] = 1
        session_config.device_filters.extend(placement.device_filters(cluster))
    strategies.configure_devices(plan, session_config)
    is_alone = cluster is not None and cluster.role == 'evaluator'
    is_alone = is_alone or plan.mode in (Mode.ONE_DEVICE, Mode.CLONES, Mode.MIRRORED)
    with tf_config.environment(None if is_alone else cluster):
        if trains and plan.uses_strategy:
            options['train_distribute'] = strategies.create_strategy(plan)
        made = tf.estimator.RunConfig(session_config=session_config, **options)
    if trains and plan.mode is Mode.MULTI_WORKER_MIRRORED and plan.without_sessions:
        _set_task(made, plan)
    return made


def _set_task(run_config: tf.estimator.RunConfig, plan: Plan) -> None:
    """Say which task of its cluster a worker is.

    With a strategy of several workers TensorFlow leaves that to what runs Estimators under one, and
    takes each for the first worker until then.
    """
    run_config._task_type, run_config._task_id = plan.cluster.role, plan.cluster.index
    run_config._is_chief = plan.cluster.is_chief
    run_config._num_worker_replicas = plan.num_workers
