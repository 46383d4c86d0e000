"""`--from=labelme`: a JSON file of polygons for each image, as the program labelme writes it.

The keys are those of https://github.com/wkentaro/labelme: `shapes` have `label`, `points` in pixels
and `shape_type`. Shapes of one label and one `group_id` are parts of one object.
"""

from __future__ import annotations

import argparse
import math
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from estimator_lib import errors
from model_fns.datasets import records, sources
from model_fns.datasets.annotations import class_maps, json_files, paired, polygons
from model_fns.datasets.rotated import boxes as rotated_boxes
from model_fns.datasets.sources import Item, Source
from model_fns.structures import images
from model_fns.structures.label_map import LabelMap

_KINDS = ('polygon', 'rectangle', 'circle')
_CIRCLE_POINTS = 64


class _Object(NamedTuple):
    """Object of one or several shapes; boxes are in pixels.

    Attributes:
        class_id: its class.
        name: of its class.
        box: ymin, xmin, ymax, xmax.
        mask: PNG of its pixels.
        rotated: the smallest rotated box around it; None where records have axis-aligned boxes.
    """

    class_id: int
    name: str
    box: List[float]
    mask: bytes
    rotated: Optional[Sequence[float]] = None


class Labelme(paired.PairedSource):
    """Images in one folder, `<stem>.json` for each in another or the same.

    Args:
        image_folder: of the images.
        annotation_folder: of the JSON files.
        is_rotated: whether records get the smallest rotated box around each object, in place of
            its axis-aligned box.
        draws_classes: whether records get the class of each pixel.
    """

    ending = '.json'
    kind = 'JSON file'

    def __init__(
        self,
        image_folder: str,
        annotation_folder: str,
        is_rotated: bool = False,
        draws_classes: bool = False,
    ):
        super().__init__(image_folder, annotation_folder)
        self._is_rotated = is_rotated
        self._draws_classes = draws_classes

    def class_names(self, items: Sequence[Item]) -> List[str]:
        """Return the labels of all shapes, sorted."""
        names: Set[str] = set()
        for item in items:
            try:
                shapes = _read(str(item.annotation))['shapes']
            except errors.DataError:  # reported when the item is converted
                continue
            labels = [shape.get('label') for shape in shapes if isinstance(shape, dict)]
            names.update(label for label in labels if sources.is_text(label))
        return sorted(names)

    def features(
        self, item: Item, header: images.ImageHeader, classes: LabelMap, report: sources.Report
    ) -> records.Features:
        """Return the record features of an image's objects."""
        content = _read(str(item.annotation))
        sources.check_size(header, *(_size(content, side) for side in ('Height', 'Width')))
        objects = []
        for places, shapes in _grouped(content['shapes']):
            try:
                objects.append(self._object(shapes, header, classes, report))
            except errors.DataError as problem:
                report.leave_out(f'{item.annotation}: shapes[{places[0]}]', problem)
        ids, names = [each.class_id for each in objects], [each.name for each in objects]
        boxes = [each.box for each in objects]
        if self._is_rotated:
            rotated: List[Any] = [each.rotated for each in objects]
            return rotated_boxes.box_features(rotated, ids, names, header)
        features = {
            **sources.box_features(boxes, ids, names, header),
            **polygons.mask_features([each.mask for each in objects], boxes, header),
        }
        if self._draws_classes:
            shapes = [class_maps.Shape(each.class_id, each.mask, each.box) for each in objects]
            features.update(class_maps.class_features(class_maps.draw(shapes, header, classes)))
        return features

    def _object(
        self,
        shapes: Sequence[Any],
        header: images.ImageHeader,
        classes: LabelMap,
        report: sources.Report,
    ) -> _Object:
        """Build an object of its shapes."""
        outlines = [_outline(shape) for shape in shapes]
        name = shapes[0]['label']
        polygons.check(outlines, header)
        points = [number for outline in outlines for number in outline]
        xs, ys = points[::2], points[1::2]
        box = report.fit([min(ys), min(xs), max(ys), max(xs)], header)
        class_id = sources.class_id(classes, name)
        rotated = None
        if self._is_rotated:
            rotated = rotated_boxes.smallest_box(points).tolist()
            rotated_boxes.check_box(rotated, header)
        return _Object(class_id, name, box, polygons.draw(outlines, header), rotated)


def _read(path: str) -> Dict[str, Any]:
    return json_files.read(path, ['shapes'], 'a file of labelme, with a list of shapes')


def _grouped(shapes: Sequence[Any]) -> List[Tuple[List[int], List[Any]]]:
    """Return the places and shapes of each object, in the order of their first shapes."""
    groups: Dict[Any, Tuple[List[int], List[Any]]] = {}
    for place, shape in enumerate(shapes):
        key: Any = place
        if isinstance(shape, dict) and shape.get('group_id') is not None:
            key = (repr(shape.get('label')), repr(shape['group_id']))
        places, members = groups.setdefault(key, ([], []))
        places.append(place)
        members.append(shape)
    return list(groups.values())


def _outline(shape: Any) -> List[float]:
    """Return x, y of each corner of a shape, in pixels.

    Raises:
        errors.DataError: the shape is malformed, or has no area.
    """
    if not isinstance(shape, dict):
        raise errors.DataError(f'{shape!r:.40} is no shape.')
    if not sources.is_text(shape.get('label')):
        raise errors.DataError(f'the label is {shape.get("label")!r:.40}; expected text.')
    kind = shape.get('shape_type') or 'polygon'
    if kind not in _KINDS:
        raise errors.DataError(
            f'the shape is a {kind!s:.20}; expected one of {", ".join(_KINDS)}, which have an area.'
        )
    points = shape.get('points')
    pairs = points if isinstance(points, list) else []
    are_pairs = all(isinstance(pair, list) and len(pair) == 2 for pair in pairs)
    numbers = [sources.number(side) for pair in pairs for side in pair] if are_pairs else []
    if not numbers or None in numbers:
        raise errors.DataError(f'points are {points!r:.60}; expected a list of x and y.')
    if kind == 'polygon':
        return numbers
    if len(numbers) != 4:
        raise errors.DataError(f'the {kind} has {len(numbers) // 2} points; expected 2.')
    left, top, right, bottom = numbers
    if kind == 'rectangle':
        return [left, top, right, top, right, bottom, left, bottom]
    radius = math.hypot(right - left, bottom - top)  # the second point is on the circle
    angles = [2 * math.pi * index / _CIRCLE_POINTS for index in range(_CIRCLE_POINTS)]
    return [
        side
        for angle in angles
        for side in (left + radius * math.cos(angle), top + radius * math.sin(angle))
    ]


def _size(content: Dict[str, Any], side: str) -> Optional[int]:
    value = content.get(f'image{side}')
    number = sources.number(value)
    if value is not None and (number is None or number % 1):
        raise errors.DataError(f'image{side} is {value!r:.40}; expected a number of pixels.')
    return None if number is None else int(number)


@sources.SOURCES.register('labelme')
def _from_arguments(arguments: argparse.Namespace) -> Source:
    annotations = sources.require_annotations(arguments, 'DIR, the folder of the JSON files')
    is_rotated = arguments.boxes == 'rotated'
    return Labelme(arguments.images, annotations, is_rotated, arguments.class_masks)
