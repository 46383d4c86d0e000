"""`--from=coco`: instances as COCO has them, one JSON file for all images."""

from __future__ import annotations

import argparse
import collections
import os
from typing import (
    Any,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
    Union,
)

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from model_fns.datasets import records, sources
from model_fns.datasets.annotations import class_maps, json_files, keypoints, polygons
from model_fns.datasets.annotations.pixel_masks import PixelMask
from model_fns.datasets.files import folder_files, named_images
from model_fns.datasets.meaning import readings
from model_fns.datasets.meaning.annotated import CROWD
from model_fns.datasets.rotated import boxes as rotated_boxes
from model_fns.datasets.sources import Item, Source
from model_fns.structures import images
from model_fns.structures.label_map import LabelMap

Entry = Mapping[str, Any]
Id = Union[int, str]

# Keys of an object that are read, or that say nothing which a record holds.
_KEYS = frozenset(
    (
        'id',
        'image_id',
        'category_id',
        'bbox',
        'area',
        'segmentation',
        'iscrowd',
        'keypoints',
        'num_keypoints',
        'attributes',
        'track_id',
        'score',
        'caption',
    )
)


class _Object(NamedTuple):
    """A valid object.

    Attributes:
        class_id: of the label map.
        name: of its class.
        box: ymin, xmin, ymax, xmax in pixels.
        is_crowd: 0 or 1.
        area: in pixels.
        mask: its pixels; None without.
        keypoints: x, y, visibility of each; empty without.
        rotated: the smallest rotated box around it; None where records have axis-aligned boxes.
    """

    class_id: int
    name: str
    box: List[float]
    is_crowd: int
    area: float
    mask: Optional[PixelMask]
    keypoints: List[float]
    rotated: Optional[np.ndarray] = None

    @property
    def shape(self) -> class_maps.Shape:
        """The object's pixels."""
        return class_maps.Shape(self.class_id, self.mask, self.box, bool(self.is_crowd))


