"""`--from=yolo`: a text file an image, with a line for each box or polygon."""

from __future__ import annotations

import argparse
import os
import re
from typing import Dict, List, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib import errors
from model_fns import images
from model_fns.datasets import polygons, records, sources
from model_fns.datasets.sources import Item, Source
from model_fns.label_map import LabelMap, to_id

_NAME_FILES = ('classes.txt', 'obj.names', 'data.yaml', 'dataset.yaml')
_FOLDERS_ABOVE = 2  # how far above the annotations names are looked for
_BOX_NUMBERS = 4
_LEAST_POLYGON_NUMBERS = 6


class Yolo(Source):
    """Images in one folder, `<stem>.txt` for each in another.

    A line is `class center_x center_y width height` or `class x y x y x y ..`, a polygon; classes
    are counted from 0, all others are fractions of the image's sides. An image without a file has
    no objects.

    Args:
        image_folder: of the images.
        annotation_folder: of the text files.
        names: of the classes, in the order of their numbers; None: those of the label map.
    """

    def __init__(self, image_folder: str, annotation_folder: str, names: Optional[Sequence[str]]):
        self._image_folder = image_folder
        self._annotation_folder = annotation_folder
        self._names = names

    def items(self) -> List[Item]:
        """See `Source`; an item's annotation is the path of its file, '' without one."""
        stems = sources.by_stem(sources.images_in(self._image_folder))
        files = self._files()
        if not stems.keys() & files.keys():
            raise errors.DataError(
                f'--annotations: {self._annotation_folder} has no text file with the stem of any '
                f'of the {len(stems)} images in {self._image_folder}.'
            )
        return [
            Item(stem, path, os.path.basename(path), files.get(stem, ''))
            for stem, path in stems.items()
        ]

    def problems(self) -> Sequence[str]:
        """See `Source`: annotations without an image."""
        stems = sources.by_stem(sources.images_in(self._image_folder))
        return [
            f'{path}: no image in {self._image_folder} has this stem.'
            for stem, path in self._files().items()
            if stem not in stems
        ]

    def _files(self) -> Dict[str, str]:
        if not tf.io.gfile.isdir(self._annotation_folder):
            raise errors.DataError(f'--annotations: there is no folder {self._annotation_folder}.')
        names = sorted(tf.io.gfile.listdir(self._annotation_folder))
        return {
            name[: -len('.txt')]: os.path.join(self._annotation_folder, name)
            for name in names
            if name.endswith('.txt') and name not in _NAME_FILES
        }

    def class_names(self, items: Sequence[Item]) -> List[str]:
        """See `Source`: those of the file of names."""
        if self._names is None:
            raise errors.DataError(
                f'the class names are nowhere: expected --names=FILE, one of '
                f'{", ".join(_NAME_FILES)} beside the annotations or a folder above, or a label '
                'map that exists.'
            )
        return list(self._names)

    def features(
        self, item: Item, header: images.ImageHeader, classes: LabelMap, report: sources.Report
    ) -> records.Features:
        """See `Source`; masks where there is a polygon."""
        ids, boxes, masks = [], [], []
        for number, line in enumerate(_lines(str(item.annotation)), 1):
            if not line.strip():
                continue
            try:
                class_id, box, mask = self._object(line, header, classes)
            except errors.DataError as problem:
                report(f'{item.annotation}, line {number}: {problem}')
                continue
            ids.append(class_id)
            boxes.append(box)
            masks.append(mask)
        names = [classes.item(class_id).name for class_id in ids]
        features = sources.box_features(boxes, ids, names, header)
        features.update(polygons.mask_features(masks, boxes, header))
        return features

    def _object(
        self, line: str, header: images.ImageHeader, classes: LabelMap
    ) -> Tuple[int, List[float], Optional[bytes]]:
        """Class id, box in pixels, and mask of a line."""
        index, values = _numbers(line)
        if self._names is None:
            class_id = classes.item(to_id(index)).id
        elif index < len(self._names):
            class_id = sources.class_id(classes, self._names[index])
        else:
            raise errors.DataError(
                f'class {index} has no name; there are {len(self._names)}, counted from 0.'
            )
        if len(values) == _BOX_NUMBERS:
            x, y, width, height = values
            left, top = (x - width / 2) * header.width, (y - height / 2) * header.height
            box = [top, left, top + height * header.height, left + width * header.width]
            sources.check_box(box, header)
            return class_id, box, None
        xs = [x * header.width for x in values[::2]]
        ys = [y * header.height for y in values[1::2]]
        box = [min(ys), min(xs), max(ys), max(xs)]
        sources.check_box(box, header)
        polygon = [side for point in zip(xs, ys) for side in point]
        return class_id, box, polygons.draw([polygon], header)


