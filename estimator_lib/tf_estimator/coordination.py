"""Runs an Estimator with a strategy as one task of a `TF_CONFIG` cluster.

`tensorflow-estimator` calls these five functions, whose names and arguments are fixed. TensorFlow
up to 2.15 has them as `tensorflow.python.distribute.estimator_training`. One mode is left out: a
client that runs the training of all tasks (`experimental_distribute.remote_cluster`).
"""

from __future__ import annotations

import copy
from typing import Any, Callable, Mapping, Optional

import tensorflow as tf
from tensorflow.python.distribute import distribute_coordinator, distribute_coordinator_context

_EACH_TASK = distribute_coordinator.CoordinatorMode.INDEPENDENT_WORKER


def init_run_config(config: Any, tf_config: Mapping[str, Any]) -> None:
    """Set strategies, cluster and task of a `RunConfig` that was created with strategies.

    Args:
        config: the `RunConfig`, which this changes.
        tf_config: the content of `TF_CONFIG`, empty on one machine.

    Raises:
        ValueError: a strategy is given twice, or `remote_cluster` is set.
    """
    experimental = config._experimental_distribute
    for mode in ('train_distribute', 'eval_distribute'):
        strategy = getattr(experimental, mode, None)
        if strategy is None:
            continue
        if getattr(config, f'_{mode}') is not None:
            raise ValueError(f'{mode} is given to RunConfig and in experimental_distribute too.')
        setattr(config, f'_{mode}', strategy)
    remote = getattr(experimental, 'remote_cluster', None)
    if remote:
        raise ValueError(
            f'experimental_distribute.remote_cluster is {remote!r:.200}, which works with '
            'TensorFlow 2.15 only; start one process for each task with TF_CONFIG.'
        )
    cluster = tf.train.ClusterSpec(tf_config.get('cluster', {}))
    # The condition of TensorFlow 2.15: a cluster with a `master` does without the coordinator.
    if cluster and config._train_distribute is not None and 'master' not in cluster.jobs:
        # The task is set in the copy of the Estimator that trains or evaluates, by `_create_local`.
        config._init_distributed_setting_from_environment_var({})
        config._cluster_spec = cluster
        # `tensorflow-estimator` reads these private fields, and has no public way to set them.
        config._distribute_coordinator_mode = _EACH_TASK
    else:
        config._init_distributed_setting_from_environment_var(tf_config)
        config._distribute_coordinator_mode = None
        config._maybe_overwrite_session_config_for_distributed_training()


def should_run_distribute_coordinator(config: Any) -> bool:
    """Tell whether a `RunConfig` is of a cluster with a strategy."""
    mode: Optional[str] = getattr(config, '_distribute_coordinator_mode', None)
    return mode == _EACH_TASK and bool(config.cluster_spec)


def train_and_evaluate(estimator: Any, train_spec: Any, eval_spec: Any, executor_cls: Any) -> None:
    """Train or evaluate, as the task of this process is.

    Args:
        estimator: the Estimator, which stays as it is; a copy runs.
        train_spec: a `TrainSpec`.
        eval_spec: an `EvalSpec`.
        executor_cls: runs continuous evaluation.
    """
    config = estimator.config

    def train(strategy: Any) -> None:
        local = _create_local(estimator, 'train', strategy)
        local.train(
            train_spec.input_fn,
            hooks=train_spec.hooks,
            max_steps=train_spec.max_steps,
            saving_listeners=train_spec.saving_listeners,
        )

    def evaluate(strategy: Any) -> None:
        local = _create_local(estimator, 'eval', strategy)
        executor_cls(local, train_spec, eval_spec)._start_continuous_evaluation()

    distribute_coordinator.run_distribute_coordinator(
        train,
        config.train_distribute,
        evaluate,
        config.eval_distribute,
        mode=_EACH_TASK,
        session_config=config.session_config,
    )


def _refusal(method: str) -> Callable[..., None]:
    """Return a function that refuses a method of an Estimator, as TensorFlow 2.15 does."""

    def refuse(estimator: Any, distributed_fn: Any, hooks: Any) -> None:
        del estimator, distributed_fn, hooks
        raise ValueError(
            f'Estimator.{method} does not run as a task of a cluster with a strategy; call '
            'train_and_evaluate.'
        )

    return refuse


estimator_train = _refusal('train')
estimator_evaluate = _refusal('evaluate')


def _create_local(estimator: Any, mode: str, strategy: Any) -> Any:
    """Copy an Estimator for the task of this process.

    Args:
        estimator: the Estimator of the cluster.
        mode: `train` or `eval`.
        strategy: the strategy of this mode, which knows the task.
    """
    from tensorflow_estimator.python.estimator import run_config as counts

    context = distribute_coordinator_context.get_current_worker_context()
    # A copy, as in TensorFlow 2.15: the Estimator of the caller keeps its role.
    local = copy.deepcopy(estimator)
    setattr(local, f'_{mode}_distribution', strategy)
    config = local._config  # `config` would be a copy
    setattr(config, f'_{mode}_distribute', strategy)
    config._distribute_coordinator_mode = None  # so that `train` does not come here again
    config._service = None
    config._task_type, config._task_id = context.task_type, context.task_id
    config._is_chief = context.is_chief
    config._master = config._evaluation_master = context.master_target
    # An evaluator is alone: it waits for no other task.
    is_evaluator = context.task_type == 'evaluator'
    cluster = tf.train.ClusterSpec({}) if is_evaluator else context.cluster_spec
    config._cluster_spec = cluster
    if cluster:
        config._num_ps_replicas = counts._count_ps(cluster)
        config._num_worker_replicas = counts._count_worker(cluster, 'chief')
        config._global_id_in_cluster = _count_before(cluster, context.task_type) + context.task_id
    else:
        config._num_ps_replicas = 0
        config._num_worker_replicas = 0 if is_evaluator else 1
        config._global_id_in_cluster = None if is_evaluator else 0
    return local


def _count_before(cluster: tf.train.ClusterSpec, role: str) -> int:
    """Count the tasks before those of a role: the chief, if any, is first, servers are last."""
    # The order of `_get_global_id_in_cluster` of tensorflow-estimator: chief, others by name,
    # servers.
    order = sorted(cluster.jobs, key=lambda job: (job == 'ps', job != 'chief', job))
    return sum(cluster.num_tasks(job) for job in order[: order.index(role)])
