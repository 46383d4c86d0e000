"""The training step that an example is read for, for augmentation that ends before training does.

`Task.augment` and the functions of a `Mixing` see it by `current`, while their graph is built.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Iterator, Optional

import tensorflow as tf

_state = threading.local()


@contextlib.contextmanager
def provide(step: Optional[tf.Tensor]) -> Iterator[None]:
    """Make `current` return a step, an int64 scalar or None, in this thread."""
    outer = current()
    _state.step = step
    try:
        yield
    finally:
        _state.step = outer


def current() -> Optional[tf.Tensor]:
    """Return the step of the example whose augmentation is built, an int64 scalar from 0.

    None outside of training, as where a record is tested alone.
    """
    return getattr(_state, 'step', None)
