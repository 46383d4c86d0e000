"""The work of a process as a task of a cluster, from its start to its end."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Protocol, Sequence

import tensorflow as tf

from estimator_lib import errors, tf_estimator
from estimator_lib.checkpoints import checkpoint_files, model_dirs, run_folder
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
from estimator_lib.distribution import tf_config
from estimator_lib.distribution.tf_config import Cluster
from estimator_lib.evaluation import early_stopping, evaluating
from estimator_lib.hooks import non_finite
from estimator_lib.processes import preemption
from protos import pipeline_pb2

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')

Metrics = Dict[str, Dict[str, float]]

# Kubernetes kills 30 s after it has told a task to end.
DEADLINE_SECONDS = 20.0
EARLY_STOPPING = 'early_stopping'
# Limit of consecutive attempts to train that end before the first step.
_MOST_ATTEMPTS = 20
_ATTEMPT_SECONDS = 2.0
# Errors of a session whose parameter server is gone or was restarted. FailedPrecondition: the
# server has been started again, and its variables are not initialized yet.
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
        hooks: Sequence[tf_estimator.SessionRunHook] = (),
        max_steps: Optional[int] = None,
        saving_listeners: Sequence[tf_estimator.CheckpointSaverListener] = (),
    ) -> Any:
        """Train as `tf_estimator.Estimator.train` does."""


@dataclasses.dataclass(frozen=True)
class Parts:
    """Parts of the work of a task; a function creates a part when the role of the task needs it.

    Attributes:
        create_trainer: creates a worker's trainer, with its strategy where it uses no session.
        create_input_fn: creates the input function of a worker.
        chief_hooks: the hooks of the chief's training.
        create_evaluator: creates the evaluator of the job's checkpoints; None when nothing is
            evaluated.
        finish: makes the last evaluation and the final export, and returns the metrics. The chief
            of a job without an evaluator calls it.
        create_stopping: creates the early stopping; it returns None without early stopping.
        hooks: the hooks of the training of every worker.
        saving_listeners: listeners of the chief's checkpoints.
    """

    create_trainer: Callable[[], Trainer]
    create_input_fn: Callable[[], Any]
    chief_hooks: List[tf_estimator.SessionRunHook]
    create_evaluator: Optional[Callable[[], evaluating.Evaluator]]
    finish: Callable[[], Metrics]
    create_stopping: Callable[[], Optional[early_stopping.EarlyStopping]]
    hooks: Sequence[tf_estimator.SessionRunHook] = ()
    saving_listeners: Sequence[tf_estimator.CheckpointSaverListener] = ()


def run_task(
    cluster: Cluster,
    config: pipeline_pb2.TrainEvalPipelineConfig,
    model_dir: str,
    session_config: tf1.ConfigProto,
    parts: Parts,
) -> Metrics:
    """Do the work of this process's task until the job is finished.

    Args:
        cluster: all tasks, and the index of this one.
        config: the config of the job.
        model_dir: the folder that all tasks share.
        session_config: the config of TensorFlow's servers.
        parts: the parts of the work.

    Returns:
        The metrics of the last evaluation; empty if this task made none.

    Raises:
        errors.ClusterError: another task has failed, or was waited for too long.
        errors.UserError: `model_dir` is gone.
        job_state.PeerLost: the job is to be started again.
        preemption.Preempted: this task was told to end; the chief has saved a checkpoint.
    """
    job = Job(
        cluster, config.train_config, model_dir, job_state.JobState(model_dir, config.train_config)
    )
    preemption.end_process_within(DEADLINE_SECONDS)
    with _supervised(job) as supervisor, run_folder.explained_removal(model_dir):
        if cluster.role == SERVER_ROLE:
            parameter_server.serve(job, supervisor, session_config)
        elif job.trains:
            return _Worker(job, supervisor, session_config, parts).run()
        elif parts.create_evaluator is not None:
            return evaluator_task.evaluate_until_finished(
                job, supervisor, parts.create_evaluator(), config
            )
        else:
            log.info('the config asks for no evaluation: the evaluator ends')
        return {}


@contextlib.contextmanager
def _supervised(job: Job) -> Iterator[supervision.Supervisor]:
    """Tell the other tasks that this one runs, and its exit status in the end."""
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
    """The work of the chief, or of another worker."""

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
        """Train, and end the job where this is the chief."""
        reason = 'num_steps'
        if self._is_chief:  # with the warning that nothing is trained
            model_dirs.is_trained(self._job.model_dir, self._job.train_config.num_steps)
        if self._job.state.finished() is None:
            train = self._train_all_reduce if self._job.is_all_reduce else self._train
            reason = self._ended_before() or train() or reason
        elif not self._is_chief:
            log.info('the job is finished: %s has nothing to do', self._job.name)
        # A signal or a verdict may have ended the session.
        preemption.raise_if_requested()
        self._supervisor.raise_verdict()
        return self._finish(reason) if self._is_chief else {}

    def _ended_before(self) -> Optional[str]:
        """Return the reason if early stopping ended an earlier start; None for other workers."""
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
        log.info('no evaluator: the chief makes the last evaluation and the final export')
        return self._parts.finish()

    def _train(self) -> Optional[str]:
        """Train with parameter servers, and start again each time that one is lost.

        Returns:
            The reason if training has ended before its last step, else None.
        """
        server = None
        while True:
            # Once for all sessions: the server keeps its port, which other tasks are connected to.
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
                        f'{self._job.name} has opened {self._attempts} sessions in '
                        'succession without a step; expected: all tasks run the same config and '
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
        """Wait for the tasks needed to begin; return False when the job is finished."""
        self._supervisor.heart.tell(heartbeats.WAITING)
        job = self._job

        def give_up() -> bool:
            self._supervisor.raise_verdict()
            return job.state.finished() is not None

        def idle_chief() -> List[str]:
            trains = self._supervisor.watch.state(job.chief) == heartbeats.TRAINING
            return [] if trains else [job.chief]

        options: Dict[str, Any] = {'timeout_seconds': job.wait_timeout_seconds, 'give_up': give_up}
        ready = waiting.wait_for(
            lambda: job.unreachable(job.servers), who=job.name, until='to listen', **options
        )
        if self._is_chief or not ready:
            return ready
        # A worker that comes a moment before the chief's variables would idle 30 s: TensorFlow's
        # SessionManager looks again after `recovery_wait_secs`.
        return waiting.wait_for(idle_chief, who=job.name, until='to train', **options)

    def _train_all_reduce(self) -> Optional[str]:
        """Train with all workers together; when one is lost, all end and are started again."""
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

    def _train_together(self, hooks: List[tf_estimator.SessionRunHook]) -> None:
        """Train with the workers that have come to the rendezvous."""
        max_steps = self._job.train_config.num_steps or None
        trainer = self._parts.create_trainer()  # before the input: it may create an eager strategy
        input_fn = self._parts.create_input_fn()
        if not isinstance(trainer, tf_estimator.Estimator):
            trainer.train(
                input_fn,
                hooks=hooks,
                max_steps=max_steps,
                saving_listeners=self._saving_listeners(),
            )
            return
        trainer = _add_listeners(trainer, self._saving_listeners())
        train_spec = tf_estimator.TrainSpec(input_fn, max_steps=max_steps, hooks=hooks)
        # A worker does not evaluate, but `train_and_evaluate` requires an EvalSpec.
        eval_spec = tf_estimator.EvalSpec(input_fn)
        # TensorFlow reads the variable once more, and knows no `master`.
        with tf_config.environment(self._job.cluster):
            tf_estimator.train_and_evaluate(trainer, train_spec, eval_spec)

    def _raise_if_peer_lost(self, error: tf.errors.OpError) -> None:
        """Wait until the supervisor can tell whether another worker is gone."""
        log.warning('%s: %s', self._job.name, errors.first_line(error))
        # The collective fails at once, the missing heartbeat is noticed later.
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

    def _hooks(self, stop: coordinated_stop.AgreedStopHook) -> List[tf_estimator.SessionRunHook]:
        own = cluster_session.ClusterSessionHook(
            self._session_opened,
            self._step_done,
            should_end=lambda: self._supervisor.verdict is not None,
        )
        chief_hooks = self._parts.chief_hooks if self._is_chief else ()
        return [own, stop, *chief_hooks, *self._parts.hooks]

    def _saving_listeners(self) -> Sequence[tf_estimator.CheckpointSaverListener]:
        return self._parts.saving_listeners if self._is_chief else ()

    def _session_opened(self, step: int) -> None:
        self._sessions += 1
        # A second session means that a collective has failed. Without this end, survivors opened
        # sessions forever, about 5 a second, and their events file grew to 113 MB in 52 s.
        if self._job.is_all_reduce and self._sessions > 1:
            raise job_state.PeerLost(
                'a worker of the all-reduce job is gone: all are started again together, and '
                'resume from the last checkpoint.'
            )
        self._supervisor.heart.tell(heartbeats.TRAINING, step=step)
        again = '' if self._sessions == 1 else f' again (session {self._sessions})'
        log.info('%s trains%s, from step %d', self._job.name, again, step)

    def _step_done(self, step: int) -> None:
        # A step proves that the config fits: only losses without one in between count.
        self._attempts = 0
        self._supervisor.heart.note_step(step)


def _add_listeners(
    estimator: tf_estimator.Estimator,
    listeners: Sequence[tf_estimator.CheckpointSaverListener],
) -> tf_estimator.Estimator:
    """Return an Estimator whose saver hook calls the listeners.

    Under all-reduce TensorFlow drops the listeners of a `TrainSpec`.
    """
    if not listeners:
        return estimator

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> tf_estimator.EstimatorSpec:
        spec = estimator.model_fn(features, labels, mode, config)
        for hook in spec.training_chief_hooks:
            if isinstance(hook, non_finite.FiniteCheckpointSaverHook):
                hook.listen(listeners)
        return spec

    return tf_estimator.Estimator(model_fn, estimator.model_dir, estimator.config)
