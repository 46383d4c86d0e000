"""`--from=coco`: instances as COCO has them, one JSON file for all images."""

from __future__ import annotations

import argparse
import collections
import json
import os
import posixpath
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from model_fns import images
from model_fns.datasets import polygons, records, sources
from model_fns.datasets.rotated import boxes as rotated_boxes
from model_fns.datasets.sources import Item, Source
from model_fns.label_map import LabelMap

# Visibility of a keypoint: 0 not labelled, 1 labelled and hidden, 2 labelled and seen.
_VISIBLE = 2
_NUMBERS_OF_KEYPOINT = 3  # x, y, visibility

Entry = Mapping[str, Any]


class _Object(NamedTuple):
    """One object that is as it should be.

    Attributes:
        class_id: of the label map.
        name: of its class.
        box: ymin, xmin, ymax, xmax in pixels.
        is_crowd: 0 or 1.
        area: in pixels.
        mask: a PNG file; None without.
        keypoints: x, y, visibility of each; empty without.
        rotated: the smallest rotated box around it; None where it is not asked for.
    """

    class_id: int
    name: str
    box: List[float]
    is_crowd: int
    area: float
    mask: Optional[bytes]
    keypoints: List[float]
    rotated: Optional[np.ndarray] = None


class Coco(Source):
    """Images in one folder, everything about them in an instances JSON.

    Args:
        image_folder: that `file_name` is relative to.
        annotations: path of the JSON.
        include_masks: whether records get each object's mask as a PNG.
        is_rotated: whether records get the smallest rotated box around an object's polygons, in
            place of its upright box.
    """

    def __init__(
        self,
        image_folder: str,
        annotations: str,
        include_masks: bool = True,
        is_rotated: bool = False,
    ):
        self._image_folder = image_folder
        self._annotations = annotations
        self._include_masks = include_masks
        self._is_rotated = is_rotated
        self._categories: Dict[int, Entry] = {}
        self._problems: List[str] = []

    def items(self) -> List[Item]:
        """See `Source`; an item's annotation is (the image's entry, its objects' entries)."""
        content = self._read()
        self._problems = []
        self._categories = dict(self._entries(content, 'categories', 'name'))
        entries = dict(self._entries(content, 'images', 'file_name'))
        objects = collections.defaultdict(list)
        for place, entry in enumerate(content['annotations']):
            problem = _problem_with_object(entry, entries)
            if problem:
                self._problems.append(f'{self._place("annotations", place, entry)}: {problem}')
            else:
                objects[entry['image_id']].append(entry)
        return [
            Item(
                os.path.splitext(os.path.basename(entry['file_name']))[0],
                os.path.join(self._image_folder, entry['file_name']),
                str(key),
                (entry, objects[key]),
            )
            for key, entry in entries.items()
        ]

    def problems(self) -> Sequence[str]:
        """See `Source`: entries that belong to no image, or are none."""
        return self._problems

    def _read(self) -> Mapping[str, Any]:
        try:
            with tf.io.gfile.GFile(self._annotations, 'r') as file:
                content = json.loads(file.read().lstrip('\ufeff'))
        except tf.errors.OpError:
            raise errors.DataError(
                f'--annotations: there is no file {self._annotations}.'
            ) from None
        except (ValueError, RecursionError) as error:
            raise errors.DataError(f'{self._annotations} is not JSON: {error}.') from None
        for key in ('images', 'annotations', 'categories'):
            if not isinstance(content, dict) or not isinstance(content.get(key), list):
                raise errors.DataError(
                    f'{self._annotations} has no "{key}"; expected an instances file of COCO, with '
                    'lists of images, annotations and categories.'
                )
        return content

    def _entries(
        self, content: Mapping[str, Any], section: str, name: str
    ) -> Iterator[Tuple[int, Entry]]:
        """Ids and entries of images or categories; reports those that are wrong."""
        seen = set()
        for place, entry in enumerate(content[section]):
            problem = ''
            if not isinstance(entry, dict):
                problem = f'{entry!r:.40} is no entry'
            elif not _is_id(entry.get('id')):
                problem = f'id is {entry.get("id")!r:.40}; expected a number or text'
            elif entry['id'] in seen:
                problem = 'another entry has the same id'
            elif not isinstance(entry.get(name), str) or not entry[name].strip():
                problem = f'{name} is {entry.get(name)!r:.40}; expected text'
            elif section == 'images' and _leaves_folder(entry[name]):
                problem = f'{name} {entry[name]!r:.200} is not a path in --images'
            if problem:
                self._problems.append(f'{self._place(section, place, entry)}: {problem}.')
            else:
                seen.add(entry['id'])
                yield entry['id'], entry

    def _place(self, section: str, place: int, entry: Any) -> str:
        known = f', id {entry["id"]!r:.40}' if isinstance(entry, dict) and 'id' in entry else ''
        return f'{self._annotations}: {section}[{place}]{known}'

    def class_names(self, items: Sequence[Item]) -> List[str]:
        """See `Source`: the categories in the order of their ids (which may have gaps)."""
        in_order = sorted(self._categories, key=lambda key: (isinstance(key, str), key))
        return list(dict.fromkeys(self._categories[key]['name'] for key in in_order))

    def features(
        self, item: Item, header: images.ImageHeader, classes: LabelMap, report: sources.Report
    ) -> records.Features:
        """See `Source`."""
        image, entries = item.annotation
        sources.check_size(header, *(_size(image, side) for side in ('height', 'width')))
        objects = []
        for entry in entries:
            try:
                objects.append(self._object(entry, header, classes))
            except errors.DataError as problem:
                report(f'{self._annotations}: object {entry.get("id")!r:.40}: {problem}')
        boxes = [one.box for one in objects]
        of_boxes, given = sources.box_features, boxes
        if self._is_rotated:
            of_boxes, given = rotated_boxes.box_features, [one.rotated for one in objects]
        features = {
            **of_boxes(
                given, [one.class_id for one in objects], [one.name for one in objects], header
            ),
            'image/object/is_crowd': np.array([one.is_crowd for one in objects], np.int64),
            'image/object/area': np.array([one.area for one in objects], np.float32),
            # A box of many objects is none to learn from.
            'image/object/weight': np.array([1 - one.is_crowd for one in objects], np.float32),
        }
        if self._include_masks:
            masks = [one.mask for one in objects]
            features.update(polygons.mask_features(masks, boxes, header))
        if any(one.keypoints for one in objects):
            features.update(_keypoints(objects, header))
        return features

    def _object(self, entry: Entry, header: images.ImageHeader, classes: LabelMap) -> _Object:
        category = self._category(entry)
        box = _box(entry)
        sources.check_box(box, header)
        is_crowd = entry.get('iscrowd', 0)
        if is_crowd not in (0, 1):
            raise errors.DataError(f'iscrowd is {is_crowd!r:.40}; expected 0 or 1.')
        area = (box[2] - box[0]) * (box[3] - box[1])
        if entry.get('area') is not None:
            area = sources.number(entry['area'])
            if area is None or area < 0:
                raise errors.DataError(f'area is {entry["area"]!r:.40}; expected pixels.')
        shape = (entry.get('segmentation') or None) if self._include_masks else None
        mask = None if shape is None else polygons.draw(shape, header)
        name = category['name']
        class_id = sources.class_id(classes, name)
        keypoints = self._keypoints_of(entry, category)
        turned = _rotated_box(entry, box, header) if self._is_rotated else None
        return _Object(class_id, name, box, int(is_crowd), area, mask, keypoints, turned)

    def _category(self, entry: Entry) -> Entry:
        key = entry.get('category_id')
        if not _is_id(key) or key not in self._categories:
            raise errors.DataError(f'category_id is {key!r:.40}, which is the id of no category.')
        return self._categories[key]

    def _keypoints_of(self, entry: Entry, category: Entry) -> List[float]:
        """Those of an object; none, or as many as every object of the set has."""
        keypoints = entry.get('keypoints')
        if not keypoints:
            return []
        if not isinstance(keypoints, list) or None in map(sources.number, keypoints):
            raise errors.DataError('keypoints are not a list of numbers.')
        expected = category.get('keypoints')
        count = len(expected) if isinstance(expected, list) and expected else None
        wanted = count * _NUMBERS_OF_KEYPOINT if count else len(keypoints)
        if len(keypoints) != wanted or len(keypoints) % _NUMBERS_OF_KEYPOINT:
            raise errors.DataError(
                f'keypoints are {len(keypoints)} numbers; expected x, y and visibility of each'
                f'{f" of {count}" if count else ""}.'
            )
        return keypoints


