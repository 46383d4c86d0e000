"""Parts of analyses about classes: their confusion, and their frequency in the data."""

from __future__ import annotations

import collections
import re
from typing import Counter, Dict, List, Mapping, Sequence, Tuple

import numpy as np

from estimator_lib.analysis import plots
from estimator_lib.analysis.parts import Cell, Figure, Section, Table
from model_fns.class_report import Counts
from model_fns.structures.confusion import Confusion

_MOST_DRAWN = 39  # classes of a confusion matrix; with one for all others, names are legible
_MOST_WEAK = 3  # classes of a suggestion
_LEAST_MEAN = 0.1  # below it, no class is learned yet
_OF_CLASS = re.compile(r'(.+)_class_([0-9]+)')
_MOST_LISTED = 200  # pairs of classes in the table of errors


def confusion_section(confusion: Confusion, names: Sequence[str], unit: str) -> Section:
    """Return the confusion matrix, as counts and normalized, and a table of its largest errors.

    Args:
        confusion: of an evaluation.
        names: names of the classes.
        unit: of the counts: `images`, `pixels`.
    """
    classes = confusion.most_confused(_MOST_DRAWN)
    counts, shown = confusion.matrix(classes), [names[index] for index in classes]
    if len(shown) < len(names):
        shown.append(f'{len(names) - len(shown)} other classes')
    scale, scaled_unit = _scale(counts, unit)
    return Section(
        'Confusion matrix',
        [
            Figure(
                'confusion_matrix',
                f'Confusion matrix ({scaled_unit})',
                lambda figure: plots.confusion_matrix(figure, np.round(counts / scale, 1), shown),
            ),
            Figure(
                'confusion_matrix_normalized',
                'Confusion matrix (normalized)',
                lambda figure: plots.confusion_matrix(figure, counts, shown, normalized=True),
                'Each row is divided by its sum, so the diagonal has the recall of each class.',
            ),
            _error_table(confusion, names, unit),
        ],
        f'A row has the {unit} of one class, a column those that are predicted as one class. '
        'Errors are outside of the diagonal.',
    )


def known(value: float) -> Cell:
    """Return a number as a cell of a table: None for NaN."""
    return None if np.isnan(value) else float(value)


def worst_first(values: np.ndarray, names: Sequence[str]) -> Mapping[str, float]:
    """Return the values [n] that are not NaN by name, in ascending order, for `plots.bars`."""
    # Stable, so that equal values keep the order of the classes on each machine.
    order = np.argsort(values, kind='stable')
    return {names[index]: float(values[index]) for index in order if not np.isnan(values[index])}


def class_figures(
    readers: Mapping[str, Sequence[Counts]], names: Mapping[int, str], unit: str
) -> List[Figure]:
    """Return the frequency of the classes of each reader, the most frequent first.

    Args:
        readers: counts of each record, by reader, as in `class_report.class_report`.
        names: names of the classes.
        unit: of the counts: `objects`, `pixels`, `images`.
    """
    figures = []
    for number, (reader, records) in enumerate(readers.items()):
        totals: Counter[int] = collections.Counter(dict.fromkeys(names, 0))
        for counts in records:
            totals.update({index: count for index, count in counts.items() if index in names})
        if records:
            values = {names[class_id]: float(count) for class_id, count in totals.most_common()}
            figures.append(_class_figure(f'classes_{number}', reader, values, unit))
    return figures


def _class_figure(name: str, reader: str, values: Mapping[str, float], unit: str) -> Figure:
    return Figure(
        name, f'{reader}: {unit} of each class', lambda figure: plots.bars(figure, values, unit)
    )


def _scale(counts: np.ndarray, unit: str) -> Tuple[int, str]:
    """Return a divisor that leaves few digits, and the unit of the result."""
    for scale, word in ((10**6, 'millions'), (10**3, 'thousands')):
        if counts.max(initial=0) >= 10 * scale:
            return scale, f'{word} of {unit}'
    return 1, unit


def _error_table(confusion: Confusion, names: Sequence[str], unit: str) -> Table:
    labeled = confusion.labeled
    return Table(
        'confusions',
        'Most frequent errors',
        ('groundtruth', 'prediction', unit, 'fraction of the groundtruth'),
        [
            (names[label], names[prediction], count, count / int(labeled[label]))
            for label, prediction, count in confusion.largest_errors(_MOST_LISTED)
        ],
    )


def values_by_class(metrics: Mapping[str, float], names: Sequence[str]) -> Dict[str, float]:
    """Return the values of the first metric of classes, by class.

    Args:
        metrics: by name; those of classes end with `_class_` and an index.
        names: names of the classes by index.
    """
    matches = {name: _OF_CLASS.fullmatch(name) for name in sorted(metrics)}
    measured = [match for match in matches.values() if match and int(match[2]) < len(names)]
    first = [match for match in measured if match[1] == measured[0][1]]
    return {names[int(match[2])]: metrics[match[0]] for match in first}


def advise_on_classes(by_class: Mapping[str, float]) -> List[str]:
    """Return a suggestion about classes with less than half of the mean.

    With cat 0.9, dog 0.8 and fox 0.1 the mean is 0.6, and fox is below 0.3.

    Args:
        by_class: a metric from 0 to 1 by class. NaN and negative values are classes without
            examples.
    """
    known = {name: value for name, value in by_class.items() if value >= 0}
    mean = sum(known.values()) / max(1, len(known))
    weak = sorted((value, name) for name, value in known.items() if value < mean / 2)
    if mean < _LEAST_MEAN or not weak:
        return []
    listed = ', '.join(f'{name} ({value:.2f})' for value, name in weak[:_MOST_WEAK])
    further = f' and {len(weak) - _MOST_WEAK} others' if len(weak) > _MOST_WEAK else ''
    return [f'more images of class {listed}{further}: the mean of the classes is {mean:.2f}']
