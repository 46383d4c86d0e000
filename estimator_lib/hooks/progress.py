"""One line of progress every n steps, and a bar where standard error is a terminal."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import sys
import time
from typing import Any, Dict, Iterator, List, Mapping, Optional

import tensorflow as tf

from estimator_lib import environment
from estimator_lib.hooks import global_steps
from estimator_lib.tf_estimator import callers

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')

# The name of the sum among the losses; the other losses are its parts.
TOTAL_LOSS = 'total_loss'

_BAR = '{percentage:3.0f} %|{bar}| {n_fmt}/{total_fmt}  {desc}'
_BAR_OF_EPOCHS = '{percentage:3.0f} %|{bar}| {desc}'
_ENDLESS_BAR = 'step {n_fmt}  {desc}'


class _Pauses:
    """Total time that this process has spent in pauses, in seconds."""

    total = 0.0


class Interval:
    """The time since a step, without pauses.

    Attributes:
        step: the step after which the interval began.
        waiting: seconds in which steps waited for the input.
    """

    def __init__(self, step: int):
        self.step = step
        self.waiting = 0.0
        self._begun = time.monotonic() - _Pauses.total

    def seconds(self) -> float:
        """Return the length of the interval up to now, in seconds."""
        return time.monotonic() - _Pauses.total - self._begun


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Subtract the block (an evaluation between two steps) from the time of the steps."""
    started = time.monotonic()
    try:
        yield
    finally:
        _Pauses.total += time.monotonic() - started


@contextlib.contextmanager
def closing_bar() -> Iterator[None]:
    """Close the progress bar at the end of the block, even after an error."""
    try:
        yield
    finally:
        if _Bar.shown is not None:
            _Bar.shown.close()


@dataclasses.dataclass(frozen=True)
class Progress:
    """Content of one line of progress.

    Attributes:
        step: the global step.
        num_steps: the last step; 0: no end.
        losses: the losses by name, the sum under `TOTAL_LOSS`.
        learning_rate: the learning rate of the step.
        steps: number of steps since the last line.
        seconds: duration of these steps.
        batch_size: number of examples of a step.
        waiting: seconds in which these steps waited for the input; None: not known.
        skipped: number of corrupt records skipped since training began; None: not known.
        remaining: estimated seconds to the end; None: not known yet.
        metrics: further metrics of the steps by name.
        epoch_size: number of examples of an epoch; 0: not known.
        memory: resident memory of the process in bytes; None: not known.
    """

    step: int
    num_steps: int
    losses: Mapping[str, float]
    learning_rate: float
    steps: int
    seconds: float
    batch_size: int
    waiting: Optional[float] = None
    skipped: Optional[int] = None
    remaining: Optional[float] = None
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
    epoch_size: int = 0
    memory: Optional[int] = None

    def line(self) -> str:
        """Format the line: `step 120/1200  loss 1.2 (...)  lr 0.01  14.2 steps/s  ...  ETA 16s`."""
        total = f'/{self.num_steps}' if self.num_steps else ''
        return '  '.join([f'step {self.step}{total}', *self.figures()])

    def figures(self) -> List[str]:
        """Format the parts of the line without the step."""
        figures = [f'loss {format_losses(self.losses)}', f'lr {self.learning_rate:.4g}']
        figures += [f'{name} {value:.4g}' for name, value in self.metrics.items()]
        figures += self._speed()
        if self.steps > 1 and self.seconds > 0:
            figures.append(f'{self.steps / self.seconds * self.batch_size:.4g} ex/s')
        if self.waiting is not None and self.seconds > 0:
            figures.append(f'data {100 * min(1.0, self.waiting / self.seconds):.0f} %')
        if self.skipped:
            figures.append(f'skipped {self.skipped}')
        figures += self._time_left()
        if self.memory is not None:
            figures.append(f'memory {self.memory / 2**20:.0f} MiB')
        return figures

    def bar_figures(self) -> List[str]:
        """Format what the bar shows: with the bar itself it fits into 80 columns."""
        total = _total(self.losses)
        return [*self._epoch(), f'loss {total:.4g}', *self._speed(), *self._time_left()]

    def _epoch(self) -> List[str]:
        """Format the passes over the data up to now, and those of the run: `epoch 2.4/50`."""
        if not self.epoch_size:
            return []
        steps = [self.step, self.num_steps] if self.num_steps else [self.step]
        passes = [step * self.batch_size / self.epoch_size for step in steps]
        return ['epoch ' + '/'.join(f'{each:.1f}'.removesuffix('.0') for each in passes)]

    def _speed(self) -> List[str]:
        if self.steps == 1:
            # The first step of a session compiles and warms up, so there is no rate.
            return [f'{self.seconds:.3g} s']
        return [f'{self.steps / self.seconds:.3g} steps/s'] if self.seconds > 0 else []

    def _time_left(self) -> List[str]:
        return [] if self.remaining is None else [f'ETA {format_duration(self.remaining)}']


def format_losses(losses: Mapping[str, float]) -> str:
    """Format the sum and its parts: `1.234 (classification 1.1, regularization 0.134)`."""
    parts, total = _parts(losses), _total(losses)
    if len(parts) < 2:
        return f'{total:.4g}'
    listed = ', '.join(f'{name.removesuffix("_loss")} {part:.4g}' for name, part in parts.items())
    return f'{total:.4g} ({listed})'


def _parts(losses: Mapping[str, float]) -> Dict[str, float]:
    return {name: value for name, value in losses.items() if name != TOTAL_LOSS}


def _total(losses: Mapping[str, float]) -> float:
    return losses.get(TOTAL_LOSS, sum(_parts(losses).values()))


def format_duration(seconds: float) -> str:
    """Format a duration by its two largest units: `45s`, `1m16s`, `2h03m`, `3d04h`."""
    seconds = round(seconds)
    if seconds < 60:
        return f'{seconds}s'
    if seconds < 3600:
        return f'{seconds // 60}m{seconds % 60:02d}s'
    minutes = seconds // 60
    if minutes < 24 * 60:
        return f'{minutes // 60}h{minutes % 60:02d}m'
    hours = minutes // 60
    return f'{hours // 24}d{hours % 24:02d}h'


class ProgressHook(global_steps.GlobalStepHook):
    """Hook that logs a line after a session's first step, every n steps, and after the last step.

    Args:
        losses: float32 scalars by name, the sum under `TOTAL_LOSS`.
        learning_rate: float32 scalar.
        batch_size: number of examples of a global step.
        num_steps: the global step at which training ends; 0: no end. What a program passes to its
            Estimator, `steps` or `max_steps`, comes first.
        every_n_steps: log a line when the global step is a multiple of this number.
        wait_seconds: float32 scalar: seconds that the step waited for its input.
        skipped: int64 scalar: number of corrupt records skipped so far.
        metrics: further float32 scalars by name.
        epoch_size: number of training examples, to show epochs in the bar; 0: not known.
    """

    def __init__(
        self,
        losses: Mapping[str, tf.Tensor],
        learning_rate: tf.Tensor,
        *,
        batch_size: int,
        num_steps: int = 0,
        every_n_steps: int = 10,
        wait_seconds: Optional[tf.Tensor] = None,
        skipped: Optional[tf.Tensor] = None,
        metrics: Optional[Mapping[str, tf.Tensor]] = None,
        epoch_size: int = 0,
    ):
        self._epoch_size = epoch_size
        self._batch_size = batch_size
        self._num_steps = num_steps
        self._period = global_steps.Period(max(1, every_n_steps))
        optional = {'waiting': wait_seconds, 'skipped': skipped}
        self._fetches = {
            'losses': dict(losses),
            'learning_rate': learning_rate,
            'metrics': dict(metrics or {}),
            **{name: tensor for name, tensor in optional.items() if tensor is not None},
        }
        self._bar: Optional[_Bar] = None

    def session_begun(self) -> None:
        """Start counting: rates are those of this session's steps."""
        self._period.begin(self.step)
        self._reporting = False
        self._first_step: Optional[int] = None
        self._first_time = 0.0
        self._interval = Interval(self.step)
        self._num_steps = _last_step_of_session() or self._num_steps
        if self._bar is None and sys.stderr.isatty():
            self._bar = _Bar(self._num_steps, self._epoch_size)

    def fetches(self) -> Dict[str, Any]:
        """Return all scalars, and note whether this step reports them."""
        # The same scalars at each step: a second set of fetches is a second prepared graph, for
        # which a run of the demo took 15 % longer (commit 113cc850).
        coming = self.step + 1
        self._reporting = self._period.is_due(coming) or coming == self._num_steps
        return self._fetches

    def step_done(self, run_context: Any, run_values: Any) -> None:
        """Log a line if one is due."""
        results = run_values.results
        self._interval.waiting += float(results.get('waiting', 0.0))
        if self._reporting:
            self.step = self.read_step(run_context.session)
            self._report(results)
        elif self._bar is not None:
            self._bar.move(self.step)

    def end(self, session: tf.compat.v1.Session) -> None:
        """Close the progress bar."""
        del session
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _report(self, results: Dict[str, Any]) -> None:
        now = time.monotonic()
        progress = Progress(
            step=self.step,
            num_steps=self._num_steps,
            losses={name: float(value) for name, value in results['losses'].items()},
            learning_rate=float(results['learning_rate']),
            steps=self.step - self._interval.step,
            seconds=self._interval.seconds(),
            batch_size=self._batch_size,
            waiting=self._interval.waiting if 'waiting' in results else None,
            skipped=int(results['skipped']) if 'skipped' in results else None,
            remaining=self._remaining(now),
            metrics={name: float(value) for name, value in results['metrics'].items()},
            epoch_size=self._epoch_size,
            memory=environment.resident_memory_bytes(),
        )
        if self._first_step is None:
            self._first_step, self._first_time = self.step, now
        self._period.done(self.step)
        self._interval = Interval(self.step)
        log.info('%s', progress.line())
        if self._bar is not None:
            self._bar.show(progress)

    def _remaining(self, now: float) -> Optional[float]:
        """Estimate the seconds to the end, with pauses, as they will occur again."""
        if self._first_step is None or not self._num_steps:
            return None
        done = self.step - self._first_step
        left = max(0, self._num_steps - self.step)
        return left * (now - self._first_time) / done if done > 0 else None


