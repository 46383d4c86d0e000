"""Synchronous training on parameter servers: one step from the gradients of several replicas.

Each replica adds its gradients to accumulators beside the variables and waits for a token. The
chief takes the mean of each accumulator and updates the variables (and their moving averages) in
its own step. Then it sends the next token to every worker, through a queue for each worker.

A token numbers a step of a session of the chief: `session * 2**40 + 1 + global step`. Two rules
keep a step exact when a task is restarted in the middle of it:

* An accumulator drops gradients whose token is older than its own. Each new session of the chief
  begins with a newer token and empty accumulators. So nothing of an interrupted step is left, and
  all replicas compute its gradients again.
* A note beside each accumulator holds the last token for which each replica has added a gradient. A
  replica that was restarted, or that got a token twice, finds its note, and its second gradient for
  the same token is dropped.

So a step takes at most one gradient of each replica, and exactly one where all replicas are
required. Two cases are not covered. A replica killed in the microseconds between a server's
addition and its note may count twice in that step. A chief killed while it updates the variables
updates some of them again for that step.

Where fewer replicas are required, the last gradients are dropped, and a late replica continues from
the newest token. The chief is never late: nothing changes while it saves, and no thread is left
waiting at the end. (`tf.train.SyncReplicasOptimizer` has one queue for all workers, so a fast
worker can take the token of another.)
"""

from __future__ import annotations

import time
from typing import Any, List, Optional, Sequence

import tensorflow as tf

from estimator_lib.distribution import placement
from estimator_lib.distribution.modes import Mode, Plan
from estimator_lib.optimization.gradients import Pair
from estimator_lib.optimization.partitioned import variable_name
from estimator_lib.processes import preemption
from estimator_lib.task_interfaces.tensors import Tensors

tf1 = tf.compat.v1

_SCOPE = 'sync_replicas'
# Number of tokens of one session of the chief, more than the steps of any training.
_SESSION = 1 << 40
# Older than every token: an accumulator drops a gradient that has it.
_NEVER = -1
_POLL_SECONDS = 0.1


class TokenExchange:
    """The ops of one replica's graph that keep it in step with the others.

    Call `average` once in a graph (and `mean_losses`, to report losses). Then build the update from
    its result, call `finish`, and add `hook` to the session.

    Args:
        replicas: the names of all replicas, the chief's first.
        own: index of this replica.
        replicas_to_aggregate: number of gradients that make a step, from 1 to all.
        device: device of this process, as `/job:worker/task:1`, for variables that only it reads.
    """

    def __init__(
        self, replicas: Sequence[str], own: int, replicas_to_aggregate: int, device: str = ''
    ):
        if not 1 <= replicas_to_aggregate <= len(replicas):
            raise ValueError(
                f'replicas_to_aggregate is {replicas_to_aggregate}; expected 1 to {len(replicas)}.'
            )
        self._replicas = list(replicas)
        self._own = own
        self._count = replicas_to_aggregate
        self._accumulators: List[Any] = []
        self._notes: List[tf.Variable] = []
        self._pushes: List[tf.Operation] = []
        self._taken: List[tf.Tensor] = []
        self._global_step = tf1.train.get_or_create_global_step()
        # The token of the step whose variables the gradients are computed from.
        self._own_token = _variable('own_token', 0, device, [tf1.GraphKeys.LOCAL_VARIABLES])
        self._token = self._own_token.read_value()

    def mean_losses(self, losses: Tensors) -> Tensors:
        """Build the losses to report for a step.

        Args:
            losses: float32 scalars of this replica's batch by name.

        Returns:
            For the chief, the means over the replicas whose gradients make the step; only the run
            that trains may read them. For other replicas, their own losses.
        """
        with tf1.name_scope(_SCOPE):
            stacked = tf.stop_gradient(tf.stack(list(losses.values())))
            mean = self._exchange(stacked, 'losses', stacked.shape, self._global_step.device)
            self._taken.append(mean)
            return dict(zip(losses, tf.unstack(mean))) if self._own == 0 else losses

    def average(self, pairs: Sequence[Pair]) -> List[Pair]:
        """Add this replica's gradients to the accumulators, and return the means.

        Args:
            pairs: gradients of this replica's batch, with the variables on their servers.

        Returns:
            The means of the gradients that make a step, for the chief to apply. Other replicas run
            nothing that depends on them.
        """
        if not pairs:
            return []
        with tf1.name_scope(_SCOPE):
            means = [
                self._exchange(gradient, variable_name(variable), variable.shape, variable.device)
                for gradient, variable in pairs
            ]
            # No variable changes before all means are available.
            means = tf.tuple(means)
        return [(mean, variable) for mean, (_, variable) in zip(means, pairs)]

    def finish(self, update: tf.Operation) -> tf.Operation:
        """Return the op of a whole step.

        Args:
            update: op that changes the variables and the global step; only the chief runs it.
        """
        # Holds the chief's token for replicas whose session begins later.
        self._newest = _variable('newest_token', 0, self._global_step.device)
        with tf1.name_scope(_SCOPE):
            self._queues = [self._queue(name) for name in self._replicas[1:]]
            if self._own:
                queue = self._queues[self._own - 1]
                with tf.control_dependencies(self._pushes):
                    tokens = queue.dequeue_many(tf.maximum(queue.size(), 1))  # waits for one
                newest = tf.maximum(self._token, tf.reduce_max(tokens))
                return self._own_token.assign(newest, read_value=False)
            with tf.control_dependencies([update, *self._pushes, *self._taken]):
                return self._announce(self._token + 1)

    def hook(self) -> tf1.train.SessionRunHook:
        """Return the hook that puts this replica in step with the others when a session begins."""
        return _ChiefHook(self) if self._own == 0 else _WorkerHook(self)

    def _exchange(self, value: Any, name: str, shape: tf.TensorShape, device: str) -> Any:
        """Add a value to its accumulator, and return the mean of the values that make a step."""
        is_sparse = isinstance(value, tf.IndexedSlices)
        make = tf1.SparseConditionalAccumulator if is_sparse else tf1.ConditionalAccumulator
        notes = _variable(f'notes/{name}', [0] * len(self._replicas), device)
        with tf.device(device):
            # By their `shared_name` the graphs of all workers mean the same accumulator on its
            # server.
            accumulator = make(
                value.dtype, shape=shape, shared_name=f'{_SCOPE}/{name}', name='mean'
            )
            is_new = tf.gather(notes, self._own) < self._token
            token = tf.where(is_new, self._token, tf.constant(_NEVER, tf.int64))
            add = accumulator.apply_indexed_slices_grad if is_sparse else accumulator.apply_grad
            push = add(value, token)
            with tf.control_dependencies([push]):
                noted = tf1.scatter_update(notes, self._own, self._token)
            self._accumulators.append(accumulator)
            self._notes.append(notes)
            self._pushes.append(noted.op)
            return _take(accumulator, self._count)

    def _queue(self, name: str) -> tf1.FIFOQueue:
        name = f'tokens_of_{name.replace(":", "_")}'
        with tf.device(self._global_step.device):
            # Without a limit: the chief never waits for a worker that is gone.
            return tf1.FIFOQueue(-1, [tf.int64], [[]], shared_name=f'{_SCOPE}/{name}', name=name)

    def _announce(self, token: tf.Tensor) -> tf.Operation:
        """Send a token to all replicas, and store it for replicas that begin later."""
        with tf.control_dependencies([self._newest.assign(token, read_value=False)]):
            return tf.group(
                self._own_token.assign(token, read_value=False),
                [queue.enqueue(token) for queue in self._queues],
            )