def _is_id(value: Any) -> bool:
    return isinstance(value, (int, str)) and not isinstance(value, bool)


def _leaves_folder(path: str) -> bool:
    """Whether a path is absolute, of another file system, or climbs out of its folder."""
    plain = posixpath.normpath(path.replace('\\', '/'))
    return (
        plain.startswith(('/', '../')) or plain in ('.', '..') or '://' in path or ':' in path[:2]
    )


def _problem_with_object(entry: Any, image_entries: Mapping[int, Entry]) -> str:
    """Why an entry is of no image; '' where it is."""
    if not isinstance(entry, dict):
        return f'{entry!r:.40} is no entry.'
    key = entry.get('image_id')
    if not _is_id(key) or key not in image_entries:
        return f'image_id is {key!r:.40}, which is the id of no image.'
    return ''


def _size(entry: Entry, side: str) -> Optional[int]:
    value = entry.get(side)
    if value is None:
        return None
    number = sources.number(value)
    if number is None or number % 1:
        raise errors.DataError(f'{side} is {value!r:.40}; expected a number of pixels.')
    return int(number)


def _box(entry: Entry) -> List[float]:
    """ymin, xmin, ymax, xmax in pixels."""
    box = entry.get('bbox')
    if not isinstance(box, list) or len(box) != 4 or None in map(sources.number, box):
        raise errors.DataError(f'bbox is {box!r:.80}; expected four numbers: x, y, width, height.')
    x, y, width, height = (float(side) for side in box)
    return [y, x, y + height, x + width]


