"""Painted examples, and steps that are built once and run on many of them.

Box i of an example is painted into channel i of its image, alone and bright; mask i shows the same,
and the keypoints of object i are the corners of its box. So whatever a step does to the image, the
image itself says where boxes, masks and keypoints have to be.
"""

from __future__ import annotations

import functools
from typing import Callable, Dict, Sequence

import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from hypothesis import strategies

from model_fns.detection import fields
from model_fns.detection.data import augmentation
from protos import train_pb2

tf1 = tf.compat.v1

BRIGHT = 200
MAX_BOXES = 3

# What each field's placeholder looks like.
_SPECS = {
    fields.IMAGE: (np.uint8, [None, None, 3]),
    fields.BOXES: (np.float32, [None, 4]),
    fields.CLASSES: (np.int64, [None]),
    fields.WEIGHTS: (np.float32, [None]),
    fields.DIFFICULT: (np.bool_, [None]),
    fields.IS_CROWD: (np.bool_, [None]),
    fields.GROUP_OF: (np.bool_, [None]),
    fields.AREA: (np.float32, [None]),
    fields.MASKS: (np.uint8, [None, None, None]),
    fields.MASK_WEIGHTS: (np.float32, [None]),
    fields.KEYPOINTS: (np.float32, [None, 4, 2]),
    fields.KEYPOINT_VISIBILITIES: (np.bool_, [None, 4]),
}

Arrays = Dict[str, np.ndarray]


def painted(height: int, width: int, corners: Sequence[Sequence[int]]) -> Arrays:
    """Build an example whose boxes have these corners, in pixels: ymin, xmin, ymax, xmax."""
    count = len(corners)
    pixels = np.array(corners, np.int64).reshape(count, 4)
    rows, columns = np.arange(height)[:, np.newaxis], np.arange(width)
    masks = np.zeros([count, height, width], np.uint8)
    image = np.zeros([height, width, 3], np.uint8)
    for index, (ymin, xmin, ymax, xmax) in enumerate(pixels):
        inside = (ymin <= rows) & (rows < ymax) & (xmin <= columns) & (columns < xmax)
        masks[index] = inside
        image[..., index] = BRIGHT * inside
    boxes = (pixels / [height, width, height, width]).astype(np.float32)
    ids = np.arange(count)
    return {
        fields.IMAGE: image,
        fields.BOXES: boxes,
        fields.CLASSES: ids,
        fields.WEIGHTS: (ids + 1).astype(np.float32),
        fields.DIFFICULT: ids == 1,
        fields.IS_CROWD: ids == 2,
        fields.GROUP_OF: ids == 0,
        fields.AREA: masks.sum((1, 2)).astype(np.float32),
        fields.MASKS: masks,
        fields.MASK_WEIGHTS: (ids / 2).astype(np.float32),
        fields.KEYPOINTS: boxes[:, [0, 1, 0, 3, 2, 1, 2, 3]].reshape(count, 4, 2),
        fields.KEYPOINT_VISIBILITIES: np.ones([count, 4], np.bool_),
    }


@strategies.composite
def painted_examples(draw, least: int = 6, most: int = 40, min_boxes: int = 0) -> Arrays:
    """Generate images of any size with up to three boxes, whose corners are pixels' corners."""
    height = draw(strategies.integers(least, most))
    width = draw(strategies.integers(least, most))

    def span(length: int) -> strategies.SearchStrategy:
        ends = strategies.tuples(strategies.integers(0, length), strategies.integers(0, length))
        return ends.map(sorted).filter(lambda pair: pair[0] < pair[1])

    boxes = strategies.tuples(span(height), span(width)).map(
        lambda spans: [spans[0][0], spans[1][0], spans[0][1], spans[1][1]]
    )
    corners = draw(strategies.lists(boxes, min_size=min_boxes, max_size=MAX_BOXES))
    return painted(height, width, corners)


def seeds() -> strategies.SearchStrategy:
    number = strategies.integers(-(2**63), 2**63 - 1)
    return strategies.tuples(number, number)


def plain(example: Arrays) -> Arrays:
    """Return an example without masks and keypoints."""
    left_out = (
        fields.MASKS,
        fields.MASK_WEIGHTS,
        fields.KEYPOINTS,
        fields.KEYPOINT_VISIBILITIES,
    )
    return {name: value for name, value in example.items() if name not in left_out}


def build(steps: str, where: str = 'train_config.data_augmentation_options'):
    """Build the augmentation of a text such as `rgb_to_gray {} resize_image { new_height: 3 }`."""
    text = ''.join(f'data_augmentation_options {{ {step} }}' for step in steps.split(' + '))
    config = text_format.Parse(text, train_pb2.TrainConfig())
    return augmentation.build_augmentation(config.data_augmentation_options, where)


@functools.cache
def _callable(steps: str, names: Sequence[str], is_float: bool) -> Callable:
    with tf.Graph().as_default() as graph:
        inputs = {
            name: tf1.placeholder(np.float32 if is_float and name == fields.IMAGE else dtype, shape)
            for name, (dtype, shape) in _SPECS.items()
            if name in names
        }
        seed = tf1.placeholder(tf.int64, [2])
        outputs = build(steps)(inputs, seed)
        options = tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        session = tf1.Session(graph=graph, config=options)
        return session.make_callable(outputs, [inputs[name] for name in names] + [seed])


