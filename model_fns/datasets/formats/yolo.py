"""`--from=yolo`: a text file an image, with a line for each box or polygon."""

from __future__ import annotations

import argparse
import os
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import tensorflow as tf
import yaml

from estimator_lib import errors
from model_fns.datasets import records, sources
from model_fns.datasets.annotations import class_maps, keypoints, paired, polygons
from model_fns.datasets.annotations.pixel_masks import PixelMask
from model_fns.datasets.files import folder_files
from model_fns.datasets.meaning import readings
from model_fns.datasets.rotated import boxes as rotated_boxes
from model_fns.datasets.sources import Item, Source
from model_fns.structures import images
from model_fns.structures.label_map import LabelMap, to_id

_DATA_FILES = ('data.yaml', 'dataset.yaml')
_NAME_FILES = ('classes.txt', 'obj.names', *_DATA_FILES)
_FOLDERS_ABOVE = 2  # levels above the annotations that are searched for the file of names
_MOST_DEPTH = 20  # of lists and mappings in a YAML file
_YAML_ENDINGS = ('.yaml', '.yml')
_BOX_NUMBERS = 4
_LEAST_POLYGON_NUMBERS = 6
_MOST_CLASSES = 1_000_000
_VISIBILITIES = (0, 1, 2)
_EXPECTED = 'expected `class center_x center_y width height`, or `class` and at least three points'


class KeypointShape(NamedTuple):
    """The keypoints of each object of a pose data set: `kpt_shape`.

    Attributes:
        count: number of keypoints.
        numbers: of each: 2 for x and y, 3 with the visibility.
    """

    count: int
    numbers: int


class _Object(NamedTuple):
    """Object of a line; boxes and keypoints are in pixels.

    Attributes:
        class_id: its class.
        box: ymin, xmin, ymax, xmax; or a rotated box, see `rotated_rectangles`.
        mask: its pixels; None: it is a box, or nothing reads masks.
        points: its keypoints.
    """

    class_id: int
    box: Sequence[float]
    mask: Optional[PixelMask] = None
    points: Sequence[float] = ()


