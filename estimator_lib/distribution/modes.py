"""The distribution mode of a run, and its checks against the config and `TF_CONFIG`."""

from __future__ import annotations

import dataclasses
import enum
from typing import List, Mapping, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.distribution import half_types
from estimator_lib.distribution.tf_config import Cluster
from protos import cluster_pb2, pipeline_pb2, train_pb2

_FIELD = 'train_config.cluster'


class Mode(enum.Enum):
    """Distribution modes; the names are those of `ClusterConfig.Mode`."""

    ONE_DEVICE = 'one device'
    CLONES = 'copies of the network on the devices of one machine'
    MIRRORED = 'MirroredStrategy'
    ASYNC_PARAMETER_SERVERS = 'asynchronous parameter servers'
    SYNC_PARAMETER_SERVERS = 'synchronous parameter servers'
    MULTI_WORKER_MIRRORED = 'MultiWorkerMirroredStrategy'


_ON_ONE_MACHINE = (Mode.ONE_DEVICE, Mode.CLONES, Mode.MIRRORED)
# Modes without `train_config.loop: TF_FUNCTION`, and the mode to use instead. With parameter
# servers, TensorFlow's function loop has one coordinator, and its workers run no program.
_NOT_OF_FUNCTIONS = {
    Mode.CLONES: Mode.MIRRORED,
    Mode.ASYNC_PARAMETER_SERVERS: Mode.MULTI_WORKER_MIRRORED,
    Mode.SYNC_PARAMETER_SERVERS: Mode.MULTI_WORKER_MIRRORED,
}
_WITH_PARAMETER_SERVERS = (Mode.ASYNC_PARAMETER_SERVERS, Mode.SYNC_PARAMETER_SERVERS)


@dataclasses.dataclass(frozen=True)
class Plan:
    """Distribution of the work of a run.

    Attributes:
        mode: the distribution mode.
        cluster: the cluster of which this process is a task; None on one machine.
        devices: the devices of the replicas in this process, for `CLONES` and `MIRRORED`; for
            `MULTI_WORKER_MIRRORED` its accelerators.
        batch_size: `train_config.batch_size`: number of examples of a global step.
        replicas_to_aggregate: number of workers whose gradients make a step, for
            `SYNC_PARAMETER_SERVERS`; each computes on an equal part of the batch.
        startup_delay_steps: worker i begins when the global step has reached i times this number.
        partition_over_bytes: variables of at least this size are split over the parameter servers;
            0: none.
        without_sessions: whether the loop is that of `function_loop`.
    """

    mode: Mode
    cluster: Optional[Cluster] = None
    devices: Tuple[str, ...] = ('',)
    batch_size: int = 1
    replicas_to_aggregate: int = 1
    startup_delay_steps: float = 0.0
    partition_over_bytes: int = 0
    without_sessions: bool = False

    @property
    def uses_parameter_servers(self) -> bool:
        """True if variables live on parameter servers."""
        return self.mode in _WITH_PARAMETER_SERVERS

    @property
    def uses_strategy(self) -> bool:
        """True if a `tf.distribute.Strategy` distributes the work."""
        return self.mode in (Mode.MIRRORED, Mode.MULTI_WORKER_MIRRORED)

    @property
    def is_synchronous(self) -> bool:
        """True if several workers wait for each other at each step."""
        return self.mode in (Mode.SYNC_PARAMETER_SERVERS, Mode.MULTI_WORKER_MIRRORED)

    @property
    def num_workers(self) -> int:
        """The number of processes that train."""
        return 1 if self.mode in _ON_ONE_MACHINE else len(self.cluster.workers)

    @property
    def worker_index(self) -> int:
        """The index of this worker; 0 for the chief, and for tasks that do not train."""
        if self.num_workers == 1 or self.cluster.name not in self.cluster.workers:
            return 0
        return self.cluster.workers.index(self.cluster.name)

    @property
    def num_replicas(self) -> int:
        """The number of replicas, in all processes, that share one batch."""
        return num_replicas(self.mode, self.num_workers, len(self.devices))

    @property
    def input_parts(self) -> int:
        """The number of parts in which an input pipeline delivers a batch of `batch_size`."""
        return self.num_replicas if self.uses_strategy else self.replicas_to_aggregate


