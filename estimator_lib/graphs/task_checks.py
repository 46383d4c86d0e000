"""Checks that a task keeps the contract of `Task` when it builds a graph.

A task may come from another package. So each function raises `errors.UserError` with the name of
the task and its method, the returned value, and the expectation.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.task import Metric, Task, Tensors


def require_tensors(task: Task, method: str, tensors: Tensors) -> None:
    """Check that a method returned tensors by name.

    Raises:
        errors.UserError: there are none, a name is no string, or a value is no tensor.
    """
    if not isinstance(tensors, Mapping) or not tensors:
        raise _error(task, method, f'{tensors!r}', 'tensors by name, at least one')
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not tf.is_tensor(tensor):
            raise _error(task, method, f'{name!r}: {tensor!r}', 'tensors by name')


def require_losses(task: Task, losses: Tensors, reserved: Sequence[str]) -> None:
    """Check that losses are float scalars with names of `loss_names`.

    Args:
        task: the task.
        losses: the result of `Task.losses`.
        reserved: the names of the engine's own losses.

    Raises:
        errors.UserError: a name is unknown or one of the engine's, or a loss is not a float scalar.
    """
    require_tensors(task, 'losses', losses)
    known = task.loss_names()
    for name, loss in losses.items():
        if name not in known or name in reserved:
            raise _error(
                task, 'losses', repr(name), f'the names of loss_names(), {", ".join(known)}'
            )
        # None is an unknown rank, as of the results of `tf.numpy_function`.
        if loss.shape.rank not in (0, None) or not loss.dtype.is_floating:
            raise _error(task, 'losses', f'{name!r}: {_described(loss)}', 'float scalars')


def require_metrics(task: Task, metrics: Mapping[str, Metric]) -> None:
    """Check that metrics are pairs of a value and an update op.

    Raises:
        errors.UserError: a metric is not a tuple of a tensor and an update op.
    """
    for name, metric in metrics.items():
        if not isinstance(metric, tuple) or len(metric) != 2 or not tf.is_tensor(metric[0]):
            raise _error(task, 'metrics', f'{name!r}: {metric!r}', '(value, update op) by name')


def require_batches(task: Task, method: str, outputs: Tensors) -> None:
    """Check that outputs have a batch dimension.

    Raises:
        errors.UserError: an output is a scalar, or there are no tensors.
    """
    require_tensors(task, method, outputs)
    for name, output in outputs.items():
        if output.shape.rank == 0:
            raise _error(
                task, method, f'{name!r}: {_described(output)}', 'a leading batch dimension'
            )


def require_known_metrics(task: Task, metrics: Mapping[str, float]) -> None:
    """Check that `finish_metrics` returned only names of `metric_names`.

    Raises:
        errors.UserError: a name is not one of `metric_names`.
    """
    unknown = sorted(set(metrics) - set(task.metric_names()))
    if unknown:
        raise _error(
            task, 'finish_metrics', ', '.join(unknown), 'the names of metric_names() alone'
        )


def _error(task: Task, method: str, actual: str, expected: str) -> errors.UserError:
    return errors.UserError(
        f'the task {task.name!r} ({type(task).__name__}): {method}() returned {actual}; '
        f'expected {expected}.'
    )


def _described(tensor: Any) -> str:
    return f'{tensor.dtype.name} {tensor.shape}'
