"""The mode `compare`: runs side by side in `compare.html`."""

from __future__ import annotations

import logging
import os
from typing import List, Mapping, NamedTuple, Optional, Sequence

import tensorflow as tf

from estimator_lib.analysis import rendering, report
from estimator_lib.analysis.parts import Cell, Figure, Section, Table
from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.comparison import bootstrap, curves
from estimator_lib.comparison.bootstrap import Interval
from estimator_lib.comparison.runs import Run
from estimator_lib.evaluation import evaluating
from estimator_lib.run_records import hparams

log = logging.getLogger('estimator_lib')

PAGE = 'compare.html'
_SHOWN = 6  # metrics in the lines that are printed

_EXPLANATION = (
    'Differences are to the first run. The interval has 95 % of the differences of '
    f'{bootstrap.SAMPLES} samples of the images, drawn with replacement, the same of both runs. '
    'Where it does not contain 0, another sample of images would probably not change the sign.'
)


class Comparison(NamedTuple):
    """Comparison of a run with the first one on an evaluation set.

    Attributes:
        intervals: intervals of the differences, by metric.
        note: reason why there are none; '' where there are some.
    """

    intervals: Mapping[str, Interval]
    note: str = ''


def compare(runs: Sequence[Run], output_dir: str) -> List[str]:
    """Compare runs, and write `compare.html`.

    Args:
        runs: two or more, from `runs.read_runs`.
        output_dir: folder of the page.

    Returns:
        Lines for people: the main metrics, and the path of the page.
    """
    sections: List[Section] = []
    lines: List[str] = []
    for set_name in runs[0].metrics:
        compared = [run for run in runs if set_name in run.metrics]
        if len(compared) < 2:
            continue
        comparisons = [_compare_pair(compared[0], run, set_name) for run in compared[1:]]
        sections += _metric_sections(compared, set_name, comparisons)
        lines += _lines(compared, set_name, comparisons)
    sections += [curves.create_section(runs), _config_section(runs)]
    drawings = {
        part.name: rendering.render(part)
        for section in sections
        for part in section.parts
        if isinstance(part, Figure)
    }
    subtitle = ', '.join(f'{run.path} (step {run.step})' for run in runs)
    title = f'Comparison of {len(runs)} runs'
    path = os.path.join(output_dir, PAGE)
    tf.io.gfile.makedirs(output_dir)
    page = report.to_html(report.Report(title, subtitle, sections, drawings))
    checkpoint_files.write_atomically(path, page)
    return [*lines, f'comparison: {path}']


def _compare_pair(first: Run, other: Run, set_name: str) -> Comparison:
    """Compute the intervals of a run's differences from the first run."""
    examples = [run.examples(set_name) for run in (first, other)]
    for run, each in zip((first, other), examples):
        if each is None:
            return Comparison(
                {},
                f'No intervals for {other.name}: {run.name} has no numbers per image of step '
                f'{run.step}; --mode=evaluate --analyze writes them.',
            )
    order = bootstrap.find_order(examples[0].names, examples[1].names)
    if order is None:
        return Comparison(
            {}, f'No intervals for {other.name}: {first.name} was evaluated on other images.'
        )
    resamplers = [
        run.task.create_resampler(each.arrays) for run, each in zip((first, other), examples)
    ]
    if None in resamplers:
        return Comparison({}, f'No intervals for {other.name}: {first.task.name} has none.')
    log.info('%d samples of %d images of %s', bootstrap.SAMPLES, len(order), set_name)
    return Comparison(bootstrap.paired_intervals(*resamplers, order))