def create_plan(
    config: pipeline_pb2.TrainEvalPipelineConfig,
    cluster: Optional[Cluster] = None,
    num_accelerators: Optional[int] = None,
) -> Plan:
    """Derive the plan of a run from its config and cluster.

    Args:
        config: `train_config.cluster`, and the related fields of `train_config`.
        cluster: the result of `read_tf_config`.
        num_accelerators: number of accelerators of this machine; None: as many as TensorFlow finds.

    Raises:
        errors.UserError: the mode does not fit the cluster, or a field does not fit the mode.
    """
    train_config = config.train_config
    mode = choose_mode(train_config, cluster)
    devices = ('',)
    if mode in (Mode.CLONES, Mode.MIRRORED, Mode.MULTI_WORKER_MIRRORED):
        if num_accelerators is None:
            num_accelerators = len(tf.config.list_physical_devices('GPU'))
        devices = _devices(mode, train_config.cluster, num_accelerators)
    plan = Plan(
        mode,
        cluster,
        devices,
        batch_size=train_config.batch_size,
        replicas_to_aggregate=_replicas_to_aggregate(mode, train_config, cluster),
        startup_delay_steps=_startup_delay(mode, train_config),
        partition_over_bytes=train_config.cluster.partition_variables_over_bytes,
        without_sessions=train_config.loop == train_pb2.TF_FUNCTION,
    )
    _check_fields(mode, train_config)
    _check_batch(plan, config)
    return plan


def alone(config: pipeline_pb2.TrainEvalPipelineConfig) -> Plan:
    """Return the plan of a single process on one device, whatever the config's mode."""
    return Plan(Mode.ONE_DEVICE, batch_size=config.train_config.batch_size)


def choose_mode(train_config: train_pb2.TrainConfig, cluster: Optional[Cluster]) -> Mode:
    """Return the mode that a config asks for; for AUTO, the one that fits the cluster.

    Raises:
        errors.UserError: the mode does not fit the cluster.
    """
    number = train_config.cluster.mode
    workers = len(cluster.workers) if cluster is not None else 1
    has_servers = cluster is not None and 'ps' in cluster.addresses
    if number == cluster_pb2.ClusterConfig.AUTO:
        if has_servers:
            sync = train_config.sync_replicas
            return Mode.SYNC_PARAMETER_SERVERS if sync else Mode.ASYNC_PARAMETER_SERVERS
        return Mode.ONE_DEVICE if workers == 1 else Mode.MULTI_WORKER_MIRRORED
    mode = Mode[cluster_pb2.ClusterConfig.Mode.Name(number)]
    _check_cluster(mode, cluster, workers, has_servers)
    if mode is Mode.ASYNC_PARAMETER_SERVERS and train_config.sync_replicas:
        raise errors.ConfigError(
            f'{_FIELD}.mode is {mode.name}, but train_config.sync_replicas is true; expected '
            'SYNC_PARAMETER_SERVERS, or sync_replicas: false.'
        )
    return mode


def num_replicas(mode: Mode, num_workers: int, num_devices: int) -> int:
    """Return the number of replicas that share one batch."""
    if mode in (Mode.CLONES, Mode.MIRRORED):
        return num_devices
    return num_workers * num_devices if mode is Mode.MULTI_WORKER_MIRRORED else 1


def _check_cluster(mode: Mode, cluster: Optional[Cluster], workers: int, has_servers: bool) -> None:
    if mode in _ON_ONE_MACHINE:
        if workers > 1 or has_servers:
            raise errors.ConfigError(
                f'{_FIELD}.mode is {mode.name}, which is for one machine, but TF_CONFIG describes '
                f'a cluster of {_roles(cluster)}; expected AUTO or '
                f'{_fitting(has_servers)}, or no TF_CONFIG.'
            )
        return
    if cluster is None:
        raise errors.ConfigError(
            f'{_FIELD}.mode is {mode.name}, which is for a cluster, but TF_CONFIG is not set; '
            'expected AUTO, CLONES or MIRRORED on one machine.'
        )
    if (mode in _WITH_PARAMETER_SERVERS) != has_servers:
        what = 'has parameter servers' if has_servers else 'has no parameter server ("ps")'
        raise errors.ConfigError(
            f'{_FIELD}.mode is {mode.name}, but the cluster of TF_CONFIG {what}: it is '
            f'{_roles(cluster)}; expected AUTO or {_fitting(has_servers)}.'
        )


