"""Segmentation examples: decoding of records, with checks of sizes and values."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.task import Example
from model_fns.datasets.meaning import annotated
from model_fns.datasets.meaning.annotated import Annotated
from model_fns.segmentation import fields
from model_fns.segmentation.data import targets
from model_fns.structures import id_images, images
from model_fns.structures.channels import THREE_COLORS, Channels

IMAGE_KEY = 'image/encoded'
CLASSES_KEY = 'image/segmentation/class/encoded'
INSTANCES_KEY = 'image/segmentation/instance/encoded'

_STRING = tf.io.FixedLenFeature([], tf.string, '')
_KEYS: Dict[str, Any] = {
    IMAGE_KEY: tf.io.FixedLenFeature([], tf.string),
    CLASSES_KEY: tf.io.FixedLenFeature([], tf.string),
    'image/source_id': _STRING,
    'image/filename': _STRING,
}
_MOST_SHOWN = 10  # wrong values in a message


def decode(
    serialized: tf.Tensor,
    num_classes: int,
    ignore_label: int,
    with_instances: bool = False,
    max_pixels: int = images.MAX_PIXELS,
    channels: Channels = THREE_COLORS,
) -> Example:
    """Decode one record.

    Args:
        serialized: string scalar, a `tf.train.Example` with an image, and class ids of its size as
            a gray PNG.
        num_classes: class ids are below it.
        ignore_label: the only other value of pixels, beside 255, which becomes the ignore label.
        with_instances: whether instance ids are read too.
        max_pixels: limit of the size of the image and the ids.
        channels: of the image.

    Returns:
        `IMAGE`: uint8 [height, width, channels]; `SEMANTIC`, with instances `INSTANCES`: int32
        [height, width]; `TRUE_IMAGE_SHAPE`: int32 [3]; `SOURCE_ID`: string scalar, the file name
        where the record has no id. They fail with `tf.errors.InvalidArgumentError` where sizes
        differ and where a value is neither a class nor the ignore label: the message has the source
        and the values.
    """
    keys = (
        {**_KEYS, INSTANCES_KEY: tf.io.FixedLenFeature([], tf.string)} if with_instances else _KEYS
    )
    parsed = tf.io.parse_single_example(serialized, {**keys, **channels.keys()})
    source_id = parsed['image/source_id']
    # DeepLab's records have no source id.
    source_id = tf.where(tf.equal(source_id, ''), parsed['image/filename'], source_id)
    image = channels.decode(parsed, max_pixels)
    ids = {fields.SEMANTIC: CLASSES_KEY}
    if with_instances:
        ids[fields.INSTANCES] = INSTANCES_KEY
    decoded = {
        name: id_images.decode(images.limit_pixels(parsed[key], max_pixels, key), key)
        for name, key in ids.items()
    }
    decoded[fields.SEMANTIC] = targets.unify_ignored(
        decoded[fields.SEMANTIC], num_classes, ignore_label
    )
    checks = [_same_size(decoded[name], image, key, source_id) for name, key in ids.items()] + [
        _known_values(decoded[fields.SEMANTIC], num_classes, ignore_label, source_id)
    ]
    with tf.control_dependencies(checks):
        decoded = {name: tf.identity(values) for name, values in decoded.items()}
    return {
        fields.IMAGE: image,
        fields.TRUE_IMAGE_SHAPE: tf.shape(image),
        fields.SOURCE_ID: source_id,
        **decoded,
    }


def annotate(serialized: bytes) -> Optional[Annotated]:
    """Count the pixels of each value in a record; None: it has no mask that can be read."""
    try:
        features = tf.train.Example.FromString(serialized).features.feature
        ids = id_images.read(b''.join(features[CLASSES_KEY].bytes_list.value[:1]))
    except Exception:  # each protobuf runtime has its own DecodeError; decoding reports both
        return None
    source = b''.join(features['image/source_id'].bytes_list.value[:1]).decode(errors='replace')
    counts = np.bincount(ids.ravel())
    pixels = {int(value): int(counts[value]) for value in np.flatnonzero(counts)}
    height, width = ids.shape
    digest = annotated.digest(b''.join(features[IMAGE_KEY].bytes_list.value[:1]))
    return Annotated(source, (height, width), pixels=pixels, source_id=source, digest=digest)


def list_classes(
    serialized: bytes, num_classes: int, ignore_label: int, max_pixels: int = images.MAX_PIXELS
) -> List[int]:
    """List the classes in the mask of a record whose headers are valid.

    See `decode` for the arguments. A record whose mask it would refuse has no classes.
    """
    encoded = tf.train.Example.FromString(serialized).features.feature[CLASSES_KEY]
    mask = encoded.bytes_list.value[0]
    header = images.image_header(mask)
    if header.height * header.width > max_pixels:
        return []
    try:
        values = np.flatnonzero(np.bincount(id_images.read(mask).ravel())).tolist()
    except errors.DataError:
        return []
    ignored = [ignore_label]
    if num_classes <= targets.IGNORED_IN_RECORDS:
        ignored.append(targets.IGNORED_IN_RECORDS)
    classes = [value for value in values if value not in ignored]
    return classes if max(classes, default=0) < num_classes else []


def find_problem(
    serialized: bytes, with_instances: bool = False, channels: Channels = THREE_COLORS
) -> Optional[str]:
    """Return the first problem of a record's keys and headers; None without one.

    `decode` checks the values of pixels.
    """
    try:
        features = tf.train.Example.FromString(serialized).features.feature
    except Exception:  # Each runtime of protobuf has a DecodeError of its own.
        return 'not a tf.train.Example'
    values = {
        key: b''.join(features[key].bytes_list.value[:1])
        for key in (IMAGE_KEY, CLASSES_KEY, INSTANCES_KEY)
    }
    if not values[IMAGE_KEY]:
        return f'no {IMAGE_KEY}'
    try:
        image = images.image_header(values[IMAGE_KEY])
    except errors.DataError as error:
        return f'{IMAGE_KEY}: {str(error).rstrip(".")}'
    for key in (CLASSES_KEY, INSTANCES_KEY) if with_instances else (CLASSES_KEY,):
        problem = _find_id_problem(values[key], image)
        if problem:
            return f'{key}: {problem}' if values[key] else f'no {key}'
    return channels.find_problem(features)


def _find_id_problem(encoded: bytes, image: images.ImageHeader) -> Optional[str]:
    problem = id_images.find_problem(encoded)
    if problem is None:
        header = images.image_header(encoded)
        if (header.height, header.width) != (image.height, image.width):
            problem = (
                f'{header.height} x {header.width} pixels; the image has '
                f'{image.height} x {image.width}'
            )
    return problem


def _same_size(ids: tf.Tensor, image: tf.Tensor, key: str, source_id: tf.Tensor) -> tf.Operation:
    size, expected = tf.shape(ids), tf.shape(image)[:2]
    sides = [tf.strings.as_string(side) for side in (*tf.unstack(size), *tf.unstack(expected))]
    parts = [source_id, f': {key} has ', sides[0], ' x ', sides[1], ' pixels; the image has ',
             sides[2], ' x ', sides[3]]  # fmt: skip
    same = tf.reduce_all(tf.equal(size, expected))
    # The conditional that `tf.debugging.Assert` adds is slow to build.
    return tf.raw_ops.Assert(condition=same, data=[tf.strings.join(parts)])


def _known_values(
    classes: tf.Tensor, num_classes: int, ignore_label: int, source_id: tf.Tensor
) -> tf.Operation:
    is_wrong = tf.logical_and(classes >= num_classes, tf.not_equal(classes, ignore_label))
    wrong = tf.sort(tf.unique(tf.boolean_mask(classes, is_wrong))[0])
    shown = tf.strings.reduce_join(tf.strings.as_string(wrong[:_MOST_SHOWN]), separator=', ')
    parts = [source_id, f': {CLASSES_KEY} has the values ', shown,
             f'; expected classes from 0 to {num_classes - 1}, or {ignore_label} for what is '
             'ignored']  # fmt: skip
    return tf.raw_ops.Assert(condition=tf.equal(tf.size(wrong), 0), data=[tf.strings.join(parts)])