def _metric_sections(
    runs: Sequence[Run], set_name: str, comparisons: Sequence[Comparison]
) -> List[Section]:
    names = _common_names(runs, set_name)
    by_class = [name for name in names if _class_of(runs[0], name)]
    overall = [name for name in names if name not in by_class]
    notes = ' '.join(each.note for each in comparisons if each.note)
    suffix = f' on {set_name}' if len(runs[0].metrics) > 1 else ''
    sections = []
    for title, chosen in ((f'Metrics{suffix}', overall), (f'Classes{suffix}', by_class)):
        if chosen:
            rows = [_row(runs, set_name, name, comparisons) for name in chosen]
            table = Table(title.lower(), title, _columns(runs), rows, notes)
            sections.append(Section(title, [table], _EXPLANATION))
    return sections


def _common_names(runs: Sequence[Run], set_name: str) -> List[str]:
    """Return the metrics of any run, the main ones first."""
    known = {name: None for run in runs for name in sorted(run.metrics[set_name])}
    main = evaluating.main_metrics(runs[0].task, runs[0].config)
    return [*dict.fromkeys(name for name in (*main, *known) if name in known)]


def _class_of(run: Run, metric: str) -> str:
    """Return the class of a metric of one class, by the end of its title; '' for others."""
    title = run.task.metric_title(metric)
    endings = {each: (f'/{each}', f'({each})') for each in run.task.class_names()}
    return next((each for each, ends in endings.items() if title.endswith(ends)), '')


def _columns(runs: Sequence[Run]) -> List[str]:
    columns = ['metric', runs[0].name]
    for run in runs[1:]:
        columns += [run.name, f'{run.name}: difference', '95 % from', 'to']
    return columns


def _row(
    runs: Sequence[Run], set_name: str, name: str, comparisons: Sequence[Comparison]
) -> List[Cell]:
    first, *others = [run.metrics[set_name].get(name) for run in runs]
    row: List[Cell] = [runs[0].task.metric_title(name), first]
    for value, comparison in zip(others, comparisons):
        low, high = comparison.intervals.get(name, (None, None))
        row += [value, _difference(first, value), low, high]
    return row


def _difference(first: Optional[float], other: Optional[float]) -> Optional[float]:
    return None if first is None or other is None else other - first


def _lines(runs: Sequence[Run], set_name: str, comparisons: Sequence[Comparison]) -> List[str]:
    """Return lines with the main metrics."""
    lines = [f'on {set_name}: ' + ', '.join(f'{run.name} (step {run.step})' for run in runs)]
    names = [name for name in _common_names(runs, set_name) if not _class_of(runs[0], name)]
    for name in names[:_SHOWN]:
        _, first, *rest = _row(runs, set_name, name, comparisons)
        parts = [_number(first)]
        for value, difference, low, high in zip(*[iter(rest)] * 4):
            between = '' if low is None else f', 95 % {low:+.4g} to {high:+.4g}'
            change = '' if difference is None else f' ({difference:+.4g}{between})'
            parts.append(f'{_number(value)}{change}')
        lines.append(f'  {name}: {", ".join(parts)}')
    return [*lines, *(f'  {each.note}' for each in comparisons if each.note)]


def _number(value: Cell) -> str:
    return '-' if value is None else f'{value:.4g}'


def _config_section(runs: Sequence[Run]) -> Section:
    table = Table(
        'config',
        'Fields that differ',
        ['field', *(run.name for run in runs)],
        config_differences([hparams.changed_fields(run.config) for run in runs]),
        'Fields without a value have their default.',
    )
    if not table.rows:
        return Section('Config', [], 'The configs are equal.')
    return Section('Config', [table])


def config_differences(fields: Sequence[Mapping[str, hparams.Value]]) -> List[List[Cell]]:
    """Return a row for each field whose values differ: its path, and the value of each run.

    Args:
        fields: fields that are not default, by path, of each run.
    """
    paths = sorted({path for each in fields for path in each})
    rows = [[path, *(_text(each.get(path)) for each in fields)] for path in paths]
    return [row for row in rows if any(value != row[1] for value in row[2:])]


def _text(value: Optional[hparams.Value]) -> Cell:
    """Return a value as text, so that numbers are shown in full."""
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)
