"""Rotated boxes in records, for all formats that have them."""

from __future__ import annotations

import math
from typing import List, Sequence, Union

import numpy as np

from estimator_lib import errors
from model_fns.datasets import records
from model_fns.structures import images, rotated_rectangles

Box = Union[Sequence[float], np.ndarray]  # cy, cx, h, w in pixels, and the angle

_NAMES = ('cy', 'cx', 'h', 'w', 'ang')
KEYS = tuple(f'image/object/rbbox/{name}' for name in _NAMES)


def box_features(
    boxes: Sequence[np.ndarray],
    ids: Sequence[int],
    names: Sequence[str],
    header: images.ImageHeader,
) -> records.Features:
    """Return the record features of rotated boxes and their classes.

    Args:
        boxes: [n, 5] in pixels, see `rotated_rectangles`.
        ids: class ids.
        names: class names.
        header: the image's size.
    """
    forms = rotated_rectangles.le90(np.reshape(np.asarray(boxes, np.float64), [-1, 5]))
    numbers = rotated_rectangles.to_record(forms, header.height, header.width)
    return {
        **{key: numbers[:, column].astype(np.float32) for column, key in enumerate(KEYS)},
        'image/object/class/label': np.array(ids, np.int64),
        'image/object/class/text': list(names),
    }


def smallest_box(points: Sequence[float]) -> np.ndarray:
    """Return the smallest box [5] around a polygon.

    Args:
        points: x, y of each, in pixels: at least three points.

    Raises:
        errors.DataError: a coordinate is not finite, or a quadrilateral crosses itself.
    """
    for value in points:
        if not math.isfinite(value):
            raise errors.DataError(f'the polygon has the coordinate {value}; expected a number.')
    # y before x, as in all boxes of this project.
    corners = np.reshape(np.asarray(points, np.float64), [-1, 2])[:, ::-1]
    if len(corners) == 4 and rotated_rectangles.crosses_itself(corners):
        raise errors.DataError(
            f'the quadrilateral {_shown(points)} crosses itself; expected its corners in the order '
            'around it.'
        )
    return rotated_rectangles.smallest_around(corners)


def rotate(box: Sequence[float], degrees: float) -> np.ndarray:
    """Return the box [5] that an axis-aligned box becomes, clockwise around its center.

    Args:
        box: ymin, xmin, ymax, xmax in pixels.
        degrees: of the rotation.
    """
    top, left, bottom, right = box
    center = [(top + bottom) / 2, (left + right) / 2]
    return np.array([*center, bottom - top, right - left, math.radians(degrees)])


def around(box: Box) -> List[float]:
    """Return the smallest axis-aligned box around a rotated box: ymin, xmin, ymax, xmax.

    A box of 20 x 60 around 60, 80 that is rotated by 90 degrees is in 30, 70, 90, 90.
    """
    corners = rotated_rectangles.corners(np.asarray(box, np.float64))
    # Rounded to what records hold, so that a quarter of a turn is exact.
    return np.round([*corners.min(axis=0), *corners.max(axis=0)], 6).tolist()


def check_box(box: Box, header: images.ImageHeader, least_side: float = 0.0) -> None:
    """Check a rotated box.

    Args:
        box: cy, cx, h, w in pixels, and the angle.
        header: the image's size.
        least_side: boxes with a shorter side are refused, and always those with a side of 0.

    Raises:
        errors.DataError: a number is not finite, a side is too short, the angle is in degrees, or
            the center is outside of the image.
    """
    cy, cx, height, width, angle = box
    shown = f'the box {_shown(box)} (cy, cx, h, w, angle)'
    if not all(map(math.isfinite, box)):
        raise errors.DataError(f'{shown} has a number that is none.')
    shorter = min(height, width)
    if shorter <= 0 or shorter < least_side:
        least = f'at least {least_side:g} pixels' if least_side else 'more than 0'
        raise errors.DataError(f'{shown} has a side of {shorter:g}; expected {least}.')
    # Radians of any convention stay below; degrees of most objects do not.
    if abs(angle) > 2 * math.pi:
        raise errors.DataError(
            f'{shown} has an angle beyond 2 pi: degrees, it seems; expected radians.'
        )
    if not (0 <= cy <= header.height and 0 <= cx <= header.width):
        raise errors.DataError(
            f'{shown} has its center outside of the image, which has {header.height} x '
            f'{header.width} pixels.'
        )


def _shown(numbers: Box) -> str:
    return f'[{", ".join(f"{number:g}" for number in numbers)}]'