def _roles(cluster: Cluster) -> str:
    counts: Mapping[str, int] = {role: len(tasks) for role, tasks in cluster.addresses.items()}
    return ', '.join(f'{count} {role}' for role, count in counts.items())


def _fitting(has_servers: bool) -> str:
    if has_servers:
        return ' or '.join(mode.name for mode in _WITH_PARAMETER_SERVERS)
    return Mode.MULTI_WORKER_MIRRORED.name


def _devices(
    mode: Mode, config: cluster_pb2.ClusterConfig, num_accelerators: int
) -> Tuple[str, ...]:
    if mode is Mode.MULTI_WORKER_MIRRORED:
        return tuple(f'/device:GPU:{index}' for index in range(num_accelerators)) or ('',)
    wanted = config.num_clones
    if num_accelerators and not config.clone_on_cpu:
        if wanted > num_accelerators:
            raise errors.ConfigError(
                f'{_FIELD}.num_clones is {wanted}, but this machine has {num_accelerators} '
                'accelerators; expected at most that many, or clone_on_cpu: true.'
            )
        return tuple(f'/device:GPU:{index}' for index in range(wanted or num_accelerators))
    # The replicas of a strategy need one device each; clones may share the one CPU.
    own = mode is Mode.MIRRORED
    return tuple(f'/device:CPU:{index if own else 0}' for index in range(wanted or 1))


def _replicas_to_aggregate(
    mode: Mode, train_config: train_pb2.TrainConfig, cluster: Optional[Cluster]
) -> int:
    if mode is not Mode.SYNC_PARAMETER_SERVERS:
        return 1
    workers = len(cluster.workers)
    # The default of the schema, 1, is the published one. With it a worker's gradient alone would
    # make each step, so only a value that is set counts.
    if not train_config.HasField('replicas_to_aggregate'):
        return workers
    wanted = train_config.replicas_to_aggregate
    if not 1 <= wanted <= workers:
        raise errors.ConfigError(
            f'train_config.replicas_to_aggregate is {wanted}, but {workers} processes train; '
            f'expected 1 to {workers} (fewer than {workers}: the others are backups), or no '
            'value for all of them.'
        )
    return wanted


def _startup_delay(mode: Mode, train_config: train_pb2.TrainConfig) -> float:
    """Return the startup delay in steps; synchronous workers begin together, without delay."""
    # TF-Slim refuses a delay with synchronous replicas too: they would wait for the delayed worker.
    is_asynchronous = mode is Mode.ASYNC_PARAMETER_SERVERS
    return train_config.startup_delay_steps if is_asynchronous else 0.0


def idle_fields(plan: Plan, train_config: train_pb2.TrainConfig) -> List[str]:
    """Return the fields that are set, but have no effect on training in this mode."""
    sets_delay = train_config.HasField('startup_delay_steps') and train_config.startup_delay_steps
    idle = {
        f'{_FIELD}.partition_variables_over_bytes': (
            plan.partition_over_bytes and not plan.uses_parameter_servers
        ),
        'train_config.sync_replicas': train_config.sync_replicas and not plan.is_synchronous,
        'train_config.replicas_to_aggregate': (
            train_config.HasField('replicas_to_aggregate')
            and plan.mode is not Mode.SYNC_PARAMETER_SERVERS
        ),
        'train_config.startup_delay_steps': (
            sets_delay and plan.mode is not Mode.ASYNC_PARAMETER_SERVERS
        ),
        'train_config.steps_per_call': (
            train_config.steps_per_call and train_config.loop != train_pb2.TF_FUNCTION
        ),
        'train_config.loss_scale': (
            train_config.loss_scale and not half_types.scales_losses(train_config)
        ),
    }
    return [field for field, is_idle in idle.items() if is_idle]


