"""Hooks for NaN and infinite losses: one stops training, one protects the checkpoints.

The run that computes a NaN loss has already changed the variables with its gradient. So two hooks
work together. `NonFiniteLossHook` stops training with the losses and images in the message.
`FiniteCheckpointSaverHook`, which an Estimator calls before it, does not save such a state.
"""

from __future__ import annotations

import logging
import math
import os
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors, tf_estimator
from estimator_lib.hooks import global_steps
from estimator_lib.hooks.progress import TOTAL_LOSS
from estimator_lib.optimization.partitioned import take_slice, variable_name, whole_name
from protos import train_pb2

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')

_ADVICE = (
    'The last good checkpoint stays in model_dir; expected finite losses: look at these images, '
    'lower the learning rate, or set train_config.gradient_clipping_by_norm.'
)
_MOST_IMAGES = 64
# The name that an Estimator gives its checkpoints.
_BASENAME = 'model.ckpt'
# Variables are checked in groups of about this size, which avoids a copy of all of them.
_GROUP_BYTES = 16 * 2**20


class NonFiniteLossError(errors.UserError):
    """Error for a NaN or infinite loss, where the config demands a stop."""


def reported_loss(loss: tf.Tensor) -> tf.Tensor:
    """Return the loss to put into an `EstimatorSpec`, with infinity in place of NaN.

    The Estimator adds its own hook before any hook of a `model_fn`; it stops at NaN, with a message
    that has neither the loss's name nor the images.

    Returns:
        float32 scalar.
    """
    # TensorFlow's NanTensorHook asks `np.isnan`, so infinity passes it.
    return tf.where(tf.math.is_nan(loss), tf.fill(tf.shape(loss), np.inf), loss)


class NonFiniteLossHook(global_steps.GlobalStepHook):
    """Hook that checks the losses of each step.

    Args:
        losses: float scalars by name.
        learning_rate: float32 scalar.
        source_ids: string [batch]: the names of the batch's images.
        policy: a `train_pb2.NonFiniteLossPolicy`.
        warn_every_n_steps: there is at most one warning in this number of steps.
        is_finite: bool scalar: whether the step's update was applied; None: not known.
        max_skipped: number of consecutive skipped updates after which `SKIP_STEP` stops.
    """

    def __init__(
        self,
        losses: Mapping[str, tf.Tensor],
        learning_rate: tf.Tensor,
        source_ids: tf.Tensor,
        policy: int = train_pb2.STOP_TRAINING,
        warn_every_n_steps: int = 100,
        is_finite: Optional[tf.Tensor] = None,
        max_skipped: int = 10,
    ):
        self._fetches = {
            'losses': dict(losses),
            'learning_rate': learning_rate,
            'source_ids': source_ids,
            **({} if is_finite is None else {'is_finite': is_finite}),
        }
        self._policy = policy
        self._max_skipped = max_skipped
        self._skipped = self._in_a_row = 0
        self._warn_every_n_steps = warn_every_n_steps
        self._next_warning = 0

    def fetches(self) -> Mapping[str, Any]:
        """Return the tensors of a message: after the step the batch is gone."""
        return self._fetches

    def step_done(self, run_context: Any, run_values: Any) -> None:
        """Check the losses; stop, or count the step and warn.

        Raises:
            NonFiniteLossError: the policy demands a stop at this step.
        """
        results = run_values.results
        not_finite = non_finite(results['losses'])
        if not not_finite and results.get('is_finite', True):
            self._in_a_row = 0
            return
        self._skipped += 1
        self._in_a_row += 1
        step = self.read_step(run_context.session)
        story = describe(step, not_finite, results['learning_rate'], results['source_ids'])
        if self._policy == train_pb2.STOP_TRAINING:
            raise NonFiniteLossError(f'{story}. {_ADVICE}')
        if self._policy == train_pb2.SKIP_STEP and self._in_a_row >= self._max_skipped:
            raise NonFiniteLossError(
                f'{story}; it is the last of {self._in_a_row} such steps in a row '
                f'(train_config.max_skipped_steps). {_ADVICE}'
            )
        if step >= self._next_warning:
            self._next_warning = step + self._warn_every_n_steps
            log.warning(
                '%s; training continues without its update, as train_config.non_finite_loss_policy '
                'says (%d such steps so far)',
                story,
                self._skipped,
            )


