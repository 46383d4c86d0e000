"""`--from=masks`: a class for each pixel, as PNGs of class ids."""

from __future__ import annotations

import argparse
from typing import Dict, Iterable, List, Mapping, Optional, Sequence

import numpy as np
import tqdm

from estimator_lib import errors
from model_fns.datasets import records, sources
from model_fns.datasets.annotations import class_maps, id_pngs
from model_fns.datasets.annotations.class_maps import BACKGROUND, IGNORED
from model_fns.datasets.meaning import checks
from model_fns.datasets.meaning import pixels as pixels_lib
from model_fns.datasets.meaning.annotated import Annotated
from model_fns.datasets.sources import Item, Source
from model_fns.structures import id_images, images
from model_fns.structures.label_map import LabelMap

_BACKGROUND_NAME, _IGNORED_NAME = 'background', 'ignore'
_NO_CLASSES = (_BACKGROUND_NAME, _IGNORED_NAME)
_HINT = (
    'Other values are told with --mask_values, like 0:background,255:cell, and another value to '
    'ignore with --ignore_label=N or none.'
)


class Masks(id_pngs.IdPngs):
    """Images in one folder, `<stem>.png` of class ids for each in another.

    Args:
        image_folder: of the images.
        annotation_folder: of the PNGs: gray, or with a palette (as Pascal VOC has them).
        ignore_label: value of ignored pixels; None: there is none.
        values: names of classes by the value of their pixels, where values are not class ids. In
            files of colors a value is 65536 * red + 256 * green + blue.
        are_colors: the files have colors.
        suffixes: see `IdPngs`.
    """

    first_id = BACKGROUND  # pixels of value 0 may have a name

    def __init__(
        self,
        image_folder: str,
        annotation_folder: str,
        ignore_label: Optional[int] = IGNORED,
        values: Optional[Mapping[int, str]] = None,
        are_colors: bool = False,
        suffixes: id_pngs.Suffixes = id_pngs.NO_SUFFIXES,
    ):
        super().__init__(image_folder, annotation_folder, suffixes)
        self._are_colors = are_colors
        self._ignore_label = None if are_colors else ignore_label
        self._values = dict(values or {})
        name = self._values.get(BACKGROUND, _BACKGROUND_NAME)
        has_background = are_colors or _BACKGROUND_NAME in self._values.values()
        if not has_background and name not in _NO_CLASSES:
            self._values = {BACKGROUND: name, **self._values}  # the first id is that of its class
            self.first_new_id = BACKGROUND

    def _read(self, encoded: bytes) -> np.ndarray:
        if self._are_colors:
            return id_images.read_colors(encoded)
        try:
            return super()._read(encoded)
        except id_images.ColorError as error:
            raise errors.DataError(
                f'{error}; --mask_colors tells which class each color means, like '
                '#000000:background,#ff0000:cell'
            ) from None

    def class_names(self, items: Sequence[Item]) -> List[str]:
        """Return the names of the values, else `class_1` and so on, up to the largest id."""
        if self._values:
            names = [name for name in self._values.values() if name not in _NO_CLASSES]
            return list(dict.fromkeys(names))
        values = self._check_values()
        bar = tqdm.tqdm(items, desc='looking for classes', unit='annotation', disable=None)
        for item in bar:
            try:
                ids = self._ids(item)
            except errors.DataError:  # reported when the item is converted
                continue
            pixels = dict(zip(*map(np.ndarray.tolist, np.unique(ids, return_counts=True))))
            values.add(Annotated(str(item.annotation), (0, 0), pixels=pixels))
        checks.refuse_errors(values.issues())
        largest = max(values.classes, default=BACKGROUND)
        return [f'class_{index}' for index in range(1, largest + 1)]

    def further_checks(self) -> Sequence[checks.Check]:
        """Return the check of the values of the pixels."""
        return [] if self._values else [self._check_values(are_ids=False)]

    def _check_values(self, are_ids: bool = True) -> pixels_lib.PixelValues:
        return pixels_lib.PixelValues(self._ignore_label, are_ids, _HINT)

    def features(
        self, item: Item, header: images.ImageHeader, classes: LabelMap, report: sources.Report
    ) -> records.Features:
        """Return the record features of the pixels' class ids.

        Raises:
            errors.DataError: the mask cannot be read, or has values that no class has.
        """
        ids = self._ids(item, header)
        meanings = self._meanings(classes)
        unknown = np.setdiff1d(ids, list(meanings))
        if unknown.size:
            raise errors.DataError(
                f'the annotation {item.annotation} has the values {self._listed(unknown)}; '
                f'expected {self._expected(classes)}.'
            )
        if (ids == self._ignore_label).any():
            class_maps.check_ignored(classes, 'pixels that count for nothing')
        # A lookup by position and not by value: colors have 2^24 of these.
        values, places, counts = np.unique(ids, return_inverse=True, return_counts=True)
        report.pixels = dict(zip(values.tolist(), counts.tolist()))
        classes_of_values = np.array([meanings[value] for value in values.tolist()], np.int32)
        return class_maps.class_features(classes_of_values[places].reshape(ids.shape))

    def _meanings(self, classes: LabelMap) -> Dict[int, int]:
        """Return the class id to write, for each value that may occur."""
        ignored = {} if self._ignore_label is None else {self._ignore_label: IGNORED}
        if not self._values:
            return {**{value: value for value in (BACKGROUND, *classes.names)}, **ignored}
        fixed = {_BACKGROUND_NAME: BACKGROUND, _IGNORED_NAME: IGNORED}
        named = {
            value: fixed[name] if name in fixed else self._class_id(classes, name)
            for value, name in self._values.items()
        }
        return {**ignored, **named}  # 255 is ignored unless `values` names a class for it.

    def _class_id(self, classes: LabelMap, name: str) -> int:
        key = sources.class_id(classes, name)
        return IGNORED if key >= class_maps.FIRST_IGNORED_ID else key

    def _expected(self, classes: LabelMap) -> str:
        if self._values:
            flag = '--mask_colors' if self._are_colors else '--mask_values'
            return f'those of {flag} ({self._listed(sorted(self._values))})'
        return (
            f'ids of the label map ({id_pngs.listed(sorted(classes.names))}), or '
            f'{self._no_class()}. {_HINT.rstrip(".")}'
        )

    def _listed(self, values: Iterable[int]) -> str:
        if not self._are_colors:
            return id_pngs.listed(values)
        return id_pngs.listed([f'#{value:06x}' for value in values])

    def _no_class(self) -> str:
        ignored = (
            '' if self._ignore_label is None else f', or {self._ignore_label}, which is ignored'
        )
        return f'{BACKGROUND}, the background{ignored}'


@sources.SOURCES.register('masks')
def _from_arguments(arguments: argparse.Namespace) -> Source:
    annotations = sources.require_annotations(arguments, 'DIR, the folder of the PNG files')
    label = id_pngs.ignore_label(arguments, IGNORED)
    if arguments.mask_values and arguments.mask_colors:
        raise errors.UserError(
            f'--mask_values={arguments.mask_values} and --mask_colors={arguments.mask_colors}: '
            'expected one of them.'
        )
    values = arguments.mask_colors or arguments.mask_values
    are_colors = bool(arguments.mask_colors)
    suffixes = id_pngs.suffixes(arguments)
    return Masks(arguments.images, annotations, label, values, are_colors, suffixes)
