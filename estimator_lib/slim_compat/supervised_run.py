"""Steps in sessions that a `Supervisor` keeps: what `training_loop.train` runs."""

from __future__ import annotations

import logging
import time
from typing import Any, Callable, List, Mapping, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib.distribution import startup

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')

# (session, train_op, global_step, options) to (loss, whether to stop).
TrainStepFn = Callable[..., Tuple[float, bool]]

# Stands for what is to be made where nothing is given; None means: without it.
DEFAULT = object()


def or_made(value: Any) -> Any:
    """Return a value, or what tells a `Supervisor` to make one."""
    return tf1.train.Supervisor.USE_DEFAULT if value is DEFAULT else value


class Replicas:
    """What synchronised replicas add to a run.

    Args:
        optimizers: `tf.compat.v1.train.SyncReplicasOptimizer`s; none: nothing is added.
        is_chief: whether this process applies their gradients.
    """

    def __init__(self, optimizers: Sequence[Any], is_chief: bool):
        self._optimizers = optimizers
        self._is_chief = is_chief
        self.queue_runners = [one.get_chief_queue_runner() for one in self._chief_of()]
        self.token_ops = [one.get_init_tokens_op() for one in self._chief_of()]

    def _chief_of(self) -> Sequence[Any]:
        return self._optimizers if self._is_chief else ()

    def local_init_op(self, given: Any) -> Any:
        """Set what each process has of its own."""
        if not self._optimizers:
            return or_made(given)
        own = [
            one.chief_init_op if self._is_chief else one.local_step_init_op
            for one in self._optimizers
        ]
        if given is DEFAULT:
            given = tf.group(tf1.local_variables_initializer(), tf1.tables_initializer())
        return tf.group(*own, *([] if given is None else [given]))

    def ready_for_local_init_op(self) -> Any:
        """Tell whether the shared variables are set."""
        ready = [one.ready_for_local_init_op for one in self._optimizers]
        return tf.concat(ready, axis=0) if ready else tf1.train.Supervisor.USE_DEFAULT


class Run:
    """Runs steps in one session after the other.

    Args:
        supervisor: of the sessions.
        train_op: see `train`.
        step_fn: see `train`.
        step_options: see `train`.
        replicas: that train in step.
        first_step: the global step that is waited for in the beginning.
        save_seconds: between two checkpoints.
        summary_seconds: between two summaries.

    Attributes:
        loss: of the last step.
    """

    def __init__(
        self,
        supervisor: tf1.train.Supervisor,
        train_op: tf.Tensor,
        step_fn: TrainStepFn,
        step_options: Mapping[str, Any],
        replicas: Replicas,
        first_step: int,
        save_seconds: float,
        summary_seconds: float,
    ):
        self.loss: Optional[float] = None
        self._supervisor = supervisor
        self._train_op = train_op
        self._step_fn = step_fn
        self._step_options = {'summary_writer': supervisor.summary_writer, **step_options}
        self._replicas = replicas
        self._first_step = first_step
        self._writes = supervisor.is_chief and bool(supervisor.save_path)
        self._save_seconds = save_seconds
        self._summary_seconds = summary_seconds
        self._next_save = self._next_summary = time.monotonic()

    def __call__(
        self,
        session: tf1.Session,
        wrapper: Optional[Callable[[tf1.Session], Any]],
        ignore_live_threads: bool,
    ) -> None:
        """Train in a session until training is to stop, and save."""
        supervisor = self._supervisor
        wrapped = session if wrapper is None else wrapper(session)
        threads = self._start(wrapped)
        try:
            while not supervisor.should_stop():
                self.loss, should_stop = self._step_fn(
                    wrapped, self._train_op, supervisor.global_step, self._step_options
                )
                if should_stop:
                    supervisor.request_stop()
                elif self._writes:
                    self._write(wrapped)
        except tf.errors.OutOfRangeError:
            log.info('the input has ended, and so does training')
            supervisor.request_stop()
        if self._writes:
            self._save(wrapped)
        if self._replicas.queue_runners:
            # One of their threads waits for gradients: it would be waited for, for two minutes.
            session.close()
        supervisor.stop(threads, close_summary_writer=True, ignore_live_threads=ignore_live_threads)

    def _start(self, session: Any) -> List[Any]:
        """Start what runs beside the steps; returns the threads."""
        supervisor = self._supervisor
        if self._first_step:
            startup.wait_for_step(
                session, supervisor.global_step, self._first_step, supervisor.should_stop
            )
        threads = supervisor.start_queue_runners(session)
        if self._replicas.queue_runners:
            supervisor.start_queue_runners(session, self._replicas.queue_runners)
            session.run(self._replicas.token_ops)
        return threads

    def _write(self, session: Any) -> None:
        """Save and summarizes, each when it is time.

        Not in threads of the supervisor: they fail where eager execution is on.
        """
        now = time.monotonic()
        supervisor = self._supervisor
        if now >= self._next_save:
            self._next_save = now + self._save_seconds
            self._save(session)
        if supervisor.summary_op is not None and now >= self._next_summary:
            self._next_summary = now + self._summary_seconds
            summary, step = session.run([supervisor.summary_op, supervisor.global_step])
            supervisor.summary_computed(session, summary, step)

    def _save(self, session: Any) -> None:
        supervisor = self._supervisor
        step = int(session.run(supervisor.global_step))
        supervisor.saver.save(session, supervisor.save_path, step)