def run(steps: str, example: Arrays, seed: Sequence[int] = (1, 2)) -> Arrays:
    """Apply steps, joined by ` + `, to an example."""
    names = tuple(sorted(example))
    is_float = example[fields.IMAGE].dtype == np.float32
    return _callable(steps, names, is_float)(*(example[name] for name in names), np.int64(seed))


@functools.cache
def _mixing_callable(steps: str, names: Sequence[str], count: int) -> Callable:
    with tf.Graph().as_default() as graph:
        group = [
            {
                name: tf1.placeholder(dtype, shape)
                for name, (dtype, shape) in _SPECS.items()
                if name in names
            }
            for _ in range(count)
        ]
        seed = tf1.placeholder(tf.int64, [2])
        augment = build(steps)
        (mixing,) = augment.mixings
        varied = [mixing.vary(example, seed) for example in group]
        outputs = augment(mixing.combine(varied, seed), seed)
        options = tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        session = tf1.Session(graph=graph, config=options)
        inputs = [example[name] for example in group for name in names]
        return session.make_callable(outputs, [*inputs, seed])


def run_mixing(steps: str, group: Sequence[Arrays], seed: Sequence[int] = (1, 2)) -> Arrays:
    """Apply steps with one mixing among them to a group of examples."""
    names = tuple(sorted(group[0]))
    values = [example[name] for example in group for name in names]
    return _mixing_callable(steps, names, len(group))(*values, np.int64(seed))


def over_seeds(
    steps: str, example: Arrays, summary: Callable[[Dict[str, tf.Tensor]], tf.Tensor], count: int
) -> np.ndarray:
    """[count, ...]: a summary of what steps make of one example with each of many seeds."""
    with tf.Graph().as_default(), tf1.Session() as session:
        augment = build(steps)

        def one(number: tf.Tensor) -> tf.Tensor:
            constants = {name: tf.constant(value) for name, value in example.items()}
            for name, (_, shape) in _SPECS.items():
                if name in constants:
                    constants[name] = tf1.placeholder_with_default(constants[name], shape)
            return summary(augment(constants, tf.stack([tf.constant(7, tf.int64), number])))

        dataset = tf.data.Dataset.range(count).map(tf.autograph.experimental.do_not_convert(one))
        return session.run(tf1.data.make_one_shot_iterator(dataset.batch(count)).get_next())


def assert_is_share(happened: np.ndarray, probability: float) -> None:
    """Check the frequency of an event, within four standard deviations."""
    deviation = np.sqrt(probability * (1 - probability) / happened.size)
    assert abs(happened.mean() - probability) <= 4 * deviation


def assert_rows_belong_together(before: Arrays, after: Arrays) -> None:
    """Check that all values of a box stayed together, by its unique class."""
    ids = after[fields.CLASSES]
    for name in fields.PER_BOX:
        if name in after:
            assert len(after[name]) == len(ids), name
    same = (
        fields.WEIGHTS,
        fields.DIFFICULT,
        fields.IS_CROWD,
        fields.GROUP_OF,
        fields.MASK_WEIGHTS,
    )
    for name in set(same) & set(after):
        np.testing.assert_array_equal(after[name], before[name][ids], name)


def assert_boxes_cover_their_pixels(after: Arrays, tolerance: int = 0) -> None:
    """Check boxes, masks and keypoints against the painted pixels.

    Args:
        after: an augmented example.
        tolerance: how many pixels an edge may be off.
    """
    image = after[fields.IMAGE]
    size = np.array(image.shape[:2])
    for row, which in enumerate(after[fields.CLASSES]):
        shown = image[..., which] > BRIGHT / 2
        corners = after[fields.BOXES][row] * np.tile(size, 2)
        _assert_covers(shown, corners, tolerance)
        if fields.MASKS in after:
            assert after[fields.MASKS].shape[1:] == tuple(size)
            _assert_covers(after[fields.MASKS][row] > 0, corners, tolerance)


def assert_keypoints_are_corners(after: Arrays) -> None:
    """Check that each labeled keypoint is a corner of its box, or was clipped."""
    boxes, points = after[fields.BOXES], after[fields.KEYPOINTS]
    is_there = np.isfinite(points).all(-1)
    np.testing.assert_array_equal(is_there, after[fields.KEYPOINT_VISIBILITIES])
    corners = boxes[:, [0, 1, 0, 3, 2, 1, 2, 3]].reshape(points.shape)
    off = np.abs(points - corners)[is_there]
    assert off.size == 0 or off.max() < 1e-5


def assert_only_image_changed(before: Arrays, after: Arrays) -> None:
    assert set(before) == set(after)
    for name in set(before) - {fields.IMAGE}:
        np.testing.assert_array_equal(before[name], after[name], name)


def _assert_covers(shown: np.ndarray, corners: np.ndarray, tolerance: int) -> None:
    rounded = np.round(corners).astype(int)
    if not tolerance:
        np.testing.assert_allclose(corners, rounded, atol=1e-3)
    low, high = rounded[:2], rounded[2:]
    outer, inner = np.zeros(shown.shape, bool), np.zeros(shown.shape, bool)
    start = np.maximum(low - tolerance, 0)
    outer[start[0] : high[0] + tolerance, start[1] : high[1] + tolerance] = True
    start, end = low + tolerance, np.maximum(high - tolerance, 0)
    inner[start[0] : end[0], start[1] : end[1]] = True
    assert (inner <= shown).all() and (shown <= outer).all()
