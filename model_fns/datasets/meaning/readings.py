"""Meanings that the four numbers of a box can have, and the check which of them fits a data set.

The numbers of a file are read as its format says. Where most boxes then make no sense (outside of
the image, inverted, smaller than a pixel, or elsewhere than their own polygon) and another meaning
explains nearly all of them, the file has that other meaning.

    numbers [0.25, 0.5, 0.5, 0.75] of an image of 120 x 160, read as x1, y1, x2, y2 in pixels: a box
    of 0.25 x 0.25 pixels, which makes no sense. Normalized by the image's sides: y 60 to 90, x 40
    to 80, which does.
"""

from __future__ import annotations

import collections
from typing import Any, Callable, Counter, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from model_fns.datasets.meaning.annotated import Annotated, Object
from model_fns.datasets.meaning.issues import Issue, Severity

# x, y of two corners; x, y, width, height; the center in place of a corner. Each in pixels, or
# normalized by the image's sides.
CORNERS, SIZES, CENTERS = 'corners', 'sizes', 'centers'
NORMALIZED_CORNERS, NORMALIZED_CENTERS = 'normalized corners', 'normalized centers'

_PIXELS, _SHARES = 'in pixels', 'normalized by the sides of the image (0 to 1)'
_SLACK = 0.01  # of a side: boxes reach out that far by rounding, in any meaning
_FAR_AWAY = 1e9  # in place of what is no number
_LEAST_SIDE = 1.0  # pixels
_LEAST_OVERLAP = 0.5  # of a box and the box around its own polygon
_MOST_OWN, _LEAST_OTHER = 0.5, 0.95  # parts of the boxes that make sense: an error beyond both
_MOST_SUSPECT = 0.9  # a warning below
# Kinds of boxes that make no sense as they are read.
_NO_SENSE, _SMALL, _ELSEWHERE = 'no sense', 'small', 'elsewhere'
_ENOUGH = 4  # boxes that tell the order of numbers where there are no polygons


class Reading(NamedTuple):
    """A meaning of four numbers.

    Attributes:
        order: the names of the numbers.
        unit: their unit.
        to_box: numbers [4, n] in pixels and the image's height -> ymin, xmin, ymax, xmax, each [n].
    """

    order: str
    unit: str
    to_box: Callable[..., Tuple[np.ndarray, ...]]

    def boxes(self, numbers: np.ndarray, size: Tuple[int, int]) -> np.ndarray:
        """Return ymin, xmin, ymax, xmax in pixels [n, 4].

        Args:
            numbers: [n, 4], in the order of a file.
            size: height and width of the image in pixels.
        """
        height, width = size
        sides = [width, height] * 2
        if self.order.startswith('y'):
            sides = [height, width] * 2
        scaled = numbers * sides if self.unit == _SHARES else numbers
        return np.stack(self.to_box(*scaled.T, height), axis=1)


_ORDERS: Dict[str, Tuple[str, Callable[..., Tuple[np.ndarray, ...]]]] = {
    CORNERS: ('xmin, ymin, xmax, ymax', lambda a, b, c, d, _: (b, a, d, c)),
    SIZES: ('x, y, width, height', lambda a, b, c, d, _: (b, a, b + d, a + c)),
    CENTERS: (
        'center x, center y, width, height',
        lambda a, b, c, d, _: (b - d / 2, a - c / 2, b + d / 2, a + c / 2),
    ),
    'swapped corners': ('ymin, xmin, ymax, xmax', lambda a, b, c, d, _: (a, b, c, d)),
    'mirrored sizes': (
        'x, y, width, height with y measured from the bottom of the image',
        lambda a, b, c, d, height: (height - b - d, a, height - b, a + c),
    ),
    'mirrored corners': (
        'xmin, ymin, xmax, ymax with y measured from the bottom of the image',
        lambda a, b, c, d, height: (height - d, a, height - b, c),
    ),
}
_MIRRORED = ('mirrored sizes', 'mirrored corners')
READINGS: Dict[str, Reading] = {
    f'{prefix}{name}': Reading(order, unit, to_box)
    for prefix, unit in (('', _PIXELS), ('normalized ', _SHARES))
    for name, (order, to_box) in _ORDERS.items()
}