def _last_step_of_session() -> Optional[int]:
    """Return the step at which an Estimator ends the session that begins; None if not known."""
    hooks = getattr(callers.nearest_caller('_hooks'), '_hooks', ())
    # `Estimator.train` turns `steps` and `max_steps` into such a hook; a model_fn does not get
    # them.
    stops = [hook for hook in hooks if isinstance(hook, tf1.train.StopAtStepHook)]
    return min((hook._last_step for hook in stops), default=None)


class _Bar:
    """Progress bar at the bottom of the terminal, below the log lines."""

    shown: Optional[_Bar] = None

    def __init__(self, num_steps: int, epoch_size: int = 0):
        import tqdm
        from tqdm.contrib import logging as tqdm_logging

        self._exit = contextlib.ExitStack()
        loggers = [
            logger
            for logger in map(logging.getLogger, ('', 'estimator_lib', 'model_fns', 'tensorflow'))
            if any(_is_console(handler) for handler in logger.handlers)
        ]
        # Log lines are written above the bar; otherwise each would break it.
        self._exit.enter_context(tqdm_logging.logging_redirect_tqdm(loggers))
        with_steps = _BAR_OF_EPOCHS if epoch_size else _BAR
        self._bar = self._exit.enter_context(
            tqdm.tqdm(
                total=num_steps or None,
                bar_format=with_steps if num_steps else _ENDLESS_BAR,
                colour='green' if _has_colors() else None,
                file=sys.stderr,
                dynamic_ncols=True,
                leave=False,
            )
        )
        _Bar.shown = self

    def move(self, step: int) -> None:
        self._bar.update(step - self._bar.n)

    def show(self, progress: Progress) -> None:
        self._bar.n = progress.step
        self._bar.set_description_str('  '.join(progress.bar_figures()))

    def close(self) -> None:
        self._exit.close()
        _Bar.shown = None


def _has_colors() -> bool:
    """Return whether standard error shows colors, and the user has not refused them.

    Source: https://no-color.org, by which any value that is not empty refuses.
    """
    dumb = os.environ.get('TERM', '') in ('', 'dumb') and os.name != 'nt'
    return sys.stderr.isatty() and not dumb and not os.environ.get('NO_COLOR')


def _is_console(handler: logging.Handler) -> bool:
    stream = getattr(handler, 'stream', None)
    return stream is not None and stream in (sys.stdout, sys.stderr)