class Coco(Source):
    """Images in one folder, with an instances JSON for all of them.

    Args:
        image_folder: that `file_name` is relative to.
        annotations: path of the JSON.
        include_masks: whether records get each object's mask as a PNG.
        is_rotated: whether records get the smallest rotated box around an object's polygons, in
            place of its axis-aligned box.
        draws_classes: whether records get the class of each pixel.
    """

    def __init__(
        self,
        image_folder: str,
        annotations: str,
        include_masks: bool = True,
        is_rotated: bool = False,
        draws_classes: bool = False,
    ):
        self._image_folder = image_folder
        self._annotations = annotations
        self._include_masks = include_masks
        self._is_rotated = is_rotated
        self._draws_classes = draws_classes
        self._categories: Dict[Id, Entry] = {}
        self._problems: List[str] = []
        self._notes: List[str] = []

    def items(self) -> List[Item]:
        """Return the images; an item's annotation is (the image's entry, its objects' entries)."""
        content = self._read()
        self._problems, self._notes = [], []
        self._leave_roots_out(content)
        self._categories = dict(self._entries(content, 'categories', 'name'))
        entries = dict(self._entries(content, 'images', 'file_name'))
        paths = self._locate(content, entries)
        objects = collections.defaultdict(list)
        for place, entry in enumerate(content['annotations']):
            problem = _find_object_problem(entry, entries)
            if problem:
                self._problems.append(f'{self._place("annotations", place, entry)}: {problem}')
            else:
                objects[to_id(entry['image_id'])].append(entry)
        return [
            Item(
                os.path.splitext(os.path.basename(path))[0],
                path,
                str(key),
                (entries[key], objects[key]),
            )
            for key, path in paths.items()
        ]

    def _locate(self, content: Mapping[str, Any], entries: Mapping[Id, Entry]) -> Dict[Id, str]:
        """Return the paths of images by their ids; add a problem for each that has none."""
        names = {key: entry['file_name'] for key, entry in entries.items()}
        located = named_images.locate(self._image_folder, names.values())
        self._notes += located.notes
        for key, name in names.items():
            if located.paths[name] is None:
                place = self._place('images', content['images'].index(entries[key]), entries[key])
                self._problems.append(
                    f'{place}: file_name {name!r:.200} is not a path in --images.'
                )
        # By id, in the order of the file: the shuffle of a seed depends on it.
        paths = {key: located.paths[name] for key, name in names.items()}
        return {key: path for key, path in paths.items() if path is not None}

    def problems(self) -> Sequence[str]:
        """Return a line for each entry that is malformed or belongs to no image."""
        return self._problems

    def notes(self) -> Sequence[str]:
        """Return a line for each category that is left out."""
        return self._notes

    def _leave_roots_out(self, content: Dict[str, Any]) -> None:
        """Remove the root that Roboflow puts above all categories, unless an object is of it."""
        categories = [entry for entry in content['categories'] if isinstance(entry, dict)]
        objects = [entry for entry in content['annotations'] if isinstance(entry, dict)]
        used = [entry.get('category_id') for entry in objects]
        for root in categories:
            is_above = any(
                other is not root and other.get('supercategory') == root.get('name')
                for other in categories
            )
            is_named = sources.is_text(root.get('name'))  # others are reported as malformed
            is_root = is_named and is_above and root.get('supercategory') == 'none'
            if is_root and root.get('id') not in used:
                content['categories'].remove(root)
                self._notes.append(
                    f'category {root["name"]!r:.40} is left out: it is the root of the other '
                    'categories, and no object is of it.'
                )

    def _read(self) -> Dict[str, Any]:
        if not tf.io.gfile.exists(self._annotations):
            raise folder_files.missing('--annotations', 'file', self._annotations)
        expected = 'an instances file of COCO, with lists of images, annotations and categories'
        content = json_files.read(
            self._annotations, ['images', 'annotations', 'categories'], expected
        )
        if any(
            isinstance(entry, dict) and 'segments_info' in entry for entry in content['annotations']
        ):
            raise errors.DataError(
                f'{self._annotations} is a panoptic file of COCO, whose objects are in PNG files; '
                'expected --from=panoptic.'
            )
        return content

    def _entries(
        self, content: Mapping[str, Any], section: str, name: str
    ) -> Iterator[Tuple[Id, Entry]]:
        """Yield ids and entries of images or categories; add a problem for each malformed one."""
        ids: Set[Any] = set()
        names: Set[str] = set()
        for place, entry in enumerate(content[section]):
            problem = ''
            if not isinstance(entry, dict):
                problem = f'{entry!r:.40} is no entry'
            elif to_id(entry.get('id')) is None:
                problem = f'id is {entry.get("id")!r:.40}; expected a number or text'
            elif to_id(entry['id']) in ids:
                problem = 'another entry has the same id'
            elif not sources.is_text(entry.get(name)):
                problem = f'{name} is {entry.get(name)!r:.40}; expected text'
            elif entry[name] in names:  # two entries of an image would share its objects
                kind = 'image' if section == 'images' else 'category'
                problem = f'another {kind} has the {name} {entry[name]!r:.200}'
            if problem:
                self._problems.append(f'{self._place(section, place, entry)}: {problem}.')
            else:
                key = to_id(entry['id'])
                ids.add(key)
                names.add(entry[name])
                yield key, entry

    def _place(self, section: str, place: int, entry: Any) -> str:
        known = f', id {entry["id"]!r:.40}' if isinstance(entry, dict) and 'id' in entry else ''
        return f'{self._annotations}: {section}[{place}]{known}'

    def class_names(self, items: Sequence[Item]) -> List[str]:
        """Return the names of the categories in the order of their ids, which may have gaps."""
        # Ids may be numbers and text in one file, which Python does not compare.
        in_order = sorted(self._categories, key=lambda key: (isinstance(key, str), key))
        return list(dict.fromkeys(self._categories[key]['name'] for key in in_order))

    def features(
        self, item: Item, header: images.ImageHeader, classes: LabelMap, report: sources.Report
    ) -> records.Features:
        """Return the record features of an image's objects."""
        image, entries = item.annotation
        sources.check_size(header, *(_size(image, side) for side in ('height', 'width')))
        objects = []
        for entry in entries:
            place = f'{self._annotations}: object {entry.get("id")!r:.40}'
            self._observe(entry, place, header, report)
            try:
                objects.append(self._object(entry, header, classes, report))
            except errors.DataError as problem:
                report.leave_out(place, problem)
        boxes: List[Any] = [item.box for item in objects]
        box_features, record_boxes = sources.box_features, boxes
        if self._is_rotated:
            box_features = rotated_boxes.box_features
            record_boxes = [item.rotated for item in objects]
        features = {
            **box_features(
                record_boxes,
                [item.class_id for item in objects],
                [item.name for item in objects],
                header,
            ),
            **sources.crowd_features([bool(item.is_crowd) for item in objects]),
            'image/object/area': np.array([item.area for item in objects], np.float32),
        }
        if self._include_masks:
            masks = [item.mask for item in objects]
            features.update(polygons.mask_features(masks, boxes, header))
        if self._draws_classes:
            shapes = [item.shape for item in objects]
            features.update(class_maps.class_features(class_maps.draw(shapes, header, classes)))
        if any(item.keypoints for item in objects):
            rows = [item.keypoints for item in objects]
            features.update(keypoints.keypoint_features(rows, header))
        return features

    def _observe(
        self, entry: Entry, place: str, header: images.ImageHeader, report: sources.Report
    ) -> None:
        """Add an object, as the file has it, to the report."""
        box, shape = entry.get('bbox'), entry.get('segmentation')
        key = to_id(entry.get('category_id'))
        is_box = isinstance(box, list) and len(box) == 4 and None not in map(sources.number, box)
        name = self._categories[key]['name'] if key in self._categories else ''
        report.observe(
            place,
            box if is_box and not _rotation(entry) else None,
            reading=readings.SIZES,
            outline=polygons.outline(shape, header) if shape else None,
            ignored=CROWD if entry.get('iscrowd') == 1 else '',
            name=name,
            unread=[key for key, value in entry.items() if value and key not in _KEYS],
        )

    def _object(
        self,
        entry: Entry,
        header: images.ImageHeader,
        classes: LabelMap,
        report: sources.Report,
    ) -> _Object:
        category = self._category(entry)
        sides = _box(entry)
        rotated = _rotated_box(entry, sides)
        box = report.fit(sides if rotated is None else rotated_boxes.around(rotated), header)
        is_crowd = entry.get('iscrowd', 0)
        if is_crowd not in (0, 1):
            raise errors.DataError(f'iscrowd is {is_crowd!r:.40}; expected 0 or 1.')
        # COCO's `area` is that of the mask, by which its evaluation tells small from large.
        area = (box[2] - box[0]) * (box[3] - box[1])
        if entry.get('area') is not None:
            area = sources.number(entry['area'])
            if area is None or area < 0:
                raise errors.DataError(f'area is {entry["area"]!r:.40}; expected pixels.')
        is_drawn = self._include_masks or self._draws_classes
        shape = (entry.get('segmentation') or None) if is_drawn else None
        mask = None if shape is None else polygons.draw(shape, header)
        name = category['name']
        class_id = sources.class_id(classes, name)
        points = _read_keypoints(entry, category)
        if self._is_rotated:
            rotated = _smallest_box(entry, box, header) if rotated is None else rotated
            rotated_boxes.check_box(rotated, header)
        return _Object(class_id, name, box, int(is_crowd), area, mask, points, rotated)

    def _category(self, entry: Entry) -> Entry:
        key = to_id(entry.get('category_id'))
        if key is None or key not in self._categories:
            raise errors.DataError(
                f'category_id is {entry.get("category_id")!r:.40}, which is the id of no category.'
            )
        return self._categories[key]


