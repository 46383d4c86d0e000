"""`--from=csv`: a table of labels or of boxes, with a line for each.

The first line names the columns, in any order and case. A table of labels has `filename` and
`class`, and several lines for an image of several classes. One of boxes has `xmin`, `ymin`, `xmax`,
`ymax` in pixels too; a line whose box and class are empty is an image without objects.
"""

from __future__ import annotations

import argparse
import csv
import os
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from model_fns.datasets import records, sources
from model_fns.datasets.files import folder_files
from model_fns.datasets.sources import Item, Source
from model_fns.structures import images
from model_fns.structures.label_map import LabelMap

_SIDES = ('ymin', 'xmin', 'ymax', 'xmax')
# Names of a column, the first of them in messages.
_IMAGE = ('filename', 'file', 'image', 'path', 'image_path')
_CLASS = ('class', 'label', 'name', 'class_name')
_SIZE = ('height', 'width')


class _Row(NamedTuple):
    """Line of a table.

    Attributes:
        number: of the line, from 1.
        values: by the names of the columns, which are lowercase.
    """

    number: int
    values: Dict[str, str]


class CsvTable(Source):
    """Images in one folder, a table for all of them.

    Images without a line are left out.

    Args:
        image_folder: that the names in the table are relative to.
        annotations: path of the table.
    """

    def __init__(self, image_folder: str, annotations: str):
        self._image_folder = image_folder
        self._annotations = annotations
        self._has_boxes = False
        self._image_column = self._class_column = ''
        self._notes: List[str] = []

    def items(self) -> List[Item]:
        """Return the images of the table, in its order; an item's annotation is its rows."""
        rows: Dict[str, List[_Row]] = {}
        for row in self._rows():
            name = row.values[self._image_column].replace('\\', '/')
            if os.path.isabs(name) or '..' in name.split('/') or not sources.is_text(name):
                raise errors.DataError(
                    f'{self._annotations}, line {row.number}: {name!r:.200} is not a path in '
                    '--images.'
                )
            rows.setdefault(name, []).append(row)
        names = [n for n in folder_files.list_names(self._image_folder) if folder_files.is_image(n)]
        alone = [name for name in names if name not in rows]
        self._notes = []
        if alone:
            self._notes = [
                f'left out: {len(alone)} images have no line in {self._annotations}: '
                f'{errors.shortened(alone)}.'
            ]
        return [
            Item(
                os.path.splitext(os.path.basename(name))[0],
                os.path.join(self._image_folder, name),
                name,
                own,
            )
            for name, own in rows.items()
        ]

    def class_names(self, items: Sequence[Item]) -> List[str]:
        """Return the class names of the items, sorted."""
        names = {row.values[self._class_column] for item in items for row in _rows_of(item)}
        return sorted(name for name in names if sources.is_text(name))

    def notes(self) -> Sequence[str]:
        """Return a line on the images that the table does not have."""
        return self._notes

    def stratum(self, item: Item) -> str:
        """Return the class of an image of a table of labels."""
        return '' if self._has_boxes else _rows_of(item)[0].values[self._class_column]

    def features(
        self, item: Item, header: images.ImageHeader, classes: LabelMap, report: sources.Report
    ) -> records.Features:
        """Return the record features of the image's class, or of its objects."""
        rows = _rows_of(item)
        if not self._has_boxes:
            return self._label(rows, classes)
        boxes, ids, names = [], [], []
        for row in rows:
            if not any(row.values[column] for column in (*_SIDES, self._class_column)):
                continue
            try:
                sources.check_size(header, *(_size(row, side) for side in _SIZE))
                box = report.fit([_number(row, side) for side in _SIDES], header)
                ids.append(self._class_id(row, classes))
            except sources.SizeError:
                raise
            except errors.DataError as problem:
                report.leave_out(f'{self._annotations}, line {row.number}', problem)
                continue
            boxes.append(box)
            names.append(row.values[self._class_column])
        return sources.box_features(boxes, ids, names, header)

    def _label(self, rows: Sequence[_Row], classes: LabelMap) -> records.Features:
        names = list(dict.fromkeys(row.values[self._class_column] for row in rows))
        names = [name for name in names if name]
        ids = [sources.class_id(classes, name) for name in names]
        return {'image/class/label': np.array(ids, np.int64), 'image/class/text': names}

    def _class_id(self, row: _Row, classes: LabelMap) -> int:
        name = row.values[self._class_column]
        if not name:
            raise errors.DataError(f'the {self._class_column} is empty; expected the class.')
        return sources.class_id(classes, name)

    def _rows(self) -> List[_Row]:
        """Read the table."""
        if not tf.io.gfile.exists(self._annotations):
            raise errors.DataError(f'--annotations: there is no file {self._annotations}.')
        lines = folder_files.read_text(self._annotations).splitlines()
        delimiter = ';' if lines and lines[0].count(';') > lines[0].count(',') else ','
        rows: List[_Row] = []
        columns: List[str] = []
        reader = csv.reader(lines, delimiter=delimiter)
        try:
            for cells in reader:
                if not any(cell.strip() for cell in cells):
                    continue
                if not columns:
                    columns = self._find_columns([cell.strip().lower() for cell in cells])
                elif len(cells) != len(columns):
                    raise errors.DataError(
                        f'{self._annotations}, line {reader.line_num}: {len(cells)} cells; '
                        f'expected {len(columns)}, one for each column.'
                    )
                else:
                    values = dict(zip(columns, (cell.strip() for cell in cells)))
                    rows.append(_Row(reader.line_num, values))
        except csv.Error as error:
            raise errors.DataError(
                f'{self._annotations}, line {reader.line_num}: {error}.'
            ) from None
        if not rows:
            raise errors.DataError(f'{self._annotations} has no lines below the column names.')
        return rows

    def _find_columns(self, columns: List[str]) -> List[str]:
        """Check the names of the columns, and remember which are which."""
        image = next((name for name in _IMAGE if name in columns), '')
        label = next((name for name in _CLASS if name in columns), '')
        sides = [side for side in _SIDES if side in columns]
        if not image or not label or len(sides) not in (0, len(_SIDES)):
            raise errors.DataError(
                f'{self._annotations} has the columns {errors.shortened(columns, 8)!r:.200}; '
                f'expected {_IMAGE[0]} and {_CLASS[0]}, and for boxes xmin, ymin, xmax and ymax.'
            )
        if len(set(columns)) < len(columns):
            raise errors.DataError(f'{self._annotations} has two columns of the same name.')
        self._image_column, self._class_column = image, label
        self._has_boxes = bool(sides)
        return columns


def _rows_of(item: Item) -> List[_Row]:
    rows: Any = item.annotation
    return rows


def _number(row: _Row, column: str) -> float:
    try:
        return float(row.values[column])  # `Report.fit` refuses what is not finite
    except ValueError:
        raise errors.DataError(
            f'{column} is {row.values[column]!r:.40}; expected a number of pixels.'
        ) from None


def _size(row: _Row, side: str) -> Optional[int]:
    if not row.values.get(side):
        return None
    value = sources.number(_number(row, side))
    if value is None or value % 1:
        raise errors.DataError(f'{side} is {row.values[side]!r:.40}; expected a number of pixels.')
    return int(value)


@sources.SOURCES.register('csv')
def _from_arguments(arguments: argparse.Namespace) -> Source:
    annotations = sources.require_annotations(arguments, 'FILE, the table')
    return CsvTable(arguments.images, annotations)
