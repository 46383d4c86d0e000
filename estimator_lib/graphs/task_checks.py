"""The contract of `Task`, as far as a graph shows whether a task keeps it.

Each function raises `errors.UserError`, with the task's name and method, what it returned, and what
was expected: a task may come from another package.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.task import Metric, Task, Tensors


def require_tensors(task: Task, method: str, tensors: Tensors) -> None:
    """Raise where a method returned anything but tensors by name."""
    if not isinstance(tensors, Mapping) or not tensors:
        raise _error(task, method, f'{tensors!r}', 'tensors by name, at least one')
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not tf.is_tensor(tensor):
            raise _error(task, method, f'{name!r}: {tensor!r}', 'tensors by name')


def require_losses(task: Task, losses: Tensors, reserved: Sequence[str]) -> None:
    """Raise where losses are no scalars, or have names that `loss_names` does not tell.

    Args:
        task: whose losses they are.
        losses: what `Task.losses` returned.
        reserved: names that the engine gives to its own losses.
    """
    require_tensors(task, 'losses', losses)
    known = task.loss_names()
    for name, loss in losses.items():
        if name not in known or name in reserved:
            raise _error(
                task, 'losses', repr(name), f'the names of loss_names(), {", ".join(known)}'
            )
        if loss.shape.rank not in (0, None) or not loss.dtype.is_floating:
            raise _error(task, 'losses', f'{name!r}: {_described(loss)}', 'float scalars')


def require_metrics(task: Task, metrics: Mapping[str, Metric]) -> None:
    """Raise where metrics are no pairs of a value and an update op."""
    for name, metric in metrics.items():
        if not isinstance(metric, tuple) or len(metric) != 2 or not tf.is_tensor(metric[0]):
            raise _error(task, 'metrics', f'{name!r}: {metric!r}', '(value, update op) by name')


def require_batches(task: Task, method: str, outputs: Tensors) -> None:
    """Raise where outputs lack a batch dimension."""
    require_tensors(task, method, outputs)
    for name, output in outputs.items():
        if output.shape.rank == 0:
            raise _error(
                task, method, f'{name!r}: {_described(output)}', 'a leading batch dimension'
            )


def require_known_metrics(task: Task, metrics: Mapping[str, float]) -> None:
    """Raise where `finish_metrics` returned names that `metric_names` does not tell."""
    unknown = sorted(set(metrics) - set(task.metric_names()))
    if unknown:
        raise _error(
            task, 'finish_metrics', ', '.join(unknown), 'the names of metric_names() alone'
        )


def _error(task: Task, method: str, found: str, expected: str) -> errors.UserError:
    return errors.UserError(
        f'the task {task.name!r} ({type(task).__name__}): {method}() returned {found}; '
        f'expected {expected}.'
    )


def _described(tensor: Any) -> str:
    return f'{tensor.dtype.name} {tensor.shape}'
