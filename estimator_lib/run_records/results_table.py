"""The table in `results.csv`: one line for each evaluated step, sorted by step."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from typing import Iterable, List, Mapping, Tuple

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.checkpoints import checkpoint_files

STEP, TIME, EPOCH = 'step', 'time', 'epoch'
MEMORY = 'memory_mib'  # resident memory of the process, in MiB
EXAMPLES_PER_SECOND, LEARNING_RATE = 'examples_per_second', 'learning_rate'
# Starts of the names of other columns: of training, and of an evaluation set with its name.
TRAIN, EVAL = 'train/', 'eval_'
LOSS = 'loss'  # the total loss, after these starts
_MOST_DIGITS = 18  # of a step, an int64
_LEADING = (STEP, TIME, EXAMPLES_PER_SECOND, LEARNING_RATE)

Row = Mapping[str, str]
Curve = Tuple[List[int], List[float]]  # steps and values


@dataclasses.dataclass(frozen=True)
class Table:
    """Table of evaluations.

    Attributes:
        columns: the names of the columns, in order.
        rows: the cells of each step by column. An empty or missing cell has no value.
    """

    columns: Tuple[str, ...] = _LEADING
    rows: Mapping[int, Row] = dataclasses.field(default_factory=dict)

    def with_row(self, row: Row) -> Table:
        """Return a table with one more line, in place of the line of the same step."""
        names = dict.fromkeys((*self.columns, *row))
        of_training = sorted(name for name in names if name.startswith(TRAIN))
        columns = dict.fromkeys((*_LEADING, *of_training, *names))
        return Table(tuple(columns), {**self.rows, int(row[STEP]): row})

    def cut_after(self, step: int) -> Table:
        """Return the table without the lines of later steps."""
        return Table(self.columns, {each: self.rows[each] for each in self.rows if each <= step})

    def last_step_before(self, step: int) -> int:
        """Return the last evaluated step before a step; 0 if there is none."""
        return max((each for each in self.rows if each < step), default=0)

    def curve(self, column: str) -> Curve:
        """Return the steps at which a column has a finite number, and the numbers."""
        numbers = {step: _number(row.get(column, '')) for step, row in sorted(self.rows.items())}
        finite = {step: number for step, number in numbers.items() if math.isfinite(number)}
        return list(finite), list(finite.values())


def format_cell(value: float) -> str:
    """Format a number so that Python reads the same one: `0.25`, `nan`, `inf`."""
    return repr(float(value))


def read(path: str) -> Table:
    """Read a table; it is empty if there is no file.

    Raises:
        errors.DataError: the file is not such a table.
    """
    try:
        with tf.io.gfile.GFile(path, 'rb') as file:
            # Spreadsheets write a byte order mark.
            text = file.read().decode('utf-8-sig')
        # `newline=''` keeps line breaks within cells; `strict` makes a damaged quote an error and
        # not a cell.
        reader = csv.reader(io.StringIO(text, newline=''), strict=True)
        lines = [(reader.line_num, cells) for cells in reader if cells]
    except tf.errors.NotFoundError:
        return Table()
    except (UnicodeDecodeError, csv.Error, tf.errors.FailedPreconditionError) as error:
        raise errors.DataError(f'{path} is not a CSV file: {errors.first_line(error)}.') from None
    if not lines:
        return Table()
    _, columns = lines[0]
    if STEP not in columns or len(set(columns)) < len(columns):
        raise errors.DataError(
            f'{path}, line 1: the columns are {errors.shortened(columns, 5)}; expected different '
            f'names, one of them {STEP!r}.'
        )
    return Table(tuple(columns), dict(_rows(path, columns, lines[1:])))


def _rows(
    path: str, columns: List[str], lines: Iterable[Tuple[int, List[str]]]
) -> Iterable[Tuple[int, Row]]:
    for number, cells in lines:
        if len(cells) != len(columns):
            raise errors.DataError(
                f'{path}, line {number}: it has {len(cells)} cells; expected {len(columns)}.'
            )
        row = dict(zip(columns, cells))
        if not row[STEP].isdecimal() or len(row[STEP]) > _MOST_DIGITS:
            raise errors.DataError(
                f'{path}, line {number}: the step is {row[STEP]!r:.40}; expected an integer.'
            )
        yield int(row[STEP]), row


def write(path: str, table: Table) -> None:
    """Write a table; a reader sees the old file or the new one, complete."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator='\n')
    writer.writerow(table.columns)
    for _, row in sorted(table.rows.items()):
        writer.writerow([row.get(column, '') for column in table.columns])
    checkpoint_files.write_atomically(path, text.getvalue())


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan
