"""Base of `--from=masks` and `--from=instances`: one PNG of ids for each image."""

from __future__ import annotations

import abc
import argparse
import os
from typing import Callable, Dict, Iterable, NamedTuple, Optional

import numpy as np

from estimator_lib import errors
from model_fns.datasets import records, sources
from model_fns.datasets.annotations import paired
from model_fns.datasets.files import folder_files
from model_fns.datasets.sources import Item
from model_fns.structures import id_images, images

MAX_ID = 65535  # of a PNG of 16 bits
NO_LABEL = 'none'  # value of `--ignore_label` for no label
_MOST_LISTED = 10


class Suffixes(NamedTuple):
    """Ends of file names, after the part that an image and its annotation share.

    Attributes:
        images: as `_leftImg8bit` of Cityscapes.
        annotations: as `_gtFine_labelTrainIds`.
    """

    images: str = ''
    annotations: str = ''


NO_SUFFIXES = Suffixes()


class IdPngs(paired.PairedSource):
    """Images in one folder, `<stem>.png` for each in another.

    Folders in them are read too: an annotation has the relative folder of its image.

    Args:
        image_folder: of the images.
        annotation_folder: of the PNGs.
        suffixes: of their names.
    """

    ending = '.png'
    kind = 'PNG file'
    most_checked = sources.MOST_CHECKED_PNGS

    def __init__(self, image_folder: str, annotation_folder: str, suffixes: Suffixes = NO_SUFFIXES):
        super().__init__(image_folder, annotation_folder)
        self._suffixes = suffixes

    def _image_paths(self) -> Dict[str, str]:
        return _keyed_paths(self._image_folder, self._suffixes.images, folder_files.is_image)

    def _annotation_paths(self) -> Dict[str, str]:
        return _keyed_paths(
            self._annotation_folder, self._suffixes.annotations, self._is_annotation
        )

    @abc.abstractmethod
    def features(self, item, header, classes, report) -> records.Features:
        """Return the record features of an image's objects."""

    def _read(self, encoded: bytes) -> np.ndarray:
        return id_images.read(encoded)

    def _ids(self, item: Item, header: Optional[images.ImageHeader] = None) -> np.ndarray:
        """Read the ids of an item, int32 [height, width], and check their size."""
        encoded = folder_files.read_bytes(str(item.annotation))
        if header is not None:
            check_size(encoded, header)
        try:
            return self._read(encoded)
        except errors.DataError as problem:
            raise errors.DataError(f'the annotation is {problem}.') from problem


def check_size(encoded: bytes, header: images.ImageHeader) -> None:
    """Check the size in the header of a PNG before its pixels take memory.

    Args:
        encoded: the bytes of the file; one without a valid header is refused when it is read.
        header: of the image.

    Raises:
        sources.SizeError: the PNG is of an image of another size.
    """
    try:
        own = images.image_header(encoded)
    except errors.DataError:
        return
    sources.check_size(header, own.height, own.width)


def _keyed_paths(folder: str, suffix: str, is_taken: Callable[[str], bool]) -> Dict[str, str]:
    """Return the paths of the files with a suffix, by folder and stem without the suffix.

    Raises:
        errors.DataError: there is no such folder, or two files have the same stem.
    """
    folder_files.list_names(folder)  # refuses a folder that is not there or not readable
    found: Dict[str, str] = {}
    for path, names in folder_files.walk(folder):
        for name in names:
            stem = os.path.splitext(name)[0]
            if not is_taken(name) or not stem.endswith(suffix):
                continue
            key = os.path.join(os.path.relpath(path, folder), stem[: len(stem) - len(suffix)])
            if key in found:
                raise sources.same_stem_error(os.path.join(path, name), found[key])
            found[key] = os.path.join(path, name)
    return dict(sorted(found.items()))


def suffixes(arguments: argparse.Namespace) -> Suffixes:
    """Return the flags `--image_suffix` and `--annotation_suffix`."""
    return Suffixes(arguments.image_suffix, arguments.annotation_suffix)


def listed(values: Iterable[object]) -> str:
    """Join some of the values for a message."""
    values = list(values)
    more = ', ..' if len(values) > _MOST_LISTED else ''
    return ', '.join(str(value) for value in values[:_MOST_LISTED]) + more


def ignore_label(arguments: argparse.Namespace, default: Optional[int]) -> Optional[int]:
    """Return the flag `--ignore_label`: a number, or None for `none`."""
    if arguments.ignore_label is None:
        return default
    return None if arguments.ignore_label == NO_LABEL else arguments.ignore_label
