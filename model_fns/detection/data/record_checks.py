"""What is wrong with a detection record, by its keys and values alone."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence

import tensorflow as tf

from model_fns.detection.boxes import axis_aligned, quadrilaterals
from model_fns.detection.boxes.family import BoxFamily
from model_fns.detection.data import context_features, instance_checks, sequences
from model_fns.structures.label_map import LabelMap

# Lists that a record has for each of its boxes, or not at all.
PER_BOX = (
    'image/object/difficult',
    'image/object/is_crowd',
    'image/object/group_of',
    'image/object/area',
    'image/object/weight',
)

# What values are.
_KINDS = {
    'image/encoded': 'bytes_list',
    'image/object/class/text': 'bytes_list',
    'image/object/class/label': 'int64_list',
    **dict.fromkeys(PER_BOX[:3], 'int64_list'),
    **dict.fromkeys(PER_BOX[3:], 'float_list'),
    **instance_checks.KINDS,
}

# What `box_type` of a model calls them.
_BOX_TYPES = {axis_aligned: 'UPRIGHT', quadrilaterals: 'ROTATED'}

# Boxes that reach further over the image are a mistake: pixels, say.
MOST_OVERHANG = 0.1
_SLACK = 1e-6  # of numbers that are compared with a bound in 32 bits elsewhere


def problem_with(
    serialized: bytes,
    label_map: Optional[LabelMap] = None,
    num_keypoints: int = 0,
    named_keypoints: bool = False,
    mask_type: Optional[int] = None,
    family: BoxFamily = axis_aligned,
    context: Optional[context_features.ContextFeatures] = None,
) -> Optional[str]:
    """Return the first thing that is wrong with a record; None when nothing is.

    It stops a run, too (see `inputs.Reader.decode`). What a run leaves out is no problem of the
    record: see `box_report`.

    Args:
        serialized: a `tf.train.Example`.
        label_map: the names of the classes, for records that have names.
        num_keypoints: that a box has, where it has any.
        named_keypoints: whether records name them.
        mask_type: a value of `InstanceMaskType`; None: masks are not read.
        family: of the boxes.
        context: how features of other images are read, where they are.
    """
    try:
        features = tf.train.Example.FromString(serialized).features.feature
    except Exception:  # protobuf's DecodeError, of which there is one a runtime
        return 'not a tf.train.Example'
    unsplit = sequences.problem_with(serialized)
    if unsplit:
        return unsplit
    expected = {**_KINDS, **dict.fromkeys(family.RECORD_KEYS, 'float_list')}
    if mask_type is not None:
        expected[instance_checks.MASK] = instance_checks.MASK_KINDS[mask_type]
    if context is not None:
        expected.update(context_features.KINDS)
    wrong = _wrong_kind(features, expected)
    if wrong:
        return wrong
    values = {key: _values(feature) for key, feature in features.items()}
    if not any(values.get('image/encoded', ())):
        return 'no image/encoded'
    numbers = {key: values.get(key, []) for key in family.RECORD_KEYS}
    of_others = _boxes_of_others(values, family)
    if of_others:
        return of_others
    count = len(numbers[family.RECORD_KEYS[0]])
    return (
        _uneven_boxes(numbers)
        or _uneven_classes(values, count, label_map)
        or _uneven_lists(values, count)
        or instance_checks.problem_with_keypoints(values, count, num_keypoints, named_keypoints)
        or instance_checks.problem_with_masks(values, count, mask_type)
        or _impossible_box(numbers, family)
        or (context.problem_with(values) if context is not None else None)
    )


def _boxes_of_others(values: Mapping[str, Sequence[Any]], family: BoxFamily) -> Optional[str]:
    """What is said of a record with boxes of another family alone."""
    if any(values.get(key) for key in family.RECORD_KEYS):
        return None
    for other, box_type in _BOX_TYPES.items():
        if other is not family and any(values.get(key) for key in other.RECORD_KEYS):
            return (
                f'{_folder(other)}/* and no {_folder(family)}/*: {box_type.lower()} boxes; '
                f'expected {_BOX_TYPES[family].lower()} ones, or box_type: {box_type} in the model'
            )
    return None


def _folder(family: BoxFamily) -> str:
    return family.RECORD_KEYS[0].rpartition('/')[0]


def _values(feature: Any) -> Sequence[Any]:
    kind = feature.WhichOneof('kind')
    return getattr(feature, kind).value if kind else ()


def _wrong_kind(features: Mapping[str, Any], expected: Mapping[str, str]) -> Optional[str]:
    for key, kind in expected.items():
        given = features[key].WhichOneof('kind') if key in features else None
        if given not in (None, kind) and _values(features[key]):
            return f'{key} is a {given}; expected a {kind}'
    return None


def _uneven_boxes(numbers: Mapping[str, Sequence[float]]) -> Optional[str]:
    if len({len(one) for one in numbers.values()}) == 1:
        return None
    counts = ', '.join(f'{len(one)} {_last(key)}' for key, one in numbers.items())
    prefix = next(iter(numbers)).rpartition('/')[0]
    return f'{prefix}/* has {counts}; expected as many of each'


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


def _uneven_lists(values: Mapping[str, Sequence[Any]], count: int) -> Optional[str]:
    """Lists that may be left out."""
    for key in PER_BOX:
        given = len(values.get(key, ()))
        if given not in (0, count):
            return f'{count} boxes and {given} {key}; expected none, or 1 for each box'
    return None


def _impossible_box(numbers: Mapping[str, Sequence[float]], family: BoxFamily) -> Optional[str]:
    boxes = list(zip(*numbers.values()))
    for place, box in enumerate(boxes, 1):
        problem = family.problem_of(box, MOST_OVERHANG + _SLACK)
        if problem:
            named = ', '.join(f'{_last(key)} {number:g}' for key, number in zip(numbers, box))
            return f'box {place} of {len(boxes)} ({named}) {problem}'
    return None


def _last(key: str) -> str:
    return key.rpartition('/')[2]