class Yolo(paired.PairedSource):
    """Images in one folder, `<stem>.txt` for each in another.

    A line is `class center_x center_y width height` or `class x y x y x y ..`, a polygon. Where a
    data file has `kpt_shape`, keypoints follow the box. Classes are counted from 0; all other
    numbers are normalized by the image's sides. An image without a file has no objects.

    Args:
        image_folder: of the images.
        annotation_folder: of the text files.
        names: of the classes by their numbers; None: those of the label map.
        shape: of the keypoints; None: there are none.
        is_rotated: whether records get the smallest rotated box around each polygon, in place of
            masks; a box gets the angle 0.
        draws_classes: whether records get the class of each pixel.
        include_masks: whether records get the mask of each polygon as a PNG.
    """

    needs_annotation = False

    def __init__(
        self,
        image_folder: str,
        annotation_folder: str,
        names: Optional[Mapping[int, str]],
        shape: Optional[KeypointShape] = None,
        is_rotated: bool = False,
        draws_classes: bool = False,
        include_masks: bool = True,
    ):
        super().__init__(image_folder, annotation_folder)
        self._draws_classes = draws_classes
        self._include_masks = include_masks
        self._names = names
        self._shape = shape
        self._is_rotated = is_rotated

    def _is_annotation(self, name: str) -> bool:
        return super()._is_annotation(name) and name not in _NAME_FILES

    def class_names(self, items: Sequence[Item]) -> List[str]:
        """Return the class names of the file of names.

        Raises:
            errors.DataError: there is no such file.
        """
        if self._names is None:
            raise errors.DataError(
                f'no file has the class names: expected --names=FILE, one of '
                f'{", ".join(_NAME_FILES)} beside the annotations or a folder above, or a label '
                'map that exists.'
            )
        return [self._names[index] for index in sorted(self._names)]

    def features(
        self, item: Item, header: images.ImageHeader, classes: LabelMap, report: sources.Report
    ) -> records.Features:
        """Return the record features of an image's objects; polygons become masks or boxes."""
        objects: List[_Object] = []
        text = folder_files.read_text(str(item.annotation)) if item.annotation else ''
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip():
                continue
            place = f'{item.annotation}, line {number}'
            try:
                objects.append(self._object(line, place, header, classes, report))
            except errors.DataError as problem:
                report.leave_out(place, problem)
        ids = [item.class_id for item in objects]
        boxes: List[Any] = [item.box for item in objects]
        names = sources.class_names(classes, ids)
        box_features = rotated_boxes.box_features if self._is_rotated else sources.box_features
        features = box_features(boxes, ids, names, header)
        if self._include_masks:
            masks = [item.mask for item in objects]
            features.update(polygons.mask_features(masks, boxes, header))
        if self._draws_classes:
            shapes = [class_maps.Shape(item.class_id, item.mask, item.box) for item in objects]
            features.update(class_maps.class_features(class_maps.draw(shapes, header, classes)))
        if any(item.points for item in objects):
            points = [item.points for item in objects]
            features.update(keypoints.keypoint_features(points, header))
        return features

    def labels(self, classes: LabelMap) -> Optional[range]:
        """Return the numbers of the classes, which files count from 0."""
        return range(max(classes.names, default=0) if self._names is None else max(self._names) + 1)

    def _observe(
        self, index: int, values: Sequence[float], place: str, report: sources.Report
    ) -> None:
        """Add an object, as the file has it, to the report."""
        numbers, reading = values[:_BOX_NUMBERS], readings.NORMALIZED_CENTERS
        if self._shape is None and len(values) > _BOX_NUMBERS:
            xs, ys = values[::2], values[1::2]
            numbers, reading = [min(xs), min(ys), max(xs), max(ys)], readings.NORMALIZED_CORNERS
        name = (self._names or {}).get(index, '')
        report.observe(place, numbers, reading=reading, name=name, label=index)

    def _object(
        self,
        line: str,
        place: str,
        header: images.ImageHeader,
        classes: LabelMap,
        report: sources.Report,
    ) -> _Object:
        """Parse a line."""
        index, values = _numbers(line)
        self._observe(index, values, place, report)
        class_id = self._class_id(index, classes)
        if self._shape is not None:
            return self._pose(class_id, values, header, report)
        if len(values) == _BOX_NUMBERS:
            return _Object(class_id, self._fit(_box(values, header), header, report))
        if _has_visibilities(values):
            raise errors.DataError(
                f'{len(values)} numbers after the class; keypoints behind a box, it seems: name '
                'the data file that has kpt_shape with --names.'
            )
        if len(values) < _LEAST_POLYGON_NUMBERS or len(values) % 2:
            raise errors.DataError(f'{len(values)} numbers after the class; {_EXPECTED}.')
        xs = [x * header.width for x in values[::2]]
        ys = [y * header.height for y in values[1::2]]
        if self._is_rotated:
            points = [side for point in zip(xs, ys) for side in point]
            rotated = rotated_boxes.smallest_box(points).tolist()
            rotated_boxes.check_box(rotated, header)
            return _Object(class_id, rotated)
        box = report.fit([min(ys), min(xs), max(ys), max(xs)], header)
        polygon = [side for point in zip(xs, ys) for side in point]
        polygons.check([polygon], header)
        is_drawn = self._include_masks or self._draws_classes
        return _Object(class_id, box, polygons.draw([polygon], header) if is_drawn else None)

    def _fit(
        self, box: Sequence[float], header: images.ImageHeader, report: sources.Report
    ) -> Sequence[float]:
        """Clip a box; rotated, it gets the angle 0."""
        top, left, bottom, right = report.fit(box, header)
        if not self._is_rotated:
            return top, left, bottom, right
        rotated = [(top + bottom) / 2, (left + right) / 2, bottom - top, right - left, 0.0]
        rotated_boxes.check_box(rotated, header)
        return rotated

    def _class_id(self, index: int, classes: LabelMap) -> int:
        if self._names is None:
            return classes.item(to_id(index)).id
        if index in self._names:
            return sources.class_id(classes, self._names[index])
        raise errors.DataError(
            f'class {index} has no name; there are {len(self._names)}, counted from 0.'
        )

    def _pose(
        self,
        class_id: int,
        values: Sequence[float],
        header: images.ImageHeader,
        report: sources.Report,
    ) -> _Object:
        """Build an object from a box and the keypoints that follow it."""
        count, numbers = self._shape
        if len(values) not in (_BOX_NUMBERS, _BOX_NUMBERS + count * numbers):
            raise errors.DataError(
                f'{len(values)} numbers after the class; expected a box and {count} x {numbers} of '
                'keypoints (kpt_shape).'
            )
        box = self._fit(_box(values[:_BOX_NUMBERS], header), header, report)
        points: List[float] = []
        for start in range(_BOX_NUMBERS, len(values), numbers):
            x, y = values[start : start + 2]
            # Without visibilities, 0 0 is an unlabeled keypoint.
            # 2 is COCO's "labeled and visible".
            visibility = values[start + 2] if numbers > 2 else 2.0 * bool(x or y)
            points += [x * header.width, y * header.height, visibility]
        for side in points:
            if sources.number(side) is None:
                raise errors.DataError(f'a keypoint has the side {side}, which is no number.')
        return _Object(class_id, box, points=points)


