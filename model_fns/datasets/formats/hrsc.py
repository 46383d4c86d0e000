"""`--from=hrsc`: ships as HRSC2016 has them, one XML file an image, with an angle each."""

from __future__ import annotations

import argparse
from typing import List, Sequence, Tuple
from xml.etree import ElementTree

import numpy as np

from estimator_lib import errors
from model_fns.datasets import records, sources
from model_fns.datasets.formats import voc
from model_fns.datasets.meaning.annotated import DIFFICULT
from model_fns.datasets.rotated import boxes as rotated_boxes
from model_fns.datasets.sources import Item, Source
from model_fns.structures import images
from model_fns.structures.label_map import LabelMap

_OBJECT = 'HRSC_Object'
_NUMBERS = ('mbox_cy', 'mbox_cx', 'mbox_h', 'mbox_w', 'mbox_ang')
SHIP = 'ship'


class Hrsc(voc.PascalVoc):
    """Images in one folder, `<stem>.xml` for each in another; all objects are ships."""

    def class_names(self, items: Sequence[Item]) -> List[str]:
        """Return the one class."""
        return [SHIP]

    def features(
        self, item: Item, header: images.ImageHeader, classes: LabelMap, report: sources.Report
    ) -> records.Features:
        """Return the record features of an image's objects."""
        root = voc.parse(str(item.annotation))
        sides = (voc.number(root, f'Img_Size{side}', 0) for side in ('Height', 'Width'))
        sources.check_size(header, *map(int, sides))
        objects: List[Tuple[List[float], bool]] = []
        for place, entry in enumerate(root.iter(_OBJECT), 1):
            name = f'{item.annotation}: object {place}'
            try:
                box, is_difficult = _object(entry, header)
            except errors.DataError as problem:
                report.leave_out(name, problem)
                continue
            ignored = DIFFICULT if is_difficult else ''
            report.observe_box(name, rotated_boxes.around(box), ignored=ignored, name=SHIP)
            objects.append((box, is_difficult))
        class_id = sources.class_id(classes, SHIP)
        boxes = [box for box, _ in objects]
        difficult = [flag for _, flag in objects]
        count = len(objects)
        return {
            **rotated_boxes.box_features(boxes, [class_id] * count, [SHIP] * count, header),
            'image/object/difficult': np.array(difficult, np.int64),
        }


def _object(entry: ElementTree.Element, header: images.ImageHeader) -> Tuple[List[float], bool]:
    """Return the box in pixels and the difficult flag."""
    box = [voc.number(entry, name) for name in _NUMBERS]
    rotated_boxes.check_box(box, header)
    return box, voc.number(entry, 'difficult', 0) != 0


@sources.SOURCES.register('hrsc')
def _from_arguments(arguments: argparse.Namespace) -> Source:
    annotations = sources.require_annotations(arguments, 'DIR, the folder of the XML files')
    return Hrsc(arguments.images, annotations)
