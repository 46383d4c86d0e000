"""Tiles of the images of a data set as items, and the objects that they hold.

Images are not decoded: their headers and annotations say what a tile holds.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import Dict, Iterator, List, Sequence, Tuple

import numpy as np

from estimator_lib.drawing.tiling import Tiling
from model_fns.datasets import examination, ignored_regions
from model_fns.datasets.annotations import tiles
from model_fns.datasets.rotated import tiles as rotated_tiles
from model_fns.datasets.sources import Item, Report, Source
from model_fns.structures.label_map import LabelMap

_LABELS = 'image/object/class/label'


@dataclasses.dataclass(frozen=True)
class Rules:
    """Options of a conversion that decide which objects a tile holds.

    Attributes:
        clips: boxes that reach outside of the image are clipped; else they are left out.
        apply_exif: images are rotated as their EXIF orientation says.
        least: part of the area of an object that its tile holds.
    """

    clips: bool
    apply_exif: bool
    least: float


def cut(items: Sequence[Item], tiling: Tiling, apply_exif: bool) -> List[Item]:
    """Return an item for each tile of each image; unreadable images stay, to be reported later."""
    found: List[Item] = []
    for item, header in zip(items, examination.read_headers(items, apply_exif)):
        windows = [] if header is None else tiling.windows(header.height, header.width)
        if len(windows) < 2:
            found.append(item)
            continue
        found += [
            dataclasses.replace(
                item, window=window, source_id=rotated_tiles.tile_name(item.source_id, window)
            )
            for window in windows
        ]
    return found


def read_annotations(
    source: Source, items: Sequence[Item], classes: LabelMap, rules: Rules
) -> Iterator[examination.Annotation]:
    """Yield the annotations of items that can be read, image by image; masks are not drawn.

    Those of tiles have the objects that the tiles hold, without masks. The report of an image is
    that of its first tile.

    Args:
        source: of the items.
        items: images, and tiles from `cut`.
        classes: the label map.
        rules: of the conversion.
    """
    return (annotation for annotation, _ in _cut_annotations(source, items, classes, rules))


def without_empty(
    source: Source, items: Sequence[Item], classes: LabelMap, rules: Rules
) -> List[Item]:
    """Return the items without tiles that hold no object; see `read_annotations`.

    As for the converter, regions to ignore are no objects.
    """
    empty = {
        (annotation.item.path, annotation.item.window)
        for annotation, num_objects in _cut_annotations(source, items, classes, rules)
        if annotation.item.window is not None and not num_objects
    }
    return [item for item in items if (item.path, item.window) not in empty]


def _cut_annotations(
    source: Source, items: Sequence[Item], classes: LabelMap, rules: Rules
) -> Iterator[Tuple[examination.Annotation, int]]:
    """Yield annotations of images and tiles, and the number of objects of each."""
    by_image: Dict[str, List[Item]] = collections.defaultdict(list)
    for item in items:
        by_image[item.path].append(item)
    whole = [dataclasses.replace(each[0], window=None) for each in by_image.values()]
    reading = examination.read(source.undrawn(), whole, classes, rules.clips, rules.apply_exif)
    for annotation in reading:
        if annotation.features is None:
            continue
        size = annotation.header.height, annotation.header.width
        num_objects = len(np.asarray(annotation.features.get(_LABELS, ())))
        num_objects -= ignored_regions.count_rows(annotation.report.num_ignored, classes)
        report = annotation.report
        for item in by_image[annotation.item.path]:
            if item.window is None:
                yield annotation, num_objects
                continue
            features, kept = tiles.cut_objects(annotation.features, size, item.window, rules.least)
            header = annotation.header._replace(height=item.window.height, width=item.window.width)
            cut_one = examination.Annotation(item, header, features, report, annotation.other_size)
            yield cut_one, int(np.sum(kept < num_objects))  # regions to ignore are behind objects
            report = Report()  # what is counted of an image is not counted again
