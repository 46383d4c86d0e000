"""What every format that people have data in looks like to the converter."""

from __future__ import annotations

import abc
import argparse
import dataclasses
import math
import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import numpy as np

from estimator_lib import errors
from estimator_lib.drawing.tiling import Window
from estimator_lib.registry import Registry
from model_fns.datasets import records
from model_fns.datasets.files import folder_files
from model_fns.structures import images
from model_fns.structures.label_map import LabelMap


class SizeError(errors.DataError):
    """An annotation is of an image of another size."""


class UnknownClassError(errors.DataError):
    """A class that the label map does not have: the same problem for each object of it."""


class Problem(NamedTuple):
    """A problem of an image or of an object in it.

    Attributes:
        place: the file and the object.
        text: one sentence.
        is_common: problems of the same text are listed as one.
    """

    place: str
    text: str
    is_common: bool = False


class Report:
    """The problems of an image's annotation, and the boxes of it that are cut.

    Args:
        clips: boxes that reach outside of the image are cut at its border; else they are problems.

    Attributes:
        problems: of the objects that are left out.
        num_clipped: number of the boxes that were cut by more than a pixel.
    """

    def __init__(self, clips: bool = True):
        self.problems: List[Problem] = []
        self.num_clipped = 0
        self._clips = clips

    def leave_out(self, place: str, error: errors.DataError) -> None:
        """Add the problem of an object that is left out."""
        self.problems.append(Problem(place, str(error), isinstance(error, UnknownClassError)))

    def fit(self, box: Sequence[float], header: images.ImageHeader) -> List[float]:
        """Return a box cut at the border of its image.

        Args:
            box: ymin, xmin, ymax, xmax in pixels.
            header: the image's size.

        Raises:
            errors.DataError: it is not of numbers, inverted, or outside of the image.
        """
        sides = [header.height, header.width] * 2
        _check_box(box)
        cut = [min(max(side, 0.0), float(most)) for side, most in zip(box, sides)]
        is_far = any(abs(side - inside) > 1 for side, inside in zip(box, cut))
        is_empty = _is_empty(cut) and (is_far or not _is_empty(box))
        if is_empty or (is_far and not self._clips):
            reaches = 'is' if is_empty else 'reaches'
            raise errors.DataError(
                f'{_shown(box)} {reaches} outside of the image, which has {header.height} x '
                f'{header.width} pixels.'
            )
        self.num_clipped += is_far
        return cut


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
        """Return all images, in a fixed order.

        Raises:
            errors.DataError: the folders or files are not as the format has them.
        """

    @abc.abstractmethod
    def class_names(self, items: Sequence[Item]) -> List[str]:
        """Return the classes that these items have, in the order of their ids."""

    def problems(self) -> Sequence[str]:
        """What is wrong beside single items, each with its file or folder; see `--on_error`."""
        return ()

    def notes(self) -> Sequence[str]:
        """Return what is left out on purpose, with counts; no problems."""
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
            report: is told of each object that is left out or cut.

        Raises:
            errors.DataError: nothing of the annotation can be used; the message says why, but names
                no image.
        """


# --from=NAME -> maker of the source, from the command line's arguments.
SOURCES: Registry[Callable[[argparse.Namespace], Source]] = Registry('source format')


def images_in(folder: str) -> List[str]:
    """Return paths of the image files in a folder, sorted.

    Raises:
        errors.DataError: there is no such folder.
    """
    names = folder_files.list_names(folder)
    return [os.path.join(folder, name) for name in names if folder_files.is_image(name)]


def by_stem(paths: Sequence[str]) -> Dict[str, str]:
    """Return paths by their stems.

    Raises:
        errors.DataError: two have the same.
    """
    found: Dict[str, str] = {}
    for path in paths:
        stem = os.path.splitext(os.path.basename(path))[0]
        if stem in found:
            raise same_stem(path, found[stem])
        found[stem] = path
    return found


def same_stem(path: str, other: str) -> errors.DataError:
    """Return the error of two files of which only one can have an annotation."""
    return errors.DataError(f'{path}: another file has the same stem: {other}; rename one of them.')


def check_size(header: images.ImageHeader, height: Optional[int], width: Optional[int]) -> None:
    """Raise `SizeError` where an annotation is of an image of another size."""
    if height and width and (height, width) != (header.height, header.width):
        raise SizeError(
            f'the annotation is of an image of {height} x {width} pixels; the image has '
            f'{header.height} x {header.width}.'
        )


def class_id(classes: LabelMap, name: str) -> int:
    """Return the id of a class name.

    Raises:
        UnknownClassError: the label map has no such class.
    """
    if name not in classes:
        raise UnknownClassError(
            f'class {name!r} is not in the label map'
            f'{errors.did_you_mean(name, classes.names.values())}'
        )
    return classes.id_of_name(name)


def number(value: Any) -> Optional[float]:
    """Return a finite number as a float; None for anything else."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        value = float(value)
    except OverflowError:  # an integer of more digits than a float has
        return None
    return value if math.isfinite(value) else None


def is_text(value: Any) -> bool:
    """Return whether a value is text that files can hold and that names a file: not blank."""
    if not isinstance(value, str) or not value.strip() or '\0' in value:
        return False
    return folder_files.printable(value) == value


def _check_box(box: Sequence[float]) -> None:
    """Check a box in pixels.

    Args:
        box: ymin, xmin, ymax, xmax.

    Raises:
        errors.DataError: it is not of numbers, or inverted.
    """
    if not all(map(math.isfinite, box)):
        raise errors.DataError(f'{_shown(box)} has a side that is no number.')
    if box[2] < box[0] or box[3] < box[1]:
        raise errors.DataError(f'{_shown(box)} is inverted.')


def _shown(box: Sequence[float]) -> str:
    return f'the box [{", ".join(f"{side:g}" for side in box)}] (ymin, xmin, ymax, xmax)'


def _is_empty(box: Sequence[float]) -> bool:
    return box[2] <= box[0] or box[3] <= box[1]


def box_features(
    boxes: Sequence[Sequence[float]],
    ids: Sequence[int],
    names: Sequence[str],
    header: images.ImageHeader,
) -> records.Features:
    """Return boxes and classes as records have them.

    Args:
        boxes: [n, 4], ymin, xmin, ymax, xmax in pixels; see `Report.fit`.
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
    """Return the flag `--annotations`, where a format needs it.

    Args:
        arguments: of the command line.
        expected: what it names.

    Raises:
        errors.UserError: it is not given.
    """
    if not arguments.annotations:
        raise errors.UserError(f'--from={arguments.format} needs --annotations={expected}.')
    return arguments.annotations
