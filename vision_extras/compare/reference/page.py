"""Page `migration.html`: both sides of a comparison, and where a difference begins."""

from __future__ import annotations

import os
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib.analysis import rendering, report
from estimator_lib.analysis.parts import Cell, Section, Table, Tile
from estimator_lib.checkpoints import checkpoint_files
from vision_extras.compare.reference import differences
from vision_extras.compare.reference.differences import Difference, Results, Stage

PAGE = 'migration.html'

_COLUMNS = ('here, largest', 'reference, largest', 'difference', 'relative')
_NOTE = (
    f'Relative to the largest value of both sides. Differences above {differences.TOLERANCE:g} '
    'count: float32 sums in another order differ less.'
)


class Compared(NamedTuple):
    """Comparison that a page shows.

    Attributes:
        here: results of our side.
        there: results of the reference.
        metrics: metrics of the detections, here and there.
        stages: the stages in order.
        about: versions of the reference.
        notes: what was left out or changed on both sides.
    """

    here: Results
    there: Results
    metrics: Sequence[Mapping[str, float]]
    stages: Sequence[Stage]
    about: Mapping[str, Any]
    notes: Sequence[str]


def write(compared: Compared, folder: str, config_path: str) -> str:
    """Write the page to a folder; return its path."""
    sections = [_summary(compared), *_loss_sections(compared)]
    titles = ('gradients of step 1', 'variables after the steps', 'detections')
    by_title = {stage.title: stage for stage in compared.stages}
    sections += [_stage_section(by_title[title]) for title in titles if title in by_title]
    sections.append(_metric_section(compared.metrics))
    subtitle = (
        f'{config_path}; reference: {compared.about["package"]} with TensorFlow '
        f'{compared.about["tensorflow"]}, Python {compared.about["python"]}; here: TensorFlow '
        f'{tf.__version__}'
    )
    drawings = rendering.render_all(sections)
    path = os.path.join(folder, PAGE)
    text = report.to_html(report.Report('Migration', subtitle, sections, drawings))
    checkpoint_files.write_atomically(path, text)
    return path


def lines(compared: Compared) -> List[str]:
    """Describe the comparison in a few lines."""
    return [*(_stage_line(stage) for stage in compared.stages), begin_sentence(compared)]


def begin_sentence(compared: Compared) -> str:
    """Say where the difference begins."""
    begin = differences.find_begin(compared.stages)
    if begin is None:
        return f'both sides agree: no difference is above {differences.TOLERANCE:g}'
    step = differences.find_first_step(compared.here, compared.there)
    at = f' (total loss: from step {step})' if step else ''
    return f'the difference begins with the {begin.title}: {begin.largest.name}{at}'


def _stage_line(stage: Stage) -> str:
    largest = stage.largest
    return f'  {stage.title}: {largest.relative:.3g} ({largest.name})'


def _summary(compared: Compared) -> Section:
    """Return the stages, and where the difference begins."""
    largest = max(compared.stages, key=lambda stage: stage.largest.relative)
    begin = differences.find_begin(compared.stages)
    tiles = [
        Tile('Largest difference', f'{largest.largest.relative:.3g}', largest.title),
        Tile('Begins with', 'nothing' if begin is None else begin.title),
    ]
    rows: List[List[Cell]] = [
        [
            stage.title,
            stage.largest.name,
            _number(stage.largest.absolute),
            _number(stage.largest.relative),
            'differs' if stage.differs else 'agrees',
        ]
        for stage in compared.stages
    ]
    columns = ['stage', 'largest at', 'difference', 'relative', '']
    table = Table('stages', 'Stages in the order of the computation', columns, rows, _NOTE)
    return Section('Summary', [table], ' '.join(compared.notes), tiles)


def _loss_sections(compared: Compared) -> List[Section]:
    """Return the section of losses; none without training."""
    here, there = (each.get('losses', {}) for each in (compared.here, compared.there))
    rows: List[List[Cell]] = []
    for name in dict.fromkeys([*here, *there]):
        for step in range(max(len(each.get(name, ())) for each in (here, there))):
            values = [_value_at(each.get(name), step) for each in (here, there)]
            gap = None if None in values else values[0] - values[1]
            rows.append([name, step + 1, *map(_number, [*values, gap])])
    if not rows:
        return []
    columns = ['loss', 'step', 'here', 'reference', 'difference']
    return [Section('Losses', [Table('losses', 'Losses of each step', columns, rows)])]


def _value_at(values: Optional[np.ndarray], step: int) -> Optional[float]:
    return None if values is None else float(values[step])


def _stage_section(stage: Stage) -> Section:
    title = stage.title.capitalize()
    columns = ['name', *_COLUMNS]
    note = _NOTE
    if stage.title == 'detections':
        columns = ['image', 'here', 'reference', 'difference', 'largest']
        note = (
            'Numbers of detections, and the largest difference of a score or a normalized '
            'coordinate from the most similar detection of the class on the other side.'
        )
    rows = [_row(each) for each in stage.differences]
    return Section(title, [Table(title.replace(' ', '_').lower(), title, columns, rows, note)])


def _row(difference: Difference) -> List[Cell]:
    return [difference.name, *map(_number, difference[1:])]


def _metric_section(metrics: Sequence[Mapping[str, float]]) -> Section:
    here, there = metrics
    rows: List[List[Cell]] = [
        [name, *map(_number, (here[name], there[name], here[name] - there[name]))] for name in here
    ]
    columns = ['metric', 'here', 'reference', 'difference']
    note = 'Both are computed here, from the detections of each side.'
    return Section('Metrics', [Table('metrics', 'Metrics', columns, rows, note)])


def _number(value: Optional[float]) -> Cell:
    """Return a number as text, since small differences matter here."""
    return None if value is None else f'{value:.6g}'
