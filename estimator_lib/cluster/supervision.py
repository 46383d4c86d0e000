"""The supervisor of a task: a thread that sends its heartbeat and watches the other tasks.

A thread is needed because the main thread may hang inside a training step. When the task has to
end, the thread sets a verdict. The main thread acts on it where it can: a hook requests the stop,
or a loop raises. When the main thread does not react in time, the thread ends the process; in a
user's program, which has no `preemption_guard`, it only logs an error.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from typing import Dict, Optional

from estimator_lib import errors
from estimator_lib.checkpoints import run_folder
from estimator_lib.cluster import heartbeats, job_state
from estimator_lib.cluster.job import EVALUATOR, Job
from estimator_lib.processes import preemption

log = logging.getLogger('estimator_lib')

LOOK_SECONDS = 1.0
REPORT_SECONDS = 30.0
# Seconds that the main thread has to act on a verdict.
GRACE_SECONDS = 15.0
# Short: a collective without one of its workers may never return, so there is nothing to wait for.
PEER_LOST_GRACE_SECONDS = 3.0
# A worker that has not left a finished job after this time hangs in a step without an answer.
FINISHED_GRACE_SECONDS = 20.0
# As argparse and shells have them: 143 is 128 + SIGTERM.
_USER_ERROR_STATUS = 2
_TOLD_TO_END_STATUS = 143


@dataclasses.dataclass(frozen=True)
class Verdict:
    """A decision that this task has to end.

    Attributes:
        status: the exit status of the process.
        message: the reason.
        since: the time of the decision on the monotonic clock, in seconds.
    """

    status: int
    message: str
    since: float


class Supervisor:
    """The supervising thread, and its verdict.

    Args:
        job: the job of which this process is a task.

    Attributes:
        heart: the heartbeat of this task.
        watch: the heartbeats of the other tasks.
        members: after the rendezvous of an all-reduce job, the identity of each worker.
    """

    def __init__(self, job: Job):
        self._job = job
        count = len(job.others) + 1
        self.heart = heartbeats.Heart(job.state.folder, job.name)
        self.watch = heartbeats.Watch(
            job.state.folder, job.others, heartbeats.silent_seconds(count)
        )
        self.members: Dict[str, str] = {}
        self._folder = run_folder.RunFolder(job.model_dir)
        self._beat_seconds = heartbeats.beat_seconds(count)
        self._next_beat = 0.0
        self._verdict: Optional[Verdict] = None
        self._reported: Dict[str, float] = {}
        self._unreachable_since: Dict[str, float] = {}
        self._finished_since: Optional[float] = None
        self._has_said_to_leave = False
        self._stopped = threading.Event()
        # A daemon: it must not keep a process whose main thread has ended with an error.
        self._thread = threading.Thread(target=self._run, name='supervisor', daemon=True)

    def start(self) -> None:
        """Send the first heartbeat, and start the thread."""
        self.heart.beat()
        self._thread.start()

    def stop(self, status: int) -> None:
        """Stop the thread, and tell the other tasks the exit status of this one."""
        self._stopped.set()
        self._thread.join()
        self.heart.tell(heartbeats.ENDED, status=status)

    @property
    def verdict(self) -> Optional[Verdict]:
        """The decision that this task has to end; None while it may continue."""
        return self._verdict

    def raise_verdict(self) -> None:
        """Raise the verdict as an error, if there is one.

        Raises:
            errors.ClusterError: the job has failed, or another task is silent for too long.
            job_state.PeerLost: all tasks are to be started again.
        """
        verdict = self._verdict
        if verdict is None:
            return
        if verdict.status == job_state.PEER_LOST_STATUS:
            raise job_state.PeerLost(verdict.message)
        raise errors.ClusterError(verdict.message)

    def _run(self) -> None:
        while not self._stopped.wait(LOOK_SECONDS):
            now = time.monotonic()
            if now >= self._next_beat:
                self._next_beat = now + self._beat_seconds
                self.heart.beat()
                self.watch.look()
                self._report_silence(now)
            self._judge(now)
            self._enforce(now)

    def _report_silence(self, now: float) -> None:
        # Users read the chief's lines, so it reports all tasks; others report those they need.
        names = self.watch.names if self._job.cluster.is_chief else self._job.needed
        for name in names:
            silent = self.watch.silence(name)
            ended = self.watch.last(name).get('state') == heartbeats.ENDED
            if silent < self.watch.silent_after or ended:
                if self._reported.pop(name, None) is not None and not ended:
                    log.info('%s answers again', name)
            elif self._is_expected(name) and now >= self._reported.get(name, 0.0):
                self._reported[name] = now + REPORT_SECONDS
                step = self.watch.last(name).get('step')
                place = '' if step is None else f' (it was at step {step})'
                log.warning('%s has not answered for %.0f s%s', name, silent, place)

    def _is_expected(self, name: str) -> bool:
        """Return whether a task should answer by now, and is not merely starting."""
        if self.watch.was_alive(name):
            return True
        has_run = bool(self.watch.last(name))
        # A task that has never run in this folder may not be scheduled yet; that is no warning.
        return has_run and self.watch.silence(name) >= 2 * self.watch.silent_after

    def _judge(self, now: float) -> None:
        if self._verdict is not None:
            return
        failure = self._job.state.failure()
        if self._folder.is_gone:
            self._find(_USER_ERROR_STATUS, str(run_folder.removal_error(self._job.model_dir)), now)
        elif failure is not None:
            self._find(_USER_ERROR_STATUS, f'the job has failed: {failure}', now)
        elif self.members:
            self._judge_members(now)
        elif self.heart.state in (heartbeats.TRAINING, heartbeats.SERVING, heartbeats.EVALUATING):
            self._judge_silence(now, _USER_ERROR_STATUS)

    def _judge_silence(self, now: float, status: int) -> None:
        for name in self._job.needed:
            silent = self.watch.silence(name)
            if silent >= self._job.wait_timeout_seconds:
                self._find(
                    status,
                    f'{self._job.name} cannot continue without {name}, which has not answered for '
                    f'{silent:.0f} s, longer than train_config.cluster.wait_timeout_seconds.',
                    now,
                )
                return

    def _judge_members(self, now: float) -> None:
        """Find a lost worker of an all-reduce job: the other workers hang in their step."""
        for name, identity in self.members.items():
            if name == self._job.name:
                continue
            last = self.watch.last(name)
            if last.get('identity') != identity:
                self._lost(name, 'has been started again', now)
            elif last.get('state') == heartbeats.ENDED:
                # With these the task has left by agreement, and this one has the same step to stop
                # after.
                if last.get('status') not in (0, _TOLD_TO_END_STATUS):
                    self._lost(name, f'has ended with status {last.get("status")}', now)
            elif self._is_gone(name, now):
                self._lost(name, f'({self._job.address(name)}) takes no connections any more', now)
        self._judge_silence(now, job_state.PEER_LOST_STATUS)

    def _is_gone(self, name: str, now: float) -> bool:
        """Return whether nobody has listened at a worker's address for some seconds."""
        if self.heart.state != heartbeats.TRAINING or not self._job.unreachable([name]):
            self._unreachable_since.pop(name, None)
            return False
        # Two intervals: a worker that has ended normally has written so by then.
        return now - self._unreachable_since.setdefault(name, now) >= 2 * self._beat_seconds

    def _lost(self, name: str, what: str, now: float) -> None:
        self._find(
            job_state.PEER_LOST_STATUS,
            f'{name} {what}: the workers of an all-reduce job are started again together, and '
            'resume from the last checkpoint.',
            now,
        )

    def _find(self, status: int, message: str, now: float) -> None:
        if self._verdict is None:
            self._verdict = Verdict(status, message, now)

    def _enforce(self, now: float) -> None:
        """End the process when the main thread has not acted on the verdict in time."""
        verdict = self._verdict
        if verdict is not None:
            is_lost = verdict.status == job_state.PEER_LOST_STATUS
            grace = PEER_LOST_GRACE_SECONDS if is_lost else GRACE_SECONDS
            if now - verdict.since >= grace:
                self._leave(verdict.status, verdict.message)
        if self._job.trains:
            self._leave_without_servers()
        # The chief ends the job itself, by its last checkpoint.
        if self._job.trains and not self._job.cluster.is_chief:
            self._leave_finished(now)

    def _leave_without_servers(self) -> None:
        """End a process that was told to end when a parameter server is gone.

        Without the server there is nothing to save.
        """
        if self.heart.state != heartbeats.TRAINING or not preemption.noticed():
            return
        gone = self._job.unreachable(self._job.servers)
        if gone:
            message = f'told to end, and {", ".join(gone)} is gone: the last checkpoint stays'
            self._leave(_TOLD_TO_END_STATUS, message)

    def _leave_finished(self, now: float) -> None:
        if self._finished_since is None:
            chief_ended = self.watch.last(self._job.chief).get('state') == heartbeats.ENDED
            if chief_ended and self._job.state.finished() is not None:
                self._finished_since = now
        elif now - self._finished_since >= FINISHED_GRACE_SECONDS:
            log.info('the job is finished, and %s has nothing to save', self._job.name)
            self._leave(0, '')

    def _leave(self, status: int, message: str) -> None:
        if preemption.owns_process():
            self.heart.tell(heartbeats.ENDED, status=status)
            job_state.leave_now(status, message)
        elif not self._has_said_to_leave:
            self._has_said_to_leave = True
            log.error(
                '%s has to end, but its training step does not return: %s',
                self._job.name,
                message or 'done',
            )

    def has_evaluator(self) -> bool:
        """Return whether the job has a task that evaluates."""
        return 'evaluator' in self._job.cluster.addresses or self.watch.is_alive(EVALUATOR)
