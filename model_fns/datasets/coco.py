"""`--from=coco`: instances as COCO has them, one JSON file for all images."""

from __future__ import annotations

import argparse
import collections
import json
import os
from typing import Any, Dict, List, Mapping, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from model_fns import images
from model_fns.datasets import codecs, records, sources
from model_fns.datasets.sources import Item, Source
from model_fns.label_map import LabelMap

# Visibility of a keypoint: 0 not labelled, 1 labelled and hidden, 2 labelled and seen.
_VISIBLE = 2


class Coco(Source):
    """Images in one folder, everything about them in an instances JSON.

    Args:
        image_folder: that `file_name` is relative to.
        annotations: path of the JSON.
        include_masks: whether records get each object's mask as a PNG, where all of an image's
            objects have one.
    """

    def __init__(self, image_folder: str, annotations: str, include_masks: bool = True):
        self._image_folder = image_folder
        self._annotations = annotations
        self._include_masks = include_masks
        self._categories: Dict[int, str] = {}

    def items(self) -> List[Item]:
        """See `Source`; an item's annotation is (the image's entry, its objects' entries)."""
        content = self._read()
        self._categories = {one['id']: one['name'] for one in content['categories']}
        objects = collections.defaultdict(list)
        for entry in content['annotations']:
            objects[entry['image_id']].append(entry)
        return [
            Item(
                os.path.splitext(os.path.basename(entry['file_name']))[0],
                os.path.join(self._image_folder, entry['file_name']),
                str(entry['id']),
                (entry, objects[entry['id']]),
            )
            for entry in content['images']
        ]

    def _read(self) -> Mapping[str, Any]:
        try:
            with tf.io.gfile.GFile(self._annotations, 'r') as file:
                content = json.loads(file.read())
        except tf.errors.OpError:
            raise errors.DataError(
                f'--annotations: there is no file {self._annotations}.'
            ) from None
        except ValueError as error:
            raise errors.DataError(f'{self._annotations} is not JSON: {error}.') from None
        for key in ('images', 'annotations', 'categories'):
            if not isinstance(content, dict) or key not in content:
                raise errors.DataError(
                    f'{self._annotations} has no "{key}"; expected an instances file of COCO, with '
                    'images, annotations and categories.'
                )
        return content

    def class_names(self, items: Sequence[Item]) -> List[str]:
        """See `Source`: the categories in the order of their ids (which may have gaps)."""
        return [self._categories[key] for key in sorted(self._categories)]

    def features(
        self, item: Item, header: images.ImageHeader, classes: LabelMap
    ) -> records.Features:
        """See `Source`."""
        image, entries = item.annotation
        sources.check_size(header, image.get('height'), image.get('width'))
        names = [self._category(entry) for entry in entries]
        ids = [sources.class_id(classes, name) for name in names]
        boxes = [_box(entry) for entry in entries]
        features = {
            **sources.box_features(np.array(boxes), ids, names, header),
            'image/object/is_crowd': np.array([entry.get('iscrowd', 0) for entry in entries], int),
            'image/object/area': np.array([entry.get('area', 0) for entry in entries], np.float32),
        }
        if self._include_masks and all(entry.get('segmentation') for entry in entries):
            features['image/object/mask'] = [_mask(entry, header) for entry in entries]
        if any('keypoints' in entry for entry in entries):
            features.update(_keypoints(entries, header))
        return features

    def _category(self, entry: Mapping[str, Any]) -> str:
        key = entry.get('category_id')
        if key not in self._categories:
            raise errors.DataError(f'object {entry.get("id")} is of category {key}, which is none.')
        return self._categories[key]


def _box(entry: Mapping[str, Any]) -> List[float]:
    """ymin, xmin, ymax, xmax in pixels."""
    box = entry.get('bbox')
    if not isinstance(box, list) or len(box) != 4:
        raise errors.DataError(f'object {entry.get("id")} has no bbox of four numbers.')
    x, y, width, height = (float(side) for side in box)
    return [y, x, y + height, x + width]


def _mask(entry: Mapping[str, Any], header: images.ImageHeader) -> bytes:
    """An object's polygon or run-length mask as a PNG of 0 and 1."""
    # Imported here: only masks need it.
    from faster_coco_eval.core import mask as coco_masks

    shape = entry['segmentation']
    if isinstance(shape, list):
        shape = coco_masks.merge(coco_masks.frPyObjects(shape, header.height, header.width))
    elif isinstance(shape.get('counts'), list):
        shape = coco_masks.frPyObjects(shape, header.height, header.width)
    mask = np.asarray(coco_masks.decode(shape), np.uint8)
    return codecs.encode_png(mask.reshape(header.height, header.width))


def _keypoints(
    entries: Sequence[Mapping[str, Any]], header: images.ImageHeader
) -> records.Features:
    """Keypoints of all objects; those of an object without any are not labelled."""
    count = max(len(entry.get('keypoints', ())) for entry in entries) // 3
    rows = [entry.get('keypoints') or [0] * 3 * count for entry in entries]
    points = np.array(rows, np.float64).reshape(-1, 3)
    return {
        'image/object/keypoint/x': (points[:, 0] / header.width).astype(np.float32),
        'image/object/keypoint/y': (points[:, 1] / header.height).astype(np.float32),
        'image/object/keypoint/visibility': (points[:, 2] >= 1).astype(np.int64) * _VISIBLE,
        'image/object/keypoint/num': np.array(
            [entry.get('num_keypoints', 0) for entry in entries], np.int64
        ),
    }


@sources.SOURCES.register('coco')
def _from_arguments(arguments: argparse.Namespace) -> Source:
    if not arguments.annotations:
        raise errors.UserError('--from=coco needs --annotations=FILE, the instances JSON.')
    return Coco(arguments.images, arguments.annotations, not arguments.no_masks)
