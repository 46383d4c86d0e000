"""Early stopping: the end of training when evaluations stop improving."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import os
from typing import Any, Mapping, Optional, Tuple

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.checkpoints import checkpoint_files, state_files
from estimator_lib.config import metric_choices
from protos import train_pb2

log = logging.getLogger('estimator_lib')

STATE_FILE = 'early_stopping.json'


@dataclasses.dataclass(frozen=True)
class State:
    """State of early stopping after some evaluations.

    Attributes:
        best: the metric of the best evaluation; None before the first evaluation.
        best_step: the step of the best evaluation.
        steps: the steps of the later evaluations, which were not better.
    """

    best: Optional[float] = None
    best_step: Optional[int] = None
    steps: Tuple[int, ...] = ()


class EarlyStopping:
    """Decision after each evaluation whether to stop; its state is in a file and survives restarts.

    Args:
        metric: the name of the metric.
        higher_is_better: whether a higher value is an improvement.
        patience_evaluations: number of consecutive evaluations without improvement to stop after.
        min_delta: smallest change of the metric that is an improvement.
        min_steps: first step at which training may stop.
        path: the file of the state; None: the state is not saved.
        run_step: the step of the run's latest checkpoint. Evaluations of later steps belong to an
            earlier run in this folder, and are forgotten. None: none is forgotten.
    """

    def __init__(
        self,
        metric: str,
        *,
        higher_is_better: bool = True,
        patience_evaluations: int = 10,
        min_delta: float = 0.0,
        min_steps: int = 0,
        path: Optional[str] = None,
        run_step: Optional[int] = None,
    ):
        self._metric = metric
        self._higher_is_better = higher_is_better
        self._patience = patience_evaluations
        self._min_delta = min_delta
        self._min_steps = min_steps
        self._path = path
        self._state = self._load()
        if run_step is not None:
            self._forget_after(run_step)

    @classmethod
    def from_config(
        cls, config: train_pb2.EarlyStopping, eval_dir: str, run_step: Optional[int] = None
    ) -> EarlyStopping:
        """Create the early stopping that a config asks for.

        Args:
            config: metric, patience and so on.
            eval_dir: the folder of the evaluation, for the file of the state.
            run_step: the step of the run's latest checkpoint.

        Raises:
            errors.ConfigError: the metric is missing, or a value is out of its range.
        """
        field = 'train_config.early_stopping'
        if not config.metric:
            raise errors.ConfigError(f'{field}.metric is empty; expected the name of a metric.')
        if config.patience_evaluations < 1:
            raise errors.ConfigError(
                f'{field}.patience_evaluations is {config.patience_evaluations}; expected at '
                'least 1.'
            )
        if not (math.isfinite(config.min_delta) and config.min_delta >= 0):
            raise errors.ConfigError(
                f'{field}.min_delta is {config.min_delta}; expected a finite number of at least 0.'
            )
        return cls(
            config.metric,
            higher_is_better=metric_choices.higher_is_better(config),
            patience_evaluations=config.patience_evaluations,
            min_delta=config.min_delta,
            min_steps=config.min_steps,
            path=os.path.join(eval_dir, STATE_FILE),
            run_step=run_step,
        )

    @property
    def state(self) -> State:
        """The state after the evaluations so far."""
        return self._state

    def update(self, step: int, metrics: Mapping[str, Any]) -> bool:
        """Update the state with an evaluation.

        An evaluation that is repeated after a restart counts once.

        Args:
            step: the step of the evaluated checkpoint.
            metrics: the metrics by name.

        Returns:
            Whether training should stop.

        Raises:
            errors.ConfigError: the metric is missing; the message suggests known names.
        """
        if self._metric not in metrics:
            raise errors.ConfigError(
                f'train_config.early_stopping.metric: no evaluation reports {self._metric!r}'
                f'{errors.did_you_mean(self._metric, metrics)}'
            )
        seen = {*self._state.steps, self._state.best_step}
        if step not in seen:
            value, before = float(metrics[self._metric]), self._state
            self._state = self._next_state(step, value)
            self._save()
            if self._state.best_step != step:
                log.info('early stopping: %s', self._explain(step, value, before))
        return self.should_stop(step)

    def _explain(self, step: int, value: float, before: State) -> str:
        """Describe an evaluation that is not the best: `m 0.4 at step 20 is not above 0.5 ...`."""
        above = 'above' if self._higher_is_better else 'below'
        best = 'any, as none was finite'
        if before.best is not None:
            best = f'{before.best:.6g} of step {before.best_step}'
        margin = f' by more than {self._min_delta:g}' if self._min_delta else ''
        return (
            f'{self._metric} {value:.6g} at step {step} is not {above} {best}{margin}, '
            f'{len(self._state.steps)} of {self._patience} evaluations without improvement'
        )

    def should_stop(self, step: int) -> bool:
        """Return whether to stop after the evaluations so far.

        Args:
            step: the step of the latest evaluation.
        """
        worse = len(self._state.steps)
        if worse < self._patience or step < self._min_steps:
            return False
        best = 'none was finite'
        if self._state.best is not None:
            best = f'{self._state.best:.6g} at step {self._state.best_step}'
        log.info('%s has not improved in %d evaluations (best: %s)', self._metric, worse, best)
        return True

    def another_says_stop(self, step: int) -> bool:
        """Return `should_stop` by the state that the cluster's evaluator has written."""
        self._state = self._load()
        return self.should_stop(step)

    def _forget_after(self, run_step: int) -> None:
        """Forget evaluations of steps that this run has not reached yet."""
        state = self._state
        steps = tuple(step for step in state.steps if step <= run_step)
        # What was compared with a best value of another run says nothing without it.
        if state.best_step is not None and state.best_step > run_step:
            state, steps = State(), ()
        kept = dataclasses.replace(state, steps=steps)
        if kept != self._state:
            log.info('early stopping forgets evaluations of steps after %d', run_step)
            self._state = kept
            self._save()

    def _next_state(self, step: int, value: float) -> State:
        state = self._state
        if self._is_better(value):
            return State(value, step)
        return dataclasses.replace(state, steps=(*state.steps, step))

    def _is_better(self, value: float) -> bool:
        # NaN is never better, and an infinite best value could never be beaten.
        if not math.isfinite(value):
            return False
        if self._state.best is None:
            return True
        gain = value - self._state.best
        return (gain if self._higher_is_better else -gain) > self._min_delta

    def _identity(self) -> Mapping[str, Any]:
        return {'metric': self._metric, 'higher_is_better': self._higher_is_better}

    def _load(self) -> State:
        if self._path is None or not tf.io.gfile.exists(self._path):
            return State()
        saved = state_files.read_state(self._path)
        if not self._identity().items() <= saved.items():
            log.info('%s belongs to another metric; early stopping starts from scratch', self._path)
            return State()
        try:
            steps = tuple(int(step) for step in saved['steps'])
            best, best_step = saved['best'], saved['best_step']
            if best is not None and not math.isfinite(best):
                raise ValueError(f'best is {best}')
            return State(*((None, None) if best is None else (float(best), int(best_step))), steps)
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            log.warning('%s is corrupt (%r); early stopping starts from scratch', self._path, error)
            return State()

    def _save(self) -> None:
        if self._path is None:
            return
        text = json.dumps({**self._identity(), **dataclasses.asdict(self._state)}, indent=2)
        tf.io.gfile.makedirs(os.path.dirname(self._path))
        checkpoint_files.write_atomically(self._path, text + '\n')
