"""One job as one of its tasks sees it: the other tasks, and those of them that it needs."""

from __future__ import annotations

import dataclasses
from typing import List

from estimator_lib.cluster import job_state, waiting
from estimator_lib.distribution.tf_config import Cluster
from protos import cluster_pb2, train_pb2

SERVER_ROLE = 'ps'
EVALUATOR_ROLE = 'evaluator'
# Schedulers differ in whether the evaluator is part of `TF_CONFIG`; there is at most one.
EVALUATOR = f'{EVALUATOR_ROLE}:0'


@dataclasses.dataclass(frozen=True)
class Job:
    """A job of which this process is a task.

    Attributes:
        cluster: the tasks of the job.
        train_config: the training that the job does.
        model_dir: the folder that all tasks share.
        state: the files by which the tasks tell each other about the end of the job.
    """

    cluster: Cluster
    train_config: train_pb2.TrainConfig
    model_dir: str
    state: job_state.JobState

    @property
    def name(self) -> str:
        """The name of this task."""
        return self.cluster.name

    @property
    def role(self) -> str:
        """The role of this task."""
        return self.cluster.role

    @property
    def trains(self) -> bool:
        """True if this task runs training steps."""
        return self.role not in (SERVER_ROLE, EVALUATOR_ROLE)

    @property
    def wait_timeout_seconds(self) -> float:
        """The seconds after which a task stops waiting for another one."""
        return float(self.train_config.cluster.wait_timeout_seconds)

    @property
    def is_all_reduce(self) -> bool:
        """True if the workers exchange gradients among themselves."""
        # The rule of `TF_CONFIG` with AUTO: parameter servers decide, then the number of workers.
        return not self.servers and len(self.workers) > 1

    @property
    def servers(self) -> List[str]:
        """The names of the parameter servers."""
        tasks = self.cluster.addresses.get(SERVER_ROLE, ())
        return [f'{SERVER_ROLE}:{index}' for index in range(len(tasks))]

    @property
    def workers(self) -> List[str]:
        """The names of the tasks that run training steps."""
        return list(self.cluster.workers)

    @property
    def chief(self) -> str:
        """The name of the task that writes checkpoints."""
        return self.workers[0]

    @property
    def others(self) -> List[str]:
        """The names of all other tasks, the evaluator among them whether it is listed or not."""
        names = [*self.workers, *self.servers, EVALUATOR]
        return [name for name in names if name != self.name]

    @property
    def needed(self) -> List[str]:
        """The names of the tasks without which this one cannot do its work for long."""
        if self.is_all_reduce and self.trains:
            names = self.workers
        elif self.cluster.is_chief:
            names = [*self.servers, *(self.workers if self._waits_for_all else ())]
        elif self.trains:
            names = [self.chief, *self.servers]
        else:
            names = [self.chief]
        return [name for name in names if name != self.name]

    @property
    def _waits_for_all(self) -> bool:
        """True if a step of synchronized replicas takes the gradients of all workers."""
        config = self.train_config
        mode = config.cluster.mode
        is_synchronous = config.sync_replicas or (
            mode == cluster_pb2.ClusterConfig.SYNC_PARAMETER_SERVERS
        )
        # With backup workers a step needs any `replicas_to_aggregate` of them, so one may be lost.
        has_backups = config.HasField('replicas_to_aggregate') and (
            config.replicas_to_aggregate < len(self.workers)
        )
        return is_synchronous and not has_backups

    def address(self, name: str) -> str:
        """Return the `host:port` of a task."""
        role, _, index = name.partition(':')
        return self.cluster.addresses[role][int(index)]

    def unreachable(self, names: List[str]) -> List[str]:
        """Return those of the given tasks that accept no connections, with their addresses."""
        return [
            f'{name} ({self.address(name)})'
            for name in names
            if not waiting.is_listening(self.address(name))
        ]
