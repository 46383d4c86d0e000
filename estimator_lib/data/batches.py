"""Batches of any `input_fn` in a common form: tensors by name, as the task has declared them."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.data.reader_state import ReaderState, pop_reader_state
from estimator_lib.task_interfaces.batch_specs import BatchSpec, BatchTensor, ModeKeys
from estimator_lib.task_interfaces.tensors import IMAGE, SOURCE_ID, Features, Labels

FEATURES = 'features'
LABELS = 'labels'


class Batch(NamedTuple):
    """Batch of an `input_fn`.

    Attributes:
        features: tensors by name, with source ids.
        labels: tensors by name; None in inference without labels.
        reader_state: state of the reader; None for an `input_fn` of a program.
    """

    features: Features
    labels: Optional[Labels]
    reader_state: Optional[ReaderState]


def receive(spec: BatchSpec, features: Any, labels: Any, mode: str) -> Batch:
    """Compare what an `input_fn` returned with a declaration.

    The comparison goes by structure, names, ranks, types and sizes, in this order, so that a
    message names the cause rather than its effects. Only what is static is compared.

    Args:
        spec: the declaration of the task.
        features: a mapping of tensors with `IMAGE`. `SOURCE_ID` may be left out: it is then '' for
            each example.
        labels: a mapping of tensors. Inference does not read it.
        mode: a `tf.estimator.ModeKeys`.

    Returns:
        The batch, with tensors of the declared types. Undeclared tensors stay as they are.

    Raises:
        errors.DataError: the batch does not fit the declaration.
    """
    parts = [_Part(FEATURES, spec.features, mode)]
    if mode != ModeKeys.PREDICT:
        parts.append(_Part(LABELS, spec.labels, mode))
    named, state = pop_reader_state(parts[0].by_name(features))
    received = {FEATURES: _Batch(named, FEATURES), LABELS: None}
    if len(parts) > 1:
        received[LABELS] = parts[1].by_name(labels)
    pairs = [(part, received[part.kind]) for part in parts]
    for part, tensors in pairs:
        part.require_names(tensors)
    for part, tensors in pairs:
        part.require_ranks(tensors)
    for part, tensors in pairs:
        part.require_types(tensors)
    # Features come first, so of a label that disagrees with the image's batch it is the label that
    # is named.
    sizes: Dict[str, Tuple[int, str]] = {}
    for part, tensors in pairs:
        part.require_sizes(tensors, sizes)
    inputs = received[FEATURES]
    if SOURCE_ID not in inputs:
        # Messages about losses name the images of a step, so the graph always has ids.
        inputs[SOURCE_ID] = tf.fill(tf.shape(inputs[IMAGE])[:1], '')
    return Batch(inputs, received[LABELS], state)


class _Batch(Dict[str, tf.Tensor]):
    """Tensors by name; a missing name raises a `DataError`."""

    def __init__(self, tensors: Any = (), kind: str = FEATURES):
        super().__init__(tensors)
        self._kind = kind

    # A task that reads a tensor which the program left out gets a sentence, not a KeyError from
    # inside its network.
    def __missing__(self, name: str) -> tf.Tensor:
        raise errors.DataError(
            f'the {self._kind} of the input_fn have no {name!r}{errors.did_you_mean(name, self)}'
        )


class _Part(NamedTuple):
    """Features or labels of a batch, and what is declared of them.

    Attributes:
        kind: `FEATURES` or `LABELS`.
        declared: the declared tensors.
        mode: a `tf.estimator.ModeKeys`.
    """

    kind: str
    declared: Sequence[BatchTensor]
    mode: str

    def by_name(self, tensors: Any) -> _Batch:
        """Return a mapping of tensors as it is.

        Raises:
            errors.DataError: it is anything else.
        """
        if isinstance(tensors, Mapping):
            return _Batch(tensors, self.kind)
        if tensors is None:
            returned = f'no {self.kind}'
        elif tf.is_tensor(tensors):
            returned = f'{self.kind} that are one tensor, {_form(tensors)}'
        else:
            returned = f'{self.kind} of type {type(tensors).__name__}'
        expected = ''.join(f', {tensor.name!r}: {tensor.form()}' for tensor in self._needed())
        raise errors.DataError(
            f'the input_fn returned {returned}; expected a dict of tensors by name{expected}.'
        )

    def require_names(self, tensors: _Batch) -> None:
        """Require the tensors that the mode needs, and convert values to tensors.

        Raises:
            errors.DataError: one is missing, or is sparse, ragged or no tensor.
        """
        for tensor in self._needed():
            if tensor.name not in tensors:
                near = errors.nearest_hint(tensor.name, tensors).rstrip('.')
                raise errors.DataError(
                    f'the {self.kind} of the input_fn have no {tensor.name!r}{near}; expected '
                    f'{_expected(tensor)}; they have {errors.shortened(sorted(tensors)) or "none"}.'
                )
        for tensor, value in self._present(tensors):
            try:
                is_dense = not isinstance(value, (tf.SparseTensor, tf.RaggedTensor))
                tensors[tensor.name] = tf.convert_to_tensor(value) if is_dense else None
            except (TypeError, ValueError):
                is_dense = False
            if not is_dense:
                raise self._error(tensor, f'of type {type(value).__name__}')

    def require_ranks(self, tensors: _Batch) -> None:
        """Require the declared numbers of dimensions.

        Raises:
            errors.DataError: a tensor has another number.
        """
        for tensor, value in self._present(tensors):
            # Results of tf.numpy_function and tf.py_function have no static rank; only the run can
            # tell.
            if value.shape.rank not in (None, len(tensor.shape)):
                raise self._error(tensor, _form(value))

    def require_types(self, tensors: _Batch) -> None:
        """Convert tensors to the declared types where that changes no value.

        Raises:
            errors.DataError: it may change values.
        """
        for tensor, value in self._present(tensors):
            if value.dtype == tensor.dtype:
                continue
            if not tensor.converts(value.dtype):
                raise self._error(tensor, _form(value))
            tensors[tensor.name] = tf.cast(value, tensor.dtype)

    def require_sizes(self, tensors: _Batch, sizes: Dict[str, Tuple[int, str]]) -> None:
        """Require the declared sizes, and equal sizes of equal names.

        Args:
            tensors: the tensors.
            sizes: sizes by their names in the declaration, and the tensors that have them; those of
                these tensors are added.

        Raises:
            errors.DataError: a tensor has another size.
        """
        for tensor, value in self._present(tensors):
            if value.shape.rank is None:
                continue
            for expected, size in zip(tensor.shape, value.shape.as_list()):
                if size is None:
                    continue
                if isinstance(expected, int):
                    if size != expected:
                        raise self._error(tensor, _form(value))
                    continue
                known, holder = sizes.setdefault(expected, (size, tensor.name))
                if size != known:
                    raise self._error(
                        tensor, _form(value), f', where {expected} is {known} as in {holder!r}'
                    )

    def _needed(self) -> List[BatchTensor]:
        return [tensor for tensor in self.declared if self.mode in tensor.needed]

    def _present(self, tensors: _Batch) -> List[Tuple[BatchTensor, Any]]:
        return [
            (tensor, tensors[tensor.name]) for tensor in self.declared if tensor.name in tensors
        ]

    def _error(self, tensor: BatchTensor, actual: str, where: str = '') -> errors.DataError:
        return errors.DataError(
            f'the {self.kind} of the input_fn: {tensor.name!r} is {actual}; expected '
            f'{_expected(tensor)}{where}.'
        )


def _expected(tensor: BatchTensor) -> str:
    """Describe a declared tensor: its form, and the meaning of its values."""
    meaning = f' ({tensor.meaning})' if tensor.meaning else ''
    return f'{tensor.form()}{meaning}'


def _form(value: tf.Tensor) -> str:
    """Describe a tensor, as `uint8 [?, 8, 8, 3]`."""
    if value.shape.rank is None:
        return f'{value.dtype.name} of unknown rank'
    sizes = ', '.join('?' if size is None else str(size) for size in value.shape.as_list())
    return f'{value.dtype.name} [{sizes}]'
