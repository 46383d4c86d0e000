"""What every format that people have data in looks like to the converter."""

from __future__ import annotations

import abc
import argparse
import dataclasses
import math
import os
from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.drawing.tiling import Window
from estimator_lib.registry import Registry
from model_fns import images
from model_fns.datasets import image_files, records
from model_fns.label_map import LabelMap

# Takes note of what is wrong with a part of an annotation, which is then left out.
Report = Callable[[str], None]


class SizeError(errors.DataError):
    """An annotation is of an image of another size."""


@dataclasses.dataclass(frozen=True)
class Item:
    """One image to convert.

    Attributes:
        stem: its name without folder and ending; `--list` names it by this.
        path: of the image file.
        source_id: names it in the record.
        annotation: what the source knows of it.
        window: the tile of the image that it is; None: all of it.
    """

    stem: str
    path: str
    source_id: str
    annotation: object = None
    window: Optional[Window] = None


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

    def stratum(self, item: Item) -> str:
        """What a split keeps in proportion: the class of an image that has one."""
        del item
        return ''

    @abc.abstractmethod
    def features(
        self, item: Item, header: images.ImageHeader, classes: LabelMap, report: Report
    ) -> records.Features:
        """What a record says beside the image's own keys.

        Args:
            item: one of `items`.
            header: the image's format and size.
            classes: the label map.
            report: called for each single object that is left out, with what is wrong with it.

        Raises:
            errors.DataError: nothing of the annotation can be used; the message says why, but names
                no image.
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
    return [
        os.path.join(folder, name) for name in names if name.lower().endswith(image_files.ENDINGS)
    ]


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
    """Raises `SizeError` where an annotation is of an image of another size."""
    if height and width and (height, width) != (header.height, header.width):
        raise SizeError(
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


def number(value: Any) -> Optional[float]:
    """A finite number as a float; None for anything else."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return None


def check_box(box: Sequence[float], header: images.ImageHeader) -> None:
    """Checks a box in pixels.

    Args:
        box: ymin, xmin, ymax, xmax.
        header: the image's size.

    Raises:
        errors.DataError: it is not of numbers, inverted, or reaches outside of the image by more
            than a pixel.
    """
    shown = f'the box [{", ".join(f"{side:g}" for side in box)}] (ymin, xmin, ymax, xmax)'
    sides = [header.height, header.width] * 2
    if not all(map(math.isfinite, box)):
        raise errors.DataError(f'{shown} has a side that is no number.')
    if box[2] < box[0] or box[3] < box[1]:
        raise errors.DataError(f'{shown} is inverted.')
    if any(not -1 <= side <= most + 1 for side, most in zip(box, sides)):
        raise errors.DataError(
            f'{shown} reaches outside of the image, which has {header.height} x {header.width} '
            'pixels.'
        )


def box_features(
    boxes: Sequence[Sequence[float]],
    ids: Sequence[int],
    names: Sequence[str],
    header: images.ImageHeader,
) -> records.Features:
    """Boxes and classes as records have them.

    Args:
        boxes: [n, 4], ymin, xmin, ymax, xmax in pixels; see `check_box`.
        ids: class ids.
        names: class names.
        header: the image's size.
    """
    sides = np.array([header.height, header.width] * 2, np.float64)
    scaled = np.asarray(boxes, np.float64).reshape(-1, 4) / sides
    normalized = np.clip(scaled, 0.0, 1.0).astype(np.float32)
    return {
        'image/object/bbox/ymin': normalized[:, 0],
        'image/object/bbox/xmin': normalized[:, 1],
        'image/object/bbox/ymax': normalized[:, 2],
        'image/object/bbox/xmax': normalized[:, 3],
        'image/object/class/label': np.array(ids, np.int64),
        'image/object/class/text': list(names),
    }


def annotations_of(arguments: argparse.Namespace, expected: str) -> str:
    """The flag `--annotations`, where a format needs it.

    Args:
        arguments: of the command line.
        expected: what it names.

    Raises:
        errors.UserError: it is not given.
    """
    if not arguments.annotations:
        raise errors.UserError(f'--from={arguments.format} needs --annotations={expected}.')
    return arguments.annotations
