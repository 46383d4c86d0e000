"""`--from=csv`: a table of labels or of boxes, with a line for each.

The first line names the columns, in any order and case. A table of labels has `filename` and
`class`, and several lines for an image of several classes; or `filename` and a column of 0 and 1
for each class. One of boxes has the columns of `box_columns` too; a line whose box and class are
empty is an image without objects.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from model_fns.datasets import records, sources
from model_fns.datasets.annotations import box_columns
from model_fns.datasets.files import folder_files, named_images
from model_fns.datasets.sources import Item, Source
from model_fns.structures import images
from model_fns.structures.label_map import LabelMap

# Names of a column in lowercase without `_` and blanks, the first of them in messages.
_IMAGE = (
    'filename',
    'file',
    'image',
    'path',
    'imagepath',
    'filepath',
    'imagename',
    'imagefile',
    'imageid',
    'img',
    'imgpath',
    'imgname',
    'imgid',
)
_CLASS = ('class', 'label', 'name', 'classname', 'labelname', 'category', 'categoryname')
_FLAGS = {'0': False, '0.0': False, '1': True, '1.0': True}
_DELIMITERS = ',;\t'


class _Row(NamedTuple):
    """Line of a table.

    Attributes:
        number: of the line, from 1; of the first one where a cell has line breaks.
        values: cells by the names of their columns.
    """

    number: int
    values: Dict[str, str]


class _Layout(NamedTuple):
    """Meanings of the columns of a table.

    Attributes:
        image: column of the image's name.
        label: column of the class; '' where each class has a column.
        flags: a column of 0 and 1 for each class.
        boxes: columns of a box; None in a table of labels.
        unread: columns that mean nothing here.
    """

    image: str
    label: str
    flags: Sequence[str]
    boxes: Optional[box_columns.BoxColumns]
    unread: Sequence[str]

    def labels(self, row: _Row) -> List[str]:
        """Return the classes of a line, without empty ones."""
        if self.label:
            return [row.values[self.label]] if row.values[self.label] else []
        return [name for name in self.flags if _FLAGS[row.values[name]]]


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
        self._layout = _Layout('', '', (), None, ())
        self._notes: List[str] = []

    def items(self) -> List[Item]:
        """Return the images of the table, in its order; an item's annotation is its rows.

        Raises:
            errors.DataError: a row names an image that is not in the folder.
        """
        table = self._rows()
        column = self._layout.image
        names = [row.values[column] for row in table if sources.is_text(row.values[column])]
        located = named_images.locate(self._image_folder, dict.fromkeys(names))
        rows: Dict[str, List[_Row]] = {}
        for row in table:
            path = located.paths.get(row.values[column])
            if path is None:
                raise errors.DataError(
                    f'{self._annotations}, line {row.number}: {row.values[column]!r:.200} is not a '
                    'path in --images.'
                )
            rows.setdefault(path, []).append(row)
        self._notes = [*self._unread(), *located.notes, *self._without_line(rows)]
        return [
            Item(
                os.path.splitext(os.path.basename(path))[0],
                path,
                own[0].values[column].replace('\\', '/'),
                own,
            )
            for path, own in rows.items()
        ]

    def _without_line(self, paths: Dict[str, List[_Row]]) -> List[str]:
        """Return a line on the images that the table does not have."""
        listed = sources.list_images(self._image_folder)
        alone = [os.path.basename(path) for path in listed if path not in paths]
        return sources.note_left_out(alone, 'line', self._annotations)

    def _unread(self) -> List[str]:
        """Return a line on the columns that mean nothing."""
        unread = self._layout.unread
        if not unread:
            return []
        return [f'{self._annotations}: the columns {errors.shortened(unread)} are not read.']

    def class_names(self, items: Sequence[Item]) -> List[str]:
        """Return the class names of the items, sorted; or those of the columns."""
        if self._layout.flags:
            return list(self._layout.flags)
        names = {name for item in items for row in _rows_of(item) for name in self._labels(row)}
        return sorted(name for name in names if sources.is_text(name))

    def _labels(self, row: _Row) -> List[str]:
        return self._layout.labels(row)

    def notes(self) -> Sequence[str]:
        """Return lines on columns, on images found by base names and on those without a line."""
        return self._notes

    def stratum(self, item: Item) -> str:
        """Return the class of an image of a table of labels."""
        return '' if self._layout.boxes else ''.join(self._labels(_rows_of(item)[0])[:1])

    def features(
        self, item: Item, header: images.ImageHeader, classes: LabelMap, report: sources.Report
    ) -> records.Features:
        """Return the record features of the image's class, or of its objects."""
        rows, columns = _rows_of(item), self._layout.boxes
        if columns is None:
            return self._label(rows, classes)
        boxes, ids, names = [], [], []
        for row in rows:
            if columns.is_empty(row.values) and not self._labels(row):
                continue
            place = f'{self._annotations}, line {row.number}'
            try:
                sources.check_size(header, *columns.image_size(row.values))
                sides = columns.box(row.values)
                report.observe_box(place, sides, name=row.values[self._layout.label])
                box = report.fit(sides, header)
                ids.append(self._class_id(row, classes))
            except sources.SizeError:
                raise
            except errors.DataError as problem:
                report.leave_out(place, problem)
                continue
            boxes.append(box)
            names.append(row.values[self._layout.label])
        return sources.box_features(boxes, ids, names, header)

    def _label(self, rows: Sequence[_Row], classes: LabelMap) -> records.Features:
        names = list(dict.fromkeys(name for row in rows for name in self._labels(row)))
        ids = [sources.class_id(classes, name) for name in names]
        return {'image/class/label': np.array(ids, np.int64), 'image/class/text': names}

    def _class_id(self, row: _Row, classes: LabelMap) -> int:
        name = row.values[self._layout.label]
        if not name:
            raise errors.DataError(f'the {self._layout.label} is empty; expected the class.')
        return sources.class_id(classes, name)

    def _rows(self) -> List[_Row]:
        """Read the table, and remember the meanings of its columns."""
        if not tf.io.gfile.exists(self._annotations):
            raise folder_files.missing('--annotations', 'file', self._annotations)
        columns: List[str] = []
        rows: List[_Row] = []
        for number, cells in self._lines():
            if not columns:
                columns = cells
            elif len(cells) != len(columns):
                raise errors.DataError(
                    f'{self._annotations}, line {number}: {len(cells)} cells; expected '
                    f'{len(columns)}, one for each column.'
                )
            else:
                rows.append(_Row(number, dict(zip(columns, cells))))
        if len(set(map(box_columns.column_key, columns))) < len(columns):
            raise errors.DataError(f'{self._annotations} has two columns of the same name.')
        if columns:
            self._layout = self._find_layout(columns, rows)
        if not rows:
            raise errors.DataError(f'{self._annotations} has no lines below the column names.')
        self._refuse_line_breaks(rows)
        return rows

    def _lines(self) -> Iterator[Tuple[int, List[str]]]:
        """Yield the numbers and cells of the lines that are not empty.

        Raises:
            errors.DataError: a quote is not closed or something follows it, or a cell is too long.
        """
        text = folder_files.read_text(self._annotations)
        # Not csv.Sniffer, which takes letters for delimiters in short tables.
        delimiter = max(_DELIMITERS, key=text.partition('\n')[0].count)
        # Strict: else a stray quote takes the lines up to the next one into its cell.
        reader = csv.reader(
            io.StringIO(text, newline=''), delimiter=delimiter, strict=True, skipinitialspace=True
        )
        number = 1
        try:
            for cells in reader:
                if any(cell.strip() for cell in cells):
                    yield number, [cell.strip() for cell in cells]
                number = reader.line_num + 1
        except csv.Error as error:
            reason = str(error)
            if reader.line_num > number or 'end of data' in reason:
                reason = 'a quote is not closed'
            elif 'expected after' in reason:
                reason = 'text follows a closed quote; a quote in a cell is written twice'
            raise errors.DataError(f'{self._annotations}, line {number}: {reason}.') from None

    def _find_layout(self, columns: List[str], rows: Sequence[_Row]) -> _Layout:
        """Find the meanings of the columns.

        Raises:
            errors.DataError: there is no image or class, or the columns of a box are incomplete.
        """
        keys = {box_columns.column_key(column): column for column in columns}
        image = next((keys[name] for name in _IMAGE if name in keys), '')
        label = next((keys[name] for name in _CLASS if name in keys and keys[name] != image), '')
        try:
            boxes = box_columns.find([name for name in columns if name not in (image, label)])
        except errors.DataError as error:
            raise errors.DataError(f'{self._annotations}: {error}') from None
        others = [name for name in columns if name != image]
        flags: List[str] = []
        if image and not label and not boxes and _are_flags(others, rows):
            flags = others
        if not image or not (label or flags):
            raise errors.DataError(
                f'{self._annotations} has the columns {errors.shortened(columns, 8)!r:.200}; '
                f'expected {_IMAGE[0]} and {_CLASS[0]}, or a column of 0 and 1 for each class; and '
                f'for boxes {box_columns.EXPECTED}.'
            )
        read = {image, label, *flags, *((*boxes.names, *boxes.sizes) if boxes else ())}
        return _Layout(image, label, flags, boxes, [name for name in columns if name not in read])

    def _refuse_line_breaks(self, rows: Sequence[_Row]) -> None:
        """Refuse line breaks in names of images and classes.

        Raises:
            errors.DataError: there is one.
        """
        for column in filter(None, (self._layout.image, self._layout.label)):
            for row in rows:
                if '\n' in row.values[column] or '\r' in row.values[column]:
                    raise errors.DataError(
                        f'{self._annotations}, line {row.number}: the {column} has a line break; a '
                        'quote is not closed, it seems.'
                    )


def _are_flags(columns: Sequence[str], rows: Sequence[_Row]) -> bool:
    """Return whether all cells of columns are 0 or 1."""
    return bool(columns and rows) and all(
        row.values[name] in _FLAGS for row in rows for name in columns
    )


def _rows_of(item: Item) -> List[_Row]:
    rows: Any = item.annotation
    return rows


@sources.SOURCES.register('csv')
def _from_arguments(arguments: argparse.Namespace) -> Source:
    annotations = sources.require_annotations(arguments, 'FILE, the table')
    return CsvTable(arguments.images, annotations)
