"""Steps of a run with an unusual loss or gradient, and their examples with the largest losses."""

from __future__ import annotations

import collections
import csv
import io
import math
import os
import statistics
from typing import Any, Counter, Dict, Iterator, List, Mapping, NamedTuple, Tuple

import tensorflow as tf

from estimator_lib.analysis import files as analysis_files
from estimator_lib.run_records.training_events import GRADIENT_NORM
from vision_extras.replay import past_run, report

CSV_FILE = 'spikes.csv'

_MOST = 3  # spikes that are replayed
_MOST_EXAMPLES = 5  # of each spike
_SIDE = 10  # recorded steps before and after, which tell what is usual
LEAST_SIDE = 3  # of them before a step that is judged
# A step is unusual if it exceeds its neighbors by this number of their standard deviations (of a
# normal distribution with their median absolute deviation), and by this share of their median.
_DEVIATIONS, _SHARE = 6.0, 0.25
_NORMAL = 1.4826  # standard deviation / median absolute deviation of a normal distribution


class Spike(NamedTuple):
    """Unusual step.

    Attributes:
        step: the step.
        column: the scalar that is unusual.
        value: its value.
        usual: the larger one of its medians before and after.
        score: number of standard deviations above it; infinite for a value that is not finite.
    """

    step: int
    column: str
    value: float
    usual: float
    score: float


def find_spikes(recorded: past_run.Scalars, most: int = _MOST) -> List[Spike]:
    """Find the most unusual steps, a step once.

    Args:
        recorded: scalars by step and column.
        most: number of steps.
    """
    spikes: Dict[int, Spike] = {}
    for column in (report.TOTAL, GRADIENT_NORM):
        series = {step: each[column] for step, each in recorded.items() if column in each}
        for spike in _unusual(series, column):
            before = spikes.get(spike.step)
            if before is None or spike.score > before.score:
                spikes[spike.step] = spike
    ranked = sorted(spikes.values(), key=lambda spike: (-spike.score, spike.step))
    return ranked[:most]


def _unusual(series: Mapping[int, float], column: str) -> Iterator[Spike]:
    """Yield the unusual steps of a scalar."""
    steps = sorted(series)
    for place, step in enumerate(steps):
        sides = [
            [series[each] for each in side if math.isfinite(series[each])]
            for side in (
                steps[max(0, place - _SIDE) : place],
                steps[place + 1 : place + 1 + _SIDE],
            )
        ]
        value = series[step]
        if not math.isfinite(value):
            usual = statistics.median(sides[0]) if sides[0] else math.nan
            yield Spike(step, column, value, usual, math.inf)
            continue
        # A loss falls from the first steps on: they are compared with nothing before them.
        if len(sides[0]) < LEAST_SIDE:
            continue
        medians = [statistics.median(side) for side in sides if side]
        usual = max(medians)
        deviations = [
            abs(each - median)
            for side, median in zip(filter(None, sides), medians)
            for each in side
        ]
        least = abs(usual) * _SHARE / _DEVIATIONS
        score = (value - usual) / max(_NORMAL * statistics.median(deviations), least, 1e-12)
        if score > _DEVIATIONS:
            yield Spike(step, column, value, usual, score)


def suspects(
    spike: Spike, replayed: report.Replay, counts: Mapping[str, int]
) -> List[Dict[str, Any]]:
    """Return a row for each of the examples with the largest losses of a step.

    Args:
        spike: the step.
        replayed: its replay.
        counts: the number of errors in the newest analyses by the path of the image.
    """
    ranked = replayed.ranked()
    losses = [report.total_loss(each) for each in ranked]
    median = statistics.median(losses) if losses else math.nan
    return [
        {
            'step': spike.step,
            'source_id': each.source_id,
            'file': each.path,
            'record': each.record,
            'loss': loss,
            'median_of_batch': median,
            'errors': counts.get(each.source_id, 0),
        }
        for each, loss in zip(ranked[:_MOST_EXAMPLES], losses)
    ]


def describe(row: Mapping[str, Any]) -> str:
    """Describe one of the `suspects`."""
    known = f'; {row["errors"]} lines in {analysis_files.ERRORS_FILE}' if row['errors'] else ''
    return (
        f'  {row["source_id"]}: loss {row["loss"]:.6g} in step {row["step"]}, median of the batch '
        f'{row["median_of_batch"]:.6g}{known}'
    )


def count_errors(model_dir: str) -> Mapping[str, int]:
    """Count the errors of each image in the newest analysis of each evaluation set.

    Analyses of exported files are left out.
    """
    pattern = os.path.join(model_dir, analysis_files.FOLDER, '*', analysis_files.ERRORS_FILE)
    newest: Dict[str, Tuple[int, str]] = {}  # step and path by evaluation set
    for path in tf.io.gfile.glob(pattern):
        step, _, further_set = os.path.basename(os.path.dirname(path)).partition('_')
        if step.isdecimal():
            newest[further_set] = max(newest.get(further_set, (-1, '')), (int(step), path))
    counts: Counter[str] = collections.Counter()
    for _, path in newest.values():
        with tf.io.gfile.GFile(path) as file:
            rows = csv.DictReader(io.StringIO(file.read()))
            counts.update(row.get('image') or '' for row in rows)
    return counts
