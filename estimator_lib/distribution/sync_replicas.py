"""Synchronous training on parameter servers: one step from the gradients of several trainers.

Each trainer hands its gradients to accumulators beside the variables and waits. The chief takes
their mean, changes the variables (and their moving averages) as a part of its own step, and then
lets each trainer go on by a token, the new global step, in that trainer's own queue. So, where all
gradients are asked for, each step has exactly one from each trainer; where fewer are, the last ones
to come are thrown away, and who was late goes on from the newest step. The chief is never late:
nothing changes while it saves, and no thread is left waiting at the end.
(`tf.train.SyncReplicasOptimizer` has one queue for all: a fast trainer can take another's turn.)
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import tensorflow as tf

from estimator_lib.distribution import placement
from estimator_lib.distribution.modes import Mode, Plan
from estimator_lib.optimization.gradients import Pair
from estimator_lib.optimization.partitioned import variable_name
from estimator_lib.task import Tensors

tf1 = tf.compat.v1

_SCOPE = 'sync_replicas'


class TokenExchange:
    """What one trainer puts into its graph to train in step with the others.

    Call `average` (and `mean_losses`, where they are to be reported), then build the update from
    what it returns, then `finish`, once in a graph, and add `hook` to the session.

    Args:
        trainers: the names of all, the chief's first.
        own: which one this is.
        replicas_to_aggregate: how many gradients make a step; 1 to all.
        device: of this process, for what it alone reads: `/job:worker/task:1`.
    """

    def __init__(
        self, trainers: Sequence[str], own: int, replicas_to_aggregate: int, device: str = ''
    ):
        if not 1 <= replicas_to_aggregate <= len(trainers):
            raise ValueError(
                f'replicas_to_aggregate is {replicas_to_aggregate}; expected 1 to {len(trainers)}.'
            )
        self._trainers = list(trainers)
        self._own = own
        self._count = replicas_to_aggregate
        self._device = device
        self._accumulators: List[Any] = []
        self._pushes: List[tf.Operation] = []
        self._taken: List[tf.Tensor] = []
        self._global_step = tf1.train.get_or_create_global_step()
        with tf1.name_scope(_SCOPE), tf.device(device):
            # Of which step the variables were that the gradients are computed from.
            self._local_step = tf1.Variable(
                0,
                trainable=False,
                dtype=tf.int64,
                collections=[tf1.GraphKeys.LOCAL_VARIABLES],
                name='local_step',
                use_resource=True,
            )
            self._step = self._local_step.read_value()

    def mean_losses(self, losses: Tensors) -> Tensors:
        """What there is to report of a step.

        Args:
            losses: float32 scalars by name, of this trainer's batch.

        Returns:
            For the chief the means over the trainers whose gradients make the step, to be read in
            the run that trains and in no other; for the others their own.
        """
        with tf1.name_scope(_SCOPE):
            stacked = tf.stop_gradient(tf.stack(list(losses.values())))
            mean = self._exchange(stacked, 'losses', stacked.shape, self._global_step.device)
            self._taken.append(mean)
            return dict(zip(losses, tf.unstack(mean))) if self._own == 0 else losses

    def average(self, pairs: Sequence[Pair]) -> List[Pair]:
        """Hands over this trainer's gradients.

        Args:
            pairs: gradients of this trainer's batch, and the variables, on their servers.

        Returns:
            The means of as many trainers' gradients as make a step: for the chief to apply. The
            others run nothing that depends on them.
        """
        if not pairs:
            return []
        with tf1.name_scope(_SCOPE):
            means = [
                self._exchange(gradient, variable_name(variable), variable.shape, variable.device)
                for gradient, variable in pairs
            ]
            # No variable changes before all means are there.
            means = tf.tuple(means)
        return [(mean, variable) for mean, (_, variable) in zip(means, pairs)]

    def finish(self, update: tf.Operation) -> tf.Operation:
        """The op of a whole step.

        Args:
            update: changes the variables and the global step; only the chief runs it.
        """
        with tf1.name_scope(_SCOPE):
            self._queues = [self._queue(name) for name in self._trainers[1:]]
            if self._own:
                with tf.control_dependencies(self._pushes):
                    tokens = _all_of(self._queues[self._own - 1])
                return self._local_step.assign(tokens[-1], read_value=False)
            with tf.control_dependencies([update, *self._pushes, *self._taken]):
                step = self._global_step.read_value()
                return tf.group(
                    self._local_step.assign(step, read_value=False),
                    [queue.enqueue(step) for queue in self._queues],
                )

    def hook(self) -> tf1.train.SessionRunHook:
        """Puts this trainer in step with the others when a session begins."""
        return _StartHook(self._chief_start() if self._own == 0 else self._worker_start())

    def _exchange(self, value: Any, name: str, shape: tf.TensorShape, device: str) -> Any:
        """Hands over a value; the mean of as many trainers' values as make a step."""
        is_sparse = isinstance(value, tf.IndexedSlices)
        make = tf1.SparseConditionalAccumulator if is_sparse else tf1.ConditionalAccumulator
        with tf.device(device):
            accumulator = make(
                value.dtype, shape=shape, shared_name=f'{_SCOPE}/{name}', name='mean'
            )
            self._accumulators.append(accumulator)
            if is_sparse:
                self._pushes.append(accumulator.apply_indexed_slices_grad(value, self._step))
                return accumulator.take_indexed_slices_grad(self._count)
            self._pushes.append(accumulator.apply_grad(value, self._step))
            return accumulator.take_grad(self._count)

    def _queue(self, name: str) -> tf1.FIFOQueue:
        name = name.replace(':', '_')
        with tf.device(self._global_step.device):
            return tf1.FIFOQueue(
                -1, [tf.int64], [[]], shared_name=f'{_SCOPE}/turns_of_{name}', name='turns'
            )

    def _worker_start(self) -> tf.Operation:
        """Forgets the turns that this task had before; the first step needs none."""
        with tf1.name_scope(_SCOPE):
            queue = self._queues[self._own - 1]
            with tf.control_dependencies([queue.dequeue_many(queue.size())]):
                step = self._global_step.read_value()
            return self._local_step.assign(step, read_value=False)

    def _chief_start(self) -> tf.Operation:
        """Begins at the global step, which may be an older one than the last session's.

        Where there was another session of the chief before, some trainers may wait for a turn that
        it owes them.
        """
        with tf1.name_scope(_SCOPE):
            step = self._global_step.read_value()
            starts = [accumulator.set_global_step(step) for accumulator in self._accumulators]
            sessions = self._queue('sessions')
            had_one = sessions.size() > 0
            with tf.control_dependencies([had_one]):
                starts.append(sessions.enqueue(step))
            turns = tf.fill([tf.cast(had_one, tf.int32)], step)
            with tf.control_dependencies(starts):
                return tf.group(
                    self._local_step.assign(step, read_value=False),
                    [queue.enqueue_many(turns) for queue in self._queues],
                )


def from_plan(plan: Plan) -> Optional[TokenExchange]:
    """The exchange of this process's trainer; None in other modes."""
    if plan.mode is not Mode.SYNC_PARAMETER_SERVERS:
        return None
    return TokenExchange(
        plan.cluster.trainers,
        plan.trainer_index,
        plan.replicas_to_aggregate,
        placement.worker_device(plan.cluster),
    )


class _StartHook(tf1.train.SessionRunHook):
    """Runs an op in each new session, also where one is made anew after an error."""

    def __init__(self, start: tf.Operation):
        self._start = start

    def after_create_session(self, session: tf1.Session, coord: Any) -> None:
        """Runs it."""
        del coord
        session.run(self._start)


def _all_of(queue: tf1.FIFOQueue) -> tf.Tensor:
    """All elements of a queue, at least one: waits for it."""
    return queue.dequeue_many(tf.maximum(queue.size(), 1))
