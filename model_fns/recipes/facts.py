"""Facts of a data set that decisions are made from: sizes of images, boxes and classes of all."""

from __future__ import annotations

import collections
from typing import Any, Counter, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf
from google.protobuf import message

from estimator_lib import errors
from estimator_lib.drawing.tiling import Tiling
from model_fns.datasets import examination, readers
from model_fns.datasets.annotations import tiles
from model_fns.datasets.rotated import boxes as rotated_boxes
from model_fns.structures import images, rotated_rectangles
from model_fns.structures.label_map import LabelMap
from protos import input_reader_pb2, reader_paths

BACKGROUND_ID = 0  # of a label map of masks
_SIDES = ('ymin', 'xmin', 'ymax', 'xmax')
_BOX_KEYS = [f'image/object/bbox/{side}' for side in _SIDES]
_WEIGHT = 'image/object/weight'  # 0 of regions to ignore, see `ignored_regions`


class ImageFacts(NamedTuple):
    """Facts of an image.

    Attributes:
        size: height and width in pixels.
        boxes: float [n, 4], ymin, xmin, ymax, xmax, normalized; those with an area.
        labels: class names of the objects, or of the image.
        num_ignored: rows of the record that are no objects: crowds that regions to ignore become;
            of a tile at most so many.
        rotated: float [n, 5], cy, cx, h, w, angle as in a record, where the objects have rotated
            boxes; `boxes` are then the smallest ones around them. None: they have none.
    """

    size: Tuple[int, int]
    boxes: np.ndarray
    labels: Sequence[str] = ()
    num_ignored: int = 0
    rotated: Optional[np.ndarray] = None

    def sides(self) -> np.ndarray:
        """Return the roots of the areas of the normalized objects: [n]."""
        heights_widths = self.boxes[:, 2:] - self.boxes[:, :2]
        if self.rotated is not None:
            heights_widths = self.rotated[:, 2:4]
        return np.sqrt(np.prod(heights_widths, axis=1))


def _cut(image: ImageFacts, tiling: Tiling, least: float) -> List[ImageFacts]:
    """Return the facts of the tiles of an image that hold objects; of an image that fits, its own.

    Args:
        image: of the whole image.
        tiling: the tiles.
        least: objects are in a tile that holds at least this part of their area.
    """
    windows = tiling.windows(*image.size)
    if len(windows) < 2:
        return [image]
    boxes = image.boxes * np.tile(image.size, 2)
    found = []
    for window in windows:
        clipped, inside = tiles.clip_boxes(boxes, window)
        kept = (inside >= least - tiles.ROUNDING) & (inside > 0)
        if kept.any():
            is_named = len(image.labels) == len(boxes)
            labels = [image.labels[k] for k in np.flatnonzero(kept)] if is_named else image.labels
            size = (window.height, window.width)
            found.append(ImageFacts(size, clipped[kept], tuple(labels), image.num_ignored))
    return found


class Facts(NamedTuple):
    """Facts of a data set.

    Attributes:
        train: of the training images.
        evaluation: of the others.
        class_names: in the order of their ids.
        num_left_out: objects that cannot be used.
    """

    train: Sequence[ImageFacts]
    evaluation: Sequence[ImageFacts]
    class_names: Sequence[str]
    num_left_out: int = 0

    def all(self) -> List[ImageFacts]:
        """Return the facts of all images."""
        return [*self.train, *self.evaluation]

    def cut(self, tiling: Tiling, least: float) -> Facts:
        """Return the facts of tiles with objects in place of images; see `_cut`."""
        train, evaluation = (
            [tile for image in images for tile in _cut(image, tiling, least)]
            for images in (self.train, self.evaluation)
        )
        return self._replace(train=train, evaluation=evaluation)

    def num_objects(self) -> int:
        """Return the number of boxes of all images."""
        return sum(len(image.boxes) for image in self.all())

    def most_objects(self) -> int:
        """Return the largest number of boxes of an image."""
        return max((len(image.boxes) for image in self.all()), default=0)

    def most_rows(self) -> int:
        """Return the largest number of boxes of an image, with those of regions to ignore."""
        return max((len(image.boxes) + image.num_ignored for image in self.all()), default=0)

    def aspect(self) -> float:
        """Return the median of width by height."""
        return float(np.median([image.size[1] / image.size[0] for image in self.all()]))

    def typical_size(self) -> Tuple[int, int]:
        """Return the median height and width."""
        height, width = np.median([image.size for image in self.all()], axis=0)
        return int(height), int(width)

    def sides(self) -> np.ndarray:
        """Return the roots of the areas of all boxes as shares of those of their images: [n]."""
        return np.concatenate([*(image.sides() for image in self.all()), np.zeros([0])])

    def images_of_classes(self) -> Counter[str]:
        """Return the number of training images that have each class."""
        return collections.Counter(name for image in self.train for name in set(image.labels))


