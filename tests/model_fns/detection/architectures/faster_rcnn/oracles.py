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
    """The arrays of a case by name; skips the test without them."""
    found = {key.partition('/')[2]: one for key, one in _arrays().items()}
    found = {
        key.partition('/')[2]: one
        for key, one in _arrays().items()
        if key.partition('/')[0] == name
    }
    assert found, name
    return found


def groundtruth(boxes, classes, weights=None, size=5):
    """A batch of groundtruth, padded to `size` boxes.

    Args:
        boxes: [n, 4] of each image.
        classes: [n, C] of each image, without background.
        weights: [n] of each image; None: all 1.
        size: rows.
    """
    weights = weights or [np.ones(len(one), np.float32) for one in boxes]

    def padded(values):
        return tf.constant(
            np.stack(
                [
                    np.concatenate([one, np.zeros([size - len(one), *one.shape[1:]], one.dtype)])
                    for one in values
                ]
            )
        )

    valid = np.arange(size) < np.array([len(one) for one in boxes])[:, np.newaxis]
    return targets.Groundtruth(padded(boxes), padded(classes), padded(weights), tf.constant(valid))


def in_pixels(boxes, shape):
    """Normalized boxes [..., 4] in pixels of an image of a shape (height, width, ...)."""
    return (boxes * np.array([*shape[:2], *shape[:2]])).astype(np.float32)


def run(build, variables=None):
    """What `build()` gives in a graph of its own, whose variables get recorded values.

    Args:
        build: makes tensors.
        variables: the arrays of a case, among them `var/NAME`.
    """
    with tf.Graph().as_default(), tf1.Session() as session:
        fetched = build()
        session.run(tf1.global_variables_initializer())
        values = {
            name[len('var/') :]: one
            for name, one in (variables or {}).items()
            if name.startswith('var/')
        }
        for variable in tf1.global_variables():
            variable.load(values.pop(variable.op.name), session)
        left = values
        return session.run(fetched), left
