"""Objects' masks from polygons and run lengths, as COCO has them."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional, Sequence, Union

import numpy as np

from estimator_lib import errors
from model_fns.datasets import records, sources
from model_fns.datasets.annotations import pixel_masks
from model_fns.datasets.annotations.pixel_masks import PixelMask
from model_fns.datasets.meaning import annotated
from model_fns.structures import images, run_lengths

# A list of polygons [x, y, x, y, ..] in pixels, or run lengths: `size` and `counts`.
Shape = Union[List[List[float]], Mapping[str, Any]]

_LEAST_NUMBERS = 6  # of a polygon: three points
_FARTHEST = 4  # times the image's longer side: a point beyond is a slip, and slow to draw


def mask_features(
    masks: Sequence[Optional[PixelMask]],
    boxes: Sequence[Sequence[float]],
    header: images.ImageHeader,
) -> records.Features:
    """Return the record features of the objects' masks; empty where no object has a mask.

    Where only some objects have a mask, the others get their box as a mask of weight 0. So records
    have a mask for each object, and training ignores masks that nobody drew.

    Args:
        masks: of each object; None for an object without.
        boxes: of each object, ymin, xmin, ymax, xmax in pixels.
        header: the image's size.
    """
    if all(mask is None for mask in masks):
        return {}
    features: records.Features = {
        'image/object/mask': [
            (pixel_masks.of_box(box, header) if mask is None else mask).png(header)
            for mask, box in zip(masks, boxes)
        ]
    }
    if None in masks:
        weights = [0.0 if mask is None else 1.0 for mask in masks]
        features['image/object/mask/weight'] = np.array(weights, np.float32)
    return features


def box_around(polygon: Sequence[float]) -> List[float]:
    """Return the box around a polygon: ymin, xmin, ymax, xmax.

    Args:
        polygon: x, y of each point.
    """
    xs, ys = polygon[::2], polygon[1::2]
    return [min(ys), min(xs), max(ys), max(xs)]


def outline(shape: Any, header: images.ImageHeader) -> Optional[List[float]]:
    """Return the box around a shape: ymin, xmin, ymax, xmax; None for a malformed or empty shape.

    Args:
        shape: of an object.
        header: the image's size.
    """
    try:
        check(shape, header)
        if isinstance(shape, list):
            return annotated.enclose([box_around(polygon) for polygon in shape]) if shape else None
        from faster_coco_eval.core import mask as coco_masks  # imported here: few formats need it

        encoded = shape
        if isinstance(shape['counts'], list):
            encoded = coco_masks.frPyObjects(shape, header.height, header.width)
        x, y, width, height = np.ravel(coco_masks.toBbox(encoded)).tolist()
    except (errors.DataError, RuntimeError, ValueError, TypeError):
        return None  # reported when the object is converted
    return [y, x, y + height, x + width] if width and height else None


def draw(shape: Shape, header: images.ImageHeader) -> PixelMask:
    """Draw the pixels of a shape.

    Of polygons there is the box around their pixels: most are far smaller than their image.

    Args:
        shape: of an object.
        header: the image's size.

    Raises:
        errors.DataError: the shape is malformed, or not of an image of that size.
    """
    # Imported here: only masks need it.
    from faster_coco_eval.core import mask as coco_masks

    check(shape, header)
    try:
        if isinstance(shape, list):
            encoded = coco_masks.merge(coco_masks.frPyObjects(shape, header.height, header.width))
            left, top, width, height = map(int, coco_masks.toBbox(encoded))
            runs = run_lengths.parse_counts(encoded['counts'])
            pixels = run_lengths.pixels_of_window(runs, header.height, top, left, (height, width))
            return PixelMask(top, left, pixels)
        encoded = shape
        if isinstance(shape['counts'], list):
            encoded = coco_masks.frPyObjects(shape, header.height, header.width)
        mask = np.asarray(coco_masks.decode(encoded), np.uint8)
        return PixelMask(0, 0, np.ascontiguousarray(mask.reshape(header.height, header.width)))
    except (RuntimeError, ValueError, TypeError) as error:
        raise errors.DataError(f'the segmentation cannot be drawn as a mask: {error}') from error


def check(shape: Any, header: images.ImageHeader) -> None:
    """Check the shape: the drawing code would not end or would read out of bounds on a bad one.

    Raises:
        errors.DataError: the shape is malformed, or not of an image of that size.
    """
    if isinstance(shape, list):
        for polygon in shape:
            _check_polygon(polygon, header)
    elif isinstance(shape, Mapping) and 'counts' in shape:
        if shape.get('size') != [header.height, header.width]:
            raise errors.DataError(
                f'the segmentation is of size {shape.get("size")}; the image has '
                f'[{header.height}, {header.width}].'
            )
        counts = shape['counts']
        if isinstance(counts, list):
            _check_counts(counts, header)
    else:
        raise errors.DataError(
            f'the segmentation is {shape!r:.40}; expected a list of polygons, or run lengths with '
            'size and counts.'
        )


def _check_polygon(polygon: Any, header: images.ImageHeader) -> None:
    if not isinstance(polygon, list) or len(polygon) < _LEAST_NUMBERS or len(polygon) % 2:
        count = len(polygon) if isinstance(polygon, list) else 'no list of'
        raise errors.DataError(
            f'the segmentation has a polygon with {count} numbers; expected x and y of at least '
            'three points.'
        )
    farthest = _FARTHEST * max(header.height, header.width)
    for value in polygon:
        side = sources.number(value)
        if side is None or abs(side) > farthest:
            raise errors.DataError(
                f'the segmentation has a point at {value!r}; expected a number of pixels in the '
                f'image, which has {header.height} x {header.width}.'
            )


def _check_counts(counts: List[Any], header: images.ImageHeader) -> None:
    numbers = [sources.number(count) for count in counts]
    for count, number in zip(counts, numbers):
        if number is None or number < 0 or number % 1:
            raise errors.DataError(
                f'the segmentation has the count {count!r:.40}; expected whole numbers from 0.'
            )
    if sum(numbers) != header.height * header.width:
        raise errors.DataError(
            f'the segmentation counts {sum(numbers):g} pixels; the image has '
            f'{header.height * header.width}.'
        )
