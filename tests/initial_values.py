"""Graphs without initial values, for tests that read names and shapes or set all values."""

import contextlib
import math
from unittest import mock

import tensorflow as tf

from model_fns.layers import weights

_draw = weights.Initializer.__call__
_initialize_all = tf.compat.v1.global_variables_initializer


def _draw_nothing(self, shape, seed):
    if self.kind == 'constant':
        return _draw(self, shape, seed)
    return tf.constant(math.nan, tf.float32, list(shape))


@contextlib.contextmanager
def left_out():
    """Create variables inside with NaN instead of random weights.

    The random operations take a fifth of the time in which a network is built. To initialize
    variables inside is an error: all compared values would be NaN.
    """
    refusal = AssertionError('graphs are built without initial values here')
    with _built_with(_draw_nothing, mock.Mock(side_effect=refusal)):
        yield


def drawn():
    """Restore the initial values of users, inside of `left_out`."""
    return _built_with(_draw, _initialize_all)


@contextlib.contextmanager
def _built_with(draw, initialize_all):
    draws = mock.patch.object(weights.Initializer, '__call__', draw)
    values = mock.patch.object(tf.compat.v1, 'global_variables_initializer', initialize_all)
    with draws, values:
        yield
