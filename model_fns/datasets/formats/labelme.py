"""`--from=labelme`: a JSON file of polygons for each image, as the program labelme writes it.

The keys are those of https://github.com/wkentaro/labelme: `shapes` have `label`, `points` in pixels
and `shape_type`. Shapes of one label and one `group_id` are parts of one object. A shape of type
`mask` has a PNG of its pixels between two points, both included. Its successor
https://github.com/CVHub520/X-AnyLabeling writes rectangles of four points, and `rotation` for
rotated ones.
"""

from __future__ import annotations

import argparse
import base64
import math
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from estimator_lib import errors
from model_fns.datasets import records, sources
from model_fns.datasets.annotations import class_maps, json_files, paired, pixel_masks, polygons
from model_fns.datasets.annotations.pixel_masks import PixelMask
from model_fns.datasets.meaning import annotated
from model_fns.datasets.rotated import boxes as rotated_boxes
from model_fns.datasets.sources import Item, Source
from model_fns.structures import id_images, images
from model_fns.structures.label_map import LabelMap

_MASK = 'mask'
_KINDS = ('polygon', 'rectangle', 'rotation', 'quadrilateral', 'circle', _MASK)
# Keys of a shape that are read, or that change nothing about its box, pixels and class.
_KEYS = frozenset(
    (
        'label',
        'points',
        'group_id',
        'shape_type',
        'mask',
        'description',
        'direction',
        'score',
        'kie_linking',
    )
)
_CORNERS = 4
# Labels of labelme for regions that are no objects; the pixels of the second are background.
_BACKGROUND = '_background_'
_REGIONS = 'regions to ignore'
_CIRCLE_POINTS = 64


class _Part(NamedTuple):
    """A shape of an object.

    Attributes:
        outline: x, y of each corner in pixels.
        mask: its pixels; None: those inside of the outline.
    """

    outline: List[float]
    mask: Optional[PixelMask] = None


class _Object(NamedTuple):
    """Object of one or several shapes; boxes are in pixels.

    Attributes:
        class_id: its class.
        name: of its class.
        box: ymin, xmin, ymax, xmax.
        mask: its pixels; None where nothing reads masks.
        rotated: the smallest rotated box around it; None where records have axis-aligned boxes.
        is_ignored: it is a region to ignore.
        pixel_class: id of its pixels; `IGNORED` where they count for nothing.
    """

    class_id: int
    name: str
    box: List[float]
    mask: Optional[PixelMask]
    rotated: Optional[Sequence[float]] = None
    is_ignored: bool = False
    pixel_class: int = class_maps.BACKGROUND


class Labelme(paired.PairedSource):
    """Images in one folder, `<stem>.json` for each in another or the same.

    Args:
        image_folder: of the images.
        annotation_folder: of the JSON files.
        is_rotated: whether records get the smallest rotated box around each object, in place of
            its axis-aligned box.
        draws_classes: whether records get the class of each pixel.
        include_masks: whether records get the mask of each object as a PNG.
    """

    ending = '.json'
    kind = 'JSON file'

    def __init__(
        self,
        image_folder: str,
        annotation_folder: str,
        is_rotated: bool = False,
        draws_classes: bool = False,
        include_masks: bool = True,
    ):
        super().__init__(image_folder, annotation_folder)
        self._is_rotated = is_rotated
        self._draws_classes = draws_classes
        self._include_masks = include_masks

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
        return sorted(names - {_BACKGROUND})

    def _image_name(self, path: str) -> str:
        try:
            name = _read(path).get('imagePath')
        except errors.DataError:  # reported as an annotation without an image
            return ''
        return name if sources.is_text(name) else ''

    def features(
        self, item: Item, header: images.ImageHeader, classes: LabelMap, report: sources.Report
    ) -> records.Features:
        """Return the record features of an image's objects."""
        content = _read(str(item.annotation))
        sources.check_size(header, *(_size(content, side) for side in ('Height', 'Width')))
        objects: List[_Object] = []
        for places, shapes in _grouped(content['shapes']):
            place = f'{item.annotation}: shapes[{places[0]}]'
            try:
                objects += self._objects(shapes, place, header, classes, report)
            except errors.DataError as problem:
                report.leave_out(place, problem)
        objects.sort(key=lambda each: each.is_ignored)  # training may leave out the last ones
        features = self._box_features(objects, header)
        if any(each.is_ignored for each in objects):
            features.update(sources.crowd_features([each.is_ignored for each in objects]))
        if self._draws_classes:
            drawn = [class_maps.Shape(each.pixel_class, each.mask, each.box) for each in objects]
            features.update(class_maps.class_features(class_maps.draw(drawn, header, classes)))
        return features

    def _box_features(
        self, objects: Sequence[_Object], header: images.ImageHeader
    ) -> records.Features:
        """Return the record features of boxes, with masks where these are wanted."""
        ids = [each.class_id for each in objects]
        names = [each.name for each in objects]
        if self._is_rotated:
            rotated: List[Any] = [each.rotated for each in objects]
            return rotated_boxes.box_features(rotated, ids, names, header)
        boxes = [each.box for each in objects]
        features = sources.box_features(boxes, ids, names, header)
        if self._include_masks:
            masks = [each.mask for each in objects]
            features.update(polygons.mask_features(masks, boxes, header))
        return features

    def _objects(
        self,
        shapes: Sequence[Any],
        place: str,
        header: images.ImageHeader,
        classes: LabelMap,
        report: sources.Report,
    ) -> List[_Object]:
        """Build the object of a group of shapes; a region to ignore is one of each class."""
        drawn = [_part(shape, header) for shape in shapes]
        outlines = [part.outline for part in drawn]
        name = shapes[0]['label']
        is_ignored = name == _BACKGROUND and name not in classes
        parts = [polygons.box_around(outline) for outline in outlines]
        report.observe_box(
            place,
            annotated.enclose(parts),
            name='' if is_ignored else name,
            ignored=_REGIONS if is_ignored else '',
            gap=annotated.largest_gap(parts),
            unread=_unread_keys(shapes),
        )
        polygons.check(outlines, header)
        points = [number for outline in outlines for number in outline]
        box = report.fit(annotated.enclose(parts), header)
        ids = list(classes.names) if is_ignored else [sources.class_id(classes, name)]
        rotated = mask = None
        if self._is_rotated:
            rotated = rotated_boxes.smallest_box(points).tolist()
            rotated_boxes.check_box(rotated, header)
        elif self._include_masks or self._draws_classes:
            masks = [part.mask for part in drawn if part.mask is not None]
            edged = [part.outline for part in drawn if part.mask is None]
            mask = pixel_masks.join([*masks, *([polygons.draw(edged, header)] if edged else [])])
        if not is_ignored:
            return [_Object(ids[0], name, box, mask, rotated, pixel_class=ids[0])]
        # A detection in such a region counts for nothing, whatever its class.
        return [
            _Object(key, classes.item(key).name, box, mask, rotated, True, class_maps.BACKGROUND)
            for key in ids
        ]


