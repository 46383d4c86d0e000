"""Graphs whose variables have no initial values: for who reads names and shapes, or sets values."""

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
    """Weights of variables that are made inside are drawn by no operations: they are NaN.

    The operations that draw them take a fifth of the time in which a network is built. Whoever asks
    for the initial values inside is refused: what is compared there would all be NaN.
    """
    refusal = AssertionError('graphs are built without initial values here')
    with _built_with(_draw_nothing, mock.Mock(side_effect=refusal)):
        yield


def drawn():
    """Inside of `left_out`: as for users after all."""
    return _built_with(_draw, _initialize_all)


@contextlib.contextmanager
def _built_with(draw, initialize_all):
    draws = mock.patch.object(weights.Initializer, '__call__', draw)
    values = mock.patch.object(tf.compat.v1, 'global_variables_initializer', initialize_all)
    with draws, values:
        yield
