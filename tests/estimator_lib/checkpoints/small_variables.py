"""Variables and values for tests of checkpoints."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1


def variable(name, shape, value=0.0, **kwargs):
    """Create a variable in the current graph that starts with one value everywhere."""
    return tf1.get_variable(name, shape, initializer=tf1.constant_initializer(value), **kwargs)


def array(*shape, start=1.0):
    """Return float32 values that count up from `start`."""
    return np.arange(start, start + np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
