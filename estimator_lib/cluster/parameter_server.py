"""A parameter server: it holds variables until the job is finished, and then ends by itself."""

from __future__ import annotations

import logging
import time
from typing import Dict, List

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.cluster import coordinated_stop, heartbeats, waiting
from estimator_lib.cluster.job import EVALUATOR_ROLE, Job
from estimator_lib.cluster.supervision import Supervisor
from estimator_lib.processes import preemption

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')

_LOOK_SECONDS = 0.5
# Time for workers to leave a finished job, or to save when a server is told to end.
_LEAVING_SECONDS = 15.0


def start_server(job: Job, session_config: tf1.ConfigProto) -> tf1.train.Server:
    """Start TensorFlow's server of this task, by which the tasks reach each other's devices.

    Raises:
        errors.ClusterError: another process has the port.
    """
    spec: Dict[str, List[str]] = {
        role: list(tasks)
        for role, tasks in job.cluster.addresses.items()
        if role != EVALUATOR_ROLE  # no task talks to the evaluator
    }
    require_free_address(job)
    try:
        return tf1.train.Server(
            spec, job_name=job.role, task_index=job.cluster.index, config=session_config
        )
    except tf.errors.OpError as error:
        raise errors.ClusterError(
            f'{job.name} cannot listen at {job.address(job.name)}, its address in TF_CONFIG: '
            f'{errors.first_line(error)}'
        ) from error


def require_free_address(job: Job) -> None:
    """Refuse an address of this task that another process has.

    Raises:
        errors.ClusterError: another process listens there.
    """
    address = job.address(job.name)
    if waiting.is_listening(address):
        raise errors.ClusterError(
            f'{job.name}: another process listens at {address}, its address in TF_CONFIG; expected '
            'a port of its own for each task, and no task that is started twice.'
        )


def serve(job: Job, supervisor: Supervisor, session_config: tf1.ConfigProto) -> None:
    """Serve until the job is finished.

    Raises:
        errors.ClusterError: the job has failed, or its chief is silent for too long.
        preemption.Preempted: this task was told to end; the workers have been asked to save first.
    """
    server = start_server(job, session_config)
    supervisor.heart.tell(heartbeats.SERVING)
    log.info('%s serves variables at %s', job.name, job.address(job.name))
    try:
        # Not `server.join()`: it never returns, and a handler of signals in Python does not run in
        # it.
        while job.state.finished() is None:
            supervisor.raise_verdict()
            time.sleep(_LOOK_SECONDS)
        _wait_for_workers(job, supervisor)
    except preemption.Preempted:
        # The servers may be told to end before the workers, which must save while the variables are
        # there.
        coordinated_stop.StopAgreement(job.state.folder, is_chief=False).ask(
            coordinated_stop.PREEMPTION
        )
        _wait_for_workers(job, supervisor)
        raise
    del server  # TensorFlow's server stops when nothing refers to it


def _wait_for_workers(job: Job, supervisor: Supervisor) -> None:
    """Wait until all workers have left, or their time is over.

    A worker that was killed is not waited for: its last heartbeat still says that it trains, but
    nobody listens at its address.
    """
    deadline = time.monotonic() + _LEAVING_SECONDS
    while time.monotonic() < deadline and any(
        supervisor.watch.state(name) not in (None, heartbeats.ENDED) and not job.unreachable([name])
        for name in job.workers
    ):
        time.sleep(_LOOK_SECONDS)
