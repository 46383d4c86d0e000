"""What is wrong with the masks and keypoints of a detection record."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence

from estimator_lib import errors
from model_fns.structures import images
from protos import input_reader_pb2

MASK = 'image/object/mask'
MASK_WEIGHT = 'image/object/mask/weight'
Y, X = 'image/object/keypoint/y', 'image/object/keypoint/x'
VISIBILITY = 'image/object/keypoint/visibility'
TEXT = 'image/object/keypoint/text'
# Keypoint by keypoint, box by box.
KEYPOINTS = (Y, X, VISIBILITY)

# What values are; of masks by how they are read.
KINDS = {
    MASK_WEIGHT: 'float_list',
    Y: 'float_list',
    X: 'float_list',
    VISIBILITY: 'int64_list',
    TEXT: 'bytes_list',
}
MASK_KINDS = {
    input_reader_pb2.PNG_MASKS: 'bytes_list',
    input_reader_pb2.NUMERICAL_MASKS: 'float_list',
}

Values = Mapping[str, Sequence[Any]]


def problem_with_keypoints(
    values: Values, count: int, num_keypoints: int, named: bool = False
) -> Optional[str]:
    """Return the first thing that is wrong with keypoints; None when nothing is.

    Args:
        values: of the record, by key.
        count: of boxes.
        num_keypoints: that a box has, where it has any; 0: they are not read.
        named: whether records name them; a box may then have fewer, but each as many.
    """
    if not num_keypoints:
        return None
    if named:
        return _problem_with_names(values, count)
    for key in KEYPOINTS:
        given = len(values.get(key, ()))
        if given not in (0, count * num_keypoints):
            return (
                f'{count} boxes and {given} {key}; expected none, or {num_keypoints} for each box'
            )
    ys, xs = len(values.get(Y, ())), len(values.get(X, ()))
    if ys != xs:
        return f'{ys} {Y} and {xs} {X}; expected as many of each'
    return None


def _problem_with_names(values: Values, count: int) -> Optional[str]:
    total = len(values.get(TEXT, ()))
    for key in KEYPOINTS:
        given = len(values.get(key, ()))
        if given != total and (given or key != VISIBILITY):
            return f'{total} {TEXT} and {given} {key}; expected as many of each'
    if total % max(count, 1) or (total and not count):
        return f'{count} boxes and {total} {TEXT}; expected as many for each box'
    return None


def problem_with_masks(values: Values, count: int, mask_type: Optional[int]) -> Optional[str]:
    """Return the first thing that is wrong with masks; None when nothing is.

    Args:
        values: of the record, by key.
        count: of boxes.
        mask_type: a value of `InstanceMaskType`; None: masks are not read.
    """
    if mask_type is None:
        return None
    masks, weights = values.get(MASK, ()), values.get(MASK_WEIGHT, ())
    if count and not masks:
        return f'{count} boxes and no {MASK}, which load_instance_masks asks for'
    if len(weights) not in (0, count):
        return f'{count} boxes and {len(weights)} {MASK_WEIGHT}; expected none, or 1 for each box'
    if mask_type == input_reader_pb2.PNG_MASKS:
        return _problem_with_pngs(values, masks, count)
    header = _header(values)
    if header is not None and len(masks) != count * header.height * header.width:
        return (
            f'{count} boxes in {_size(header)} and {len(masks)} {MASK}; expected a number for each '
            f'pixel of each box, {count * header.height * header.width}'
        )
    return None


def _problem_with_pngs(values: Values, masks: Sequence[bytes], count: int) -> Optional[str]:
    if len(masks) != count:
        return f'{count} boxes and {len(masks)} {MASK}; expected 1 for each box'
    header = _header(values)
    for place, mask in enumerate(masks, 1):
        try:
            found = images.image_header(mask)
        except errors.DataError:
            found = None
        if found is None or found.format != 'png':
            return f'{MASK} {place} of {count} is no PNG'
        if header is not None and found[1:] != header[1:]:
            return (
                f'{MASK} {place} of {count} has {_size(found)}, its image {_size(header)}; '
                'expected the size of the image'
            )
    return None


def _header(values: Values) -> Optional[images.ImageHeader]:
    """Of the image; None where it cannot be told: that is said where the image is decoded."""
    try:
        return images.image_header(values['image/encoded'][0])
    except errors.DataError:
        return None


def _size(header: images.ImageHeader) -> str:
    return f'{header.height} x {header.width} pixels'
