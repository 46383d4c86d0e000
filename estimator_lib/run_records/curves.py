"""The curves of a run, `results.png`: losses, main metrics and learning rate over steps."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Dict, List, Mapping, Optional, Sequence, Tuple

from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.drawing import figures
from estimator_lib.run_records.results_table import EVAL, LEARNING_RATE, LOSS, TRAIN, Curve, Table

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

# Columns that training reports between evaluations.
OF_TRAINING = (TRAIN + LOSS, LEARNING_RATE)
_MOST_MARKED = 100  # points of a curve; markers of more points would hide it
_MOST_METRICS = 6
_WIDTH, _HEIGHT, _DOTS = 15, 5.5, 100  # inches, and dots per inch


def draw(
    table: Table, path: str, metrics: Sequence[str], training: Optional[Mapping[str, Curve]] = None
) -> None:
    """Draw the curves of a table to a PNG file.

    Args:
        table: the evaluations.
        path: the path of the file.
        metrics: names of metrics, the main one first. The first ones with values are drawn.
        training: values at all reported steps, by column; they replace those of the table.
    """
    training = training or {}
    panels = {
        'losses': _losses(table, training),
        'metrics': {column: table.curve(column) for column in _main_metrics(table, metrics)},
        'learning rate': {LEARNING_RATE: choose(LEARNING_RATE, table, training)},
    }

    def save(figure: Canvas) -> bytes:
        content = io.BytesIO()
        for index, (title, curves) in enumerate(panels.items(), 1):
            axes = figure.add_subplot(1, len(panels), index)
            axes.set_title(title)
            drawn = plot(axes, curves)
            if curves:
                # Below the panel, where names of metrics cover no curve.
                place = {'loc': 'upper center', 'bbox_to_anchor': (0.5, -0.13)}
                figures.add_legend(axes, drawn, fontsize='small', **place)
        figure.subplots_adjust(left=0.05, right=0.98, bottom=0.34, top=0.93, wspace=0.18)
        figure.savefig(content, format='png')
        return content.getvalue()

    content = figures.with_canvas(save, figsize=(_WIDTH, _HEIGHT), dpi=_DOTS)
    checkpoint_files.write_atomically(path, content)


def plot(axes: Axes, curves: Mapping[str, Curve]) -> Dict[str, Artist]:
    """Plot curves over steps.

    Args:
        axes: empty axes.
        curves: the curves by name.

    Returns:
        The drawn lines by name, for the legend.
    """
    drawn: Dict[str, Artist] = {}
    for name, (steps, values) in curves.items():
        marker = '.' if len(steps) <= _MOST_MARKED else ''
        (drawn[name],) = axes.plot(steps, values, marker=marker, label=name)
    axes.set_xlabel('step')
    # A short run would have ticks between two steps.
    axes.locator_params(axis='x', integer=True)
    axes.grid(alpha=0.3)
    return drawn


def choose(column: str, table: Table, training: Mapping[str, Curve]) -> Curve:
    """Return the curve of all reported steps, else that of the table.

    The table has values of training for the steps of evaluations only.
    """
    steps, values = training.get(column, ([], []))
    return (steps, values) if steps else table.curve(column)


def _losses(table: Table, training: Mapping[str, Curve]) -> Dict[str, Curve]:
    """Return the curves of total losses that have values."""
    named = [TRAIN + LOSS, *(f'{start}/{LOSS}' for start in _sets(table))]
    curves = {column: choose(column, table, training) for column in named}
    return {column: curve for column, curve in curves.items() if curve[0]}


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
