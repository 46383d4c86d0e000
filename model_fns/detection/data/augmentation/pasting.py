"""Objects of one image pasted into another."""

from __future__ import annotations

import functools
from typing import Sequence

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.task import Example
from model_fns.augmentation import randomness
from model_fns.detection import fields
from model_fns.detection.boxes.family import find_family
from model_fns.detection.data import examples
from model_fns.detection.data.augmentation import frames, steps
from protos import augmentation_pb2


def copy_paste(
    group: Sequence[Example],
    seed: tf.Tensor,
    object_probability: float = 0.5,
    min_area_visible: float = 0.1,
    probability: float = 1.0,
) -> Example:
    """Paste random objects of a second image into the first one, over its objects.

    Ghiasi et al., "Simple Copy-Paste is a Strong Data Augmentation Method for Instance
    Segmentation" (2021), section 3, without blending of edges, which they found to be of no use.

    Args:
        group: two examples with masks and axis-aligned boxes.
        seed: int64 [2].
        object_probability: probability of each object of the second image.
        min_area_visible: objects with a smaller fraction of their mask visible are dropped.
        probability: probability of pasting; otherwise the first example is returned.

    Raises:
        errors.ConfigError: examples have no masks, or rotated boxes.
    """
    first, second = group
    if fields.MASKS not in first:
        raise errors.ConfigError(
            'examples have no masks; expected train_input_reader.load_instance_masks: true.'
        )
    if find_family(first[fields.BOXES]).IS_ROTATED:
        raise errors.ConfigError('boxes are rotated; expected axis-aligned ones.')
    happens = randomness.uniforms(seed, 1)[0] < probability
    draws = randomness.uniform_tensor(
        randomness.stream_seed(seed, 1), tf.shape(second[fields.CLASSES])
    )
    chosen = tf.logical_and(draws < object_probability, happens)
    # A crowd covers many objects and the gaps between them, so that it is no object to paste.
    chosen = tf.logical_and(chosen, tf.logical_not(second[fields.IS_CROWD]))
    second = _fit(examples.keep_boxes(second, chosen), frames.image_size(first))
    # Objects whose mask is lost by the crop have boxes, but nothing of them would be pasted.
    second = examples.keep_boxes(second, _areas(second[fields.MASKS]) > 0)
    covered = tf.reduce_any(second[fields.MASKS] > 0, axis=0)
    image = first[fields.IMAGE]
    pasted = tf.cast(second[fields.IMAGE], image.dtype)
    image = tf.where(covered[..., tf.newaxis], pasted, image)
    joined = examples.join_boxes([_cover(first, covered, min_area_visible), second])
    return {**joined, fields.IMAGE: image}


@steps.MIXERS.register('copy_paste')
def _build(config: augmentation_pb2.CopyPaste, where: str) -> steps.Mixer:
    del where
    combine = functools.partial(
        copy_paste,
        object_probability=config.object_probability,
        min_area_visible=config.min_area_visible,
        probability=config.probability,
    )
    return steps.Mixer(combine, num_examples=2)


def _fit(example: Example, size: tf.Tensor) -> Example:
    """Crop or pad an example at the bottom and right to a size, int32 [2]."""
    whole = frames.image_size(example)
    origin, shown = tf.zeros([2], tf.int32), tf.minimum(size, whole)
    cut = frames.crop(example, frames.pixel_window(origin, shown, whole), 0.0, True)
    return frames.pad(cut, origin, size)


def _areas(masks: tf.Tensor) -> tf.Tensor:
    """Count the pixels of masks [n, height, width]: int32 [n]."""
    return tf.reduce_sum(tf.cast(masks > 0, tf.int32), axis=[1, 2])


def _cover(example: Example, covered: tf.Tensor, min_area_visible: float) -> Example:
    """Remove covered pixels, bool [height, width], from all objects of an example.

    Boxes of objects without covered pixels stay as they are.
    """
    masks = example[fields.MASKS]
    visible = tf.where(covered, tf.zeros([], masks.dtype), masks)
    before, after = _areas(masks), _areas(visible)
    loses = after < before
    share = tf.math.divide_no_nan(tf.cast(after, tf.float32), tf.cast(before, tf.float32))
    # Boxes of records may be wider than their masks; those that lose nothing are not tightened.
    boxes = tf.where(loses[:, tf.newaxis], _bounds(visible), example[fields.BOXES])
    result = {**example, fields.MASKS: visible, fields.BOXES: boxes}
    result[fields.AREA] = tf.where(loses, share, 1.0) * example[fields.AREA]
    if fields.KEYPOINTS in example:
        result.update(_cover_points(example, covered))
    kept = tf.logical_and(after > 0, share >= min_area_visible)
    return examples.keep_boxes(result, tf.logical_or(tf.logical_not(loses), kept))


def _bounds(masks: tf.Tensor) -> tf.Tensor:
    """Compute the normalized bounds of masks [n, height, width]: float32 [n, 4]."""
    sides = []
    for axis in (2, 1):
        line = tf.reduce_max(masks, axis=axis)  # [n, height], then [n, width]
        length = tf.shape(line)[1]
        first = tf.argmax(line, axis=1, output_type=tf.int32)
        last = length - tf.argmax(tf.reverse(line, [1]), axis=1, output_type=tf.int32)
        ends = tf.cast(tf.stack([first, last]), tf.float32)
        sides.append(ends / tf.cast(length, tf.float32))
    (top, bottom), (left, right) = (tf.unstack(side) for side in sides)
    return tf.stack([top, left, bottom, right], axis=1)


def _cover_points(example: Example, covered: tf.Tensor) -> Example:
    """Make keypoints on covered pixels invisible."""
    points = example[fields.KEYPOINTS]
    size = tf.shape(covered)
    inside = frames.inside(points)
    places = tf.where(inside[..., tf.newaxis], points, 0.0) * tf.cast(size, tf.float32)
    places = tf.minimum(tf.cast(places, tf.int32), size - 1)
    hidden = tf.logical_and(inside, tf.gather_nd(covered, places))
    return frames.with_points(example, points, tf.logical_not(hidden))
