"""The rendezvous of the workers of an all-reduce job: they begin together.

A collective step needs every worker, and a worker that was started again cannot join the steps of
the others. So the chief waits until all workers wait, and lists the identity of each. A worker
begins when it finds its own identity in the list.
"""

from __future__ import annotations

import os
from typing import Dict, List

from estimator_lib.cluster import heartbeats, job_state, waiting
from estimator_lib.cluster.job import Job
from estimator_lib.cluster.supervision import Supervisor

MEMBERS_FILE = 'members.json'


def join(job: Job, supervisor: Supervisor) -> bool:
    """Wait for all workers, and give their identities to the supervisor.

    Returns:
        False when the job is finished already.

    Raises:
        errors.ClusterError: some workers have not come in time.
    """
    path = os.path.join(job.state.folder, MEMBERS_FILE)
    supervisor.heart.tell(heartbeats.WAITING)
    members: Dict[str, str] = {}

    def give_up() -> bool:
        supervisor.raise_verdict()
        return job.state.finished() is not None

    def not_waiting() -> List[str]:
        others = [name for name in job.workers if name != job.name]
        return [name for name in others if supervisor.watch.state(name) != heartbeats.WAITING]

    def not_listed() -> List[str]:
        # A list of an earlier start has another identity of this task, so the wait continues.
        members.update((job_state.read_state(path) or {}).get('members', {}))
        return [] if members.get(job.name) == supervisor.heart.identity else [job.chief]

    is_chief = job.cluster.is_chief
    joined = waiting.wait_for(
        not_waiting if is_chief else not_listed,
        who=job.name,
        until='to be ready' if is_chief else 'to list all workers',
        timeout_seconds=job.wait_timeout_seconds,
        give_up=give_up,
    )
    if not joined:
        return False
    if is_chief:
        members[job.name] = supervisor.heart.identity
        for name in job.workers[1:]:
            members[name] = supervisor.watch.last(name)['identity']
        job_state.write_state(path, {'members': members})
    supervisor.members = members
    return True