def collect(
    train: input_reader_pb2.InputReader,
    evaluation: input_reader_pb2.InputReader,
    rotated: bool = False,
) -> Facts:
    """Collect the facts of all examples of two readers; images are not decoded.

    Args:
        train: of the training images.
        evaluation: of the others.
        rotated: whether the objects are rotated boxes.

    Raises:
        errors.DataError: there is no training image that can be read.
    """
    classes = LabelMap.read(train.label_map_path)
    left_out = 0
    parts: List[List[ImageFacts]] = []
    for reader in (train, evaluation):
        parts.append([])
        for image, count in _read(reader, classes, rotated):
            parts[-1].append(image)
            left_out += count
    if not parts[0]:
        paths = errors.shortened(reader_paths.reader_paths(train)[1], 1)
        raise errors.DataError(f'{paths}: no training image and its annotation can be read.')
    names = [name for number, name in classes.names.items() if number != BACKGROUND_ID]
    return Facts(parts[0], parts[1], names, left_out)


def _read(
    reader: input_reader_pb2.InputReader, classes: LabelMap, rotated: bool
) -> Iterator[Tuple[ImageFacts, int]]:
    """Yield the facts of each example, and the number of its objects that are left out."""
    if reader_paths.files_kind(reader):
        for annotation in readers.read_annotations(reader):
            yield from_annotation(annotation, rotated), len(annotation.report.problems)
        return
    from estimator_lib.data import records

    files = records.find_files(reader.tf_record_input_reader.input_path, 'input_path')
    for record in records.usable_records(files):
        facts = from_record(record, classes, rotated)
        if facts is not None:
            yield facts, 0


def from_annotation(annotation: examination.Annotation, rotated: bool = False) -> ImageFacts:
    """Return the facts of an image from its annotation; `rotated` as in `collect`."""
    features, header = annotation.features or {}, annotation.header
    columns = [np.asarray(features.get(key, ()), np.float64) for key in _keys(rotated)]
    texts: Any = features.get('image/object/class/text', features.get('image/class/text', ()))
    names = [texts] if isinstance(texts, str) else list(texts)
    weights = np.asarray(features.get(_WEIGHT, ()), np.float64)
    return _facts((header.height, header.width), columns, names, weights)


def from_record(record: bytes, classes: LabelMap, rotated: bool = False) -> Optional[ImageFacts]:
    """Return the facts of an image from its `tf.train.Example`; None if it has no readable image.

    Args:
        record: the serialized example.
        classes: names the classes of records that have ids only.
        rotated: as in `collect`.
    """
    try:
        feature = tf.train.Example.FromString(record).features.feature
        header = images.image_header(b''.join(feature['image/encoded'].bytes_list.value[:1]))
    except (message.DecodeError, errors.DataError):
        return None
    columns = [np.array(feature[key].float_list.value, np.float64) for key in _keys(rotated)]
    if len({len(column) for column in columns}) > 1:
        return None  # a malformed record, of which the reader says what is wrong
    names: List[str] = []
    for prefix in ('image/object/class', 'image/class'):
        texts = feature[f'{prefix}/text'].bytes_list.value
        ids = feature[f'{prefix}/label'].int64_list.value
        names = names or [text.decode('utf-8', 'replace') for text in texts]
        names = names or [classes.names.get(label, str(label)) for label in ids]
    weights = np.array(feature[_WEIGHT].float_list.value, np.float64)
    return _facts((header.height, header.width), columns, names, weights)


def _keys(rotated: bool) -> Sequence[str]:
    return rotated_boxes.KEYS if rotated else _BOX_KEYS


def _facts(
    size: Tuple[int, int],
    columns: Sequence[np.ndarray],
    names: Sequence[str],
    weights: np.ndarray,
) -> ImageFacts:
    boxes = np.stack(columns, axis=1)
    turned = boxes if boxes.shape[1] == len(rotated_boxes.KEYS) else None
    if turned is not None:
        corners = rotated_rectangles.corners(rotated_rectangles.from_record(turned, *size))
        boxes = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
        # Corners are in pixels there; facts are normalized.
        boxes /= np.tile(size, 2)
    is_object = weights > 0 if len(weights) == len(boxes) else np.ones(len(boxes), bool)
    # Boxes without an area would pull the percentiles of sides to 0.
    sides = boxes[:, 2:] - boxes[:, :2] if turned is None else turned[:, 2:4]
    kept = is_object & (sides > 0).all(axis=1)
    if len(names) == len(boxes):
        names = [name for name, is_kept in zip(names, kept) if is_kept]
    num_ignored = int(len(boxes) - is_object.sum())
    if turned is not None:
        turned = turned[kept]
    return ImageFacts(size, boxes[kept], tuple(names), num_ignored, turned)
