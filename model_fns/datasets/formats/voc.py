"""`--from=voc`: boxes as Pascal VOC has them, one XML file an image.

Rotated boxes are `robndbox` elements beside or in place of `bndbox`: cx, cy, w, h and an angle in
radians, clockwise, as roLabelImg writes them; or x and y of four corners. CVAT writes `bndbox`
before a rotation, and degrees in an attribute `rotation`.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import re
from typing import List, Optional, Sequence, Tuple
from xml.etree import ElementTree

import numpy as np

from estimator_lib import errors
from model_fns.datasets import records, sources
from model_fns.datasets.annotations import paired
from model_fns.datasets.files import folder_files
from model_fns.datasets.meaning.annotated import DIFFICULT
from model_fns.datasets.rotated import boxes as rotated_boxes
from model_fns.datasets.sources import Item, Source
from model_fns.structures import images
from model_fns.structures.label_map import LabelMap

_DECLARATION = re.compile(rb'\s*<\?xml[^>]*?encoding\s*=\s*["\']([\w.:-]+)["\'][^>]*>')
# Files that declare one of these hold characters of the largest of them.
_CHINESE = ('gb2312', 'gbk', 'gb18030')
_UNSPECIFIED = 'unspecified'  # some files of Pascal VOC have this for 0

# Tags of an object that are read, or that change nothing about its box and class.
_TAGS = frozenset(
    (
        'name',
        'bndbox',
        'robndbox',
        'difficult',
        'truncated',
        'attributes',
        'occluded',
        'pose',
        'part',
        'point',
        'actions',
        'type',
        'id',
    )
)
_SIDES = ('ymin', 'xmin', 'ymax', 'xmax')
_CORNERS = ('left_top', 'right_top', 'right_bottom', 'left_bottom')


class PascalVoc(paired.PairedSource):
    """Images in one folder, `<stem>.xml` for each in another.

    Args:
        image_folder: usually `JPEGImages`.
        annotation_folder: usually `Annotations`.
        is_rotated: whether records get rotated boxes; an axis-aligned box gets the angle 0.
    """

    ending = '.xml'
    kind = 'XML file'

    def __init__(self, image_folder: str, annotation_folder: str, is_rotated: bool = False):
        super().__init__(image_folder, annotation_folder)
        self._is_rotated = is_rotated

    def class_names(self, items: Sequence[Item]) -> List[str]:
        """Return the class names of all annotations, sorted."""
        names = set()
        for item in items:
            try:
                entries = parse(str(item.annotation)).iter('object')
            except errors.DataError:  # reported when the item is converted
                continue
            names.update((entry.findtext('name') or '').strip() for entry in entries)
        return sorted(names - {''})

    def _image_name(self, path: str) -> str:
        try:
            return (parse(path).findtext('filename') or '').strip()
        except errors.DataError:  # reported as an annotation without an image
            return ''

    def features(
        self, item: Item, header: images.ImageHeader, classes: LabelMap, report: sources.Report
    ) -> records.Features:
        """Return the record features of an image's objects."""
        root = parse(str(item.annotation))
        size = root.find('size')
        if size is not None:
            height, width = (number(size, side, 0) for side in ('height', 'width'))
            sources.check_size(header, int(height), int(width))
        objects = []
        for place, entry in enumerate(root.iter('object'), 1):
            name = f'{item.annotation}: object {place}'
            _observe(entry, name, report)
            try:
                objects.append(_object(entry, header, classes, self._is_rotated, report))
            except errors.DataError as problem:
                report.leave_out(name, problem)
        boxes, ids, names, difficult, truncated = zip(*objects) if objects else [()] * 5
        box_features = rotated_boxes.box_features if self._is_rotated else sources.box_features
        return {
            **box_features(boxes, ids, names, header),
            'image/object/difficult': np.array(difficult, np.int64),
            'image/object/truncated': np.array(truncated, np.int64),
        }


def _observe(entry: ElementTree.Element, place: str, report: sources.Report) -> None:
    """Add an object, as the file has it, to the report."""
    box: Optional[List[float]] = None
    ignored = ''
    with contextlib.suppress(errors.DataError):  # reported when the object is converted
        ignored = DIFFICULT if _flag(entry, 'difficult') else ''
        robndbox = entry.find('robndbox')
        if robndbox is not None:
            box = rotated_boxes.around(_read_rotated(robndbox))
        elif entry.find('bndbox') is not None and not _degrees(entry):
            box = _read_sides(entry)
    name = (entry.findtext('name') or '').strip()
    unread = [tag for tag in dict.fromkeys(each.tag for each in entry) if tag not in _TAGS]
    report.observe_box(place, box, ignored=ignored, name=name, unread=unread)


