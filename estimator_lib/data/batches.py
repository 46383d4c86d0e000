"""Batches of any `input_fn` in a common form: tensors by name."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.task_interfaces.tensors import IMAGE, SOURCE_ID, Features, Labels


def named_features(features: Any) -> Features:
    """Return the features of a batch by name, with source ids.

    Args:
        features: a mapping of tensors with `IMAGE`. `SOURCE_ID` may be left out: it is then ''
            for each example.

    Raises:
        errors.DataError: `features` is not a mapping, or has no `IMAGE`.
    """
    named = _named('features', features)
    if SOURCE_ID not in named:
        named[SOURCE_ID] = tf.fill(tf.shape(named[IMAGE])[:1], '')
    return named


def named_labels(labels: Any) -> Optional[Labels]:
    """Return the labels of a batch by name; None where there are none.

    Raises:
        errors.DataError: `labels` is not a mapping.
    """
    return None if labels is None else _named('labels', labels)


class _Batch(Dict[str, tf.Tensor]):
    """Tensors by name; a missing name raises a `DataError`."""

    def __init__(self, tensors: Any = (), kind: str = 'features'):
        super().__init__(tensors)
        self._kind = kind

    def __missing__(self, name: str) -> tf.Tensor:
        raise errors.DataError(
            f'the {self._kind} of the input_fn have no {name!r}{errors.did_you_mean(name, self)}'
        )


def _named(kind: str, tensors: Any) -> _Batch:
    if not isinstance(tensors, Mapping):
        raise errors.DataError(
            f'the input_fn returned {kind} of type {type(tensors).__name__}; expected a dict of '
            'tensors by name.'
        )
    return _Batch(tensors, kind)