def from_plan(plan: Plan) -> Optional[TokenExchange]:
    """Create the exchange of this process's replica; return None in other modes."""
    if plan.mode is not Mode.SYNC_PARAMETER_SERVERS:
        return None
    return TokenExchange(
        plan.cluster.workers,
        plan.worker_index,
        plan.replicas_to_aggregate,
        placement.worker_device(plan.cluster),
    )


class _ChiefHook(tf1.train.SessionRunHook):
    """Hook that begins a session of all replicas in each new session of the chief.

    The global step may be older than that of the last session, and servers may have been restarted.
    """

    def __init__(self, exchange: TokenExchange):
        notes, accumulators = exchange._notes, exchange._accumulators
        with tf1.name_scope(f'{_SCOPE}/begin'):
            self._global_step = exchange._global_step
            self._are_set = [tf1.is_variable_initialized(note) for note in notes]
            self._noted = [tf.reduce_max(note) for note in notes]
            self._token = tf1.placeholder(tf.int64, [])
            self._reset = [each.set_global_step(self._token) for each in accumulators]
            self._counts = [each.num_accumulated() for each in accumulators]
            self._drop = [tf.group(_take(each, 1)) for each in accumulators]
            # A number of this session that is older than all its tokens.
            older = self._token // _SESSION * _SESSION
            self._note = [
                note.assign(tf.fill(note.shape, older), read_value=False) for note in notes
            ]
            self._announce = exchange._announce(self._token)

    def after_create_session(self, session: tf1.Session, coord: Any) -> None:
        """Empty the accumulators, and send all replicas their first token."""
        del coord
        # A server that was restarted has notes without values; those of the others hold the last
        # tokens.
        are_set = session.run(self._are_set)
        noted = session.run([token for token, is_set in zip(self._noted, are_set) if is_set])
        first = (max([0, *noted]) // _SESSION + 1) * _SESSION
        token = {self._token: first + 1 + int(session.run(self._global_step))}
        # From here on, the accumulators drop gradients of earlier sessions.
        session.run(self._reset, token)
        counts = session.run(self._counts)
        session.run([drop for drop, count in zip(self._drop, counts) if count])
        session.run([self._reset, self._note], token)  # taking a gradient counted as a step
        session.run(self._announce, token)


class _WorkerHook(tf1.train.SessionRunHook):
    """Hook that reads the chief's token in each new session of a worker."""

    def __init__(self, exchange: TokenExchange):
        with tf1.name_scope(f'{_SCOPE}/begin'):
            self._is_set = tf1.is_variable_initialized(exchange._newest)
            queue = exchange._queues[exchange._own - 1]
            # Tokens in the queue were sent to an earlier session.
            with tf.control_dependencies([queue.dequeue_many(queue.size())]):
                newest = exchange._newest.read_value()
            self._begin = exchange._own_token.assign(newest, read_value=False)

    def after_create_session(self, session: tf1.Session, coord: Any) -> None:
        """Wait for the chief's session, and begin at its token."""
        while not session.run(self._is_set):
            preemption.raise_if_requested()
            if coord is not None and coord.should_stop():
                return
            time.sleep(_POLL_SECONDS)
        session.run(self._begin)


def _variable(name: str, value: Any, device: str, collections: Sequence[str] = ()) -> tf.Variable:
    """Create an int64 variable that is not saved; its name is the same in all graphs."""
    with tf.device(device), tf1.name_scope(None):
        return tf1.Variable(
            tf.constant(value, tf.int64),
            trainable=False,
            # By default in none: neither a Saver nor the init op of a session resets a note that is
            # in use.
            collections=list(collections),
            name=f'{_SCOPE}/{name}',
            use_resource=True,
        )


def _take(accumulator: Any, count: int) -> Any:
    if isinstance(accumulator, tf1.SparseConditionalAccumulator):
        return accumulator.take_indexed_slices_grad(count)
    return accumulator.take_grad(count)
