"""`--from=panoptic`: segments as COCO has them, in a JSON file and a PNG of ids for each image.

The format is that of https://cocodataset.org/#format-data: the id of a segment is
`red + 256 * green + 65536 * blue`, and 0 is no segment.
"""

from __future__ import annotations

import argparse
import os
from typing import Any, Dict, List, NamedTuple, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from model_fns.datasets import codecs, records, sources
from model_fns.datasets.annotations import class_maps, id_pngs, json_files
from model_fns.datasets.files import folder_files
from model_fns.datasets.formats import coco
from model_fns.datasets.meaning.annotated import CROWD
from model_fns.datasets.sources import Item, Source
from model_fns.structures import id_images, images
from model_fns.structures.label_map import LabelMap

_VOID = 0  # id of pixels without a segment
_MOST_INSTANCES = 65535  # ids of a PNG of 16 bits


class _Segment(NamedTuple):
    """Segment of an image.

    Attributes:
        id: value of its pixels.
        class_id: of the label map.
        name: of its class.
        is_thing: whether it is an object; else it is a region, as of sky.
        is_crowd: several objects as one, whose pixels count for nothing.
    """

    id: int
    class_id: int
    name: str
    is_thing: bool
    is_crowd: bool


class Panoptic(coco.Coco):
    """Images in one folder, a panoptic JSON for all of them, the PNGs in the folder of its name.

    Records have the class of each pixel, the instance of each pixel of a thing, and things as
    objects with boxes and masks. Pixels of no segment and of crowds are ignored.

    Args:
        image_folder: that `file_name` of an image is relative to.
        annotations: path of the JSON; `panoptic.json` has its PNGs in `panoptic/`.
        include_masks: whether records get each thing's mask as a PNG.
    """

    most_checked = sources.MOST_CHECKED_PNGS

    def __init__(self, image_folder: str, annotations: str, include_masks: bool = True):
        super().__init__(image_folder, annotations, include_masks)
        self._png_folder = os.path.splitext(annotations)[0]

    def _read(self) -> Dict[str, Any]:
        if not tf.io.gfile.exists(self._annotations):
            raise folder_files.missing('--annotations', 'file', self._annotations)
        if not tf.io.gfile.isdir(self._png_folder):
            raise errors.DataError(
                f'--annotations: there is no folder {self._png_folder} with the PNGs of '
                f'{self._annotations}{errors.relative_to(self._png_folder)}.'
            )
        expected = 'a panoptic file of COCO, with lists of images, annotations and categories'
        return json_files.read(self._annotations, ['images', 'annotations', 'categories'], expected)

    def _leave_roots_out(self, content: Dict[str, Any]) -> None:
        """Keep all categories: segments, not annotations, name those in use."""

    def annotation_path(self, item: Item) -> str:
        """Return the path of the PNG of an image; '' where it has none."""
        try:
            return self._png_path(self._annotation(item))
        except errors.DataError:  # reported when the item is converted
            return ''

    def features(
        self, item: Item, header: images.ImageHeader, classes: LabelMap, report: sources.Report
    ) -> records.Features:
        """Return the record features of an image's classes, instances and things.

        Raises:
            errors.DataError: the image has no usable annotation, or more things than 16 bits can
                number.
        """
        annotation = self._annotation(item)
        ids = self._ids(annotation, header)
        segments: List[_Segment] = []
        for entry in annotation['segments_info']:
            key = entry.get('id') if isinstance(entry, dict) else entry
            place = f'{self._annotations}: segment {key!r:.40}'
            try:
                segment = self._segment(entry, ids, classes)
            except errors.DataError as problem:
                report.leave_out(place, problem)
                continue
            segments.append(segment)
            ignored = CROWD if segment.is_crowd else ''
            report.observe(place, ignored=ignored, name=segment.name)
        class_maps.check_ignored(classes, 'pixels of no segment')
        semantic = np.full(ids.shape, class_maps.IGNORED, np.int32)
        # The ids of the file have 24 bits; a gray PNG holds 16.
        instances = np.zeros(ids.shape, np.uint16)
        things = [segment for segment in segments if segment.is_thing]
        if len(things) > _MOST_INSTANCES:
            raise errors.DataError(f'{len(things)} things; expected at most {_MOST_INSTANCES}.')
        for segment in segments:
            if not segment.is_crowd and segment.class_id < class_maps.FIRST_IGNORED_ID:
                semantic[ids == segment.id] = segment.class_id
        for number, thing in enumerate(things, 1):
            if not thing.is_crowd:
                instances[ids == thing.id] = number
        return {
            **class_maps.class_features(semantic),
            'image/segmentation/instance/encoded': codecs.encode_png(instances),
            **_object_features(things, ids, header, self._include_masks),
        }

    def _annotation(self, item: Item) -> Dict[str, Any]:
        """Return the entry of an image's segments."""
        pair: Any = item.annotation
        _, entries = pair
        if len(entries) != 1:
            raise errors.DataError(
                f'{self._annotations} has {len(entries)} annotations of the image; expected one.'
            )
        annotation = entries[0]
        if not isinstance(annotation.get('segments_info'), list):
            raise errors.DataError(f'{self._annotations}: the image has no list of segments_info.')
        return annotation

    def _png_path(self, annotation: Dict[str, Any]) -> str:
        name = annotation.get('file_name')
        base = name.replace('\\', '/').rpartition('/')[2] if sources.is_text(name) else ''
        if base in ('', '.', '..'):
            raise errors.DataError(f'file_name of its segments is {name!r:.80}; expected a name.')
        return os.path.join(self._png_folder, base)

    def _ids(self, annotation: Dict[str, Any], header: images.ImageHeader) -> np.ndarray:
        """Read the segment of each pixel: int32 [height, width]."""
        path = self._png_path(annotation)
        try:
            encoded = folder_files.read_bytes(path)
            id_pngs.check_size(encoded, header)
            colors = id_images.read_colors(encoded)
        except sources.SizeError:
            raise
        except errors.DataError as problem:
            text = str(problem).rstrip('.')
            raise errors.DataError(f'the annotation {path} is {text}.') from problem
        # Red is the lowest byte of an id, and the highest one of a color.
        return (colors >> 16) | (colors & 0xFF00) | ((colors & 0xFF) << 16)

    def _segment(self, entry: Any, ids: np.ndarray, classes: LabelMap) -> _Segment:
        if not isinstance(entry, dict):
            raise errors.DataError(f'{entry!r:.40} is no segment.')
        key, is_crowd = entry.get('id'), entry.get('iscrowd', 0)
        if not isinstance(key, int) or isinstance(key, bool) or not _VOID < key < 1 << 24:
            raise errors.DataError(
                f'id is {key!r:.40}; expected a number from 1 to {(1 << 24) - 1}.'
            )
        if is_crowd not in (0, 1):
            raise errors.DataError(f'iscrowd is {is_crowd!r:.40}; expected 0 or 1.')
        category = self._category(entry)
        if not (ids == key).any():
            raise errors.DataError(f'no pixel of the PNG has its id, {key}.')
        return _Segment(
            key,
            sources.class_id(classes, category['name']),
            category['name'],
            category.get('isthing', 1) != 0,
            bool(is_crowd),
        )


def _object_features(
    things: Sequence[_Segment], ids: np.ndarray, header: images.ImageHeader, include_masks: bool
) -> records.Features:
    """Return the record features of things as objects of detection."""
    masks = [ids == thing.id for thing in things]
    boxes = [class_maps.box_around(mask) for mask in masks]
    class_ids, names = [thing.class_id for thing in things], [thing.name for thing in things]
    features: records.Features = {
        **sources.box_features(boxes, class_ids, names, header),
        **sources.crowd_features([thing.is_crowd for thing in things]),
        'image/object/area': np.array([mask.sum() for mask in masks], np.float32),
    }
    if include_masks:
        pngs = [codecs.encode_png(mask.astype(np.uint8)) for mask in masks]
        features['image/object/mask'] = pngs
    return features


@sources.SOURCES.register('panoptic')
def _from_arguments(arguments: argparse.Namespace) -> Source:
    annotations = sources.require_annotations(arguments, 'FILE, the panoptic JSON')
    return Panoptic(arguments.images, annotations, not arguments.no_masks)
