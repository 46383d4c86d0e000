"""What a process does as a task of a cluster, from its start to its end."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Protocol, Sequence

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.checkpoints import checkpoint_files, run_folder
from estimator_lib.cluster import (
    cluster_session,
    coordinated_stop,
    evaluator_task,
    heartbeats,
    job_state,
    parameter_server,
    rendezvous,
    supervision,
    waiting,
)
from estimator_lib.cluster.job import SERVER_ROLE, Job
from estimator_lib.distribution.tf_config import Cluster
from estimator_lib.evaluation import early_stopping, evaluating
from estimator_lib.hooks import non_finite, preemption
from protos import pipeline_pb2

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')

Metrics = Dict[str, Dict[str, float]]

# Kubernetes kills 30 s after it has told a task to end.
DEADLINE_SECONDS = 20.0
EARLY_STOPPING = 'early_stopping'
# Attempts to train, one after the other, in which not a step was made.
_MOST_ATTEMPTS = 20
_ATTEMPT_SECONDS = 2.0
# What a session raises when a parameter server is gone, or not what it was. FailedPrecondition:
# it has been started again, and its variables are not set yet.
_SERVER_LOSS = (
    tf.errors.AbortedError,
    tf.errors.UnavailableError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
    tf.errors.CancelledError,
)


class Trainer(Protocol):
    """Trainer of a worker: an Estimator, or a `function_loop.trainer.FunctionTrainer`."""

    def train(
        self,
        input_fn: Any,
        hooks: Sequence[tf.estimator.SessionRunHook] = (),
        max_steps: Optional[int] = None,
        saving_listeners: Sequence[tf.estimator.CheckpointSaverListener] = (),
    ) -> Any:
        """Train as `tf.estimator.Estimator.train` does."""


@dataclasses.dataclass(frozen=True)
class Parts:
    """Parts of the work of a task, each made when its role needs it.

    Attributes:
        create_trainer: of the workers; the strategy of those without sessions is made with it.
        create_input_fn: of the workers.
        chief_hooks: of the chief's training.
        create_evaluator: of the checkpoints of the job; None when nothing is evaluated.
        finish: what the chief of a job without evaluator does in the end: the last evaluation and
            the final export. Returns the metrics.
        create_stopping: what decides about early stopping; None where nothing does.
        hooks: of the training of every worker.
        saving_listeners: told of the chief's checkpoints.
    """

    create_trainer: Callable[[], Trainer]
    create_input_fn: Callable[[], Any]
    chief_hooks: List[tf.estimator.SessionRunHook]
    create_evaluator: Optional[Callable[[], evaluating.Evaluator]]
    finish: Callable[[], Metrics]
    create_stopping: Callable[[], Optional[early_stopping.EarlyStopping]]
    hooks: Sequence[tf.estimator.SessionRunHook] = ()
    saving_listeners: Sequence[tf.estimator.CheckpointSaverListener] = ()


def run_task(
    cluster: Cluster,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    model_dir: str,
    session_config: tf1.ConfigProto,
    parts: Parts,
) -> Metrics:
    """Do the work of this process's task until the job is finished.

    Args:
        cluster: the tasks, and which this is.
        config: of the job.
        model_dir: which all tasks see.
        session_config: of the servers.
        parts: of the work.

    Returns:
        The metrics of the last evaluation, of the task that made one.

    Raises:
        errors.ClusterError: another task has failed, or was waited for too long.
        errors.UserError: `model_dir` is gone.
        job_state.PeerLost: the job is to be started again.
        preemption.Preempted: told to end; the chief has saved.
    """
    job = Job(
        cluster, config.train_config, model_dir, job_state.JobState(model_dir, config.train_config)
    )
    preemption.end_process_within(DEADLINE_SECONDS)
    with _supervised(job) as it, run_folder.explained_removal(model_dir):
        if cluster.role == SERVER_ROLE:
            parameter_server.serve(job, it, session_config)
        elif job.trains:
            return _Worker(job, it, session_config, parts).run()
        elif parts.create_evaluator is not None:
            return evaluator_task.evaluate_until_finished(
                job, it, parts.create_evaluator(), config.eval_config.schedule
            )
        else:
            log.info('nothing is to be evaluated: the evaluator ends')
        return {}


@contextlib.contextmanager
def _supervised(job: Job) -> Iterator[supervision.Supervisor]:
    """Tell the other tasks that this one runs, and how it has ended."""
    supervisor = supervision.Supervisor(job)
    supervisor.start()
    status = 1
    try:
        yield supervisor
        status = 0
    except (preemption.Preempted, job_state.PeerLost) as end:
        status = end.exit_status
        log.info('%s ends with status %d: %s', job.name, status, end)
        raise
    except Exception as error:
        status = 2 if isinstance(error, errors.UserError) else 1
        job.state.write_failed(job.name, errors.first_line(error), supervisor.heart.identity)
        raise
    finally:
        supervisor.stop(status)


class _Worker:
    """The chief, or another worker."""

    def __init__(
        self,
        job: Job,
        supervisor: supervision.Supervisor,
        session_config: tf1.ConfigProto,
        parts: Parts,
    ):
        self._job = job
        self._supervisor = supervisor
        self._session_config = session_config
        self._parts = parts
        self._is_chief = job.cluster.is_chief
        self._sessions = 0
        self._attempts = 0
        self._stopping: Optional[early_stopping.EarlyStopping] = None
        self._agreement = coordinated_stop.StopAgreement(job.state.folder, self._is_chief)

    def run(self) -> Metrics:
        """Train, and ends the job where this is the chief."""
        reason = 'num_steps'
        if self._job.state.finished() is None:
            train = self._train_all_reduce if self._job.is_all_reduce else self._train
            reason = self._ended_before() or train() or reason
        elif not self._is_chief:
            log.info('the job is finished: %s has nothing to do', self._job.name)
        # What ended the session may be a signal or a verdict.
        preemption.raise_if_requested()
        self._supervisor.raise_verdict()
        return self._finish(reason) if self._is_chief else {}

    def _ended_before(self) -> Optional[str]:
        """The chief: why an earlier start has ended the training; None when it is to go on."""
        if not self._is_chief:
            return None
        self._stopping = self._parts.create_stopping()
        step = checkpoint_files.latest_step(self._job.model_dir)
        ended = self._stopping is not None and self._stopping.should_stop(step)
        return EARLY_STOPPING if ended else None

    def _finish(self, reason: str) -> Metrics:
        if self._job.state.finished() is None:
            self._job.state.write_finished(reason)
        if self._parts.create_evaluator is not None and self._supervisor.has_evaluator():
            return {}
        log.info('no evaluator: the chief does what comes at the end')
        return self._parts.finish()

    def _train(self) -> Optional[str]:
        """With parameter servers: once, and again after each loss of one.

        Returns:
            Why training has ended before its last step; None when it has not.
        """
        server = None
        while True:
            if server is None:
                server = parameter_server.start_server(self._job, self._session_config)
            if not self._wait():
                return None
            stop = self._stop_hook()
            try:
                self._parts.create_trainer().train(
                    self._parts.create_input_fn(),
                    hooks=self._hooks(stop),
                    max_steps=self._job.train_config.num_steps or None,
                    saving_listeners=self._saving_listeners(),
                )
                return stop.reason
            except _SERVER_LOSS as error:
                self._attempts += 1
                preemption.raise_if_requested()
                self._supervisor.raise_verdict()
                if self._attempts >= _MOST_ATTEMPTS:
                    raise errors.ClusterError(
                        f'{self._job.name} has opened {self._attempts} sessions, one after the '
                        'other, and not made a step; expected: all tasks run the same config and '
                        'the same version of this program. The last error: '
                        f'{errors.first_line(error)}'
                    ) from error
                log.warning(
                    '%s has lost its session and opens another: %s',
                    self._job.name,
                    errors.first_line(error),
                )
                time.sleep(_ATTEMPT_SECONDS)

    def _wait(self) -> bool:
        """Wait for who is needed to begin; False when the job is finished."""
        self._supervisor.heart.tell(heartbeats.WAITING)
        job = self._job

        def give_up() -> bool:
            self._supervisor.raise_verdict()
            return job.state.finished() is not None

        def idle_chief() -> List[str]:
            trains = self._supervisor.watch.state(job.chief) == heartbeats.TRAINING
            return [] if trains else [job.chief]

        options = {'timeout_seconds': job.wait_timeout_seconds, 'give_up': give_up}
        ready = waiting.wait_for(
            lambda: job.not_listening(job.servers), who=job.name, until='to listen', **options
        )
        if self._is_chief or not ready:
            return ready
        return waiting.wait_for(idle_chief, who=job.name, until='to train', **options)

    def _train_all_reduce(self) -> Optional[str]:
        """Return all workers together; when one is lost all end, to be started again together."""
        parameter_server.require_free_address(self._job)
        if not rendezvous.join(self._job, self._supervisor):
            return None
        stop = self._stop_hook()
        try:
            self._train_together(self._hooks(stop))
        except tf.errors.OpError as error:
            preemption.raise_if_requested()
            self._raise_if_peer_lost(error)
            raise
        return stop.reason

    def _train_together(self, hooks: List[tf.estimator.SessionRunHook]) -> None:
        """Train among the workers that have come."""
        max_steps = self._job.train_config.num_steps or None
        trainer = self._parts.create_trainer()  # A strategy in eager TensorFlow comes first.
        input_fn = self._parts.create_input_fn()
        if not isinstance(trainer, tf.estimator.Estimator):
            trainer.train(
                input_fn,
                hooks=hooks,
                max_steps=max_steps,
                saving_listeners=self._saving_listeners(),
            )
            return
        trainer = _add_listeners(trainer, self._saving_listeners())
        train_spec = tf.estimator.TrainSpec(input_fn, max_steps=max_steps, hooks=hooks)
        # Not used by a worker, but no TrainSpec goes without.
        eval_spec = tf.estimator.EvalSpec(input_fn)
        tf.estimator.train_and_evaluate(trainer, train_spec, eval_spec)

    def _raise_if_peer_lost(self, error: tf.errors.OpError) -> None:
        """Give the supervisor the time to find out whether another worker is gone."""
        log.warning('%s: %s', self._job.name, errors.first_line(error))
        deadline = time.monotonic() + 3 * heartbeats.LEAST_SECONDS
        while time.monotonic() < deadline:
            self._supervisor.raise_verdict()
            time.sleep(waiting.POLL_SECONDS)

    def _stop_hook(self) -> coordinated_stop.AgreedStopHook:
        stopping = self._stopping
        chief_address = self._job.address(self._job.chief)
        return coordinated_stop.AgreedStopHook(
            self._agreement,
            {} if stopping is None else {EARLY_STOPPING: stopping.another_says_stop},
            nobody_answers=lambda: not waiting.is_listening(chief_address),
        )

    def _hooks(self, stop: coordinated_stop.AgreedStopHook) -> List[tf.estimator.SessionRunHook]:
        own = cluster_session.ClusterSessionHook(
            self._session_opened,
            self._step_done,
            should_end=lambda: self._supervisor.verdict is not None,
        )
        of_chief = self._parts.chief_hooks if self._is_chief else ()
        return [own, stop, *of_chief, *self._parts.hooks]

    def _saving_listeners(self) -> Sequence[tf.estimator.CheckpointSaverListener]:
        return self._parts.saving_listeners if self._is_chief else ()

    def _session_opened(self, step: int) -> None:
        self._sessions += 1
        if self._job.is_all_reduce and self._sessions > 1:
            raise job_state.PeerLost(
                'a worker of the all-reduce job is gone: all are started again together, and go '
                'on from the last checkpoint.'
            )
        self._supervisor.heart.tell(heartbeats.TRAINING, step=step)
        again = '' if self._sessions == 1 else f' again (session {self._sessions})'
        log.info('%s trains%s, from step %d', self._job.name, again, step)

    def _step_done(self, step: int) -> None:
        self._attempts = 0
        self._supervisor.heart.at_step(step)


def _add_listeners(
    estimator: tf.estimator.Estimator,
    listeners: Sequence[tf.estimator.CheckpointSaverListener],
) -> tf.estimator.Estimator:
    """Return an Estimator whose saver hook tells the listeners.

    Under all-reduce TensorFlow drops the listeners of a `TrainSpec`.
    """
    if not listeners:
        return estimator

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> tf.estimator.EstimatorSpec:
        spec = estimator.model_fn(features, labels, mode, config)
        for hook in spec.training_chief_hooks:
            if isinstance(hook, non_finite.FiniteCheckpointSaverHook):
                hook.listen(listeners)
        return spec

    return tf.estimator.Estimator(model_fn, estimator.model_dir, estimator.config)
