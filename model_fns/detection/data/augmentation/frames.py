"""Crops, canvases and sizes: what all steps that change an image's frame are made of.

Boxes and keypoints are normalized to the frame, masks have its size: all of them follow it here, so
that no step has to know which of them an example has.
"""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple, Union

import numpy as np
import tensorflow as tf

from estimator_lib.task import Example
from model_fns.detection import fields
from model_fns.detection.boxes.family import family_of
from model_fns.detection.data import examples
from model_fns.structures import images

Flag = Union[bool, tf.Tensor]
Size = Union[Tuple[int, int], tf.Tensor]


class Window(NamedTuple):
    """A part of an image.

    Args:
        begin: int32 [3]: first row, first column, 0.
        size: int32 [3]: rows, columns, -1 (all channels).
        share: float32 [4]: its ymin, xmin, ymax, xmax, normalized.
    """

    begin: tf.Tensor
    size: tf.Tensor
    share: tf.Tensor


def image_size(example: Example) -> tf.Tensor:
    """int32 [2]: height and width."""
    return tf.shape(example[fields.IMAGE])[:2]


def to_float(image: tf.Tensor) -> tf.Tensor:
    """Return the image as float32; pixels keep their values, 0 to 255."""
    return tf.cast(image, tf.float32)


def pixel_window(begin: tf.Tensor, size: tf.Tensor, whole: tf.Tensor) -> Window:
    """Return a window by its pixels.

    Args:
        begin: int32 [2], first row and column.
        size: int32 [2], rows and columns.
        whole: int32 [2], of the image.
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
    """What a window shows.

    Boxes outside of it go. Keypoints outside of it become NaN, and not visible, where boxes are
    cut.

    Args:
        example: any.
        window: inside the image.
        min_overlap: boxes of which a smaller share of their area is in the window go too.
        clips: whether boxes are cut off at the window's edges.
        is_whole: where this bool is true, the window is the whole image and nothing is to change.
    """
    boxes = example[fields.BOXES]
    family = family_of(boxes)
    cut = family.clip_to_window(boxes, window.share)
    shown, area = family.area_inside(boxes, window.share), family.area(boxes)
    kept = tf.logical_and(shown > 0.0, shown >= min_overlap * area)
    if is_whole is not None:
        kept = tf.logical_or(kept, is_whole)
        clips = tf.logical_and(clips, tf.logical_not(is_whole))
    result = {
        **example,
        fields.IMAGE: _cut_out(example[fields.IMAGE], window),
        fields.BOXES: family.change_frame(_choose(clips, cut, boxes), window.share),
        **_points_in(example, window.share, clips),
    }
    if fields.AREA in example:
        left = tf.math.divide_no_nan(shown, area)
        result[fields.AREA] *= _choose(clips, left, tf.ones_like(left))
    if fields.MASKS in example:
        # Masks are [n, height, width]: a window's numbers, turned round.
        begin, size = tf.roll(window.begin, 1, 0), tf.roll(window.size, 1, 0)
        result[fields.MASKS] = tf.slice(example[fields.MASKS], begin, size)
    return examples.keep_boxes(result, kept)


def pad(
    example: Example, begin: tf.Tensor, size: tf.Tensor, color: Optional[tf.Tensor] = None
) -> Example:
    """Return the image on a larger canvas.

    Args:
        example: any.
        begin: int32 [2], row and column of the canvas where the image begins.
        size: int32 [2], of the canvas; the image fits in.
        color: of the canvas, [3] of the image's type; None: black.
    """
    image, whole = example[fields.IMAGE], image_size(example)
    after = size - whole - begin
    result = {**example, fields.IMAGE: images.surround(image, begin, after, color)}
    if fields.MASKS in example:
        masks = example[fields.MASKS]
        zero = tf.zeros([1], masks.dtype)
        result[fields.MASKS] = images.surround_lines(masks, begin, after, zero)
    share = pixel_window(-begin, size, whole).share
    boxes = example[fields.BOXES]
    result[fields.BOXES] = family_of(boxes).change_frame(boxes, share)
    return {**result, **_points_in(example, share, False)}


def resize(
    example: Example, size: Size, method: str = 'bilinear', align_corners: bool = False
) -> Example:
    """Return the image and its masks in another size; boxes are normalized and stay.

    Args:
        example: any.
        size: height and width: two ints, or int32 [2].
        method: of the image; masks are read at the nearest pixel.
        align_corners: see `images.resize`.
    """
    image = example[fields.IMAGE]
    height, width = tf.unstack(size) if tf.is_tensor(size) else size
    resized = images.resize(image, height, width, method, align_corners)
    return {**resize_masks(example, size, align_corners), fields.IMAGE: resized}


def resize_masks(example: Example, size: Size, align_corners: bool = False) -> Example:
    """Return the masks, where there are any, in another size; see `resize`."""
    if fields.MASKS not in example:
        return example
    height, width = tf.unstack(size) if tf.is_tensor(size) else size
    masks = example[fields.MASKS][..., tf.newaxis]
    resized = images.resize(masks, height, width, 'nearest', align_corners)
    return {**example, fields.MASKS: resized[..., 0]}


def scaled_size(size: tf.Tensor, factor: Union[float, tf.Tensor]) -> tf.Tensor:
    """int32 [2]: a size times a factor, cut to whole pixels, at least one."""
    return tf.maximum(tf.cast(tf.cast(size, tf.float32) * factor, tf.int32), 1)


def inside(
    points: tf.Tensor, low: Union[float, tf.Tensor] = 0.0, high: Union[float, tf.Tensor] = 1.0
) -> tf.Tensor:
    """Bool [n, k]: which points [n, k, 2] are between `low` and `high`; none that are NaN."""
    return tf.reduce_all(tf.logical_and(points >= low, points <= high), -1)


def with_points(example: Example, points: tf.Tensor, stays: tf.Tensor) -> Example:
    """Return keypoints that have moved, and their visibilities.

    Args:
        example: with keypoints as they were.
        points: [n, k, 2], where they are now.
        stays: bool [n, k]; the others become NaN, and not visible.
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


def _points_in(example: Example, share: tf.Tensor, clips: Flag) -> Example:
    """Return keypoints and their visibilities in a window's frame, where the example has any."""
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
