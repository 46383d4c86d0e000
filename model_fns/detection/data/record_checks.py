"""What is wrong with a detection record, by its keys and values alone."""

from __future__ import annotations

import math
from typing import Any, List, Mapping, Optional, Sequence, Tuple

import tensorflow as tf

from model_fns.label_map import FIRST_ID, LabelMap

BOX = 'image/object/bbox/'
BOX_SIDES = ('ymin', 'xmin', 'ymax', 'xmax')
# Lists that a record has for each of its boxes, or not at all.
PER_BOX = (
    'image/object/difficult',
    'image/object/is_crowd',
    'image/object/group_of',
    'image/object/area',
    'image/object/weight',
)
MASK = 'image/object/mask'
# Keypoint by keypoint, box by box.
KEYPOINTS = (
    'image/object/keypoint/y',
    'image/object/keypoint/x',
    'image/object/keypoint/visibility',
)

_ROUNDING = 1e-4  # what a box may reach over the image because numbers were rounded

Box = Tuple[float, ...]


def problem_with(
    serialized: bytes,
    num_classes: int,
    max_boxes: int,
    label_map: Optional[LabelMap] = None,
    num_keypoints: int = 0,
    png_masks: bool = False,
) -> Optional[str]:
    """The first thing that is wrong with a record; None when nothing is.

    Some of it stops a run, too (see `inputs.Reader.decode`); of other records a run leaves out a
    box.

    Args:
        serialized: a `tf.train.Example`.
        num_classes: label ids are from 1 to it.
        max_boxes: more are cut off.
        label_map: the names of the classes, for records that have names.
        num_keypoints: that a box has, where it has any.
        png_masks: whether a box has to have one.
    """
    try:
        features = tf.train.Example.FromString(serialized).features.feature
    except Exception:  # protobuf's DecodeError, of which there is one a runtime
        return 'not a tf.train.Example'
    values = {key: _values(feature) for key, feature in features.items()}
    if not any(values.get('image/encoded', ())):
        return 'no image/encoded'
    sides = [values.get(BOX + side, []) for side in BOX_SIDES]
    count = len(sides[0])
    return (
        _uneven_sides(sides)
        or _uneven_classes(values, count, label_map)
        or _uneven_lists(values, count, num_keypoints)
        or (_missing_masks(values, count) if png_masks else None)
        or _unusable_box(list(zip(*sides)))
        or _unknown_class(values, num_classes, label_map)
        or _too_many(count, max_boxes)
    )


def _values(feature: Any) -> Sequence[Any]:
    kind = feature.WhichOneof('kind')
    return getattr(feature, kind).value if kind else ()


def _uneven_sides(sides: List[Sequence[float]]) -> Optional[str]:
    if len({len(side) for side in sides}) == 1:
        return None
    counts = ', '.join(f'{len(side)} {name}' for side, name in zip(sides, BOX_SIDES))
    return f'{BOX}* has {counts}; expected as many of each'


def _uneven_classes(
    values: Mapping[str, Sequence[Any]], count: int, label_map: Optional[LabelMap]
) -> Optional[str]:
    labels = values.get('image/object/class/label', ())
    names = values.get('image/object/class/text', ())
    of_class = [len(labels)] if label_map is None else [len(labels), len(names)]
    if max(of_class) != count or any(each not in (0, count) for each in of_class):
        return (
            f'{count} boxes, {len(labels)} image/object/class/label and {len(names)} '
            'image/object/class/text; expected '
            + ('a label' if label_map is None else 'a label or a text')
            + ' for each box'
        )
    return None


def _uneven_lists(
    values: Mapping[str, Sequence[Any]], count: int, num_keypoints: int
) -> Optional[str]:
    """Lists that may be left out."""
    each = {**dict.fromkeys(PER_BOX, 1), **dict.fromkeys(KEYPOINTS, num_keypoints)}
    for key, number in each.items():
        given = len(values.get(key, ()))
        if number and given not in (0, count * number):
            return f'{count} boxes and {given} {key}; expected none, or {number} for each box'
    return None


def _missing_masks(values: Mapping[str, Sequence[Any]], count: int) -> Optional[str]:
    given = len(values.get(MASK, ()))
    return None if given == count else f'{count} boxes and {given} {MASK}; expected 1 for each box'


def _unusable_box(boxes: List[Box]) -> Optional[str]:
    for number, box in enumerate(boxes, 1):
        ymin, xmin, ymax, xmax = box
        problem = ''
        if any(math.isnan(side) for side in box):
            problem = 'is not a number'
        elif min(box) < -_ROUNDING or max(box) > 1 + _ROUNDING:
            problem = (
                'reaches out of the image; expected shares of its height and width, from 0 to 1'
            )
        elif ymin > ymax or xmin > xmax:
            problem = 'is inverted; expected ymin < ymax and xmin < xmax'
        elif ymin == ymax or xmin == xmax:
            problem = 'has no area; expected ymin < ymax and xmin < xmax'
        if problem:
            named = ', '.join(f'{name} {side:g}' for name, side in zip(BOX_SIDES, box))
            return f'box {number} of {len(boxes)} ({named}) {problem}'
    return None


def _unknown_class(
    values: Mapping[str, Sequence[Any]], num_classes: int, label_map: Optional[LabelMap]
) -> Optional[str]:
    names = [name.decode('utf-8', 'replace') for name in values.get('image/object/class/text', ())]
    if names and label_map is not None:
        unknown = sorted({name for name in names if name not in label_map})
        listed = ', '.join(repr(name) for name in unknown)
        return f'classes that are not in the label map: {listed}' if unknown else None
    labels = values.get('image/object/class/label', ())
    last = FIRST_ID + num_classes - 1
    outside = sorted({label for label in labels if not FIRST_ID <= label <= last})
    if outside:
        listed = ', '.join(map(str, outside))
        return f'image/object/class/label has {listed}; expected {FIRST_ID} to {last}'
    return None


def _too_many(count: int, max_boxes: int) -> Optional[str]:
    if count <= max_boxes:
        return None
    return (
        f'{count} boxes; max_number_of_boxes is {max_boxes}, so the last {count - max_boxes} would '
        'be left out'
    )
