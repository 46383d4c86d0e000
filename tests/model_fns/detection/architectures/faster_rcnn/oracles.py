"""Recorded cases of parts of two-stage detectors, in ../shared/golden/two_stage_oracles.npz."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from model_fns.detection.boxes import targets
from tests.conftest import shared_folder

tf1 = tf.compat.v1


@functools.cache
def _arrays():
    path = shared_folder() / 'golden' / 'two_stage_oracles.npz'
    if not path.is_file():
        pytest.skip('two_stage_oracles.npz is not in ../shared/golden')
    with np.load(path) as recorded:
        return {name: recorded[name] for name in recorded.files}


def case(name):
    """Load the arrays of a case by name, or skip the test without them."""
    keys = [key for key in _arrays() if key.partition('/')[0] == name]
    assert keys, name
    return {key.partition('/')[2]: _arrays()[key] for key in keys}


def groundtruth(boxes, classes, weights=None, size=5):
    """Build a batch of groundtruth, padded to `size` boxes.

    Args:
        boxes: [n, 4] of each image.
        classes: [n, C] of each image, without background.
        weights: [n] of each image; None: all 1.
        size: rows.
    """

    def padded(values):
        rows = [np.zeros([size, *one.shape[1:]], np.float32) for one in values]
        for row, one in zip(rows, values):
            row[: len(one)] = one
        return np.stack(rows)

    weights = weights or [np.ones(len(one)) for one in boxes]
    valid = np.arange(size) < np.array([len(one) for one in boxes])[:, np.newaxis]
    return targets.Groundtruth(
        *map(tf.constant, (padded(boxes), padded(classes), padded(weights), valid))
    )


def in_pixels(boxes, shape):
    """Scale normalized boxes [..., 4] to pixels of an image of a shape (height, width, ...)."""
    return (boxes * np.array([*shape[:2], *shape[:2]])).astype(np.float32)


def run(build, recorded=None):
    """Run `build()` in a new graph, whose variables are exactly the recorded ones.

    Args:
        build: makes tensors.
        recorded: the arrays of a case, among them `var/NAME`.
    """
    values = {
        name[len('var/') :]: one
        for name, one in (recorded or {}).items()
        if name.startswith('var/')
    }
    with tf.Graph().as_default(), tf1.Session() as session:
        fetched = build()
        variables = {variable.op.name: variable for variable in tf1.global_variables()}
        assert set(variables) <= set(values)
        for name, variable in variables.items():
            variable.load(values[name], session)
        return session.run(fetched)
