"""Interface of the formats that the converter reads, and what they share."""

from __future__ import annotations

import abc
import argparse
import copy
import dataclasses
import math
import os
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from estimator_lib import errors, texts
from estimator_lib.drawing.tiling import Window
from estimator_lib.processes import path_names
from estimator_lib.registry import Registry
from model_fns.datasets import records
from model_fns.datasets.files import folder_files
from model_fns.datasets.meaning import annotated, checks, readings
from model_fns.structures import images
from model_fns.structures.label_map import FIRST_ID, LabelMap

MOST_CHECKED_PNGS = 64  # annotations of a data set: decoding all would take minutes
_LABELS = ('image/object/class/label', 'image/class/label')
_REGIONS = 'image/segmentation/instance/encoded'


class SizeError(errors.DataError):
    """Error of an annotation that belongs to an image of another size."""


class Problem(NamedTuple):
    """A problem of an image or of an object in it.

    Attributes:
        place: the file and the object.
        text: one sentence.
    """

    place: str
    text: str


def describe(problems: Sequence[Problem]) -> str:
    """Describe problems, a line for each kind; equal ones, as of all tiles, count once."""
    lines = texts.grouped(dict.fromkeys(problems))
    return '\n'.join([texts.counted(len(lines), 'problem') + ':', *lines])


class Report:
    """Objects of an image's annotation, their problems, and the number of boxes that were clipped.

    Args:
        clips: boxes that reach outside of the image are clipped; else they are problems.

    Attributes:
        objects: all that the file has, as it has them, for checks of the whole data set.
        pixels: number of pixels by value, where the annotation is an image of values.
        problems: of the objects that are left out.
        num_clipped: number of the boxes that were clipped by more than a pixel.
        num_ignored: number of regions to ignore, by the name of their class.
    """

    def __init__(self, clips: bool = True):
        self.objects: List[annotated.Object] = []
        self.pixels: Optional[Mapping[int, int]] = None
        self.problems: List[Problem] = []
        self.num_clipped = 0
        self.num_ignored: Mapping[str, int] = {}
        self._clips = clips

    def observe(self, place: str, numbers: Optional[Sequence[float]] = None, **facts: Any) -> None:
        """Add an object as its file has it, before it is converted.

        Args:
            place: the file and the object.
            numbers: four numbers of its box as the file has them; None: the object has no box.
            **facts: further fields of `annotated.Object`.
        """
        self.objects.append(annotated.Object(place, numbers, **facts))

    def observe_box(self, place: str, box: Optional[Sequence[float]], **facts: Any) -> None:
        """Add an object whose file has corners in pixels.

        Args:
            place: the file and the object.
            box: ymin, xmin, ymax, xmax; None: the object has no box that can be read.
            **facts: further fields of `annotated.Object`.
        """
        numbers = None if box is None else [box[1], box[0], box[3], box[2]]
        self.observe(place, numbers, reading=readings.CORNERS, **facts)

    def leave_out(self, place: str, error: errors.DataError) -> None:
        """Add the problem of an object that is left out."""
        self.problems.append(Problem(place, str(error)))

    def fit(self, box: Sequence[float], header: images.ImageHeader) -> List[float]:
        """Clip a box at the border of its image.

        Args:
            box: ymin, xmin, ymax, xmax in pixels.
            header: the image's size.

        Raises:
            errors.DataError: a side is not finite, or the box is inverted or outside of the image.
        """
        sides = [header.height, header.width] * 2
        _check_box(box)
        # Up to a pixel beyond the border is the rounding of annotation tools: cut without a count.
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
        source_id: its name in the record.
        annotation: data of the source.
        window: the tile of the image; None: the whole image.
    """

    stem: str
    path: str
    source_id: str
    annotation: object = None
    window: Optional[Window] = None


class Source(abc.ABC):
    """A data set in its original format.

    Attributes:
        first_id: least id that a class of its label map may have.
        first_new_id: id of the first class of a new label map.
        ignored: names of objects that are regions to ignore, see `ignored_regions`.
        most_checked: number of images that the checks of the whole set read; None: all, as
            annotations are text.
    """

    first_id = FIRST_ID
    first_new_id = FIRST_ID
    most_checked: Optional[int] = None
    ignored: Sequence[str] = ()

    _include_masks = False
    _draws_classes = False

    @abc.abstractmethod
    def items(self) -> List[Item]:
        """Return all images, in a fixed order.

        Raises:
            errors.DataError: the folders or files do not have the format.
        """

    @abc.abstractmethod
    def class_names(self, items: Sequence[Item]) -> List[str]:
        """Return the class names of the items, in the order of their ids."""

    def problems(self) -> Sequence[str]:
        """Return the problems of no single item, each with its file or folder; see `--on_error`."""
        return ()

    def notes(self) -> Sequence[str]:
        """Return a line, with a count, for each group of files that is left out on purpose."""
        return ()

    def annotation_path(self, item: Item) -> str:
        """Return the path of the file that only this item's annotation is in; '' without one."""
        del item
        return ''

    def stratum(self, item: Item) -> str:
        """Return the stratum of an item: a split keeps the proportions of strata."""
        del item
        return ''

    def undrawn(self) -> Source:
        """Return the same source without masks, which cost most of the time, for `checks`."""
        source = copy.copy(self)
        source._include_masks = source._draws_classes = False
        return source

    def labels(self, classes: LabelMap) -> Optional[range]:
        """Return the numbers that the classes have in the files; None: files have names."""
        del classes
        return None

    def further_checks(self) -> Sequence[checks.Check]:
        """Return the checks of the whole set that this format has beside the common ones."""
        return ()

    @abc.abstractmethod
    def features(
        self, item: Item, header: images.ImageHeader, classes: LabelMap, report: Report
    ) -> records.Features:
        """Return the record features of the annotation, without those of the image.

        Args:
            item: one of `items`.
            header: the image's format and size.
            classes: the label map.
            report: gets each object that is left out or clipped.

        Raises:
            errors.DataError: the annotation is not usable; the message has the reason, without the
                name of the image.
        """