def make_sense(
    boxes: np.ndarray, size: Tuple[int, int], outlines: np.ndarray
) -> Tuple[np.ndarray, np.ndarray]:
    """Return which boxes are possible, and which of them agree with their outlines.

    Args:
        boxes: [n, 4]: ymin, xmin, ymax, xmax in pixels.
        size: height and width of the image.
        outlines: [n, 4]: boxes around the objects' polygons or masks, NaN without one.

    Returns:
        Two bool arrays [n]: inside of the image and at least a pixel high and wide; that, and
        where there is an outline an overlap (IoU) of at least 0.5 with it.
    """
    limits = np.array([*size, *size], np.float64)
    slack = 1.0 + _SLACK * limits
    inside = ((boxes >= -slack) & (boxes <= limits + slack)).all(axis=1)
    sides = boxes[:, 2:] - boxes[:, :2]
    possible = inside & (sides >= _LEAST_SIDE - 1e-6).all(axis=1)
    agrees = np.isnan(outlines).any(axis=1) | (_overlap(boxes, outlines) >= _LEAST_OVERLAP)
    return possible, possible & agrees


def _overlap(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the IoU [n] of boxes, one pixel larger on each side: outlines may be lines."""
    first = boxes + [-1, -1, 1, 1]
    second = others + [-1, -1, 1, 1]
    shared = np.minimum(first[:, 2:], second[:, 2:]) - np.maximum(first[:, :2], second[:, :2])
    common = np.prod(np.maximum(shared, 0), axis=1)
    areas = [np.prod(np.maximum(box[:, 2:] - box[:, :2], 0), axis=1) for box in (first, second)]
    return common / np.maximum(areas[0] + areas[1] - common, 1e-9)


def _bounded(numbers: Sequence[Any]) -> np.ndarray:
    """Return numbers as float64, of a size with which one can calculate; `_FAR_AWAY` for NaN."""
    return np.nan_to_num(
        np.clip(np.array(numbers, np.float64), -_FAR_AWAY, _FAR_AWAY), nan=_FAR_AWAY
    )


class _Counts:
    """Counts of the boxes of one reading that make sense, with each reading."""

    def __init__(self) -> None:
        self.total = self.num_outlines = 0
        self.fitting: Dict[str, int] = collections.Counter()
        self.odd: Counter[str] = collections.Counter()  # by kind
        self.first: Dict[str, str] = {}  # example of each kind

    def add(self, own: str, objects: Sequence[Object], size: Tuple[int, int]) -> None:
        # Numbers near the largest float overflow in sums below, with warnings of NumPy.
        numbers = _bounded([item.numbers for item in objects])
        no_outline = [np.nan] * 4
        outlines = np.array([item.outline or no_outline for item in objects], np.float64)
        outlines = np.clip(outlines, -_FAR_AWAY, _FAR_AWAY)
        self.total += len(objects)
        self.num_outlines += int((~np.isnan(outlines[:, 0])).sum())
        for name, reading in READINGS.items():
            boxes = reading.boxes(numbers, size)
            possible, sensible = make_sense(boxes, size, outlines)
            if name in _MIRRORED and name != own:  # without outlines all can be mirrored
                sensible = sensible & ~np.isnan(outlines[:, 0])
            self.fitting[name] += int(sensible.sum())
            if name == own:
                self._note(objects, boxes, possible, sensible)

    def _note(
        self,
        objects: Sequence[Object],
        boxes: np.ndarray,
        possible: np.ndarray,
        sensible: np.ndarray,
    ) -> None:
        """Count the boxes that make no sense as they are read, and keep the first of each kind."""
        sides = boxes[:, 2:] - boxes[:, :2]
        small = ((sides < _LEAST_SIDE - 1e-6) & (sides >= 0)).any(axis=1)
        small &= (np.abs(boxes) < _FAR_AWAY / 2).all(axis=1)
        elsewhere = possible & ~sensible
        for kind, mask in ((_NO_SENSE, ~sensible), (_SMALL, small), (_ELSEWHERE, elsewhere)):
            rows = np.flatnonzero(mask)
            self.odd[kind] += len(rows)
            if len(rows) and kind not in self.first:
                item = objects[rows[0]]
                shown = ', '.join(f'{number:g}' for number in item.numbers or ())
                self.first[kind] = f'{item.place}: {shown}'


class BoxReadings:
    """Check whether the numbers of boxes mean what their format says."""

    def __init__(self) -> None:
        self._counts: Dict[str, _Counts] = {}

    def add(self, image: Annotated) -> None:
        """Add the boxes of an image."""
        groups: Dict[str, List[Object]] = {}
        for item in image.objects:
            if item.numbers is not None:
                groups.setdefault(item.reading, []).append(item)
        for name, objects in groups.items():
            self._counts.setdefault(name, _Counts()).add(name, objects, image.size)

    def issues(self) -> List[Issue]:
        """Return another meaning of the numbers, or the boxes that make no sense, as issues."""
        issues: List[Issue] = []
        for own, counts in self._counts.items():
            other = _other_reading(own, counts)
            issues += [other] if other else _odd_boxes(counts)
        return issues


class LyingPictures:
    """Check whether annotations are of photographs before or after their EXIF rotation.

    Args:
        apply_exif: photographs are rotated as their EXIF orientation says.
    """

    def __init__(self, apply_exif: bool):
        self._apply_exif = apply_exif
        self._total = 0
        self._places: List[str] = []

    def add(self, image: Annotated) -> None:
        """Add an image; those whose height and width EXIF does not swap do not count."""
        if image.other_size is None:
            return
        self._total += 1
        fits = image.has_other_size or (
            not _fits(image.objects, image.size) and _fits(image.objects, image.other_size)
        )
        if fits:
            self._places.append(image.place)

    def issues(self) -> List[Issue]:
        """Return the photographs whose boxes or sizes are those of the other frame."""
        if not self._places:
            return []
        frame, flag = ('as stored', 'ignore') if self._apply_exif else ('upright', 'apply')
        text = (
            f'that EXIF orientations lay on their side have annotations of the picture {frame}; '
            f'write --exif={flag}'
        )
        return [
            Issue(
                Severity.WARNING,
                len(self._places),
                self._total,
                'photographs',
                text,
                self._places[0],
            )
        ]


def _fits(objects: Sequence[Object], size: Tuple[int, int]) -> bool:
    """Return whether all boxes that files have in pixels are inside of an image."""
    limits = np.array([*size, *size], np.float64)
    for item in objects:
        reading = READINGS.get(item.reading)
        if item.numbers is None or reading is None or reading.unit != _PIXELS:
            continue
        box = reading.boxes(_bounded([item.numbers]), size)
        if not (np.abs(box - limits / 2) <= limits / 2 + 1.0 + _SLACK * limits).all():
            return False
    return True


def _other_reading(own: str, counts: _Counts) -> Optional[Issue]:
    """Return the issue that another reading explains the boxes; None: none does."""
    total, fitting = counts.total, counts.fitting[own]
    if fitting >= _MOST_SUSPECT * total:
        return None
    best = max(READINGS, key=lambda name: _preference(own, name, counts.fitting[name]))
    # A wrong alarm costs more than a missed one: the other reading must explain nearly all boxes.
    if counts.fitting[best] < _LEAST_OTHER * total:
        return None
    other, reading = READINGS[best], READINGS[own]
    hint = ''
    if other.unit != reading.unit:
        hint = ': normalized, it seems' if other.unit == _SHARES else ': pixels, it seems'
    elif not counts.num_outlines and total < _ENOUGH:
        return None
    severity = Severity.ERROR if fitting <= _MOST_OWN * total else Severity.WARNING
    text = (
        f'make no sense as {reading.order} {reading.unit}, and '
        f'{counts.fitting[best]:,} do as {other.order} {other.unit}{hint}'
    )
    return Issue(severity, total - fitting, total, 'boxes', text, counts.first[_NO_SENSE])


def _preference(own: str, name: str, fitting: int) -> Tuple[int, bool, bool]:
    """Return the key that prefers readings of the same order, then of the same unit."""
    first, second = READINGS[own], READINGS[name]
    return fitting, first.order == second.order, first.unit == second.unit


def _odd_boxes(counts: _Counts) -> List[Issue]:
    """Return an issue for each kind of boxes that make no sense; objects stay as they are."""
    kinds = {
        _ELSEWHERE: f'are elsewhere than their own polygon or mask (IoU below {_LEAST_OVERLAP:g}); '
        'expected a box around it',
        _SMALL: 'have a side of less than a pixel, from which nothing can be learned',
    }
    return [
        Issue(Severity.WARNING, counts.odd[kind], counts.total, 'boxes', text, counts.first[kind])
        for kind, text in kinds.items()
        if counts.odd[kind]
    ]
