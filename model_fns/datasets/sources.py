"""What every format that people have data in looks like to the converter."""

from __future__ import annotations

import abc
import argparse
import dataclasses
import os
from typing import Callable, Dict, List, Optional, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.registry import Registry
from model_fns import images
from model_fns.datasets import records
from model_fns.label_map import LabelMap

IMAGE_ENDINGS = ('.jpg', '.jpeg', '.png', '.gif', '.bmp')


@dataclasses.dataclass(frozen=True)
class Item:
    """One image to convert.

    Attributes:
        stem: its name without folder and ending; `--list` names it by this.
        path: of the image file.
        source_id: names it in the record.
        annotation: what the source knows of it.
    """

    stem: str
    path: str
    source_id: str
    annotation: object = None


class Source(abc.ABC):
    """A data set in the form that its owner has it."""

    @abc.abstractmethod
    def items(self) -> List[Item]:
        """All images, in a fixed order.

        Raises:
            errors.DataError: the folders or files are not as the format has them.
        """

    @abc.abstractmethod
    def class_names(self, items: Sequence[Item]) -> List[str]:
        """The classes that these items have, in the order of their ids."""

    def problems(self) -> Sequence[str]:
        """What is wrong beside single items, each with its file or folder; see `--on_error`."""
        return ()

    @abc.abstractmethod
    def features(
        self, item: Item, header: images.ImageHeader, classes: LabelMap
    ) -> records.Features:
        """What a record says beside the image's own keys.

        Raises:
            errors.DataError: the annotation does not fit the image or the classes; the message says
                how, but names no file.
        """


# --from=NAME -> maker of the source, from the command line's arguments.
SOURCES: Registry[Callable[[argparse.Namespace], Source]] = Registry('source format')


def images_in(folder: str) -> List[str]:
    """Paths of the image files in a folder, sorted.

    Raises:
        errors.DataError: there is no such folder.
    """
    if not tf.io.gfile.isdir(folder):
        raise errors.DataError(f'{folder}: there is no such folder.')
    names = sorted(tf.io.gfile.listdir(folder))
    return [os.path.join(folder, name) for name in names if name.lower().endswith(IMAGE_ENDINGS)]


def by_stem(paths: Sequence[str]) -> Dict[str, str]:
    """Paths by their stems.

    Raises:
        errors.DataError: two have the same.
    """
    found: Dict[str, str] = {}
    for path in paths:
        stem = os.path.splitext(os.path.basename(path))[0]
        if stem in found:
            raise errors.DataError(
                f'{path}: another file has the same stem: {found[stem]}; rename one of them.'
            )
        found[stem] = path
    return found


def check_size(header: images.ImageHeader, height: Optional[int], width: Optional[int]) -> None:
    """Raises `errors.DataError` where an annotation is of an image of another size."""
    if height and width and (height, width) != (header.height, header.width):
        raise errors.DataError(
            f'the annotation is of an image of {height} x {width} pixels; the image has '
            f'{header.height} x {header.width}.'
        )


def class_id(classes: LabelMap, name: str) -> int:
    """The id of a class name.

    Raises:
        errors.DataError: the label map has no such class.
    """
    if name not in classes:
        raise errors.DataError(
            f'class {name!r} is not in the label map'
            f'{errors.did_you_mean(name, classes.names.values())}'
        )
    return classes.id_of_name(name)


def box_features(
    boxes: np.ndarray, ids: Sequence[int], names: Sequence[str], header: images.ImageHeader
) -> records.Features:
    """Boxes and classes as records have them.

    Args:
        boxes: [n, 4], ymin, xmin, ymax, xmax in pixels.
        ids: class ids.
        names: class names.
        header: the image's size.

    Raises:
        errors.DataError: a box is inverted, or reaches outside of the image by more than a pixel.
    """
    boxes = np.asarray(boxes, np.float64).reshape(-1, 4)
    sides = np.array([header.height, header.width, header.height, header.width], np.float64)
    for box in boxes:
        shown = ', '.join(f'{side:g}' for side in box)
        if box[2] < box[0] or box[3] < box[1]:
            raise errors.DataError(f'the box [{shown}] (ymin, xmin, ymax, xmax) is inverted.')
        if (box < -1).any() or (box > sides + 1).any():
            raise errors.DataError(
                f'the box [{shown}] (ymin, xmin, ymax, xmax) reaches outside of the image, which '
                f'has {header.height} x {header.width} pixels.'
            )
    shares = np.clip(boxes / sides, 0.0, 1.0).astype(np.float32)
    return {
        'image/object/bbox/ymin': shares[:, 0],
        'image/object/bbox/xmin': shares[:, 1],
        'image/object/bbox/ymax': shares[:, 2],
        'image/object/bbox/xmax': shares[:, 3],
        'image/object/class/label': np.array(ids, np.int64),
        'image/object/class/text': list(names),
    }