def _box(values: Sequence[float], header: images.ImageHeader) -> List[float]:
    """Convert normalized center x, center y, width, height to ymin, xmin, ymax, xmax in pixels."""
    x, y, width, height = values
    left, top = (x - width / 2) * header.width, (y - height / 2) * header.height
    return [top, left, top + height * header.height, left + width * header.width]


def _has_visibilities(values: Sequence[float]) -> bool:
    """Return whether values are a box and keypoints with visibilities of 0, 1 or 2."""
    points = values[_BOX_NUMBERS:]
    x, y, width, height = values[:_BOX_NUMBERS] if len(values) > _BOX_NUMBERS else [0.0] * 4
    # A polygon of as many numbers rarely looks like a box inside of the image.
    is_box = width > 0 and height > 0 and x - width / 2 > -0.01 and y - height / 2 > -0.01
    return (
        is_box
        and len(points) % keypoints.PER_KEYPOINT == 0
        and set(points[2 :: keypoints.PER_KEYPOINT]).issubset(_VISIBILITIES)
    )


def _numbers(line: str) -> Tuple[int, List[float]]:
    """Parse the class and the other numbers of a line."""
    parts = line.split()
    index = _whole(parts[0])
    if index is None:
        raise errors.DataError(f'the class is {parts[0]!r:.40}; {_EXPECTED}.')
    try:
        values = [float(part) for part in parts[1:]]
    except ValueError as error:
        raise errors.DataError(f'{error!s:.80}; {_EXPECTED}.') from None
    if len(values) < _BOX_NUMBERS:
        raise errors.DataError(f'{len(values)} numbers after the class; {_EXPECTED}.')
    return index, values


def _whole(text: str) -> Optional[int]:
    """Parse an integer from 0, also in the form `3.0`; None for any other text."""
    try:
        value = float(text)
    except ValueError:
        return None
    # The bound comes first: int() of an infinity raises, and NaN fails both comparisons.
    return int(value) if 0 <= value < _MOST_CLASSES and value == int(value) else None


def find_names_file(folder: str, names: Sequence[str] = _NAME_FILES) -> Optional[str]:
    """Find the file of class names beside the annotations or above; None without one."""
    folder = os.path.abspath(folder) if not folder_files.is_remote(folder) else folder
    for _ in range(_FOLDERS_ABOVE + 1):
        for name in names:
            path = os.path.join(folder, name)
            if tf.io.gfile.exists(path) and not tf.io.gfile.isdir(path):
                return path
        folder = os.path.dirname(folder)
    return None