# A subclass: `Estimator.train` creates no saver hook where one of this class is among its hooks,
# and gives its saving listeners to it.
class FiniteCheckpointSaverHook(tf1.train.CheckpointSaverHook):
    """Hook that saves checkpoints, but none of a state that is not finite.

    It replaces the Estimator's own saver hook when it is among the `training_chief_hooks` of an
    `EstimatorSpec`. Nothing is saved after a step with a NaN or infinite loss, nor while a variable
    holds such a number (another worker of a cluster may have written it). Numbers that were
    infinite when the session began are allowed. A run whose last state was not saved for such a
    reason ends with an error.

    Args:
        model_dir: the folder of the checkpoints.
        losses: float scalars by name.
        save_secs: seconds between two checkpoints; this or `save_steps`.
        save_steps: steps between two checkpoints.
        scaffold: has the Saver.
        listeners: called before and after each checkpoint.
        save_graph_def: whether to write the graph with each checkpoint (`.meta`).
    """

    def __init__(
        self,
        model_dir: str,
        losses: Mapping[str, tf.Tensor],
        *,
        save_secs: Optional[float] = None,
        save_steps: Optional[int] = None,
        scaffold: Optional[tf1.train.Scaffold] = None,
        listeners: Sequence[tf1.train.CheckpointSaverListener] = (),
        save_graph_def: bool = True,
    ):
        super().__init__(
            model_dir,
            save_secs=save_secs,
            save_steps=save_steps,
            scaffold=scaffold,
            checkpoint_basename=_BASENAME,
            listeners=list(listeners),
            save_graph_def=save_graph_def,
        )
        self._model_dir = model_dir
        self._losses = dict(losses)
        self._not_finite: Dict[str, float] = {}
        self._start: Optional[str] = None  # the checkpoint of the session's start
        self._initial: Optional[Dict[str, np.ndarray]] = None  # its values that are not finite
        self._refusal = ''  # the reason why the last state was not saved

    def listen(self, listeners: Sequence[tf1.train.CheckpointSaverListener]) -> None:
        """Add listeners; to call before `begin`."""
        self._listeners.extend(listeners)

    def after_create_session(self, session: tf1.Session, coord: tf.train.Coordinator) -> None:
        """Save the state from which the run starts.

        The base class also writes the graph as text, which takes longer than all else that it does.
        That file is left out: the events and each checkpoint's `.meta` have the graph.
        """
        del coord
        step = session.run(self._global_step_tensor)
        self._save(session, step)
        self._start = os.path.join(self._model_dir, f'{_BASENAME}-{step}')
        self._timer.update_last_triggered_step(step)

    def before_run(self, run_context: Any) -> tf_estimator.SessionRunArgs:
        """Fetch the losses too."""
        own = super().before_run(run_context)
        return tf_estimator.SessionRunArgs([own.fetches, self._losses])

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Save a checkpoint if one is due."""
        own, losses = run_values.results
        # Before the base class, which may save in its `after_run`.
        self._not_finite = non_finite(losses)
        super().after_run(run_context, run_values._replace(results=own))

    def end(self, session: tf1.Session) -> None:
        """Save the last state.

        Raises:
            NonFiniteLossError: the last state was not saved.
        """
        super().end(session)
        if self._refusal:
            raise NonFiniteLossError(f'{self._refusal}. {_ADVICE}')

    def _save(self, session: tf1.Session, step: int) -> bool:
        culprit = ', '.join(f'the loss {name}' for name in self._not_finite)
        # The first save has no checkpoint to compare with, and may write values that are not
        # finite.
        if not culprit and self._start is not None:
            culprit = self._broken_variable(session)
        self._refusal = f'step {step} is not saved: {culprit} is not finite' if culprit else ''
        if culprit:
            log.error('%s', self._refusal)
            return False
        return super()._save(session, step)

    def _broken_variable(self, session: tf1.Session) -> str:
        """Return `the variable x` for the first variable with a new NaN or infinity; '' for none.

        Values that are not finite in the checkpoint of the session's start are allowed. They are
        read before the next save, which may delete that checkpoint.
        """
        initial = {} if self._initial is None else self._initial
        for variable, value in non_finite_variables(session):
            name = variable_name(variable)
            if self._initial is None:
                initial[name] = _saved_value(self._start, variable)
            # NaN equals nothing, so NaNs of the start are not allowed.
            if not (np.isfinite(value) | (value == initial.get(name))).all():
                return f'the variable {name}'
        self._initial = initial
        return ''


def saver_hooks(
    run_config: tf_estimator.RunConfig,
    losses: Mapping[str, tf.Tensor],
    scaffold: tf1.train.Scaffold,
) -> List[FiniteCheckpointSaverHook]:
    """Create the hook that saves to an Estimator's folder at its cadence; [] without a cadence.

    Args:
        run_config: the config of the Estimator.
        losses: float scalars by name.
        scaffold: has the Saver.
    """
    if not (run_config.save_checkpoints_secs or run_config.save_checkpoints_steps):
        return []
    return [
        FiniteCheckpointSaverHook(
            run_config.model_dir,
            losses,
            save_secs=run_config.save_checkpoints_secs,
            save_steps=run_config.save_checkpoints_steps,
            scaffold=scaffold,
            save_graph_def=run_config.checkpoint_save_graph_def,
        )
    ]


def non_finite(losses: Mapping[str, Any]) -> Dict[str, float]:
    """Return the losses that are NaN or infinite."""
    return {name: float(loss) for name, loss in losses.items() if not math.isfinite(loss)}


def describe(
    step: int, not_finite: Mapping[str, float], learning_rate: float, source_ids: Sequence[bytes]
) -> str:
    """Describe a step: `step 12: the loss x is nan (learning rate 0.01; images 'a.jpg', 'b.jpg')`.

    The total loss is not named beside its parts. Without losses the message is about a gradient.
    """
    parts = {name: value for name, value in not_finite.items() if name != TOTAL_LOSS} or not_finite
    losses = ' and '.join(f'the loss {name} is {value}' for name, value in parts.items())
    losses = losses or 'a gradient is not finite'
    names = [repr(bytes(name).decode('utf-8', 'replace')) for name in source_ids]
    rest = f' and {len(names) - _MOST_IMAGES} more' if len(names) > _MOST_IMAGES else ''
    images = ', '.join(names[:_MOST_IMAGES]) + rest
    return f'step {step}: {losses} (learning rate {float(learning_rate):.4g}; images {images})'


def non_finite_variables(session: tf1.Session) -> Iterator[Tuple[tf.Variable, np.ndarray]]:
    """Yield the variables that hold a NaN or an infinity, with their values."""
    for group in _groups(session.graph):
        for variable, value in zip(group, session.run(group)):
            if not np.isfinite(value).all():
                yield variable, value


def _saved_value(prefix: str, variable: tf.Variable) -> np.ndarray:
    """Return the value of a variable in a checkpoint; 0 if the checkpoint lacks it."""
    reader, name = tf.train.load_checkpoint(prefix), whole_name(variable)
    return (
        take_slice(reader.get_tensor(name), variable) if reader.has_tensor(name) else np.zeros(())
    )


def _groups(graph: tf.Graph) -> List[List[tf.Variable]]:
    with graph.as_default():
        variables = [
            _local_copy(variable)
            for variable in tf1.global_variables()
            if variable.dtype.base_dtype.is_floating
        ]
    groups: List[List[tf.Variable]] = []
    size = _GROUP_BYTES
    for variable in variables:
        if size >= _GROUP_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(variable)
        size += variable.shape.num_elements() * variable.dtype.size
    return groups


def _local_copy(variable: tf.Variable) -> tf.Variable:
    """Return the first copy of a strategy's variable: reading all would extend the final graph."""
    copies = getattr(variable, 'values', None)
    return copies[0] if isinstance(copies, tuple) else variable