def _numbers(line: str) -> Tuple[int, List[float]]:
    parts = line.split()
    expected = (
        'expected `class center_x center_y width height`, or `class` and at least three points'
    )
    if not parts[0].isdecimal():
        raise errors.DataError(f'the class is {parts[0]!r}; {expected}.')
    try:
        values = [float(part) for part in parts[1:]]
    except ValueError as error:
        raise errors.DataError(f'{error}; {expected}.') from None
    is_polygon = len(values) >= _LEAST_POLYGON_NUMBERS and len(values) % 2 == 0
    if len(values) != _BOX_NUMBERS and not is_polygon:
        raise errors.DataError(f'{len(values)} numbers after the class; {expected}.')
    return int(parts[0]), values


def _lines(path: str) -> List[str]:
    if not path:
        return []
    try:
        with tf.io.gfile.GFile(path) as file:
            return file.read().lstrip('\ufeff').splitlines()
    except UnicodeDecodeError as error:
        raise errors.DataError(f'{path} is not text: {error}.') from None


def find_names(folder: str) -> Optional[str]:
    """The file of class names beside annotations or above; None without."""
    folder = os.path.abspath(folder) if '://' not in folder else folder
    for _ in range(_FOLDERS_ABOVE + 1):
        for name in _NAME_FILES:
            path = os.path.join(folder, name)
            if tf.io.gfile.exists(path):
                return path
        folder = os.path.dirname(folder)
    return None


def read_names(path: str) -> List[str]:
    """The class names of a file: one a line, or those of `names` in a YAML file.

    Raises:
        errors.DataError: there are none.
    """
    if not tf.io.gfile.exists(path):
        raise errors.DataError(f'--names: there is no file {path}.')
    lines = _lines(path)
    if path.endswith(('.yaml', '.yml')):
        names = _yaml_names(lines)
    else:
        names = [line.strip() for line in lines if line.strip()]
    if not names or len(set(names)) < len(names):
        what = 'holds a name twice' if names else 'holds no class names'
        raise errors.DataError(f'{path} {what}; expected one for each class.')
    return names


def _yaml_names(lines: Sequence[str]) -> List[str]:
    """`names: [a, b]`, or below `names:` lines of `- a` or `0: a`."""
    start = next((i for i, line in enumerate(lines) if re.match(r'names\s*:', line)), len(lines))
    block = [re.sub(r'\s#.*', '', line) for line in lines[start:]]
    end = next(
        (i for i, line in enumerate(block) if i and re.match(r'[A-Za-z_]', line)), len(block)
    )
    text = '\n'.join(block[:end]).partition(':')[2].strip()
    if text[:1] in ('[', '{'):
        entries = text.strip('[]{}').split(',')
    else:
        entries = text.splitlines()
    stripped = [re.sub(r'^(-\s*|\d+\s*:\s*)', '', entry.strip()) for entry in entries]
    return [entry.strip('\'"') for entry in stripped if entry]


@sources.SOURCES.register('yolo')
def _from_arguments(arguments: argparse.Namespace) -> Source:
    annotations = sources.annotations_of(arguments, 'DIR, the folder of the text files')
    path = arguments.names or find_names(annotations)
    return Yolo(arguments.images, annotations, read_names(path) if path else None)
