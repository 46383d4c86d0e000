"""Results of a benchmark: rows of a table, a CSV file and a drawing."""

from __future__ import annotations

import csv
import dataclasses
import io
import textwrap
from typing import TYPE_CHECKING, Dict, List, Mapping, Optional, Sequence

from vision_extras.benchmark.timing import Latency, Timing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FILE, CHECKPOINT = 'file', 'checkpoint'
_MEBIBYTE = 1 << 20
_DASH = '-'
_COLOR = 'steelblue'
_COLUMNS = 100  # of the table


@dataclasses.dataclass(frozen=True)
class Row:
    """Results of one export, or of the checkpoint.

    Attributes:
        name: `tflite int8`.
        metrics: on the evaluation sets, by name.
        measured_on: `FILE`: the metrics are those of the exported file; `CHECKPOINT`: those of the
            checkpoint, whose network the file has.
        agreement: the least matching part of an output, compared with TensorFlow, in [0, 1].
        size: of the model's file, in bytes.
        timing: latency and memory.
        refused: reason why the model has no such export; '' where it has.
    """

    name: str
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
    measured_on: str = FILE
    agreement: Optional[float] = None
    size: Optional[int] = None
    timing: Optional[Timing] = None
    refused: str = ''


def to_csv(rows: Sequence[Row], batch_size: int) -> str:
    """Return the rows as CSV: times in ms, sizes in bytes; unknown values are empty.

    Args:
        rows: of the benchmark.
        batch_size: number of images in a batch.
    """
    metrics = list(dict.fromkeys(name for row in rows for name in row.metrics))
    file = io.StringIO()
    writer: csv.DictWriter[str] = csv.DictWriter(
        file, [*_numbers(Row(''), batch_size), *metrics, 'refused'], lineterminator='\n'
    )
    writer.writeheader()
    for row in rows:
        writer.writerow({**_numbers(row, batch_size), **row.metrics, 'refused': row.refused})
    return file.getvalue()


def _numbers(row: Row, batch_size: int) -> Dict[str, object]:
    """Return the columns of a row before its metrics."""
    timing = row.timing
    batch = timing.batch if timing else None
    return {
        'export': row.name,
        'metrics_of': '' if row.refused else row.measured_on,
        'agreement': row.agreement,
        'bytes': row.size,
        'one_ms_median': timing and timing.one.median,
        'one_ms_95': timing and timing.one.percentile_95,
        f'batch_of_{batch_size}_ms_median': batch and batch.median,
        f'batch_of_{batch_size}_ms_95': batch and batch.percentile_95,
        'memory_bytes': timing and timing.memory_bytes,
    }


def format_table(rows: Sequence[Row], metric: str, batch_size: int) -> List[str]:
    """Return the lines of a table for people, of at most 100 columns.

    Args:
        rows: of the benchmark.
        metric: the name of the metric to show.
        batch_size: number of images in a batch.
    """
    head = ['export', 'metric', 'agrees', 'MB', 'one image', f'batch of {batch_size}', 'MiB']
    kept = [row for row in rows if not row.refused]
    cells = [head, *(_cells(row, metric) for row in kept)]
    widths = [max(map(len, column)) for column in zip(*cells)]
    lines = [
        f'metric: {metric}; ms of one image and of a batch (95 %); MiB: peak memory',
        *(
            '  '.join([each[0].ljust(widths[0]), *map(str.rjust, each[1:], widths[1:])]).rstrip()
            for each in cells
        ),
    ]
    if any(row.measured_on == CHECKPOINT and row.timing for row in kept):
        lines.append('* of the checkpoint: the file has its graph')
    lines += [f'{row.name}: refused: {row.refused}' for row in rows if row.refused]
    return [part for line in lines for part in _wrapped(line)]


def _wrapped(line: str) -> List[str]:
    """Return the parts of a line that are not too long; a row of a table is one."""
    if len(line) <= _COLUMNS:
        return [line]
    return textwrap.wrap(line, _COLUMNS, subsequent_indent='  ', break_on_hyphens=False)


def _cells(row: Row, metric: str) -> List[str]:
    timing = row.timing
    value = row.metrics.get(metric)
    star = '*' if timing and row.measured_on == CHECKPOINT else ''
    return [
        row.name,
        _DASH if value is None else f'{value:.4f}{star}',
        _DASH if row.agreement is None else f'{row.agreement:.2%}',
        _DASH if row.size is None else f'{row.size / 1e6:.2f}',
        _latency(timing.one if timing else None),
        _latency(timing.batch if timing else None),
        _DASH if timing is None else f'{timing.memory_bytes / _MEBIBYTE:.0f}',
    ]


def _latency(latency: Optional[Latency]) -> str:
    if latency is None:
        return _DASH
    values = latency.median, latency.percentile_95
    return '{} ({})'.format(*(f'{each:.{2 if each < 100 else 0}f}' for each in values))


def draw(figure: Figure, rows: Sequence[Row], metric: str) -> None:
    """Draw bars: the metric, the latency of one image, the memory and the size of each export.

    Args:
        figure: an empty figure.
        rows: of the benchmark.
        metric: the name of the metric to draw.
    """
    timed = [row for row in rows if row.timing is not None]
    names = [row.name for row in timed]
    latencies = [row.timing.one for row in timed]
    all_axes = figure.subplots(1, 4, sharey=True)
    metrics = [row.metrics.get(metric) for row in timed]
    texts = [_DASH if value is None else f'{value:.4g}' for value in metrics]
    _draw_bars(all_axes[0], metric, names, [value or 0.0 for value in metrics], texts)
    texts = [f'{each.median:.3g} ({each.percentile_95:.3g})' for each in latencies]
    longest = [each.percentile_95 for each in latencies]
    _draw_bars(all_axes[1], 'ms for one image (95 %)', names, longest, texts, 'lightsteelblue')
    all_axes[1].barh(names, [each.median for each in latencies], color=_COLOR)
    memory = [row.timing.memory_bytes / _MEBIBYTE for row in timed]
    _draw_bars(all_axes[2], 'memory, MiB', names, memory, [f'{each:.0f}' for each in memory])
    sizes = [(row.size or 0) / 1e6 for row in timed]
    _draw_bars(all_axes[3], 'size, MB', names, sizes, [f'{each:.2f}' for each in sizes])
    all_axes[0].invert_yaxis()


def _draw_bars(
    axes: Axes,
    title: str,
    names: Sequence[str],
    values: Sequence[float],
    texts: Sequence[str],
    color: str = _COLOR,
) -> None:
    bars = axes.barh(names, values, color=color)
    axes.bar_label(bars, texts, padding=3)
    axes.set_title(title, fontsize='medium')
    axes.set_xlim(0.0, 1.5 * max([*values, 1e-9]))
