"""What `--from=masks` and `--from=instances` share: one PNG of ids beside each image."""

from __future__ import annotations

import abc
import argparse
import os
from typing import Iterable, List, Optional, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from model_fns import id_images, images
from model_fns.datasets import codecs, records, sources
from model_fns.datasets.sources import Item, Source

MAX_BYTE = 255
MAX_ID = 65535  # of a PNG of 16 bits
NO_LABEL = 'none'  # what `--ignore_label` may be beside a number
_MOST_LISTED = 10


class IdPngs(Source):
    """Images in one folder, `<stem>.png` for each in another.

    Args:
        image_folder: of the images.
        annotation_folder: of the PNGs.
    """

    def __init__(self, image_folder: str, annotation_folder: str):
        self._image_folder = image_folder
        self._annotation_folder = annotation_folder

    def items(self) -> List[Item]:
        """See `Source`: the images that have an annotation, which is the path of its file."""
        stems = sources.by_stem(sources.images_in(self._image_folder))
        annotations = self._annotations()
        items = [
            Item(stem, path, os.path.basename(path), annotations[stem])
            for stem, path in stems.items()
            if stem in annotations
        ]
        if not items:
            raise errors.DataError(
                f'--annotations: {self._annotation_folder} has no PNG file with the stem of any of '
                f'the {len(stems)} images in {self._image_folder}.'
            )
        return items

    def problems(self) -> Sequence[str]:
        """See `Source`: annotations without an image."""
        stems = sources.by_stem(sources.images_in(self._image_folder))
        return [
            f'{path}: no image in {self._image_folder} has this stem.'
            for stem, path in self._annotations().items()
            if stem not in stems
        ]

    @abc.abstractmethod
    def features(self, item, header, classes, report) -> records.Features:
        """See `Source`."""

    def _annotations(self):
        paths = sources.images_in(self._annotation_folder)
        return sources.by_stem([path for path in paths if path.lower().endswith('.png')])

    def _ids(self, item: Item, header: Optional[images.ImageHeader] = None) -> np.ndarray:
        """int32 [height, width] of an item's annotation, which has the size of the image."""
        with tf.io.gfile.GFile(str(item.annotation), 'rb') as file:
            encoded = file.read()
        try:
            ids = id_images.read(encoded)
        except errors.DataError as problem:
            raise errors.DataError(f'the annotation is {problem}.') from problem
        if header is not None:
            sources.check_size(header, *ids.shape)
        return ids


def class_features(classes: np.ndarray) -> records.Features:
    """Class ids of pixels as records have them.

    Args:
        classes: int [height, width].
    """
    dtype = np.uint8 if classes.max(initial=0) <= MAX_BYTE else np.uint16
    return {
        'image/segmentation/class/encoded': codecs.encode_png(classes.astype(dtype)),
        'image/segmentation/class/format': 'png',
    }


def listed(values: Iterable[int]) -> str:
    """Some of the values, for a message."""
    values = list(values)
    more = ', ..' if len(values) > _MOST_LISTED else ''
    return ', '.join(str(value) for value in values[:_MOST_LISTED]) + more


def ignore_label(arguments: argparse.Namespace, default: Optional[int]) -> Optional[int]:
    """The flag `--ignore_label`: a number, or None for `none`."""
    if arguments.ignore_label is None:
        return default
    return None if arguments.ignore_label == NO_LABEL else arguments.ignore_label
