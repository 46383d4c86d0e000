"""Files of a replayed step: `replay.json`, `replay.csv` and pictures."""

from __future__ import annotations

import csv
import dataclasses
import io
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib import texts
from estimator_lib.checkpoints import checkpoint_files, evaluated
from estimator_lib.drawing import figures, visualization
from estimator_lib.run_records.results_table import LEARNING_RATE, LOSS, TRAIN
from estimator_lib.task import Task
from vision_extras.replay.diagnosis import Diagnosis, Example

JSON_FILE, CSV_FILE, SHEET_FILE = 'replay.json', 'replay.csv', 'batch.png'
TOTAL = f'{TRAIN}{LOSS}'  # the column of the total loss

_PICTURES = 'pictures'
_MOST_LINES = 5  # examples and groups that are printed


@dataclasses.dataclass(frozen=True)
class Replay:
    """Replayed step.

    Attributes:
        step: the step, which was made by its update of the variables.
        checkpoint: the prefix of the checkpoint from which steps were repeated.
        recorded: the scalars of the run's events by step and column.
        repeated: the same of the repeated steps.
        diagnosis: examples, gradients and activations of the step.
    """

    step: int
    checkpoint: str
    recorded: Mapping[int, Mapping[str, float]]
    repeated: Mapping[int, Mapping[str, float]]
    diagnosis: Diagnosis

    def differences(self) -> List[Dict[str, Any]]:
        """Return the losses of repeated steps that are not those of the events."""
        return [
            {
                'step': step,
                'name': name,
                'recorded': self.recorded[step][name],
                'repeated': values[name],
            }
            for step, values in self.repeated.items()
            for name in values
            if is_loss(name)
            and name in self.recorded.get(step, {})
            # NaN equals NaN here.
            and repr(self.recorded[step][name]) != repr(values[name])
        ]

    def compared(self) -> List[int]:
        """Return the repeated steps whose losses the events have."""
        return [step for step in self.repeated if TOTAL in self.recorded.get(step, {})]

    def ranked(self) -> List[Example]:
        """Return the examples with a loss of their own, the largest first."""
        examples = [example for example in self.diagnosis.examples if example.losses]
        return sorted(examples, key=lambda each: -sortable(total_loss(each)))


def is_loss(column: str) -> bool:
    """Return whether a column of `results.csv` has a loss of training steps."""
    return column == TOTAL or column.startswith(f'{TRAIN}Loss/')


def total_loss(example: Example) -> float:
    """Return the sum of the losses of an example alone."""
    return sum(example.losses.values())


def sortable(value: float) -> float:
    """Return a number to sort by, with NaN as the largest."""
    return float('inf') if value != value else value


def write(replay: Replay, task: Task, folder: str) -> None:
    """Write the files of a replayed step.

    Args:
        replay: the step.
        task: draws the examples.
        folder: the folder of the files, which may have those of an earlier replay.
    """
    tf.io.gfile.makedirs(folder)
    pictures = _write_pictures(replay.diagnosis.examples, task, folder)
    rows = [
        _row(number, example, picture)
        for number, (example, picture) in enumerate(zip(replay.diagnosis.examples, pictures))
    ]
    diagnosis = replay.diagnosis
    values = {
        'step': replay.step,
        'checkpoint': os.path.basename(replay.checkpoint),
        'losses': _scalars(replay.repeated.get(replay.step, {})),
        'learning_rate': replay.repeated.get(replay.step, {}).get(LEARNING_RATE),
        'is_exact': not replay.differences() if replay.compared() else None,
        'compared_steps': replay.compared(),
        'differences': replay.differences(),
        'repeated': {str(step): _scalars(each) for step, each in replay.repeated.items()},
        'diagnosed_losses': dict(diagnosis.losses),
        'gradient_norm': diagnosis.gradient_norm,
        'gradient_norms': dict(diagnosis.gradient_norms),
        'largest_activations': dict(diagnosis.activations),
        'examples': rows,
    }
    checkpoint_files.write_atomically(os.path.join(folder, JSON_FILE), evaluated.to_json(values))
    checkpoint_files.write_atomically(os.path.join(folder, CSV_FILE), to_csv(rows))


def lines(replay: Replay) -> List[str]:
    """Describe a replayed step in a few lines."""
    losses = _scalars(replay.repeated.get(replay.step, {}))
    loss = losses.get(LOSS)
    shown = 'unknown' if loss is None else f'{loss:.7g}'
    result = [f'step {replay.step}, from {replay.checkpoint}: loss {shown}, {_exactness(replay)}']
    result += [
        f'  step {each["step"]} {each["name"][len(TRAIN) :]}: {each["repeated"]!r}, in the events '
        f'{each["recorded"]!r} (difference {each["repeated"] - each["recorded"]:.3g})'
        for each in replay.differences()[:_MOST_LINES]
    ]
    diagnosis = replay.diagnosis
    result += [
        f'  loss {total_loss(each):.6g} alone: {each.source_id} ({place(each)})'
        for each in replay.ranked()[:_MOST_LINES]
    ]
    if not replay.ranked():
        result.append('  the task defines no losses of single examples: see those of the batch')
    norms = sorted(diagnosis.gradient_norms.items(), key=lambda each: -sortable(each[1]))
    largest = ', '.join(f'{name} {norm:.4g}' for name, norm in norms[:_MOST_LINES])
    result.append(f'  gradient norm {diagnosis.gradient_norm:.4g}: {largest}')
    return result


def place(example: Example) -> str:
    """Return the place of an example as `--without` takes it."""
    return example.path if example.record < 0 else f'{example.path}:{example.record}'


def _exactness(replay: Replay) -> str:
    compared = replay.compared()
    if not compared:
        return 'which the events do not have: nothing to compare'
    count = texts.counted(len(compared), 'recorded step')
    if replay.differences():
        return f'not all losses of {count} are those of the events:'
    return f'equal to the events bit for bit ({count} compared)'


def _scalars(values: Mapping[str, float]) -> Dict[str, float]:
    return {name[len(TRAIN) :]: value for name, value in values.items() if is_loss(name)}


def _row(number: int, example: Example, picture: Optional[str]) -> Dict[str, Any]:
    return {
        'number': number,
        'source_id': example.source_id,
        'file': example.path,
        'record': example.record,
        'loss': total_loss(example) if example.losses else None,
        **{f'loss/{name}': value for name, value in example.losses.items()},
        'picture': picture,
    }


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Format rows, which all have the columns of the first one."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator='\n')
    writer.writeheader()
    writer.writerows({name: texts.csv_cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _write_pictures(examples: Sequence[Example], task: Task, folder: str) -> List[Optional[str]]:
    """Draw each example with its groundtruth; return the paths in the folder."""
    drawn: List[Optional[np.ndarray]] = [None] * len(examples)
    for number, each in enumerate(examples):
        with figures.tolerated(f'picture of {each.source_id}'):
            drawn[number] = task.presentation.draw(each.features, {}, each.labels)
    kept = [picture for picture in drawn if picture is not None]
    if kept:
        tf.io.gfile.makedirs(os.path.join(folder, _PICTURES))
        visualization.write_png(os.path.join(folder, SHEET_FILE), visualization.sheet(kept))
    paths: List[Optional[str]] = []
    for number, picture in enumerate(drawn):
        name = os.path.join(_PICTURES, f'{number:03d}.png')
        if picture is not None:
            visualization.write_png(os.path.join(folder, name), picture)
        paths.append(None if picture is None else name)
    return paths
