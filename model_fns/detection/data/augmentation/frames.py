"""Crops, canvases and sizes, the building blocks of all steps that change the frame of an image.

Boxes and keypoints are normalized to the frame, and masks have its size. These functions update all
of them, so that no step has to know which of them an example has.
"""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple, Union

import numpy as np
import tensorflow as tf

from estimator_lib.task import Example
from model_fns.augmentation.pixels import GRAY as GRAY
from model_fns.augmentation.pixels import image_size as image_size
from model_fns.augmentation.pixels import to_float as to_float
from model_fns.augmentation.pixels import warp as warp
from model_fns.detection import fields
from model_fns.detection.boxes.family import find_family
from model_fns.detection.data import examples
from model_fns.structures import images

_WHOLE = (0.0, 0.0, 1.0, 1.0)

Flag = Union[bool, tf.Tensor]
Size = Union[Tuple[int, int], tf.Tensor]


class Window(NamedTuple):
    """A part of an image.

    Args:
        begin: int32 [3]: first row, first column, 0.
        size: int32 [3]: rows, columns, -1 (all channels).
        share: float32 [4]: normalized ymin, xmin, ymax, xmax.
    """

    begin: tf.Tensor
    size: tf.Tensor
    share: tf.Tensor


def pixel_window(begin: tf.Tensor, size: tf.Tensor, whole: tf.Tensor) -> Window:
    """Build a window from its position and size in pixels.

    Args:
        begin: int32 [2], first row and column.
        size: int32 [2], rows and columns.
        whole: int32 [2], size of the image.
    """
    corners = tf.concat([begin, begin + size], 0)
    share = tf.cast(corners, tf.float32) / tf.cast(tf.tile(whole, [2]), tf.float32)
    return Window(tf.concat([begin, [0]], 0), tf.concat([size, [-1]], 0), share)


def crop(
    example: Example,
    window: Window,
    min_overlap: Union[float, tf.Tensor],
    clips: Flag,
    is_whole: Optional[tf.Tensor] = None,
) -> Example:
    """Crop an example to a window.

    Boxes outside of it are dropped. If boxes are clipped, keypoints outside become NaN and
    invisible.

    Args:
        example: any example.
        window: inside the image.
        min_overlap: boxes with a smaller fraction of their area in the window are dropped too.
        clips: True: boxes are clipped to the window.
        is_whole: bool scalar; True: the window is the whole image and nothing changes.
    """
    boxes = example[fields.BOXES]
    family = find_family(boxes)
    cut = family.clip_to_window(boxes, window.share)
    shown, area = family.area_inside(boxes, window.share), family.area(boxes)
    # The first condition is for a `min_overlap` of 0, which would keep boxes outside of the window.
    kept = tf.logical_and(shown > 0.0, shown >= min_overlap * area)
    if is_whole is not None:
        kept = tf.logical_or(kept, is_whole)
        clips = tf.logical_and(clips, tf.logical_not(is_whole))
    result = {
        **example,
        fields.IMAGE: _cut_out(example[fields.IMAGE], window),
        fields.BOXES: family.change_frame(_choose(clips, cut, boxes), window.share),
        **_move_to_frame(example, window.share, clips),
    }
    if fields.AREA in example:
        left = tf.math.divide_no_nan(shown, area)
        # Areas of records are those of masks. What is left of a mask is estimated by what is left
        # of its box.
        result[fields.AREA] *= _choose(clips, left, tf.ones_like(left))
    if fields.MASKS in example:
        # Masks are [n, height, width], so the values of the window are rotated by one.
        begin, size = tf.roll(window.begin, 1, 0), tf.roll(window.size, 1, 0)
        result[fields.MASKS] = tf.slice(example[fields.MASKS], begin, size)
    return examples.keep_boxes(result, kept)


def pad(
    example: Example, begin: tf.Tensor, size: tf.Tensor, color: Optional[tf.Tensor] = None
) -> Example:
    """Place the image on a larger canvas.

    Args:
        example: any example.
        begin: int32 [2], row and column of the image's first pixel in the canvas.
        size: int32 [2], size of the canvas; the image fits in.
        color: color of the canvas, [3] of the image's type; None: black.
    """
    after = size - image_size(example) - begin
    image = images.surround(example[fields.IMAGE], begin, after, color)
    return {**pad_labels(example, begin, size), fields.IMAGE: image}


def pad_labels(example: Example, begin: tf.Tensor, size: tf.Tensor) -> Example:
    """Move boxes, masks and keypoints to a larger canvas, and leave the image; see `pad`."""
    whole = image_size(example)
    after = size - whole - begin
    result = dict(example)
    if fields.MASKS in example:
        masks = example[fields.MASKS]
        zero = tf.zeros([1], masks.dtype)
        result[fields.MASKS] = images.surround_lines(masks, begin, after, zero)
    share = pixel_window(-begin, size, whole).share
    boxes = example[fields.BOXES]
    result[fields.BOXES] = find_family(boxes).change_frame(boxes, share)
    return {**result, **_move_to_frame(example, share, False)}


