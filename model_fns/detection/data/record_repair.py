"""Repair of detection records: objects that are malformed by themselves are clipped or removed."""

from __future__ import annotations

from typing import Any, Callable, MutableMapping, Optional, Sequence, Tuple

import tensorflow as tf

from model_fns.detection.boxes.family import BoxFamily
from model_fns.detection.data import instance_checks, record_checks

_OBJECTS = 'image/object/'


def repair(
    serialized: bytes,
    family: BoxFamily,
    reads_png_masks: bool,
    find_problem: Callable[[bytes], Optional[str]],
) -> Optional[Tuple[bytes, str]]:
    """Clip or remove the implausible boxes of a record, and remove objects with malformed masks.

    Of three boxes, one from 0.5 to 1.5 is clipped at 1, and one from 60 to 90 is removed with its
    class, flags, mask and keypoints: two objects stay.

    Args:
        serialized: a malformed record, possibly not a `tf.train.Example`.
        family: family of the boxes.
        reads_png_masks: objects have masks, which are PNGs.
        find_problem: returns the first problem of a record; None for a valid one.

    Returns:
        The repaired record and a description of its problem; None where no object is left, or
        another problem stays.
    """
    problem = find_problem(serialized)
    if problem is None:
        return None
    try:
        example = tf.train.Example.FromString(serialized)
    except Exception:  # protobuf's DecodeError, whose class depends on the runtime
        return None
    features = example.features.feature
    numbers = [list(features[key].float_list.value) for key in family.RECORD_KEYS]
    count = len(numbers[0])
    if any(len(column) != count for column in numbers):
        return None
    boxes = list(zip(*numbers))
    repaired = [
        box if not record_checks.find_box_problem(box, family) else family.clip_numbers(box)
        for box in boxes
    ]
    masks = features[instance_checks.MASK].bytes_list.value if reads_png_masks else ()
    if masks and len(masks) == count:
        header = instance_checks.image_header(features[instance_checks.IMAGE].bytes_list.value)
        for row, mask in enumerate(masks):
            if instance_checks.find_png_problem(mask, header) is not None:
                repaired[row] = None
    kept = {row: box for row, box in enumerate(repaired) if box is not None}
    if not kept or not _take_rows(features, list(kept), count):
        return None
    for key, column in zip(family.RECORD_KEYS, zip(*kept.values())):
        features[key].float_list.value[:] = column
    # The whole check runs again: another problem may have been behind the first one.
    changed = example.SerializeToString()
    if find_problem(changed) is not None:
        return None
    num_clipped = sum(tuple(box) != boxes[row] for row, box in kept.items())
    return changed, f'{problem} ({count - len(kept)} of {count} removed, {num_clipped} clipped)'


def _take_rows(features: MutableMapping[str, Any], rows: Sequence[int], count: int) -> bool:
    """Keep the values of some objects in all lists; return False if a list has too few or many."""
    for key, feature in features.items():
        kind = feature.WhichOneof('kind')
        if not key.startswith(_OBJECTS) or kind is None:
            continue
        values = getattr(feature, kind).value
        width, rest = divmod(len(values), count)
        if rest:
            return False
        values[:] = [value for row in rows for value in values[row * width : (row + 1) * width]]
    return True