def require_own_batches(plan: Plan, fields: Sequence[str]) -> None:
    """Refuse fields that need computations across replicas in a mode that has none.

    Only the replicas of a strategy can compute over each other's batches; other replicas exchange
    nothing but gradients.

    Args:
        plan: the plan of the run.
        fields: paths of such fields, from `Task.across_replicas`.

    Raises:
        errors.ConfigError: there are such fields, and several replicas without a strategy.
    """
    replicas = max(plan.num_replicas, plan.num_workers)
    if fields and replicas > 1 and not plan.uses_strategy:
        raise errors.ConfigError(
            f'{fields[0]}: computes over the batches of all replicas, and training uses '
            f'{plan.mode.value}, whose {replicas} replicas see only their own batches; expected '
            f'{_FIELD}.mode {Mode.MIRRORED.name} or {Mode.MULTI_WORKER_MIRRORED.name}, or no such '
            'field.'
        )


def _check_fields(mode: Mode, train_config: train_pb2.TrainConfig) -> None:
    """Refuse fields that the mode does not support and whose effect a user would miss."""
    config = train_config.cluster
    if train_config.sync_replicas and config.num_clones > 1:
        raise errors.ConfigError(
            f'train_config.sync_replicas is true, and {_FIELD}.num_clones is {config.num_clones}; '
            'expected one of the two: the devices of one machine share each step anyway.'
        )
    if train_config.loop == train_pb2.TF_FUNCTION and mode in _NOT_OF_FUNCTIONS:
        servers = ' and no "ps" in TF_CONFIG' if mode in _WITH_PARAMETER_SERVERS else ''
        raise errors.ConfigError(
            f'train_config.loop is TF_FUNCTION, but the mode is {mode.name} ({mode.value}), which '
            f'that loop does not support; expected loop: ESTIMATOR, or {_FIELD}.mode '
            f'{_NOT_OF_FUNCTIONS[mode].name}{servers}.'
        )
    if mode in (Mode.CLONES, Mode.MIRRORED):
        return
    sets = {'num_clones': config.num_clones > 1, 'clone_on_cpu': config.clone_on_cpu}
    for field, is_set in sets.items():
        if is_set:
            value = str(getattr(config, field)).lower()
            raise errors.ConfigError(
                f'{_FIELD}.{field} is {value}, but the mode is {mode.name}; expected mode '
                f'CLONES or MIRRORED, or no {field}.'
            )


def _check_batch(plan: Plan, config: pipeline_pb2.TrainEvalPipelineConfig) -> None:
    """Refuse a batch size or an input that the replicas cannot share."""
    shares = max(plan.num_replicas, plan.replicas_to_aggregate)
    steps = config.train_config.accumulate_steps
    parts = shares * steps
    if plan.batch_size % parts:
        less = plan.batch_size // parts * parts
        near = f'{less} or {less + parts}' if less else f'{parts}'
        is_sync = plan.mode is Mode.SYNC_PARAMETER_SERVERS
        micro = f' in {steps} parts each (train_config.accumulate_steps)' if steps > 1 else ''
        other = ', or another train_config.replicas_to_aggregate' if is_sync else ''
        raise errors.ConfigError(
            f'train_config.batch_size is {plan.batch_size}, which {shares} replicas '
            f'({plan.mode.name}){micro} cannot share equally; expected a multiple of {parts}, such '
            f'as {near}{other}.'
        )
    reader = config.train_input_reader
    if reader.examples_per_batch and 1 < plan.replicas_to_aggregate < plan.num_workers:
        raise errors.ConfigError(
            'train_input_reader.examples_per_batch is set, but of '
            f'{plan.num_workers} workers only {plan.replicas_to_aggregate} make a step '
            '(train_config.replicas_to_aggregate); expected sample_from_datasets_weights, or that '
            'all make a step.'
        )
    replicas = plan.num_replicas
    if replicas > 1 and not reader.drop_remainder:
        raise errors.ConfigError(
            f'train_input_reader.drop_remainder is false, but {replicas} replicas share each '
            'batch, and a smaller one at the end may leave some without examples; expected true.'
        )
    if steps > 1 and not reader.drop_remainder:
        raise errors.ConfigError(
            'train_input_reader.drop_remainder is false, but train_config.accumulate_steps '
            f'divides each batch into {steps} equal parts, which a smaller one at the end may not '
            'have; expected true.'
        )
    if plan.is_synchronous and plan.num_workers > 1 and reader.num_epochs:
        raise errors.ConfigError(
            f'train_input_reader.num_epochs is {reader.num_epochs}, but {plan.num_workers} '
            'workers wait for each other at each step, and one may come to the end of its '
            'records before the others; expected 0, and train_config.num_steps as the end.'
        )
