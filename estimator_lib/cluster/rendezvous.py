"""How the trainers of an all-reduce job begin together.

A collective step needs every trainer, and one that was started again cannot join the steps of the
others. So the chief waits until all trainers wait, and writes down which start of each it has seen;
they begin when they find themselves there.
"""

from __future__ import annotations

import os
from typing import Dict, List

from estimator_lib.cluster import heartbeats, job_state, waiting
from estimator_lib.cluster.job import Job
from estimator_lib.cluster.supervision import Supervisor

GANG_FILE = 'gang.json'


def form(job: Job, supervisor: Supervisor) -> bool:
    """Waits for all trainers.

    Returns:
        False when the job is finished already.

    Raises:
        errors.ClusterError: some have not come in time.
    """
    path = os.path.join(job.marks.folder, GANG_FILE)
    supervisor.heart.tell(heartbeats.WAITING)

    def give_up() -> bool:
        supervisor.raise_verdict()
        return job.marks.finished() is not None

    def absent() -> List[str]:
        return [
            name
            for name in job.trainers
            if name != job.name and supervisor.watch.state(name) != heartbeats.WAITING
        ]

    members: Dict[str, str] = {}

    def uncalled() -> List[str]:
        members.update((job_state.read_mark(path) or {}).get('members', {}))
        return [] if members.get(job.name) == supervisor.heart.identity else [job.chief]

    is_chief = job.cluster.is_chief
    formed = waiting.wait_for(
        absent if is_chief else uncalled,
        who=job.name,
        until='to be ready' if is_chief else 'to call all trainers',
        timeout_seconds=job.wait_timeout_seconds,
        give_up=give_up,
    )
    if not formed:
        return False
    if is_chief:
        members[job.name] = supervisor.heart.identity
        for name in job.trainers[1:]:
            members[name] = supervisor.watch.last(name)['identity']
        job_state.write_mark(path, {'members': members})
    supervisor.members = members
    return True
