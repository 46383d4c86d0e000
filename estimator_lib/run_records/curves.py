"""The curves of a run, `results.png`: losses, main metrics and learning rate over steps."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, List, Mapping, Sequence, Tuple

from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.run_records.results_table import EVAL, LEARNING_RATE, LOSS, TRAIN, Curve, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_METRICS = 6
_WIDTH, _HEIGHT, _DOTS = 15, 5.5, 100  # inches, and dots per inch


def draw(table: Table, path: str, metrics: Sequence[str]) -> None:
    """Draw the curves of a table to a PNG file.

    Args:
        table: the evaluations.
        path: the path of the file.
        metrics: names of metrics, the main one first. The first ones with values are drawn.
    """
    from matplotlib.figure import Figure  # takes half a second

    figure = Figure(figsize=(_WIDTH, _HEIGHT), dpi=_DOTS)
    panels = {
        'losses': _losses(table),
        'metrics': _main_metrics(table, metrics),
        'learning rate': [LEARNING_RATE],
    }
    for index, (title, columns) in enumerate(panels.items(), 1):
        axes = figure.add_subplot(1, len(panels), index)
        axes.set_title(title)
        plot(axes, {column: table.curve(column) for column in columns})
        if columns:
            # Below the panel, where names of metrics cover no curve.
            axes.legend(fontsize='small', loc='upper center', bbox_to_anchor=(0.5, -0.13))
    figure.subplots_adjust(left=0.05, right=0.98, bottom=0.34, top=0.93, wspace=0.18)
    content = io.BytesIO()
    figure.savefig(content, format='png')
    checkpoint_files.write_atomically(path, content.getvalue())


def plot(axes: Axes, curves: Mapping[str, Curve]) -> None:
    """Plot curves over steps, each with its name for the legend.

    Args:
        axes: empty axes.
        curves: the curves by name.
    """
    for name, curve in curves.items():
        axes.plot(*curve, marker='.', label=name)
    axes.set_xlabel('step')
    axes.locator_params(axis='x', integer=True)
    axes.grid(alpha=0.3)


def _losses(table: Table) -> List[str]:
    """Return the columns of total losses that have values."""
    named = [TRAIN + LOSS, *(f'{start}/{LOSS}' for start in _sets(table))]
    return [column for column in named if table.curve(column)[0]]


def _main_metrics(table: Table, metrics: Sequence[str]) -> List[str]:
    """Return the columns of the first metrics that have values, of all sets."""
    named: List[Tuple[str, str]] = [(start, name) for name in metrics for start in _sets(table)]
    columns = [f'{start}/{name}' for start, name in named]
    return [column for column in columns if table.curve(column)[0]][:_MOST_METRICS]


def _sets(table: Table) -> List[str]:
    """Return the starts of the columns of evaluation sets, in order: `eval_0`."""
    return list(
        dict.fromkeys(
            column.partition('/')[0] for column in table.columns if column.startswith(EVAL)
        )
    )
