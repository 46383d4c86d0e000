"""Parts of an analysis: tables, figures, sections, and errors of examples."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Callable, Optional, Sequence, Union

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

Cell = Union[str, float, int, None]


@dataclasses.dataclass(frozen=True)
class Table:
    """Table of the report, which is also written as CSV.

    Attributes:
        name: name of the CSV file, without its ending: `classes`.
        title: title in the report.
        columns: names of the columns.
        rows: a cell for each column: text, a number, or None where there is no value.
        note: explanation of the columns; '' for none.
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ''


@dataclasses.dataclass(frozen=True)
class Figure:
    """Figure of the report, which is also written as PNG.

    Attributes:
        name: name of the PNG file, without its ending: `confusion_matrix`.
        title: title in the report, and its text where pictures are not shown.
        draw: fills an empty `matplotlib.figure.Figure`; called once for each file, with the
            functions of `plots`. It sets the size of the figure, where the default does not fit.
        note: explanation of the figure; '' for none.
    """

    name: str
    title: str
    draw: Callable[[Canvas], None]
    note: str = ''


@dataclasses.dataclass(frozen=True)
class Tile:
    """One important number, in large letters.

    Attributes:
        title: what the number is.
        value: the number, formatted: `71.3 %`.
        hint: a few words below it; '' for none.
    """

    title: str
    value: str
    hint: str = ''


Part = Union[Table, Figure]


@dataclasses.dataclass(frozen=True)
class Section:
    """Section of the report.

    Attributes:
        title: heading.
        parts: tables and figures, in order.
        text: what the section shows, a short paragraph; '' for none.
        tiles: important numbers, above the parts.
    """

    title: str
    parts: Sequence[Part]
    text: str = ''
    tiles: Sequence[Tile] = ()


@dataclasses.dataclass(frozen=True)
class ExampleError:
    """One error in one example: a line of `errors.csv`.

    Attributes:
        kind: the type of the error, in the words of the report: `missed`.
        class_name: the predicted class; for an object that was not found, its own class.
        score: score of the prediction; None for an object that was not found.
        overlap: intersection over union with the groundtruth; None where it has no meaning.
        note: what was expected: the class of the groundtruth; '' where the kind says all.
    """

    kind: str
    class_name: str
    score: Optional[float] = None
    overlap: Optional[float] = None
    note: str = ''


@dataclasses.dataclass(frozen=True)
class Finding:
    """Result of the analysis of one example.

    Attributes:
        badness: the worst examples of the report have the highest numbers; 0: no error.
        errors: its errors. Those that depend on all examples (by a score threshold that is chosen
            at the end) are left to `Analyzer.late_errors`.
    """

    badness: float
    errors: Sequence[ExampleError] = ()
