"""Offers the names of `tf.estimator` on every supported TensorFlow.

TensorFlow 2.15 is the last release that has `tf.estimator`. The package behind it,
`tensorflow-estimator` 2.15, installs beside later releases, which lack some names that it imports;
`stand_ins` replaces them while the package is imported. TensorFlow's own modules do not change,
unless a program asks for it with `install`.

    from estimator_lib import tf_estimator

    estimator = tf_estimator.Estimator(create_model_fn(config), model_dir)
"""

from __future__ import annotations

import functools
import importlib
from typing import Any, List

import tensorflow as tf

from estimator_lib.tf_estimator import stand_ins

_API = 'tensorflow_estimator.python.estimator.api'


def install() -> None:
    """Make `tf.estimator` and `tf.compat.v1.estimator` work on every supported TensorFlow.

    Programs that use these names call this once, before they use them. TensorFlow 2.15 stays as it
    is.
    """
    if stand_ins.is_built_in():
        return
    tf.estimator = _names('v2')
    tf.compat.v2.estimator = tf.estimator
    tf.compat.v1.estimator = _names('v1')


# Cached, as each attribute of this module is looked up here.
@functools.cache
def _names(version: str) -> Any:
    """Import the module of the names of TensorFlow's version 1 or 2, `v1` or `v2`."""
    with stand_ins.installed():
        return importlib.import_module(
            f'tensorflow_estimator.python.estimator.api._{version}.estimator'
        )


def __getattr__(name: str) -> Any:
    """Return what `tf.estimator` offers under this name."""
    return getattr(_names('v2'), name)


def __dir__() -> List[str]:
    """List the names of `tf.estimator` and those of this module."""
    return sorted({*globals(), *dir(_names('v2'))})
