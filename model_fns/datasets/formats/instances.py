"""`--from=instances`: objects of one class, as PNGs of instance ids.

The records serve segmentation (class ids, instance ids) and detection (boxes, masks).
"""

from __future__ import annotations

import argparse
from typing import List, Optional, Sequence

import numpy as np

from model_fns.datasets import codecs, records, sources
from model_fns.datasets.annotations import class_maps, id_pngs
from model_fns.datasets.sources import Item, Source
from model_fns.structures import images
from model_fns.structures.label_map import LabelMap

_NO_INSTANCE = 0


class Instances(id_pngs.IdPngs):
    """Images in one folder, `<stem>.png` of instance ids for each in another.

    Args:
        image_folder: of the images.
        annotation_folder: of the PNGs: of up to 16 bits, gray or with a palette.
        class_name: of all objects.
        ignore_label: value of ignored pixels, which is no instance; None: there is none.
        suffixes: see `IdPngs`.
        include_masks: whether records get each object's mask as a PNG.
    """

    def __init__(
        self,
        image_folder: str,
        annotation_folder: str,
        class_name: str = 'object',
        ignore_label: Optional[int] = None,
        suffixes: id_pngs.Suffixes = id_pngs.NO_SUFFIXES,
        include_masks: bool = True,
    ):
        super().__init__(image_folder, annotation_folder, suffixes)
        self._class_name = class_name
        self._ignore_label = ignore_label
        self._include_masks = include_masks

    def class_names(self, items: Sequence[Item]) -> List[str]:
        """Return the one class."""
        return [self._class_name]

    def features(
        self, item: Item, header: images.ImageHeader, classes: LabelMap, report: sources.Report
    ) -> records.Features:
        """Return the record features of the class ids, the instance ids and the objects."""
        class_id = self._class_id(classes)
        ids = self._ids(item, header)
        is_ignored = np.zeros(ids.shape, bool)
        if self._ignore_label is not None:
            is_ignored = ids == self._ignore_label
            class_maps.check_ignored(classes, 'pixels that count for nothing')
            ids = np.where(is_ignored, _NO_INSTANCE, ids)
        semantic = np.where(ids != _NO_INSTANCE, class_id, 0)
        semantic[is_ignored] = class_maps.IGNORED
        return {
            **class_maps.class_features(semantic),
            'image/segmentation/instance/encoded': codecs.encode_png(ids.astype(np.uint16)),
            **self._objects(ids, class_id, classes, header),
        }

    def _class_id(self, classes: LabelMap) -> int:
        """Return the id of the class; in a label map with one class, the id of that class."""
        if self._class_name in classes or len(classes.names) > 1:
            return sources.class_id(classes, self._class_name)
        return classes.max_id

    def _objects(
        self, ids: np.ndarray, class_id: int, classes: LabelMap, header: images.ImageHeader
    ) -> records.Features:
        """Return the record features of the instances as objects of detection."""
        instances, areas = np.unique(ids[ids != _NO_INSTANCE], return_counts=True)
        masks = [(ids == instance) for instance in instances]
        count = len(masks)
        name = classes.item(class_id).name
        boxes = np.array([class_maps.box_around(mask) for mask in masks]).reshape(-1, 4)
        features: records.Features = {
            **sources.box_features(boxes, [class_id] * count, [name] * count, header),
            'image/object/is_crowd': np.zeros(count, np.int64),
            'image/object/area': areas.astype(np.float32),
        }
        if self._include_masks:
            pngs = [codecs.encode_png(mask.astype(np.uint8)) for mask in masks]
            features['image/object/mask'] = pngs
        return features


@sources.SOURCES.register('instances')
def _from_arguments(arguments: argparse.Namespace) -> Source:
    annotations = sources.require_annotations(arguments, 'DIR, the folder of the PNG files')
    label = id_pngs.ignore_label(arguments, None)
    suffixes = id_pngs.suffixes(arguments)
    name, include_masks = arguments.class_name, not arguments.no_masks
    return Instances(arguments.images, annotations, name, label, suffixes, include_masks)