# --from=NAME -> factory of the source, from the arguments of the command line.
SOURCES: Registry[Callable[[argparse.Namespace], Source]] = Registry('source format')


def count_objects(features: records.Features, num_regions: int = 0) -> Optional[int]:
    """Return the number of objects of a record; None where its pixels have classes beside them.

    Args:
        features: of the record.
        num_regions: how many of its rows are regions to ignore.
    """
    if _REGIONS in features:
        return None
    labels = next((features[key] for key in _LABELS if key in features), None)
    return None if labels is None else np.size(labels) - num_regions


def note_left_out(names: Sequence[str], lacks: str, place: str) -> List[str]:
    """Return a line on the images that are left out; none without images.

    Args:
        names: of the images.
        lacks: what each of them lacks, in the singular.
        place: where that was looked for.
    """
    if not names:
        return []
    count = f'{texts.counted(len(names), "image")} {"has" if len(names) == 1 else "have"}'
    return [f'left out: {count} no {lacks} in {place}: {errors.shortened(names)}.']


def list_images(folder: str) -> List[str]:
    """List the paths of the image files in a folder, sorted.

    Raises:
        errors.DataError: there is no such folder.
    """
    names = folder_files.list_names(folder)
    return [os.path.join(folder, name) for name in names if folder_files.is_image(name)]


def index_by_stem(paths: Sequence[str]) -> Dict[str, str]:
    """Index paths by their stems.

    Raises:
        errors.DataError: two paths have the same stem.
    """
    paths_by_stem: Dict[str, str] = {}
    for path in paths:
        stem = os.path.splitext(os.path.basename(path))[0]
        if stem in paths_by_stem:
            raise same_stem_error(path, paths_by_stem[stem])
        paths_by_stem[stem] = path
    return paths_by_stem


def same_stem_error(path: str, other: str) -> errors.DataError:
    """Return the error for two files that could have the same annotation."""
    return errors.DataError(f'{path}: another file has the same stem: {other}; rename one of them.')


def check_size(header: images.ImageHeader, height: Optional[int], width: Optional[int]) -> None:
    """Check that an annotation is of an image of this size, in pixels.

    Raises:
        SizeError: the size is known, and is another one.
    """
    if height and width and (height, width) != (header.height, header.width):
        raise SizeError(
            f'the annotation is of an image of {height} x {width} pixels; the image has '
            f'{header.height} x {header.width}.'
        )


def class_id(classes: LabelMap, name: str) -> int:
    """Return the id of a class name.

    Raises:
        errors.DataError: the label map has no such class.
    """
    if name not in classes:
        raise errors.DataError(
            f'class {name!r} is not in the label map'
            f'{errors.did_you_mean(name, classes.names.values())}'
        )
    return classes.id_of_name(name)


def class_names(classes: LabelMap, ids: Sequence[int]) -> List[str]:
    """Return the names of classes, or of regions to ignore, by their ids."""
    names = {other: name for name, other in classes.other_names}
    names.update((item.id, item.name) for item in classes.items)
    return [names[class_id] for class_id in ids]


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
    """Return whether a value is text that can be a name: not blank, printable, without NUL."""
    if not isinstance(value, str) or not value.strip() or '\0' in value:
        return False
    return path_names.is_text(value)


def _check_box(box: Sequence[float]) -> None:
    """Check a box in pixels.

    Args:
        box: ymin, xmin, ymax, xmax.

    Raises:
        errors.DataError: a side is not finite, or the box is inverted.
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
    """Return the record features of boxes and their classes.

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


def crowd_features(is_crowd: Sequence[bool]) -> records.Features:
    """Return the record features that tell which objects training and evaluation ignore.

    Args:
        is_crowd: of each object.
    """
    flags = np.array(is_crowd, np.int64)
    return {
        'image/object/is_crowd': flags,
        # Training ignores a crowd: its box holds many objects.
        'image/object/weight': 1 - flags.astype(np.float32),
    }


def require_annotations(arguments: argparse.Namespace, expected: str) -> str:
    """Return the flag `--annotations`; refuse its absence.

    Args:
        arguments: of the command line.
        expected: description of its value, for the message.

    Raises:
        errors.UserError: the flag is missing.
    """
    if not arguments.annotations:
        raise errors.UserError(f'--from={arguments.format} needs --annotations={expected}.')
    return arguments.annotations