def _read(path: str) -> Dict[str, Any]:
    return json_files.read(path, ['shapes'], 'a file of labelme, with a list of shapes')


def _grouped(shapes: Sequence[Any]) -> List[Tuple[List[int], List[Any]]]:
    """Return the places and shapes of each object, in the order of their first shapes."""
    groups: Dict[Any, Tuple[List[int], List[Any]]] = {}
    for place, shape in enumerate(shapes):
        key: Any = place
        if isinstance(shape, dict) and shape.get('group_id') is not None:
            # repr, because a malformed file may have lists there, which are no keys of a dict.
            key = (repr(shape.get('label')), repr(shape['group_id']))
        places, members = groups.setdefault(key, ([], []))
        places.append(place)
        members.append(shape)
    return list(groups.values())


def _unread_keys(shapes: Sequence[Any]) -> List[str]:
    """Return the keys of shapes that say something and that nobody reads."""
    keys = [
        key
        for shape in shapes
        for key, value in shape.items()
        if key not in _KEYS and (any(value.values()) if isinstance(value, dict) else value)
    ]
    return list(dict.fromkeys(keys))


def _part(shape: Any, header: images.ImageHeader) -> _Part:
    """Return the outline of a shape, and its pixels where it has a mask.

    Raises:
        errors.DataError: the shape is malformed, or has no area.
    """
    corners = _outline(shape)
    if shape.get('shape_type') != _MASK:
        return _Part(corners)
    left, top, right, bottom = (round(side) for side in corners)
    try:
        encoded = base64.b64decode(shape.get('mask') or '', validate=True)
        pixels = (id_images.read(encoded) > 0).astype(np.uint8)
    except (errors.DataError, TypeError, ValueError) as error:
        raise errors.DataError(
            f'the mask is no PNG in base 64: {str(error).rstrip(".")}.'
        ) from error
    if pixels.shape != (bottom - top + 1, right - left + 1):
        raise errors.DataError(
            f'the mask has {pixels.shape[0]} x {pixels.shape[1]} pixels; expected '
            f'{bottom - top + 1} x {right - left + 1}, those from one of its points to the other.'
        )
    if not (top >= 0 and left >= 0 and bottom < header.height and right < header.width):
        raise errors.DataError(
            f'the mask is between the points {left}, {top} and {right}, {bottom}; the image has '
            f'{header.height} x {header.width} pixels.'
        )
    if not pixels.any():
        raise errors.DataError(f'the mask, from {left}, {top} to {right}, {bottom}, has no pixels.')
    return _Part(_hull(pixels, left, top), PixelMask(top, left, pixels))


def _hull(pixels: np.ndarray, left: int, top: int) -> List[float]:
    """Return x, y of the outer corners of the first and last pixel of each row of a mask.

    Args:
        pixels: uint8 [rows, columns], at least one of which is not 0.
        left: column of the mask in its image.
        top: row of the mask in its image.
    """
    rows = np.flatnonzero(pixels.any(axis=1))
    first = pixels[rows].argmax(axis=1) + left
    # argmax of the reversed row: the outer edge of the last pixel that is set.
    last = pixels.shape[1] - pixels[rows, ::-1].argmax(axis=1) + left
    xs, ys = np.stack([first, last, last, first], 1), np.stack([rows, rows, rows + 1, rows + 1], 1)
    return np.stack([xs, ys + top], -1).astype(float).ravel().tolist()


def _outline(shape: Any) -> List[float]:
    """Return x, y of each corner of a shape, in pixels; of a mask those of its two points.

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
    count = len(numbers) // 2
    if kind == 'polygon' or (kind not in ('circle', _MASK) and count == _CORNERS):
        return numbers
    if count != 2 or kind not in ('rectangle', 'circle', _MASK):
        other = str(_CORNERS)
        expected = {'rectangle': f'2 or {_CORNERS}', 'circle': '2', _MASK: '2'}.get(kind, other)
        raise errors.DataError(f'the {kind} has {count} points; expected {expected}.')
    if kind == _MASK:
        return numbers
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
    return Labelme(
        arguments.images,
        annotations,
        arguments.boxes == 'rotated',
        arguments.class_masks,
        not arguments.no_masks,
    )