def resize(
    example: Example, size: Size, method: str = 'bilinear', align_corners: bool = False
) -> Example:
    """Resize the image and its masks; boxes are normalized and stay.

    Args:
        example: any example.
        size: height and width: two ints, or int32 [2].
        method: method for the image; masks are resized by nearest neighbor.
        align_corners: whether the centers of the corner pixels stay where they are.
    """
    image = example[fields.IMAGE]
    height, width = tf.unstack(size) if tf.is_tensor(size) else size
    resized = images.resize(image, height, width, method, align_corners)
    return {**resize_masks(example, size, align_corners), fields.IMAGE: resized}


def resize_masks(example: Example, size: Size, align_corners: bool = False) -> Example:
    """Resize the masks, if there are any; see `resize`."""
    if fields.MASKS not in example:
        return example
    height, width = tf.unstack(size) if tf.is_tensor(size) else size
    masks = example[fields.MASKS][..., tf.newaxis]
    resized = images.resize(masks, height, width, 'nearest', align_corners)
    return {**example, fields.MASKS: resized[..., 0]}


def transform(example: Example, matrix: tf.Tensor, shift: tf.Tensor) -> Example:
    """Move the center of each pixel p, (y, x), to matrix p + shift; the outside is gray.

    Boxes become the bounds of the moved boxes, clipped to the image, and are dropped outside of it.

    Args:
        example: an example with a uint8 image.
        matrix: float32 [2, 2].
        shift: float32 [2], in pixels.
    """
    back = tf.linalg.inv(matrix)
    origin = -tf.linalg.matvec(back, shift)
    image = example[fields.IMAGE][tf.newaxis]
    # By nearest neighbor: the kernel keeps uint8, and labels of masks and pixels move alike.
    result = {**example, fields.IMAGE: warp(image, back, origin, GRAY)[0]}
    if fields.MASKS in example:
        masks = example[fields.MASKS][..., tf.newaxis]
        result[fields.MASKS] = warp(masks, back, origin, 0.0)[..., 0]
    size = tf.cast(image_size(example), tf.float32)
    boxes = example[fields.BOXES]
    family = find_family(boxes)
    # The transform is about centers of pixels, and edges are half a pixel away from them.
    shift += 0.5 - tf.linalg.matvec(matrix, [0.5, 0.5])
    boxes = family.transform(family.scale(boxes, size[0], size[1]), matrix, shift)
    boxes = family.scale(boxes, 1.0 / size[0], 1.0 / size[1])
    visible = family.area_inside(boxes, tf.constant(_WHOLE)) > 0.0
    result[fields.BOXES] = boxes = family.clip_to_window(boxes, tf.constant(_WHOLE))
    if fields.KEYPOINTS in example:
        moved = tf.linalg.matvec(matrix, example[fields.KEYPOINTS] * size) + shift
        result.update(with_points(example, moved / size, inside(moved / size)))
    return examples.keep_boxes(result, tf.logical_and(visible, family.has_area(boxes)))


def scaled_size(size: tf.Tensor, factor: Union[float, tf.Tensor]) -> tf.Tensor:
    """Multiply a size by a factor and truncate it to int32 [2], at least one pixel."""
    return tf.maximum(tf.cast(tf.cast(size, tf.float32) * factor, tf.int32), 1)


def inside(
    points: tf.Tensor, low: Union[float, tf.Tensor] = 0.0, high: Union[float, tf.Tensor] = 1.0
) -> tf.Tensor:
    """Check which points [n, k, 2] lie between `low` and `high`: bool [n, k]; NaN does not."""
    return tf.reduce_all(tf.logical_and(points >= low, points <= high), -1)


def with_points(example: Example, points: tf.Tensor, stays: tf.Tensor) -> Example:
    """Return moved keypoints and their visibilities.

    Args:
        example: an example with the original keypoints.
        points: [n, k, 2], the moved keypoints.
        stays: bool [n, k]; the other keypoints become NaN and invisible.
    """
    result = {fields.KEYPOINTS: tf.where(stays[..., tf.newaxis], points, np.float32('nan'))}
    if fields.KEYPOINT_VISIBILITIES in example:
        visible = example[fields.KEYPOINT_VISIBILITIES]
        result[fields.KEYPOINT_VISIBILITIES] = tf.logical_and(visible, stays)
    return result


def _cut_out(image: tf.Tensor, window: Window) -> tf.Tensor:
    cut = tf.slice(image, window.begin, window.size)
    cut.set_shape([None, None, image.shape[-1]])
    return cut


def _move_to_frame(example: Example, share: tf.Tensor, clips: Flag) -> Example:
    """Convert keypoints to a window's frame; return nothing without keypoints."""
    if fields.KEYPOINTS not in example:
        return {}
    low, high = share[:2], share[2:]
    points = (example[fields.KEYPOINTS] - low) / (high - low)
    if clips is False:
        return {fields.KEYPOINTS: points}
    return with_points(example, points, tf.logical_or(inside(points), tf.logical_not(clips)))


def _choose(flag: Flag, if_true: tf.Tensor, if_false: tf.Tensor) -> tf.Tensor:
    if isinstance(flag, bool):
        return if_true if flag else if_false
    return tf.where(flag, if_true, if_false)
