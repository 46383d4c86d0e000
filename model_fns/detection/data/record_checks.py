"""Checks of a detection record by its keys and values."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence

import tensorflow as tf

from model_fns.detection.boxes import axis_aligned, quadrilaterals
from model_fns.detection.boxes.family import BoxFamily
from model_fns.detection.data import (
    class_targets,
    context_features,
    instance_checks,
    sequences,
)
from model_fns.structures.channels import THREE_COLORS, Channels
from model_fns.structures.label_map import LabelMap

# Optional lists with a value for each box.
PER_BOX = (
    'image/object/difficult',
    'image/object/is_crowd',
    'image/object/group_of',
    'image/object/area',
    'image/object/weight',
)

# Types of values.
_KINDS = {
    'image/encoded': 'bytes_list',
    'image/object/class/text': 'bytes_list',
    'image/object/class/label': 'int64_list',
    **dict.fromkeys(PER_BOX[:3], 'int64_list'),
    **dict.fromkeys(PER_BOX[3:], 'float_list'),
    **instance_checks.KINDS,
}

# Values of `box_type` of a model, and names for messages.
_BOX_TYPES = {axis_aligned: 'AXIS_ALIGNED', quadrilaterals: 'ROTATED'}
_BOX_NAMES = {axis_aligned: 'axis-aligned', quadrilaterals: 'rotated'}

# Boxes that extend further beyond the image are a mistake, such as coordinates in pixels.
MOST_OVERHANG = 0.1
_SLACK = 1e-6  # tolerance, because decoding compares the same values in 32 bits


def find_problem(
    serialized: bytes,
    label_map: Optional[LabelMap] = None,
    num_keypoints: int = 0,
    named_keypoints: bool = False,
    mask_type: Optional[int] = None,
    family: BoxFamily = axis_aligned,
    context: Optional[context_features.ContextFeatures] = None,
    num_scores: int = 0,
    channels: Channels = THREE_COLORS,
) -> Optional[str]:
    """Find the first problem of a record; None if there is none.

    Such a problem also stops a run (see `inputs.Reader.decode`). Boxes that a run drops are no
    problem here; `box_report` counts them.

    Args:
        serialized: a serialized `tf.train.Example`.
        label_map: label map, for records that name classes.
        num_keypoints: number of keypoints of a box; 0: they are not read.
        named_keypoints: True: records name keypoints.
        mask_type: a value of `InstanceMaskType`; None: masks are not read.
        family: family of the boxes.
        context: reader of features of other images; None: they are not read.
        num_scores: number of classes that boxes have scores of; 0: they are not read.
        channels: of the image.
    """
    try:
        features = tf.train.Example.FromString(serialized).features.feature
    except Exception:  # protobuf's DecodeError, whose class depends on the runtime
        return 'not a tf.train.Example'
    # A SequenceExample parses as an Example too: its context has the same field number.
    unsplit = sequences.find_problem(serialized)
    if unsplit:
        return unsplit
    expected = {**_KINDS, **dict.fromkeys(family.RECORD_KEYS, 'float_list')}
    if mask_type is not None:
        expected[instance_checks.MASK] = instance_checks.MASK_KINDS[mask_type]
    if context is not None:
        expected.update(context_features.KINDS)
    if num_scores:
        expected[class_targets.SCORES] = 'float_list'
    wrong = _wrong_kind(features, expected)
    if wrong:
        return wrong
    values = {key: _values(feature) for key, feature in features.items()}
    if not any(values.get('image/encoded', ())):
        return 'no image/encoded'
    wrong = channels.find_problem(features)
    if wrong:
        return wrong
    numbers = {key: values.get(key, []) for key in family.RECORD_KEYS}
    wrong = _wrong_family(values, family)
    if wrong:
        return wrong
    count = len(numbers[family.RECORD_KEYS[0]])
    return (
        _uneven_boxes(numbers)
        or _uneven_classes(values, count, label_map)
        or _uneven_lists(values, count)
        or _uneven_scores(values, count, num_scores)
        or instance_checks.find_keypoint_problem(values, count, num_keypoints, named_keypoints)
        or instance_checks.find_mask_problem(values, count, mask_type)
        or _impossible_box(numbers, family)
        or (context.find_problem(values) if context is not None else None)
    )


def _wrong_family(values: Mapping[str, Sequence[Any]], family: BoxFamily) -> Optional[str]:
    """Describe a record that only has boxes of another family."""
    if any(values.get(key) for key in family.RECORD_KEYS):
        return None
    for other, box_type in _BOX_TYPES.items():
        if other is not family and any(values.get(key) for key in other.RECORD_KEYS):
            return (
                f'{_folder(other)}/* and no {_folder(family)}/*: {_BOX_NAMES[other]} boxes; '
                f'expected {_BOX_NAMES[family]} ones, or box_type: {box_type} in the model'
            )
    return None


def _folder(family: BoxFamily) -> str:
    return family.RECORD_KEYS[0].rpartition('/')[0]


def _values(feature: Any) -> Sequence[Any]:
    kind = feature.WhichOneof('kind')
    return getattr(feature, kind).value if kind else ()


def _wrong_kind(features: Mapping[str, Any], expected: Mapping[str, str]) -> Optional[str]:
    for key, kind in expected.items():
        actual = features[key].WhichOneof('kind') if key in features else None
        # An empty list of another kind is harmless: it has no value to be misread.
        if actual not in (None, kind) and _values(features[key]):
            return f'{key} is a {actual}; expected a {kind}'
    return None


def _uneven_boxes(numbers: Mapping[str, Sequence[float]]) -> Optional[str]:
    if len({len(values) for values in numbers.values()}) == 1:
        return None
    counts = ', '.join(f'{len(values)} {_last(key)}' for key, values in numbers.items())
    prefix = next(iter(numbers)).rpartition('/')[0]
    return f'{prefix}/* has {counts}; expected as many of each'


def _uneven_classes(
    values: Mapping[str, Sequence[Any]], count: int, label_map: Optional[LabelMap]
) -> Optional[str]:
    labels = values.get('image/object/class/label', ())
    names = values.get('image/object/class/text', ())
    class_sizes = [len(labels)] if label_map is None else [len(labels), len(names)]
    if max(class_sizes) != count or any(size not in (0, count) for size in class_sizes):
        return (
            f'{instance_checks.counted_boxes(count)}, {len(labels)} image/object/class/label and '
            f'{len(names)} image/object/class/text; expected '
            + ('a label' if label_map is None else 'a label or a text')
            + ' for each box'
        )
    return None


def _uneven_lists(values: Mapping[str, Sequence[Any]], count: int) -> Optional[str]:
    """Find an optional list whose length is not the number of boxes."""
    for key in PER_BOX:
        length = len(values.get(key, ()))
        if length not in (0, count):
            boxes = instance_checks.counted_boxes(count)
            return f'{boxes} and {length} {key}; expected none, or 1 for each box'
    return None


def _uneven_scores(
    values: Mapping[str, Sequence[Any]], count: int, num_scores: int
) -> Optional[str]:
    """Find a list of scores that is not one of all classes for each box."""
    length = len(values.get(class_targets.SCORES, ()))
    if not num_scores or length in (0, count * num_scores):
        return None
    return (
        f'{instance_checks.counted_boxes(count)} and {length} {class_targets.SCORES}; expected '
        f'none, or {num_scores} for each box'
    )


def _impossible_box(numbers: Mapping[str, Sequence[float]], family: BoxFamily) -> Optional[str]:
    boxes = list(zip(*numbers.values()))
    for place, box in enumerate(boxes, 1):
        problem = find_box_problem(box, family)
        if problem:
            named = ', '.join(f'{_last(key)} {number:g}' for key, number in zip(numbers, box))
            return f'box {place} of {len(boxes)} ({named}) {problem}'
    return None


def find_box_problem(box: Sequence[float], family: BoxFamily) -> str:
    """Describe why a box, the numbers of a record, is implausible; '' if it is plausible."""
    return family.find_problem(box, MOST_OVERHANG + _SLACK)


def _last(key: str) -> str:
    return key.rpartition('/')[2]
