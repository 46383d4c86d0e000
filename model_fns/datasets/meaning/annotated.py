"""Annotations of an image as the files of a data set have them, for checks of the whole set."""

from __future__ import annotations

import hashlib
import math
from typing import List, Mapping, NamedTuple, Optional, Sequence, Tuple

Box = Sequence[float]  # ymin, xmin, ymax, xmax in pixels

CROWD = 'crowds (iscrowd: 1)'
DIFFICULT = 'difficult'
UNWEIGHTED = 'of weight 0'


class Object(NamedTuple):
    """Object as a file has it, before anything is clipped, converted or left out.

    Attributes:
        place: the file and the object in it, for messages.
        numbers: four numbers of its box as the file has them; None: the file has no box.
        reading: the name of what the numbers mean, of `readings.READINGS`.
        outline: the box around its polygon or mask; None: it has none, or no box beside it.
        ignored: the reason why training or evaluation ignores it, like `CROWD`; '': they do not.
        name: of its class; '' where the file has a number.
        label: number of its class; None where the file has a name.
        gap: pixels between the parts that one group id makes an object of.
        unread: keys of the file that nobody reads.
    """

    place: str
    numbers: Optional[Sequence[float]] = None
    reading: str = ''
    outline: Optional[Box] = None
    ignored: str = ''
    name: str = ''
    label: Optional[int] = None
    gap: float = 0.0
    unread: Sequence[str] = ()


class Annotated(NamedTuple):
    """The annotation of an image.

    Attributes:
        place: path or id of the image.
        size: height and width in pixels.
        objects: in the order of the file; of a classified image none.
        num_kept: number of objects that a record of the image has.
        pixels: number of pixels by value, where the annotation is an image of values.
        source_id: name of the image in results; '': it has none.
        digest: of the encoded image; '': it is not read.
        other_size: height and width if the EXIF orientation is treated otherwise; None: it does not
            swap them.
        looked_for: names of the classes that annotators looked for; empty: all.
        has_other_size: the annotation says that it is of an image of the other size.
    """

    place: str
    size: Tuple[int, int]
    objects: Sequence[Object] = ()
    num_kept: int = 0
    pixels: Optional[Mapping[int, int]] = None
    source_id: str = ''
    digest: str = ''
    other_size: Optional[Tuple[int, int]] = None
    has_other_size: bool = False
    looked_for: Tuple[str, ...] = ()


def digest(encoded: bytes) -> str:
    """Return the digest of an encoded image; '' for one that is empty."""
    return hashlib.blake2b(encoded, digest_size=16).hexdigest() if encoded else ''


def distance(box: Box, other: Box) -> float:
    """Return the pixels between two boxes; 0 where they touch.

    `distance([0, 0, 10, 10], [3, 40, 9, 50])` is 30.
    """
    down = max(box[0] - other[2], other[0] - box[2], 0.0)
    along = max(box[1] - other[3], other[1] - box[3], 0.0)
    return math.hypot(down, along)


def enclose(boxes: Sequence[Box]) -> List[float]:
    """Return the smallest box around boxes, at least one."""
    tops, lefts, bottoms, rights = zip(*boxes)
    return [min(tops), min(lefts), max(bottoms), max(rights)]


def largest_gap(boxes: Sequence[Box]) -> float:
    """Return how far the most distant part of an object is from its nearest other part, in pixels.

    Args:
        boxes: around the parts.
    """
    gaps = [
        min(distance(box, other) for other in (*boxes[:index], *boxes[index + 1 :]))
        for index, box in enumerate(boxes)
        if len(boxes) > 1
    ]
    return max(gaps, default=0.0)
