"""Drawings that several analyses share; each fills a figure of matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Sequence, Tuple

import numpy as np

from estimator_lib.drawing import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

# Names and numbers of a matrix are legible up to this number of classes.
_MOST_NAMED = 40
_MOST_NUMBERS = 16
_MOST_CURVES = 10  # classes with a color and a line of the legend of their own
_MOST_BARS = 40
_SIZE = (5.6, 3.8)  # inches: two figures side by side in the report


def confusion_matrix(
    figure: Canvas,
    counts: np.ndarray,
    names: Sequence[str],
    normalized: bool = False,
    axis_titles: Tuple[str, str] = ('groundtruth', 'prediction'),
) -> None:
    """Draw a confusion matrix.

    Args:
        figure: an empty figure.
        counts: [n, n], rows are the groundtruth, columns the prediction.
        names: names of the n classes.
        normalized: True: each row is divided by its sum.
        axis_titles: titles of rows and columns.
    """
    values = np.asarray(counts, np.float64)
    if normalized:
        # The row of a class without objects stays 0, where 0 / 0 would be NaN.
        values = values / np.maximum(values.sum(axis=1, keepdims=True), 1e-300)
    side = min(12.0, 3.2 + 0.36 * len(names))
    figure.set_size_inches(side + 1.0, side)
    axes = figure.add_subplot()
    most = 1.0 if normalized else max(values.max(initial=0.0), 1.0)
    axes.imshow(values, cmap=_shades(), vmin=0.0, vmax=most, interpolation='none')
    axes.set(ylabel=axis_titles[0], xlabel=axis_titles[1])
    if len(names) <= _MOST_NAMED:
        axes.set_xticks(range(len(names)), names, rotation=45, ha='right', rotation_mode='anchor')
        axes.set_yticks(range(len(names)), names)
    if len(names) <= _MOST_NUMBERS:
        for (row, column), value in np.ndenumerate(values):
            if value:
                text = f'{value:.2f}' if normalized else f'{value:g}'
                drawn = axes.text(column, row, text, ha='center', va='center', fontsize=9)
                if value > 0.6 * most:
                    drawn.set_color('white')


def curves(
    figure: Canvas,
    lines: Mapping[str, Tuple[np.ndarray, np.ndarray]],
    x_title: str,
    y_title: str,
    main: Optional[str] = None,
) -> None:
    """Draw curves with both axes from 0 to 1, one for each class.

    Args:
        figure: an empty figure.
        lines: x and y [n] of each curve, by its name; the most important first.
        x_title: title of the horizontal axis.
        y_title: title of the vertical axis.
        main: name of the curve that is drawn bold, such as the mean of classes.
    """
    figure.set_size_inches(*_SIZE)
    axes = figure.add_subplot()
    drawn = {}
    for index, (name, (x, y)) in enumerate(lines.items()):
        # The first color is nearly that of the main curve.
        style: Dict[str, Any] = {'linewidth': 1.4, 'color': f'C{index % 9 + 1}'}
        if name == main:
            style = {'linewidth': 2.8, 'color': _ACCENT, 'zorder': 3}
        elif index >= _MOST_CURVES:
            style = {'linewidth': 0.7, 'color': '#8888', 'zorder': 1}
        (line,) = axes.plot(x, y, label=name, **style)
        if name == main or index < _MOST_CURVES:
            drawn[name] = line
    axes.set(xlabel=x_title, ylabel=y_title, xlim=(0, 1), ylim=(0, 1.02))
    axes.grid(alpha=0.25)
    if lines:
        place = {'loc': 'upper left', 'bbox_to_anchor': (1.01, 1.0)}
        figures.add_legend(axes, drawn, **place, frameon=False, fontsize=9)


def bars(figure: Canvas, values: Mapping[str, float], title: str) -> None:
    """Draw horizontal bars with their values, the first at the top.

    Args:
        figure: an empty figure.
        values: lengths of the bars by their names.
        title: title of the values.
    """
    shown = dict(list(values.items())[:_MOST_BARS])
    figure.set_size_inches(_SIZE[0], 1.0 + 0.28 * max(len(shown), 1))
    axes = figure.add_subplot()
    drawn = axes.barh(range(len(shown)), list(shown.values()), color=_ACCENT)
    axes.bar_label(drawn, list(map(_short, shown.values())), padding=3, fontsize=9)
    axes.set_yticks(range(len(shown)), list(shown))
    axes.set(xlabel=title)
    axes.margins(x=0.12)
    axes.locator_params(axis='x', nbins=5)
    # matplotlib's own formatter may take a common factor out of the numbers, as 1e6.
    axes.xaxis.set_major_formatter(lambda value, _: _short(value))
    axes.invert_yaxis()


def scatter(
    figure: Canvas, points: Mapping[str, Tuple[np.ndarray, np.ndarray]], x_title: str, y_title: str
) -> None:
    """Draw points on logarithmic axes, the first group small, the others large.

    Args:
        figure: an empty figure.
        points: x and y [n] of each group, by its name.
        x_title: title of the horizontal axis.
        y_title: title of the vertical axis.
    """
    figure.set_size_inches(5.0, 4.2)
    axes = figure.add_subplot()
    drawn = {}
    for index, (name, (x, y)) in enumerate(points.items()):
        color, size, alpha = (_SECOND, 36, 1.0) if index else (_ACCENT, 10, 0.45)
        marker = '+' if index else 'o'
        drawn[name] = axes.scatter(
            x, y, s=size, c=color, marker=marker, alpha=alpha, rasterized=index == 0
        )
    axes.set_xscale('log', base=2)
    axes.set_yscale('log', base=2)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter('{x:g}')
        axis.set_minor_formatter('')  # its default writes formulas, which figures do not parse
    axes.set(xlabel=x_title, ylabel=y_title)
    axes.grid(alpha=0.25)
    figures.add_legend(axes, drawn, frameon=False, fontsize=9)


def density(figure: Canvas, x: np.ndarray, y: np.ndarray, x_title: str, y_title: str) -> None:
    """Draw the density of points in the unit square; y points down, as in images.

    Args:
        figure: an empty figure.
        x: [n].
        y: [n].
        x_title: title of the horizontal axis.
        y_title: title of the vertical axis.
    """
    figure.set_size_inches(4.6, 4.2)
    counts, _, _ = np.histogram2d(y, x, bins=32, range=((0, 1), (0, 1)))
    axes = figure.add_subplot()
    axes.imshow(counts, cmap=_shades(), extent=(0, 1, 1, 0), interpolation='none')
    axes.set(xlabel=x_title, ylabel=y_title)


def histograms(
    figure: Canvas,
    values: Mapping[str, np.ndarray],
    title: str,
    bins: int = 30,
    limits: Optional[Tuple[float, float]] = None,
    line: Optional[float] = None,
) -> None:
    """Draw histograms side by side.

    Args:
        figure: an empty figure.
        values: numbers [n] by the title of their horizontal axis.
        title: title of the vertical axes.
        bins: number of bars of each.
        limits: least and most number; None: those of the values.
        line: number to mark; None: none.
    """
    figure.set_size_inches(4.2 * max(len(values), 1), 3.2)
    for index, (name, numbers) in enumerate(values.items(), 1):
        axes = figure.add_subplot(1, len(values), index)
        axes.hist(np.asarray(numbers), bins=bins, range=limits, color=_ACCENT)
        if line is not None:
            axes.axvline(line, color=_SECOND, linewidth=1.4, linestyle='--')
        axes.set(xlabel=name, ylabel=title if index == 1 else '')


def reliability(
    figure: Canvas, confidences: np.ndarray, accuracies: np.ndarray, counts: np.ndarray
) -> None:
    """Draw a reliability diagram: accuracy over confidence, in equal bins from 0 to 1.

    Args:
        figure: an empty figure.
        confidences: [bins], mean confidence of the predictions in each bin.
        accuracies: [bins], fraction of them that is right.
        counts: [bins], number of predictions; empty bins are not drawn.
    """
    figure.set_size_inches(5.0, 5.4)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    width, known = 1.0 / len(counts), np.asarray(counts) > 0
    centers = (np.arange(len(counts)) + 0.5) * width
    upper.plot([0, 1], [0, 1], '--', color='#888', linewidth=1, label='perfectly calibrated')
    upper.bar(centers[known], np.asarray(accuracies)[known], width * 0.92, color=_ACCENT)
    upper.plot(np.asarray(confidences)[known], np.asarray(accuracies)[known], 'o-', color=_SECOND)
    upper.set(ylabel='accuracy', xlim=(0, 1), ylim=(0, 1))
    upper.legend(frameon=False, fontsize=9)
    lower.bar(centers, counts, width * 0.92, color='#888')
    lower.set(xlabel='confidence', ylabel='examples')


_ACCENT = '#3b6fd4'
_SECOND = '#e4572e'


def _shades() -> Any:
    """Create the colors of a matrix: the accent, transparent at 0, for light and dark pages."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list('shades', [_ACCENT + '00', _ACCENT + 'ff'])


def _short(value: float) -> str:
    """Format a number for a bar: three digits, or all of a large number."""
    return f'{value:,.0f}' if abs(value) >= 1000 else f'{value:.3g}'