def _rotated_box(entry: Entry, box: Sequence[float], header: images.ImageHeader) -> np.ndarray:
    """The smallest rotated box around an object's polygons; its upright box where it has none."""
    shape = entry.get('segmentation')
    if isinstance(shape, list) and shape:
        polygons.check(shape, header)
        found = rotated_boxes.of_points([number for polygon in shape for number in polygon])
    else:
        top, left, bottom, right = box
        found = np.array([(top + bottom) / 2, (left + right) / 2, bottom - top, right - left, 0.0])
    rotated_boxes.check_box(found, header)
    return found


def _keypoints(objects: Sequence[_Object], header: images.ImageHeader) -> records.Features:
    """Keypoints of all objects; those of an object without any are not labelled."""
    length = max(len(one.keypoints) for one in objects)
    rows = [one.keypoints + [0] * (length - len(one.keypoints)) for one in objects]
    points = np.array(rows, np.float64).reshape(-1, _NUMBERS_OF_KEYPOINT)
    is_labelled = points[:, 2] >= 1
    return {
        'image/object/keypoint/x': (points[:, 0] / header.width).astype(np.float32),
        'image/object/keypoint/y': (points[:, 1] / header.height).astype(np.float32),
        'image/object/keypoint/visibility': is_labelled.astype(np.int64) * _VISIBLE,
        'image/object/keypoint/num': is_labelled.reshape(len(objects), -1).sum(1),
    }


@sources.SOURCES.register('coco')
def _from_arguments(arguments: argparse.Namespace) -> Source:
    annotations = sources.annotations_of(arguments, 'FILE, the instances JSON')
    return Coco(arguments.images, annotations, not arguments.no_masks, arguments.boxes == 'rotated')
