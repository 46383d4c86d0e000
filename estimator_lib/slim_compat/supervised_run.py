"""Training steps in the sessions of a `Supervisor`, for `training_loop.train`."""

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

# Default of arguments whose None means "without": the object is created.
DEFAULT = object()


def supervisor_argument(value: Any) -> Any:
    """Convert an argument for a `Supervisor`: `DEFAULT` becomes its `USE_DEFAULT`."""
    return tf1.train.Supervisor.USE_DEFAULT if value is DEFAULT else value


class Replicas:
    """Parts of a run with synchronized replicas.

    Args:
        optimizers: `tf.compat.v1.train.SyncReplicasOptimizer`s; without them nothing is added.
        is_chief: whether this process applies their gradients.
    """

    def __init__(self, optimizers: Sequence[Any], is_chief: bool):
        self._optimizers = optimizers
        self._is_chief = is_chief
        led = optimizers if is_chief else ()  # the optimizers whose gradients this process applies
        self.queue_runners = [optimizer.get_chief_queue_runner() for optimizer in led]
        self.token_ops = [optimizer.get_init_tokens_op() for optimizer in led]

    def local_init_op(self, user_op: Any) -> Any:
        """Build the op that initializes the local variables of this process.

        Args:
            user_op: the op of the program, `DEFAULT` or None.
        """
        if not self._optimizers:
            return supervisor_argument(user_op)
        own = [
            optimizer.chief_init_op if self._is_chief else optimizer.local_step_init_op
            for optimizer in self._optimizers
        ]
        if user_op is DEFAULT:
            user_op = tf.group(tf1.local_variables_initializer(), tf1.tables_initializer())
        return tf.group(*own, *([] if user_op is None else [user_op]))

    def ready_for_local_init_op(self) -> Any:
        """Return the op that lists the shared variables that are not initialized."""
        ready = [optimizer.ready_for_local_init_op for optimizer in self._optimizers]
        return tf.concat(ready, axis=0) if ready else tf1.train.Supervisor.USE_DEFAULT


class Run:
    """Training steps in one session after the other.

    Args:
        supervisor: manages the sessions.
        train_op: the op of a step.
        step_fn: runs a step.
        step_options: the options of `step_fn`.
        replicas: the parts for synchronized replicas.
        first_step: the global step to wait for at the beginning.
        save_seconds: seconds between two checkpoints.
        summary_seconds: seconds between two summaries.

    Attributes:
        loss: the loss of the last step.
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
        # Due at once, as in the first loop of a Supervisor's timers: a run has a checkpoint of its
        # start.
        self._next_save = self._next_summary = time.monotonic()

    def train(
        self,
        master: str,
        session_config: Optional[tf1.ConfigProto],
        wrapper: Optional[Callable[[tf1.Session], Any]],
        ignore_live_threads: bool,
    ) -> None:
        """Train until a stop is requested; open a new session when one is aborted.

        Args:
            master: the address of the session's server.
            session_config: the config of the session.
            wrapper: called with the session; its result is used in place of the session.
            ignore_live_threads: whether to accept threads that do not end.
        """
        while True:
            try:
                # The standard services are threads that save and summarize; see `_write`.
                with self._supervisor.managed_session(
                    master, session_config, start_standard_services=False
                ) as session:
                    self._train_session(session, wrapper, ignore_live_threads)
                return
            # The error of a restarted parameter server. TF-Slim's loop opens a new session for it
            # alone; other errors end the run.
            except tf.errors.AbortedError as error:
                log.warning('the session was aborted and is opened again: %s', error.message)

    def _train_session(
        self,
        session: tf1.Session,
        wrapper: Optional[Callable[[tf1.Session], Any]],
        ignore_live_threads: bool,
    ) -> None:
        """Train in a session until a stop is requested, and save."""
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
        # An input with a limited number of epochs ends so.
        except tf.errors.OutOfRangeError:
            log.info('the input has ended, and so does training')
            supervisor.request_stop()
        if self._writes:
            self._save(wrapped)
        if self._replicas.queue_runners:
            # One of the threads waits for gradients; without this, stopping takes two minutes.
            session.close()
        supervisor.stop(threads, close_summary_writer=True, ignore_live_threads=ignore_live_threads)

    def _start(self, session: Any) -> List[Any]:
        """Start the queue runners, and return their threads."""
        supervisor = self._supervisor
        if self._first_step:
            startup.wait_for_step(
                session, supervisor.global_step, self._first_step, supervisor.should_stop
            )
        threads = supervisor.start_queue_runners(session)
        if self._replicas.queue_runners:
            supervisor.start_queue_runners(session, self._replicas.queue_runners)
            # The tokens let workers take their first step; they go into a queue that now has its
            # runner.
            session.run(self._replicas.token_ops)
        return threads

    def _write(self, session: Any) -> None:
        """Save a checkpoint and write summaries if they are due.

        The threads of the supervisor cannot do this: they fail where eager execution is on.
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
