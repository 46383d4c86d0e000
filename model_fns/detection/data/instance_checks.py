"""Checks of the masks and keypoints of a detection record."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence

from estimator_lib import errors, texts
from model_fns.structures import images
from protos import input_reader_pb2

IMAGE = 'image/encoded'
MASK = 'image/object/mask'
MASK_WEIGHT = 'image/object/mask/weight'
Y, X = 'image/object/keypoint/y', 'image/object/keypoint/x'
VISIBILITY = 'image/object/keypoint/visibility'
TEXT = 'image/object/keypoint/text'
# Lists with a value for each keypoint of each box.
KEYPOINTS = (Y, X, VISIBILITY)

# Types of values; those of masks by mask type.
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


def find_keypoint_problem(
    values: Values, count: int, num_keypoints: int, named: bool = False
) -> Optional[str]:
    """Find the first problem of keypoints; None if there is none.

    Args:
        values: values of the record, by key.
        count: number of boxes.
        num_keypoints: number of keypoints of a box; 0: they are not read.
        named: True: records name keypoints; boxes may have fewer, but each the same number.
    """
    if not num_keypoints:
        return None
    if named:
        return _find_name_problem(values, count)
    for key in KEYPOINTS:
        length = len(values.get(key, ()))
        if length not in (0, count * num_keypoints):
            return (
                f'{counted_boxes(count)} and {length} {key}; expected none, or {num_keypoints} for '
                'each box'
            )
    ys, xs = len(values.get(Y, ())), len(values.get(X, ()))
    if ys != xs:
        return f'{ys} {Y} and {xs} {X}; expected as many of each'
    return None


def counted_boxes(count: int) -> str:
    """Return `1 box` or `2 boxes`."""
    return texts.counted(count, 'box', 'boxes')


def _find_name_problem(values: Values, count: int) -> Optional[str]:
    total = len(values.get(TEXT, ()))
    for key in KEYPOINTS:
        length = len(values.get(key, ()))
        if length != total and (length or key != VISIBILITY):
            return f'{total} {TEXT} and {length} {key}; expected as many of each'
    if total % max(count, 1) or (total and not count):
        return f'{counted_boxes(count)} and {total} {TEXT}; expected as many for each box'
    return None


def find_mask_problem(values: Values, count: int, mask_type: Optional[int]) -> Optional[str]:
    """Find the first problem of masks; None if there is none.

    Args:
        values: values of the record, by key.
        count: number of boxes.
        mask_type: a value of `InstanceMaskType`; None: masks are not read.
    """
    if mask_type is None:
        return None
    masks, weights = values.get(MASK, ()), values.get(MASK_WEIGHT, ())
    if count and not masks:
        return f'{counted_boxes(count)} and no {MASK}, which load_instance_masks asks for'
    if len(weights) not in (0, count):
        return (
            f'{counted_boxes(count)} and {len(weights)} {MASK_WEIGHT}; expected none, or 1 for '
            'each box'
        )
    if mask_type == input_reader_pb2.PNG_MASKS:
        return _find_png_problem(values, masks, count)
    header = image_header(values.get(IMAGE, ()))
    if header is not None and len(masks) != count * header.height * header.width:
        return (
            f'{counted_boxes(count)} in {_size(header)} and {len(masks)} {MASK}; expected a '
            f'number for each pixel of each box, {count * header.height * header.width}'
        )
    return None


def _find_png_problem(values: Values, masks: Sequence[bytes], count: int) -> Optional[str]:
    if len(masks) != count:
        return f'{counted_boxes(count)} and {len(masks)} {MASK}; expected 1 for each box'
    header = image_header(values.get(IMAGE, ()))
    for place, mask in enumerate(masks, 1):
        problem = find_png_problem(mask, header)
        if problem is not None:
            return f'{MASK} {place} of {count} {problem}'
    return None


def find_png_problem(mask: bytes, header: Optional[images.ImageHeader]) -> Optional[str]:
    """Return what is wrong with the mask of an object; None if it is a PNG of the image's size.

    Args:
        mask: the content of the PNG.
        header: of the image; None: its size is not known.
    """
    try:
        mask_header = images.image_header(mask)
    except errors.DataError:
        mask_header = None
    if mask_header is None or mask_header.format != 'png':
        return 'is no PNG'
    if header is not None and mask_header[1:] != header[1:]:
        return (
            f'has {_size(mask_header)}, its image {_size(header)}; expected the size of the image'
        )
    return None


def image_header(encoded: Sequence[bytes]) -> Optional[images.ImageHeader]:
    """Return the header of the image; None for a corrupt image, which decoding reports.

    Args:
        encoded: the values of `image/encoded`.
    """
    try:
        return images.image_header(b''.join(encoded[:1]))
    except errors.DataError:
        return None


def _size(header: images.ImageHeader) -> str:
    return f'{header.height} x {header.width} pixels'