def _object(
    entry: ElementTree.Element,
    header: images.ImageHeader,
    classes: LabelMap,
    is_rotated: bool,
    report: sources.Report,
) -> Tuple[Sequence[float], int, str, bool, bool]:
    """Return the box in pixels, class id, class name, and the flags difficult and truncated."""
    name = (entry.findtext('name') or '').strip()
    if not name:
        tags = ', '.join(f'<{each.tag}>' for each in entry) or 'nothing'
        raise errors.DataError(f'there is no <name>; <{entry.tag}> has {tags}.')
    read_box = _rotated_box if is_rotated else _axis_aligned_box
    sides = read_box(entry, header, report)
    flags = [_flag(entry, tag) for tag in ('difficult', 'truncated')]
    return (sides, sources.class_id(classes, name), name, *flags)


def _flag(entry: ElementTree.Element, tag: str) -> bool:
    text = (entry.findtext(tag) or '').strip()
    return text.lower() != _UNSPECIFIED and number(entry, tag, 0) != 0


def _read_sides(entry: ElementTree.Element) -> List[float]:
    """Return ymin, xmin, ymax, xmax in pixels."""
    box = entry.find('bndbox')
    if box is None:
        if entry.find('robndbox') is not None:
            name = entry.findtext('name')
            raise errors.DataError(
                f'{name!r} has a <robndbox> and no <bndbox>; expected --boxes=rotated.'
            )
        present = ', '.join(f'<{part.tag}>' for part in entry)
        raise errors.DataError(f'there is no <bndbox> among {present or "no elements"}.')
    # As they are. VOC counts pixels from 1 and includes the last one; like the Object Detection
    # API's create_pascal_tf_record.py, this subtracts nothing.
    return [number(box, side) for side in _SIDES]


def _degrees(entry: ElementTree.Element) -> float:
    """Return the degrees by which CVAT rotates a box, clockwise around its center."""
    for attribute in entry.iter('attribute'):
        if (attribute.findtext('name') or '').strip() == 'rotation':
            return number(attribute, 'value', 0) % 360
    return 0.0


def _axis_aligned_box(
    entry: ElementTree.Element, header: images.ImageHeader, report: sources.Report
) -> List[float]:
    """Return ymin, xmin, ymax, xmax in pixels."""
    sides, degrees = _read_sides(entry), _degrees(entry)
    if degrees:
        sides = rotated_boxes.around(rotated_boxes.rotate(sides, degrees))
    return report.fit(sides, header)


def _rotated_box(
    entry: ElementTree.Element, header: images.ImageHeader, report: sources.Report
) -> rotated_boxes.Box:
    """Return cy, cx, h, w in pixels and the angle."""
    box, degrees = entry.find('robndbox'), _degrees(entry)
    sides: rotated_boxes.Box
    if box is not None:
        sides = _read_rotated(box)
    elif degrees:
        sides = rotated_boxes.rotate(_read_sides(entry), degrees)
    else:
        sides = rotated_boxes.rotate(report.fit(_read_sides(entry), header), 0)
    rotated_boxes.check_box(sides, header)
    return sides


def _read_rotated(box: ElementTree.Element) -> rotated_boxes.Box:
    """Return cy, cx, h, w in pixels and the angle of a `robndbox`."""
    if box.find('cx') is not None:
        return [number(box, name) for name in ('cy', 'cx', 'h', 'w', 'angle')]
    return rotated_boxes.smallest_box(
        [number(box, f'{axis}_{corner}') for corner in _CORNERS for axis in 'xy']
    )


def parse(path: str) -> ElementTree.Element:
    """Return the root of an XML file.

    Raises:
        errors.DataError: it cannot be read, is not XML, or its encoding is not known.
    """
    content = folder_files.read_bytes(path)
    declared = _DECLARATION.match(content)
    try:
        try:
            return ElementTree.fromstring(content)
        except (ValueError, LookupError):  # the parser knows few encodings
            if declared is None:
                raise
            return ElementTree.fromstring(_decode(content[declared.end() :], declared[1].decode()))
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise errors.DataError(f'{path} is not XML: {error}.') from None


def _decode(content: bytes, encoding: str) -> str:
    # gb18030 holds gbk, which holds gb2312: files often have characters beyond what they declare.
    return content.decode('gb18030' if encoding.lower() in _CHINESE else encoding)


def number(element: ElementTree.Element, tag: str, default: Optional[float] = None) -> float:
    """Return the number in a tag.

    Raises:
        errors.DataError: there is another text, or none and no default.
    """
    text = (element.findtext(tag) or '').strip()
    if not text and default is not None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise errors.DataError(f'<{tag}> of <{element.tag}> is {text!r:.40}; expected a number.')
    return value


@sources.SOURCES.register('voc')
def _from_arguments(arguments: argparse.Namespace) -> Source:
    annotations = sources.require_annotations(arguments, 'DIR, the folder of the XML files')
    return PascalVoc(arguments.images, annotations, arguments.boxes == 'rotated')