def read_names(path: str) -> Dict[int, str]:
    """Read class names by their numbers: one per line, or `names` of a YAML file.

    Raises:
        errors.DataError: there are no names, or they are malformed.
    """
    if not tf.io.gfile.exists(path):
        raise folder_files.missing('--names', 'file', path)
    names = _yaml_names(path) if path.endswith(_YAML_ENDINGS) else _lines(path)
    if not names:
        raise errors.DataError(f'{path} holds no class names; expected one for each class.')
    for index, name in names.items():
        if not sources.is_text(name):
            raise errors.DataError(f'{path} has {name!r:.40} for class {index}; expected a name.')
    if len(set(names.values())) < len(names):
        raise errors.DataError(f'{path} holds a name twice; expected one for each class.')
    return names


def _lines(path: str) -> Dict[int, str]:
    """Read the lines by their numbers from 0; an empty line before a name is a missing name."""
    text = folder_files.read_text(path).rstrip()
    return {index: line.strip() for index, line in enumerate(text.splitlines())}


def _yaml_names(path: str) -> Dict[int, Any]:
    """Read `names: [a, b]` or `names: {0: a, 1: b}`, with possible gaps, from a data file.

    Raises:
        errors.DataError: the names are neither.
    """
    names = read_data_file(path).get('names') or {}
    if isinstance(names, list):
        return dict(enumerate(names))
    numbers = [_whole(key) for key in names] if isinstance(names, dict) else [None]
    if None in numbers or len(set(numbers)) < len(numbers):
        raise errors.DataError(
            f'{path}: names are {names!r:.80}; expected a list, or names by their numbers from 0.'
        )
    return dict(zip(numbers, names.values()))


def read_keypoint_shape(path: str) -> Optional[KeypointShape]:
    """Read `kpt_shape` of a data file; None where it has none.

    Raises:
        errors.DataError: it is not a number of keypoints and 2 or 3.
    """
    shape = read_data_file(path).get('kpt_shape')
    if shape is None:
        return None
    numbers = [_whole(value) for value in map(str, shape)] if isinstance(shape, list) else []
    if len(numbers) != 2 or not numbers[0] or numbers[1] not in (2, 3):
        raise errors.DataError(
            f'{path}: kpt_shape is {shape!r:.40}; expected a number of keypoints, and 2 or 3.'
        )
    return KeypointShape(*numbers)


def _refuse_endless(path: str, events: Iterable[yaml.Event]) -> None:
    """Refuse what takes all memory or hours, while it is parsed.

    Aliases of aliases hold as many values as fit no memory, in a few lines. The time of the parser
    is the square of the depth of brackets.
    """
    depth = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            raise errors.DataError(f'{path}: aliases (*name) are not read; expected the values.')
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _MOST_DEPTH:
            raise errors.DataError(
                f'{path}: lists and mappings are in each other {depth} times; expected at most '
                f'{_MOST_DEPTH}.'
            )


def read_data_file(path: str) -> Dict[str, Any]:
    """Read a YAML file with all values as text, so that `no` is a name.

    Raises:
        errors.DataError: the file is missing, or is not YAML.
    """
    text = folder_files.read_text(path)
    try:
        # Events first: `load` has built the values before anyone could look at them.
        _refuse_endless(path, yaml.parse(text, yaml.BaseLoader))
        content = yaml.load(text, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise errors.DataError(f'{path} is not YAML: {" ".join(str(error).split())}.') from None
    return content if isinstance(content, dict) else {}


@sources.SOURCES.register('yolo')
def _from_arguments(arguments: argparse.Namespace) -> Source:
    annotations = sources.require_annotations(arguments, 'DIR, the folder of the text files')
    path = arguments.names or find_names_file(annotations)
    names = read_names(path) if path else None
    if path is None or not path.endswith(_YAML_ENDINGS):
        path = find_names_file(annotations, _DATA_FILES)
    shape = read_keypoint_shape(path) if path else None
    return Yolo(
        arguments.images,
        annotations,
        names,
        shape,
        arguments.boxes == 'rotated',
        arguments.class_masks,
        not arguments.no_masks,
    )
