"""Boxes in the columns of a table, by the usual names of the columns."""

from __future__ import annotations

import re
from typing import Callable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from estimator_lib import errors
from model_fns.datasets import sources

# Names of the four columns, in this order; without `_`, blanks and a `bbox` before them.
_CORNERS = (
    ('ymin', 'xmin', 'ymax', 'xmax'),
    ('miny', 'minx', 'maxy', 'maxx'),
    ('y1', 'x1', 'y2', 'x2'),
    ('y0', 'x0', 'y1', 'x1'),
    ('top', 'left', 'bottom', 'right'),
    ('ytl', 'xtl', 'ybr', 'xbr'),
)
_SIZES = (
    ('y', 'x', 'height', 'width'),
    ('y', 'x', 'h', 'w'),
    ('top', 'left', 'height', 'width'),
    ('ymin', 'xmin', 'height', 'width'),
    ('ymin', 'xmin', 'h', 'w'),
)
_CENTERS = tuple(
    (y, x, height, width)
    for y, x in (('cy', 'cx'), ('yc', 'xc'), ('ycenter', 'xcenter'), ('centery', 'centerx'))
    for height, width in (('h', 'w'), ('height', 'width'))
)
_TOGETHER = ('bbox', 'box', 'boundingbox', 'bndbox')
_BEFORE = re.compile(r'^(bbox|box|boundingbox|bndbox|rect)(?=.)')
_IMAGE_SIZE = (
    ('height', 'width'),
    ('imageheight', 'imagewidth'),
    ('imgheight', 'imgwidth'),
    ('imgh', 'imgw'),
)
# With one of these columns, `width` and `height` are not those of the box.
_FAR_CORNER = {key for keys in _CORNERS for key in keys[2:]}
_NUMBER = re.compile(r'[^\s,;\[\](){}]+')

EXPECTED = (
    'xmin, ymin, xmax and ymax; x1, y1, x2 and y2; left, top, right and bottom; x, y, width and '
    'height; or bbox, which is x, y, width and height'
)

Sides = List[float]


class BoxColumns(NamedTuple):
    """The columns of a table that have a box, all in pixels.

    Attributes:
        names: of the columns: one, or four.
        sizes: of the columns of the image's height and width; empty without.
        to_box: converts the four numbers to ymin, xmin, ymax, xmax.
    """

    names: Sequence[str]
    sizes: Sequence[str]
    to_box: Callable[[Sides], Sides]

    def is_empty(self, values: Mapping[str, str]) -> bool:
        """Return whether a line has no box.

        Args:
            values: cells of the line by the names of the columns.
        """
        return not any(values[name] for name in self.names)

    def box(self, values: Mapping[str, str]) -> Sides:
        """Return ymin, xmin, ymax, xmax of a line, in pixels.

        Args:
            values: cells of the line by the names of the columns.

        Raises:
            errors.DataError: a cell is no number, or there are not four.
        """
        if len(self.names) > 1:
            return self.to_box([read_number(name, values[name]) for name in self.names])
        (name,) = self.names
        texts = _NUMBER.findall(values[name])
        if len(texts) != 4:
            raise errors.DataError(
                f'{name} is {values[name]!r:.80}; expected four numbers: x, y, width, height.'
            )
        x, y, width, height = (read_number(name, text) for text in texts)
        return self.to_box([y, x, height, width])

    def image_size(self, values: Mapping[str, str]) -> Tuple[Optional[int], Optional[int]]:
        """Return height and width of the image of a line; None where the table has none.

        Args:
            values: cells of the line by the names of the columns.

        Raises:
            errors.DataError: a cell is no whole number.
        """
        height, width = (_whole(name, values.get(name, '')) for name in self.sizes or ('', ''))
        return height, width


def _from_size(sides: Sides) -> Sides:
    top, left, height, width = sides
    return [top, left, top + height, left + width]


def _from_center(sides: Sides) -> Sides:
    y, x, height, width = sides
    return [y - height / 2, x - width / 2, y + height / 2, x + width / 2]


_KINDS: Sequence[Tuple[Sequence[Sequence[str]], Callable[[Sides], Sides]]] = (
    (_CORNERS, list),
    ([(name,) for name in _TOGETHER], _from_size),
    (_CENTERS, _from_center),
    (_SIZES, _from_size),
)
# Columns that only a box has; its size may be that of the image.
_PARTS = {key for spellings, _ in _KINDS for keys in spellings for key in keys} - {
    'height',
    'width',
    'h',
    'w',
}


def find(columns: Sequence[str]) -> Optional[BoxColumns]:
    """Find the columns of a box; None where a table has none.

    `width` and `height` are of the box where a table has the box's corner or center beside them,
    and nothing else of the box. Else they are of the image.

    Args:
        columns: of a table.

    Raises:
        errors.DataError: there are columns of a box, and not all of them.
    """
    # Reversed, so that the first of two columns with one key counts.
    plain = {column_key(column): column for column in reversed(columns)}
    of_box = {_BEFORE.sub('', key): column for key, column in plain.items() if _BEFORE.match(key)}
    # Columns with `bbox` in their names first: plain width and height are then of the image.
    for by_key in (of_box, plain):
        is_corner = any(key in by_key for key in _FAR_CORNER)
        kinds = _KINDS[:1] if is_corner else _KINDS
        for spellings, to_box in kinds:
            for keys in spellings:
                if all(key in by_key for key in keys) and not _is_quadrilateral(by_key):
                    names = [by_key[key] for key in keys]
                    return BoxColumns(names, _size_columns(plain, names), to_box)
    parts = [plain[key] for key in reversed(plain) if {key, _BEFORE.sub('', key)} & _PARTS]
    if parts:
        raise errors.DataError(
            f'the columns {errors.shortened(parts, 8)} are of boxes, it seems; expected {EXPECTED}.'
        )
    return None


def column_key(column: str) -> str:
    """Return the name of a column in lowercase without `_`, blanks and punctuation."""
    return re.sub(r'[\W_]+', '', column.lower()) or column


def _is_quadrilateral(by_key: Mapping[str, str]) -> bool:
    return 'x3' in by_key and 'y3' in by_key


def read_number(name: str, text: str) -> float:
    """Return the number in a cell.

    Args:
        name: of the column.
        text: of the cell.

    Raises:
        errors.DataError: it is no number.
    """
    try:
        return float(text)  # `Report.fit` refuses what is not finite
    except ValueError:
        raise errors.DataError(f'{name} is {text!r:.40}; expected a number of pixels.') from None


def _size_columns(by_key: Mapping[str, str], taken: Sequence[str]) -> Sequence[str]:
    """Return the columns of the image's height and width, which no box has."""
    for keys in _IMAGE_SIZE:
        names = [by_key.get(key) for key in keys]
        if None not in names and not set(names) & set(taken):
            return [name for name in names if name is not None]
    return ()


def _whole(name: str, text: str) -> Optional[int]:
    if not text:
        return None
    value = sources.number(read_number(name, text))
    if value is None or value % 1:
        raise errors.DataError(f'{name} is {text!r:.40}; expected a number of pixels.')
    return int(value)
