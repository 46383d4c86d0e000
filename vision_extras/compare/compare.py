"""The mode `compare`: runs side by side in `compare.html`."""

from __future__ import annotations

import logging
import os
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib.analysis import rendering, report
from estimator_lib.analysis.parts import Cell, Section, Table
from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.evaluation import evaluating
from estimator_lib.run_records import hparams
from estimator_lib.task import Task
from estimator_lib.task_interfaces.analysis import Resampler
from vision_extras.compare import bootstrap, curves
from vision_extras.compare.bootstrap import Interval
from vision_extras.compare.runs import Run

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
        first: metrics with intervals of the first run on all examples.
        other: the same of the other run.
    """

    intervals: Mapping[str, Interval] = {}
    note: str = ''
    first: Mapping[str, float] = {}
    other: Mapping[str, float] = {}


class SetMetrics(NamedTuple):
    """Metrics of the runs on one evaluation set.

    Attributes:
        name: name of the set.
        runs: runs that were evaluated on it, two or more.
        metrics: metrics of each run, by name.
        comparisons: comparison of each run but the first.
    """

    name: str
    runs: Sequence[Run]
    metrics: Sequence[Mapping[str, float]]
    comparisons: Sequence[Comparison]

    def names(self) -> List[str]:
        """Return the metrics of any run, the main ones first."""
        return names(self.runs[0], self.metrics)

    def row(self, name: str) -> List[Cell]:
        """Return the cells of a metric.

        These are its title and the value of the first run; then value, difference and interval of
        each other run.
        """
        first, *others = [metrics.get(name) for metrics in self.metrics]
        row: List[Cell] = [self.runs[0].task.presentation.metric_title(name), first]
        for value, comparison in zip(others, self.comparisons):
            low, high = comparison.intervals.get(name, (None, None))
            difference = None if first is None or value is None else value - first
            row += [value, difference, low, high]
        return row

    def notes(self) -> List[str]:
        """Return the reasons of missing intervals."""
        return [each.note for each in self.comparisons if each.note]


def names(first: Run, metrics: Sequence[Mapping[str, float]]) -> List[str]:
    """Return the names of metrics, the main ones first.

    Args:
        first: run that tells which are the main ones.
        metrics: metrics of each run, by name.
    """
    known = {name: None for each in metrics for name in sorted(each)}
    main = evaluating.main_metrics(first.task, first.config)
    return [*dict.fromkeys(name for name in (*main, *known) if name in known)]


def is_of_class(task: Task, name: str) -> bool:
    """Return whether a metric is one of a class, by the end of its title."""
    endings = tuple(
        end for each in task.presentation.class_names for end in (f'/{each}', f'({each})')
    )
    return task.presentation.metric_title(name).endswith(endings)


def shown_names(first: Run, metrics: Sequence[Mapping[str, float]]) -> List[str]:
    """Return the first of the `names` that are of no class: those of printed lines.

    Args:
        first: run that tells which are the main ones.
        metrics: metrics of each run, by name.
    """
    return [name for name in names(first, metrics) if not is_of_class(first.task, name)][:_SHOWN]


class Compared(NamedTuple):
    """What a comparison tells.

    Attributes:
        lines: for people: the main metrics of each evaluation set.
        notes: reasons of missing intervals, which are among the lines too.
        page: the path of the page, in a line.
    """

    lines: List[str]
    notes: List[str]
    page: str


def compare(runs: Sequence[Run], output_dir: str) -> Compared:
    """Compare runs, and write `compare.html`.

    Args:
        runs: two or more, from `runs.read_runs`.
        output_dir: folder of the page.
    """
    sets = [_compare_set(runs, name) for name in runs[0].metrics if _has(runs[1:], name)]
    sections = [section for each in sets for section in _metric_sections(each, len(sets) > 1)]
    sections += [curves.create_section(runs), _config_section(runs)]
    subtitle = ', '.join(f'{run.path} (step {run.step})' for run in runs)
    drawings = rendering.render_all(sections)
    content = report.Report(f'Comparison of {len(runs)} runs', subtitle, sections, drawings)
    path = os.path.join(output_dir, PAGE)
    tf.io.gfile.makedirs(output_dir)
    checkpoint_files.write_atomically(path, report.to_html(content))
    return Compared(
        [line for each in sets for line in _lines(each)],
        [note for each in sets for note in each.notes()],
        f'comparison: {path}',
    )


def _has(runs: Sequence[Run], set_name: str) -> bool:
    return any(set_name in run.metrics for run in runs)


def _compare_set(runs: Sequence[Run], name: str) -> SetMetrics:
    first, *others = [run for run in runs if name in run.metrics]
    comparisons = [_compare_pair(first, run, name) for run in others]
    metrics = [dict(first.metrics[name])]
    for run, comparison in zip(others, comparisons):
        # Metrics of the resampler may be others than those that the config asks for.
        metrics[0] = {**comparison.first, **metrics[0]}
        metrics.append({**comparison.other, **run.metrics[name]})
    return SetMetrics(name, [first, *others], metrics, comparisons)


def _compare_pair(first: Run, other: Run, set_name: str) -> Comparison:
    """Compute the intervals of a run's differences from the first run."""
    resamplers: List[Resampler] = []
    names = []
    for run in (first, other):
        sampled = run.resampler(set_name)
        if sampled is None:
            return Comparison(
                note=f'No intervals for {other.name}: {run.name} has no numbers per image of step '
                f'{run.step}, which --mode=evaluate --analyze writes.'
            )
        names.append(sampled[0])
        resamplers.append(sampled[1])
    order = bootstrap.find_order(names[0], names[1])
    if order is None:
        return Comparison(
            note=f'No intervals for {other.name}: {first.name} was evaluated on other images.'
        )
    log.info('%d samples of %d images', bootstrap.SAMPLES, len(order))
    once = np.ones(len(order), np.int64)
    before, after = resamplers
    intervals = bootstrap.paired_intervals(before, after, order)
    return Comparison(intervals, '', before(once), after(once))


