"""Curves of several runs, one over the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, List, Mapping, Sequence

from estimator_lib.analysis.parts import Figure, Section
from estimator_lib.drawing import figures
from estimator_lib.evaluation import evaluating
from estimator_lib.run_records import curves
from estimator_lib.run_records.results_table import EVAL, LEARNING_RATE, LOSS, TRAIN, Curve
from vision_extras.compare.runs import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

_MOST_METRICS = 4


def create_section(runs: Sequence[Run]) -> Section:
    """Return a section with the losses and the main metrics over steps."""
    parts: List[Figure] = []
    for column in _columns(runs):
        of_runs = {run.name: run.curve(column) for run in runs}
        if any(steps for steps, _ in of_runs.values()):
            parts.append(_figure(len(parts), column, of_runs))
    text = '' if parts else 'The runs have no results.csv.'
    return Section('Curves', parts, text)


def _columns(runs: Sequence[Run]) -> List[str]:
    """Return the columns of `results.csv` to draw."""
    sets = [name for name in runs[0].metrics if all(name in run.metrics for run in runs)]
    main = evaluating.main_metrics(runs[0].task, runs[0].config)
    metrics = [
        f'{EVAL}{name}/{metric}'
        for name in sets
        for metric in main
        if any(metric in run.metrics[name] for run in runs)
    ]
    losses = [TRAIN + LOSS, *(f'{EVAL}{name}/{LOSS}' for name in sets)]
    return [*metrics[:_MOST_METRICS], *losses, LEARNING_RATE]


def _figure(index: int, column: str, of_runs: Mapping[str, Curve]) -> Figure:
    return Figure(f'curve_{index}', column, lambda canvas: draw(canvas, of_runs))


def draw(canvas: Canvas, of_runs: Mapping[str, Curve]) -> None:
    """Draw a curve of each run.

    Args:
        canvas: an empty figure.
        of_runs: steps and values of each run by its name; a run without values has no curve.
    """
    canvas.set_size_inches(5.4, 3.2)
    axes = canvas.add_subplot()
    drawn = curves.plot(axes, {name: curve for name, curve in of_runs.items() if curve[0]})
    figures.add_legend(axes, drawn, frameon=False)
