"""`--from=voc`: boxes as Pascal VOC has them, one XML file an image."""

from __future__ import annotations

import argparse
import os
from typing import List, Optional, Sequence
from xml.etree import ElementTree

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from model_fns import images
from model_fns.datasets import records, sources
from model_fns.datasets.sources import Item, Source
from model_fns.label_map import LabelMap


class PascalVoc(Source):
    """Images in one folder, `<stem>.xml` for each in another.

    Args:
        image_folder: usually `JPEGImages`.
        annotation_folder: usually `Annotations`.
    """

    def __init__(self, image_folder: str, annotation_folder: str):
        self._image_folder = image_folder
        self._annotation_folder = annotation_folder

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
            for entry in _parse(str(item.annotation)).iter('object'):
                names.add(_text(entry, 'name'))
        return sorted(names)

    def features(
        self, item: Item, header: images.ImageHeader, classes: LabelMap
    ) -> records.Features:
        """See `Source`."""
        root = _parse(str(item.annotation))
        size = root.find('size')
        if size is not None:
            sources.check_size(header, _number(size, 'height'), _number(size, 'width'))
        entries = list(root.iter('object'))
        names = [_text(entry, 'name') for entry in entries]
        ids = [sources.class_id(classes, name) for name in names]
        boxes = np.array([_box(entry) for entry in entries], np.float64).reshape(-1, 4)
        return {
            **sources.box_features(boxes, ids, names, header),
            'image/object/difficult': _flags(entries, 'difficult'),
            'image/object/truncated': _flags(entries, 'truncated'),
        }


def _parse(path: str) -> ElementTree.Element:
    with tf.io.gfile.GFile(path, 'rb') as file:
        content = file.read()
    try:
        return ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        raise errors.DataError(f'{path} is not XML: {error}.') from None


def _text(element: ElementTree.Element, tag: str) -> str:
    text = (element.findtext(tag) or '').strip()
    if not text:
        raise errors.DataError(f'the annotation has an <{element.tag}> without <{tag}>.')
    return text


def _number(element: ElementTree.Element, tag: str) -> Optional[int]:
    text = (element.findtext(tag) or '').strip()
    return int(float(text)) if text else None


def _flags(entries: Sequence[ElementTree.Element], tag: str) -> np.ndarray:
    return np.array([_number(entry, tag) or 0 for entry in entries], np.int64)


def _box(entry: ElementTree.Element) -> List[float]:
    """ymin, xmin, ymax, xmax in pixels."""
    box = entry.find('bndbox')
    if box is None:
        raise errors.DataError('the annotation has an <object> without <bndbox>.')
    try:
        return [float(_text(box, side)) for side in ('ymin', 'xmin', 'ymax', 'xmax')]
    except ValueError as error:
        raise errors.DataError(f'the annotation has a box that is no number: {error}.') from None


@sources.SOURCES.register('voc')
def _from_arguments(arguments: argparse.Namespace) -> Source:
    if not arguments.annotations:
        raise errors.UserError('--from=voc needs --annotations=DIR, the folder of the XML files.')
    return PascalVoc(arguments.images, arguments.annotations)