def _read_keypoints(entry: Entry, category: Entry) -> List[float]:
    """Return the keypoints of an object: none, or as many as its category names."""
    numbers = entry.get('keypoints')
    if not numbers:
        return []
    if not isinstance(numbers, list) or None in map(sources.number, numbers):
        raise errors.DataError(f'keypoints are {numbers!r:.80}; expected a list of numbers.')
    expected = category.get('keypoints')
    count = len(expected) if isinstance(expected, list) and expected else None
    wanted = count * keypoints.PER_KEYPOINT if count else len(numbers)
    if len(numbers) != wanted or len(numbers) % keypoints.PER_KEYPOINT:
        raise errors.DataError(
            f'keypoints are {len(numbers)} numbers; expected x, y and visibility of each'
            f'{f" of {count}" if count else ""}.'
        )
    return numbers


def to_id(value: Any) -> Optional[Id]:
    """Return an id, which is text or a whole number; None for anything else.

    Tables of pandas write 1 as 1.0 where a column has gaps.
    """
    if sources.is_text(value):
        return str(value)
    whole = sources.number(value)
    return None if whole is None or whole % 1 else int(value)


def _find_object_problem(entry: Any, image_entries: Mapping[Id, Entry]) -> str:
    """Return the reason why an entry belongs to no image; '' where it belongs to one."""
    if not isinstance(entry, dict):
        return f'{entry!r:.40} is no entry.'
    key = to_id(entry.get('image_id'))
    if key is None or key not in image_entries:
        return f'image_id is {entry.get("image_id")!r:.40}, which is the id of no image.'
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
    """Return ymin, xmin, ymax, xmax in pixels."""
    box = entry.get('bbox')
    if not isinstance(box, list) or len(box) != 4 or None in map(sources.number, box):
        raise errors.DataError(f'bbox is {box!r:.80}; expected four numbers: x, y, width, height.')
    x, y, width, height = (float(side) for side in box)
    return [y, x, y + height, x + width]


def _rotation(entry: Entry) -> Any:
    """Return CVAT's attribute `rotation`; None without one, or where a polygon has the place."""
    attributes = entry.get('attributes')
    if entry.get('segmentation') or not isinstance(attributes, dict):
        return None
    return attributes.get('rotation')


def _rotated_box(entry: Entry, box: Sequence[float]) -> Optional[np.ndarray]:
    """Return the box that CVAT rotates by an attribute; None where nothing is rotated.

    CVAT writes the box before the rotation, and degrees, clockwise around the center of the box.
    """
    value = _rotation(entry)
    if not value:
        return None
    degrees = sources.number(value)
    if degrees is None:
        raise errors.DataError(f'attributes.rotation is {value!r:.40}; expected degrees.')
    return rotated_boxes.rotate(box, degrees) if degrees % 360 else None


def _smallest_box(entry: Entry, box: Sequence[float], header: images.ImageHeader) -> np.ndarray:
    """Return the smallest rotated box around the polygons, or the box where there are none."""
    shape = entry.get('segmentation')
    if isinstance(shape, list) and shape:
        polygons.check(shape, header)
        return rotated_boxes.smallest_box([number for polygon in shape for number in polygon])
    return rotated_boxes.rotate(box, 0)


@sources.SOURCES.register('coco')
def _from_arguments(arguments: argparse.Namespace) -> Source:
    annotations = sources.require_annotations(arguments, 'FILE, the instances JSON')
    return Coco(
        arguments.images,
        annotations,
        not arguments.no_masks,
        arguments.boxes == 'rotated',
        arguments.class_masks,
    )