def _metric_sections(compared: SetMetrics, is_named: bool) -> List[Section]:
    """Return a section of metrics of all classes, and one of those of each."""
    parts: Dict[str, List[str]] = {'Metrics': [], 'Classes': []}
    for name in compared.names():
        kind = 'Classes' if is_of_class(compared.runs[0].task, name) else 'Metrics'
        parts[kind].append(name)
    columns = ['metric', compared.runs[0].name]
    for run in compared.runs[1:]:
        columns += [run.name, f'{run.name}: difference', '95 % from', 'to']
    sections = []
    for title, names in parts.items():
        rows = [compared.row(name) for name in names]
        titled = f'{title} on {compared.name}' if is_named else title
        table = Table(titled, titled, columns, rows, ' '.join(compared.notes()))
        if rows:
            sections += [Section(titled, [table], _EXPLANATION if title == 'Metrics' else '')]
    return sections


def _lines(compared: SetMetrics) -> List[str]:
    """Return lines with the main metrics."""
    runs = ', '.join(f'{run.name} (step {run.step})' for run in compared.runs)
    lines = [f'evaluation set {compared.name}: {runs}']
    for name in shown_names(compared.runs[0], compared.metrics):
        _, first, *rest = compared.row(name)
        parts = [_number(first)]
        for value, difference, low, high in zip(*[iter(rest)] * 4):
            between = '' if low is None else f', 95 % {low:+.4g} to {high:+.4g}'
            change = '' if difference is None else f' ({difference:+.4g}{between})'
            parts.append(f'{_number(value)}{change}')
        lines.append(f'  {name}: {", ".join(parts)}')
    return [*lines, *(f'  {note}' for note in compared.notes())]


def _number(value: Cell) -> str:
    return '-' if value is None else f'{value:.4g}'


def _config_section(runs: Sequence[Run]) -> Section:
    table = Table(
        'config',
        'Fields that differ',
        ['field', *(run.name for run in runs)],
        config_differences([_fields(run) for run in runs]),
        'Fields without a value have their default. Paths in the folder of a run begin there.',
    )
    if not table.rows:
        return Section('Config', [], 'The configs are equal.')
    return Section('Config', [table])


def _fields(run: Run) -> Dict[str, hparams.Value]:
    """Return the changed fields; each run has a label map of its own in its folder."""
    start = os.path.join(run.path, '')
    return {
        path: value[len(start) :] if isinstance(value, str) and value.startswith(start) else value
        for path, value in hparams.changed_fields(run.config).items()
    }


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
