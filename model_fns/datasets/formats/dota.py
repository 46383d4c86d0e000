"""`--from=dota`: quadrilaterals as DOTA has them, a text file an image.

The first lines may be `imagesource:...` and `gsd:...`. Each other line is
`x1 y1 x2 y2 x3 y3 x4 y4 class difficult`, in pixels. A quadrilateral becomes the smallest rotated
box around it.
"""

from __future__ import annotations

import argparse
import contextlib
from typing import Iterator, List, NamedTuple, Sequence, Tuple

import numpy as np

from estimator_lib import errors
from model_fns.datasets import records, sources
from model_fns.datasets.annotations import paired, polygons
from model_fns.datasets.files import folder_files
from model_fns.datasets.meaning.annotated import DIFFICULT
from model_fns.datasets.rotated import boxes as rotated_boxes
from model_fns.datasets.sources import Item, Source
from model_fns.structures import images
from model_fns.structures.label_map import LabelMap

_NUMBERS = 8
_HEADERS = ('imagesource', 'gsd')


class _Object(NamedTuple):
    """Object of a line: corners in pixels, the class name, and the difficult flag."""

    points: List[float]
    name: str
    difficult: bool


class Dota(paired.PairedSource):
    """Images in one folder, `<stem>.txt` for each in another.

    Args:
        image_folder: of the images.
        annotation_folder: of the text files, usually `labelTxt`.
    """

    def class_names(self, items: Sequence[Item]) -> List[str]:
        """Return the class names of all annotations, sorted."""
        names = set()
        for item in items:
            with contextlib.suppress(errors.DataError):  # reported when the item is converted
                for _, line in _lines(str(item.annotation)):
                    with contextlib.suppress(errors.DataError):
                        names.add(_parse(line).name)
        return sorted(names)

    def features(
        self, item: Item, header: images.ImageHeader, classes: LabelMap, report: sources.Report
    ) -> records.Features:
        """Return the record features of an image's objects."""
        boxes, ids, names, difficult = [], [], [], []
        for number, line in _lines(str(item.annotation)):
            place = f'{item.annotation}, line {number}'
            try:
                parsed = _parse(line)
                _observe(parsed, place, report)
                box = rotated_boxes.smallest_box(parsed.points)
                rotated_boxes.check_box(box, header)
                ids.append(sources.class_id(classes, parsed.name))
            except errors.DataError as problem:
                report.leave_out(place, problem)
                continue
            boxes.append(box)
            names.append(parsed.name)
            difficult.append(parsed.difficult)
        return {
            **rotated_boxes.box_features(boxes, ids, names, header),
            'image/object/difficult': np.array(difficult, np.int64),
        }


def _observe(parsed: _Object, place: str, report: sources.Report) -> None:
    """Add an object, as the file has it, to the report."""
    ignored = DIFFICULT if parsed.difficult else ''
    box = polygons.box_around(parsed.points)
    report.observe_box(place, box, ignored=ignored, name=parsed.name)


def _lines(path: str) -> Iterator[Tuple[int, str]]:
    """Yield the lines of objects, with their numbers from 1."""
    for number, line in enumerate(folder_files.read_text(path).splitlines(), 1):
        if line.strip() and line.partition(':')[0].strip().lower() not in _HEADERS:
            yield number, line


def _parse(line: str) -> _Object:
    words = line.split()
    if len(words) not in (_NUMBERS + 1, _NUMBERS + 2):
        raise errors.DataError(
            f'{line!r:.60} has {len(words)} words; expected x and y of four corners, a class, and '
            'whether it is difficult.'
        )
    try:
        points = [float(word) for word in words[:_NUMBERS]]
        difficult = float(words[_NUMBERS + 1]) if len(words) > _NUMBERS + 1 else 0
    except ValueError:
        raise errors.DataError(f'{line!r:.60} has a word where a number is expected.') from None
    return _Object(points, words[_NUMBERS], difficult != 0)


@sources.SOURCES.register('dota')
def _from_arguments(arguments: argparse.Namespace) -> Source:
    annotations = sources.require_annotations(
        arguments, 'DIR, the folder of the text files (labelTxt)'
    )
    return Dota(arguments.images, annotations)
