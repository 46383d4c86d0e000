"""Listeners: packages of others that follow a run, as a tracker of experiments does.

A listener hears of what a run writes to its folder: values of steps from the events, metrics from
`results.csv`, files. So it works in both loops and in clusters, where another process evaluates.
"""

from __future__ import annotations

import contextlib
import glob
import importlib.metadata
import logging
import os
import time
from typing import Any, Callable, Dict, Iterator, List, Mapping, Sequence, Tuple, Union

from estimator_lib import errors
from estimator_lib.run_records import results, results_table
from estimator_lib.run_records.results_table import EVAL, Table
from estimator_lib.run_records.training_events import TrainingEvents

log = logging.getLogger('estimator_lib')

GROUP = 'vision_model_fns.listeners'  # of entry points

_POLL_SECONDS = 10.0
_FILES = (
    'pipeline.config',
    'augmented.png',
    results.RESULTS_FILE,
    results.CURVES_FILE,
    'metrics.json',
    'run.json',
    'eval_*/predictions/*.png',
    'analysis/*/report.html',
    'export/*/[0-9]*',
)


class Listener:
    """Base class of listeners, whose methods do nothing."""

    def start(self, model_dir: str, fields: Mapping[str, Union[bool, float, str]]) -> None:
        """Hear of the start of a run; a run that continues starts again.

        Args:
            model_dir: the folder of the run.
            fields: the fields of the config that differ from their defaults, by path.
        """

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Hear of values of training or of an evaluation.

        Args:
            step: the global step.
            values: by column of `results.csv`: `train/loss`, `eval_0/accuracy`.
        """

    def file(self, path: str) -> None:
        """Hear of a file that is new or has changed; also of the folder of an export.

        A run that continues tells of all its files once more.

        Args:
            path: the path of the file.
        """

    def end(self, status: str) -> None:
        """Hear of the end of the process.

        Args:
            status: `finished`, `failed`, or `preempted`: the run continues later.
        """


def find_listeners() -> List[Listener]:
    """Create the listeners of the installed packages; one that cannot be created is a warning."""
    points: Any = importlib.metadata.entry_points()
    # Python 3.9 has a mapping.
    found = points.select(group=GROUP) if hasattr(points, 'select') else points.get(GROUP, ())
    created: List[Listener] = []
    for point in found:
        with _tolerated(point.value):
            created.append(point.load()())
    return created


class Listeners:
    """The listeners of one run. One that raises an error is left out from then on.

    Args:
        model_dir: the folder of the run.
        listeners: who listens.
    """

    def __init__(self, model_dir: str, listeners: Sequence[Listener]):
        self._model_dir = model_dir
        self._listeners = list(listeners)
        self._events = TrainingEvents(model_dir)
        self._lines: Dict[int, results_table.Row] = {}
        self._files: Dict[str, Tuple[int, int]] = {}
        self._next_poll = 0.0

    def start(self, fields: Mapping[str, Union[bool, float, str]]) -> None:
        """Tell of the start, and skip the values that earlier starts of the run have left."""
        if not self._listeners:
            return
        self._events.take_steps()
        self._lines = dict(self._table().rows)
        self._tell(lambda each: each.start(self._model_dir, fields))

    def poll_if_due(self) -> None:
        """Call `poll` unless it was called some seconds ago."""
        if self._listeners and time.monotonic() >= self._next_poll:
            self.poll()

    def poll(self) -> None:
        """Tell of values and files since the last call."""
        if not self._listeners:
            return
        for step, values in self._events.take_steps().items():
            self._tell_metrics(step, values)
        lines, before = self._table().rows, self._lines
        self._lines = dict(lines)
        for step, line in sorted(lines.items()):
            if before.get(step) != line:
                cells = {name: cell for name, cell in line.items() if name.startswith(EVAL)}
                self._tell_metrics(
                    step, {name: float(cell) for name, cell in cells.items() if cell}
                )
        signatures, known = self._signatures(), self._files
        self._files = signatures
        for path, signature in signatures.items():
            if known.get(path) != signature:
                self._tell_file(path)
        self._next_poll = time.monotonic() + _POLL_SECONDS

    def end(self, status: str, polls: bool = True) -> None:
        """Tell of the end, after what is left to tell.

        Args:
            status: `finished`, `failed`, or `preempted`: the run continues later.
            polls: False where the process has no time to read files.
        """
        if polls:
            self.poll()
        self._tell(lambda each: each.end(status))
        self._listeners = []

    def _tell_metrics(self, step: int, values: Mapping[str, float]) -> None:
        self._tell(lambda each: each.metrics(step, values))

    def _tell_file(self, path: str) -> None:
        self._tell(lambda each: each.file(path))

    def _tell(self, call: Callable[[Listener], None]) -> None:
        for listener in list(self._listeners):
            kept = False
            with _tolerated(f'{type(listener).__module__}.{type(listener).__name__}'):
                call(listener)
                kept = True
            if not kept:
                self._listeners.remove(listener)

    def _table(self) -> Table:
        """Return the table of results; an empty one where it is malformed."""
        with contextlib.suppress(errors.DataError):
            return results_table.read(os.path.join(self._model_dir, results.RESULTS_FILE))
        return Table()

    def _signatures(self) -> Dict[str, Tuple[int, int]]:
        """Return time and size of the files of the run by path, the oldest first."""
        found: Dict[str, Tuple[int, int]] = {}
        root = glob.escape(self._model_dir)
        for pattern in _FILES:
            for path in glob.glob(os.path.join(root, pattern)):
                with contextlib.suppress(OSError):  # it was removed meanwhile
                    state = os.stat(path)
                    found[path] = (state.st_mtime_ns, state.st_size)
        return dict(sorted(found.items(), key=lambda item: item[1]))


@contextlib.contextmanager
def _tolerated(name: str) -> Iterator[None]:
    """Log a warning in place of an error of a listener, which is never worth a run."""
    try:
        yield
    except Exception as error:  # of code of others
        log.warning(
            'listener %s: %s: %s; it is left out',
            name,
            type(error).__name__,
            errors.first_line(error),
        )
