"""`--from=masks`: a class for each pixel, as PNGs of class ids."""

from __future__ import annotations

import argparse
from typing import List, Sequence

import numpy as np
import tqdm

from estimator_lib import errors
from model_fns import images
from model_fns.datasets import id_pngs, records, sources
from model_fns.datasets.sources import Item, Source
from model_fns.label_map import LabelMap

BACKGROUND = 0
IGNORE_LABEL = 255


class Masks(id_pngs.IdPngs):
    """Images in one folder, `<stem>.png` of class ids for each in another.

    Args:
        image_folder: of the images.
        annotation_folder: of the PNGs: grey, or with a palette (as Pascal VOC has them).
        ignore_label: of pixels that are of no class.
    """

    def __init__(self, image_folder: str, annotation_folder: str, ignore_label: int = IGNORE_LABEL):
        super().__init__(image_folder, annotation_folder)
        self._ignore_label = ignore_label

    def class_names(self, items: Sequence[Item]) -> List[str]:
        """See `Source`: `class_1` and so on, up to the largest id that occurs."""
        largest = BACKGROUND
        bar = tqdm.tqdm(items, desc='looking for classes', unit='annotation', disable=None)
        for item in bar:
            try:
                ids = self._ids(item)
            except errors.DataError:  # told of when the item is converted
                continue
            largest = max(largest, ids.max(initial=BACKGROUND, where=ids != self._ignore_label))
        if largest == BACKGROUND:
            raise errors.DataError(
                'no annotation has a pixel of a class: all are 0, the background, or '
                f'{self._ignore_label}, which is ignored.'
            )
        return [f'class_{index}' for index in range(1, largest + 1)]

    def features(
        self, item: Item, header: images.ImageHeader, classes: LabelMap
    ) -> records.Features:
        """See `Source`."""
        ids = self._ids(item, header)
        known = [BACKGROUND, *classes.names, self._ignore_label]
        unknown = np.setdiff1d(ids, known)
        if unknown.size:
            raise errors.DataError(
                f'the annotation {item.annotation} has the values {id_pngs.listed(unknown)}; '
                f'expected ids of the label map ({id_pngs.listed(sorted(classes.names))}), '
                f'{BACKGROUND} for the background, or {self._ignore_label} for what is ignored.'
            )
        return id_pngs.class_features(ids)


@sources.SOURCES.register('masks')
def _from_arguments(arguments: argparse.Namespace) -> Source:
    if not arguments.annotations:
        raise errors.UserError('--from=masks needs --annotations=DIR, the folder of the PNG files.')
    label = IGNORE_LABEL if arguments.ignore_label is None else arguments.ignore_label
    return Masks(arguments.images, arguments.annotations, label)
