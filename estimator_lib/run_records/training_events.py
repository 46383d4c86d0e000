"""Scalars of training steps, read from the events that the training loop has written."""

from __future__ import annotations

import math
import os
from typing import Dict, List, Sequence, Tuple

import numpy as np
import tensorflow as tf
from google.protobuf import message as message_lib

from estimator_lib.data import records
from estimator_lib.processes import path_names
from estimator_lib.run_records.results_table import (
    EXAMPLES_PER_SECOND,
    LEARNING_RATE,
    LOSS,
    TRAIN,
    Curve,
)

_FILE = 'events.out.tfevents.'
# Scalars take some kilobytes. Graphs and pictures are longer, and are skipped without reading them.
_MOST_BYTES = 1 << 16
_LOSSES, _METRICS = 'Loss/', 'training/'
_SPEED = 'speed/examples_per_second'
# The norm of all gradients before clipping, which `summarize_gradients` writes with histograms.
_GRADIENT_NORM = 'global_norm/gradient_norm'
GRADIENT_NORM = f'{TRAIN}{_GRADIENT_NORM}'


class TrainingEvents:
    """Reader of the training scalars in a folder's events; each call reads what is new.

    It also works for the evaluator of a cluster, after a restart, and for a folder whose training
    has ended.

    Args:
        folder: the `model_dir` of the training.
        gradients: whether to read `GRADIENT_NORM` too; then no event is skipped for its length.
    """

    def __init__(self, folder: str, gradients: bool = False):
        self._folder = folder
        self._gradients = gradients
        self._ends: Dict[str, int] = {}  # by file, in bytes
        self._scalars: Dict[int, Dict[str, float]] = {}  # by step

    def exist(self) -> bool:
        """Return whether the folder has events."""
        return bool(self._files())

    def summarize(self, after: int, step: int) -> Dict[str, float]:
        """Return the scalars of an interval of steps by column of `results.csv`.

        Losses, metrics and speed are means of the values that were recorded in the interval. NaN is
        left out of a mean unless all values are NaN. The learning rate is the last one.

        Args:
            after: the last step before the interval. Earlier steps are forgotten.
            step: the last step of the interval.
        """
        self._scalars = {each: self._scalars[each] for each in self._scalars if each > after}
        for path in self._files():
            self._read(path, after)
        values: Dict[str, List[float]] = {}
        for each in sorted(self._scalars):
            if each <= step:
                for column, value in self._scalars[each].items():
                    values.setdefault(column, []).append(value)
        return {
            column: several[-1] if column == LEARNING_RATE else _mean(several)
            for column, several in values.items()
        }

    def read_steps(self) -> Dict[int, Dict[str, float]]:
        """Return all scalars by step and column; those of a repeated step are the last ones."""
        for path in self._files():
            self._read(path, 0)
        return {step: dict(self._scalars[step]) for step in sorted(self._scalars)}

    def take_steps(self) -> Dict[int, Dict[str, float]]:
        """Return the scalars of `read_steps` that were recorded since the last call."""
        steps, self._scalars = self.read_steps(), {}
        return steps

    def _files(self) -> List[str]:
        """List the files, the oldest first: their names have the time of their start."""
        names = sorted(path_names.list_names(self._folder))
        return [os.path.join(self._folder, name) for name in names if name.startswith(_FILE)]

    def _read(self, path: str, after: int) -> None:
        start = self._ends.get(path, 0)
        size = tf.io.gfile.stat(path).length
        # A broken end, which a kill leaves, is read again later: another process may be writing it.
        frames, _ = records.list_frames(records.RecordFile(path, '', size), start)
        with tf.io.gfile.GFile(path, 'rb') as file:
            for frame in frames:
                # Events only grow: what was read once is not read again, however long the run is.
                self._ends[path] = frame.end
                if frame.length > _MOST_BYTES and not self._gradients:
                    continue
                file.seek(frame.payload_offset)
                step, scalars = _parse(file.read(frame.length))
                if not self._gradients:
                    scalars.pop(GRADIENT_NORM, None)
                if scalars and step > after:
                    # A step that is repeated after a kill has its last values.
                    self._scalars.setdefault(step, {}).update(scalars)


class TrainingCurves:
    """Values of a training over all steps that it has reported.

    Args:
        folder: the `model_dir` of the training.
        columns: columns of `results.csv` to read.
    """

    def __init__(self, folder: str, columns: Sequence[str]):
        self._events = TrainingEvents(folder)
        self._values: Dict[str, Dict[int, float]] = {column: {} for column in columns}

    def read(self) -> Dict[str, Curve]:
        """Return the finite values up to now by column; each call reads the new events only."""
        for step, scalars in self._events.take_steps().items():
            for column, values in self._values.items():
                if math.isfinite(scalars.get(column, math.nan)):
                    values[step] = scalars[column]
        ordered = {column: sorted(values.items()) for column, values in self._values.items()}
        return {
            column: ([step for step, _ in points], [value for _, value in points])
            for column, points in ordered.items()
        }


def _parse(payload: bytes) -> Tuple[int, Dict[str, float]]:
    """Return the step of an event, and its training scalars by column."""
    event = tf.compat.v1.Event()
    try:
        event.ParseFromString(payload)
    except message_lib.DecodeError:
        return 0, {}
    scalars = {
        # The shortest decimal that gives the same float32.
        _column(value.tag): float(str(np.float32(value.simple_value)))
        for value in event.summary.value
        if value.HasField('simple_value')
    }
    scalars.pop('', None)
    return event.step, scalars


def _column(tag: str) -> str:
    """Return the column of a training scalar; '' for scalars that the table leaves out."""
    if tag == _SPEED:
        return EXAMPLES_PER_SECOND
    if tag == LEARNING_RATE:
        return LEARNING_RATE
    if tag == LOSS or tag.startswith(_LOSSES):
        return TRAIN + tag
    if tag.endswith(_GRADIENT_NORM):  # a name scope is before it
        return GRADIENT_NORM
    return TRAIN + tag[len(_METRICS) :] if tag.startswith(_METRICS) else ''


def _mean(values: List[float]) -> float:
    finite = [value for value in values if math.isfinite(value)]
    # The values are float32, which has 7 digits.
    return float(f'{sum(finite) / len(finite):.7g}') if finite else values[-1]
