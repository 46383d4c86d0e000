"""`--from=voc`: boxes as Pascal VOC has them, one XML file an image.

Rotated boxes are `robndbox` elements beside or in place of `bndbox`: cx, cy, w, h and an angle in
radians, clockwise, as roLabelImg writes them, or x and y of four corners.
"""

from __future__ import annotations

import argparse
import math
import os
from typing import List, Optional, Sequence, Tuple
from xml.etree import ElementTree

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from model_fns import images
from model_fns.datasets import records, sources
from model_fns.datasets.rotated import boxes as rotated_boxes
from model_fns.datasets.sources import Item, Source
from model_fns.label_map import LabelMap

_CORNERS = ('left_top', 'right_top', 'right_bottom', 'left_bottom')


class PascalVoc(Source):
    """Images in one folder, `<stem>.xml` for each in another.

    Args:
        image_folder: usually `JPEGImages`.
        annotation_folder: usually `Annotations`.
        is_rotated: whether records get rotated boxes; an upright one is one without a turn.
    """

    def __init__(self, image_folder: str, annotation_folder: str, is_rotated: bool = False):
        self._image_folder = image_folder
        self._annotation_folder = annotation_folder
        self._is_rotated = is_rotated

    def items(self) -> List[Item]:
        """See `Source`: the images that have an annotation, which is the path of its file."""
        stems = sources.by_stem(sources.images_in(self._image_folder))
        items = []
        for stem, path in stems.items():
            annotation = os.path.join(self._annotation_folder, f'{stem}.xml')
            if tf.io.gfile.exists(annotation):
                items.append(Item(stem, path, os.path.basename(path), annotation))
        if not items:
            raise errors.DataError(
                f'--annotations: {self._annotation_folder} has no XML file with the stem of any of '
                f'the {len(stems)} images in {self._image_folder}.'
            )
        return items

    def class_names(self, items: Sequence[Item]) -> List[str]:
        """See `Source`: all names that occur, sorted."""
        names = set()
        for item in items:
            try:
                entries = parse(str(item.annotation)).iter('object')
            except errors.DataError:  # told of when the item is converted
                continue
            names.update((entry.findtext('name') or '').strip() for entry in entries)
        return sorted(names - {''})

    def features(
        self, item: Item, header: images.ImageHeader, classes: LabelMap, report: sources.Report
    ) -> records.Features:
        """See `Source`."""
        root = parse(str(item.annotation))
        size = root.find('size')
        if size is not None:
            height, width = (number(size, side, 0) for side in ('height', 'width'))
            sources.check_size(header, int(height), int(width))
        objects = []
        for place, entry in enumerate(root.iter('object'), 1):
            try:
                objects.append(_object(entry, header, classes, self._is_rotated))
            except errors.DataError as problem:
                report(f'{item.annotation}: object {place}: {problem}')
        boxes, ids, names, difficult, truncated = zip(*objects) if objects else [()] * 5
        of_boxes = rotated_boxes.box_features if self._is_rotated else sources.box_features
        return {
            **of_boxes(boxes, ids, names, header),
            'image/object/difficult': np.array(difficult, np.int64),
            'image/object/truncated': np.array(truncated, np.int64),
        }


def _object(
    entry: ElementTree.Element,
    header: images.ImageHeader,
    classes: LabelMap,
    is_rotated: bool,
) -> Tuple[Sequence[float], int, str, bool, bool]:
    """Box in pixels, class id, name, difficult, truncated."""
    name = (entry.findtext('name') or '').strip()
    if not name:
        raise errors.DataError('there is no <name>.')
    sides = _rotated_box(entry, header) if is_rotated else _upright_box(entry, header)
    flags = [number(entry, tag, 0) for tag in ('difficult', 'truncated')]
    return (sides, sources.class_id(classes, name), name, flags[0] != 0, flags[1] != 0)


def _upright_box(entry: ElementTree.Element, header: images.ImageHeader) -> List[float]:
    """ymin, xmin, ymax, xmax in pixels."""
    box = entry.find('bndbox')
    if box is None:
        if entry.find('robndbox') is not None:
            raise errors.DataError('there is a <robndbox> and no <bndbox>; see --boxes=rotated.')
        raise errors.DataError('there is no <bndbox>.')
    sides = [number(box, side) for side in ('ymin', 'xmin', 'ymax', 'xmax')]
    sources.check_box(sides, header)
    return sides


def _rotated_box(entry: ElementTree.Element, header: images.ImageHeader) -> Sequence[float]:
    """cy, cx, h, w in pixels and the angle."""
    box = entry.find('robndbox')
    if box is None:
        top, left, bottom, right = _upright_box(entry, header)
        sides = [(top + bottom) / 2, (left + right) / 2, bottom - top, right - left, 0.0]
    elif box.find('cx') is not None:
        sides = [number(box, name) for name in ('cy', 'cx', 'h', 'w', 'angle')]
    else:
        sides = list(
            rotated_boxes.of_points(
                [number(box, f'{axis}_{corner}') for corner in _CORNERS for axis in 'xy']
            )
        )
    rotated_boxes.check_box(sides, header)
    return sides


def parse(path: str) -> ElementTree.Element:
    """The root of an XML file.

    Raises:
        errors.DataError: it is none.
    """
    with tf.io.gfile.GFile(path, 'rb') as file:
        content = file.read()
    try:
        return ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        raise errors.DataError(f'{path} is not XML: {error}.') from None


def number(element: ElementTree.Element, tag: str, default: Optional[float] = None) -> float:
    """The number in a tag.

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
    annotations = sources.annotations_of(arguments, 'DIR, the folder of the XML files')
    return PascalVoc(arguments.images, annotations, arguments.boxes == 'rotated')
