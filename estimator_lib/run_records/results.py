"""The results of a run: `results.csv` and `results.png` in its `model_dir`."""

from __future__ import annotations

import contextlib
import datetime
import importlib
import logging
import os
import time
from typing import Dict, Iterator, Mapping, Optional, Sequence

import tensorflow as tf

from estimator_lib import environment, errors
from estimator_lib.checkpoints import state_files
from estimator_lib.drawing import figures
from estimator_lib.run_records import curves, results_table
from estimator_lib.run_records.results_table import (
    EPOCH,
    EVAL,
    MEMORY,
    STEP,
    TIME,
    Table,
    format_cell,
)
from estimator_lib.run_records.training_events import TrainingCurves, TrainingEvents

log = logging.getLogger('estimator_lib')

RESULTS_FILE = 'results.csv'
CURVES_FILE = 'results.png'

# If each change were up or down at random, so many in a row would be one case in a million.
_GROWING = 20  # evaluations in a row, after which growing memory is a warning
# A drawing takes about half a second, and an evaluation may take less.
_DRAWING_SECONDS = 60.0


class Results:
    """Results of a run's evaluations.

    All of the state is in the files: a restart and another process continue the same table.

    Args:
        model_dir: the folder of the evaluations.
        metrics: names of metrics to draw, the main one first.
        steps_per_epoch: steps of a pass over the training examples; 0: not known.
    """

    def __init__(self, model_dir: str, metrics: Sequence[str] = (), steps_per_epoch: float = 0.0):
        self._steps_per_epoch = steps_per_epoch
        self._model_dir = model_dir
        self._metrics = metrics
        self._path = os.path.join(model_dir, RESULTS_FILE)
        self._warned_of_memory = False
        self._events: Dict[str, TrainingEvents] = {}
        self._curves = TrainingCurves(model_dir, curves.OF_TRAINING)
        self._next_drawing = time.monotonic() + _DRAWING_SECONDS

    def add(self, checkpoint: str, step: int, metrics: Mapping[str, Mapping[str, float]]) -> None:
        """Write the line of an evaluation, in place of an earlier line of the same step.

        Args:
            checkpoint: the prefix of the checkpoint. The values of training are read from the
                events beside it, else from those of `model_dir`.
            step: the global step of the checkpoint.
            metrics: the metrics by evaluation set.
        """
        training = self._training_events(checkpoint)
        evaluated = {
            f'{EVAL}{name}/{metric}': value
            for name, numbers in metrics.items()
            for metric, value in sorted(numbers.items())
        }
        memory = environment.resident_memory_bytes()
        with _locked(self._model_dir):
            table = self._read()
            passes = {EPOCH: step / self._steps_per_epoch} if self._steps_per_epoch else {}
            values = {
                **passes,
                **training.summarize(table.last_step_before(step), step),
                **({} if memory is None else {MEMORY: memory / 2**20}),
                **evaluated,
            }
            row = {column: format_cell(value) for column, value in values.items()}
            table = table.with_row({STEP: str(step), TIME: _now(), **row})
            results_table.write(self._path, table)
        growth = find_growth(table)
        if growth is not None and not self._warned_of_memory:
            self._warned_of_memory = True
            log.warning('%s', growth)

    def draw_if_due(self) -> None:
        """Draw the curves unless they were drawn in the last minute."""
        if time.monotonic() >= self._next_drawing:
            self.draw()

    def draw(self) -> None:
        """Draw the curves; a failure is a warning."""
        path = os.path.join(self._model_dir, CURVES_FILE)
        with figures.tolerated(path):
            curves.draw(self._read(), path, self._metrics, self._curves.read())
        self._next_drawing = time.monotonic() + _DRAWING_SECONDS

    def forget_after(self, step: int) -> None:
        """Remove the lines of steps that this run has not reached: they belong to an earlier run.

        A copy of the whole table stays beside it.

        Args:
            step: the step of the run's latest checkpoint.
        """
        table = self._read()
        kept = table.cut_after(step)
        if len(kept.rows) == len(table.rows):
            return
        copy = state_files.free_name(self._path)
        tf.io.gfile.copy(self._path, copy)  # a kill leaves the old table or the new one
        log.info('%s: steps after %d belong to an earlier run, see %s', self._path, step, copy)
        results_table.write(self._path, kept)

    def _read(self) -> Table:
        """Read the table; set a malformed one aside, and begin a new one."""
        try:
            return results_table.read(self._path)
        except errors.DataError as error:
            if tf.io.gfile.isdir(self._path):
                raise
            state_files.set_aside(self._path, error)
            return Table()

    def _training_events(self, checkpoint: str) -> TrainingEvents:
        for folder in (os.path.dirname(checkpoint) or '.', self._model_dir):
            events = self._events.setdefault(folder, TrainingEvents(folder))
            if events.exist():
                break
        return events


def find_growth(table: Table) -> Optional[str]:
    """Return a sentence if the memory has grown from each of the last evaluations to the next.

    Allocators need some evaluations to reach their size, and each start of a run begins again: both
    end a row of growing numbers.

    Args:
        table: results with the column `MEMORY`.
    """
    steps, memory = table.curve(MEMORY)
    last = memory[-_GROWING - 1 :]
    if len(last) <= _GROWING or any(after <= before for before, after in zip(last, last[1:])):
        return None
    return (
        f'the memory of this process has grown over {_GROWING} evaluations in a row, from '
        f'{last[0]:,.0f} MiB at step {steps[-_GROWING - 1]} to {last[-1]:,.0f} MiB at step '
        f'{steps[-1]}; see {MEMORY} in {RESULTS_FILE}: a hook or an input function that keeps what '
        'it reads is the usual cause'
    )


@contextlib.contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Keep other processes out of a local folder's table, which they could read before a write.

    Remote folders and systems without file locks have none.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(ImportError, OSError):
            fcntl = importlib.import_module('fcntl')
            # The folder is locked, not the table: a write replaces the table by a new file, whose
            # lock nobody would hold.
            opened = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, opened)  # unlocks, too
            fcntl.flock(opened, fcntl.LOCK_EX)
        yield


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime('%Y-%m-%dT%H:%M:%SZ')
