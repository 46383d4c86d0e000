"""TF-Slim's helpers for variables and gradients, for programs that call them."""

from __future__ import annotations

import logging
import re
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.checkpoints.checkpoint_files import checkpoint_shapes
from estimator_lib.optimization.partitioned import variable_name
from estimator_lib.slim_compat.training_loop import MaybePair

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')

# Variables, or by their name in a checkpoint; a list is the parts of one variable.
Variables = Union[Sequence[tf.Variable], Mapping[str, Any]]


def get_variables_to_restore(
    include: Optional[Sequence[str]] = None, exclude: Optional[Sequence[str]] = None
) -> List[tf.Variable]:
    """Return the graph's global variables in some scopes and not in others.

    Args:
        include: regular expressions that match from a name's beginning on; None: all variables.
        exclude: likewise.

    Raises:
        TypeError: a string in place of a list.
    """
    for name, scopes in (('include', include), ('exclude', exclude)):
        if scopes is not None and not isinstance(scopes, (list, tuple)):
            raise TypeError(f'{name} is {scopes!r}; expected a list or a tuple of scopes.')

    def is_in(variable: tf.Variable, scopes: Sequence[str]) -> bool:
        return any(re.match(scope, variable_name(variable)) for scope in scopes)

    included = [''] if include is None else include
    return [
        variable
        for variable in tf1.global_variables()
        if is_in(variable, included) and not is_in(variable, exclude or ())
    ]


def assign_from_checkpoint_fn(
    model_path: str,
    var_list: Variables,
    ignore_missing_vars: bool = False,
    reshape_variables: bool = False,
) -> Optional[Callable[[tf1.Session], None]]:
    """A function that sets variables from a checkpoint; the `init_fn` of `training_loop.train`.

    Args:
        model_path: the checkpoint.
        var_list: what is set: variables, or variables by their name in the checkpoint.
        ignore_missing_vars: whether what the checkpoint lacks stays as it is, with a warning.
        reshape_variables: whether a value may have another shape of as many numbers.

    Returns:
        The function, called with a session; None where `ignore_missing_vars` leaves nothing.

    Raises:
        errors.CheckpointError: the checkpoint cannot be read, or lacks a variable.
        ValueError: there is nothing to set.
    """
    if not var_list:
        raise ValueError('var_list is empty; expected variables to restore.')
    wanted: Dict[str, Any] = (
        dict(var_list)
        if isinstance(var_list, Mapping)
        else {variable_name(variable): variable for variable in var_list}
    )
    missing = sorted(wanted.keys() - checkpoint_shapes(model_path).keys())
    if missing and not ignore_missing_vars:
        raise errors.CheckpointError(
            f'{model_path} lacks {errors.shortened(missing)}; expected all {len(wanted)} '
            'variables, or ignore_missing_vars=True.'
        )
    for name in missing:
        log.warning('%s is not in %s, and stays as it is', name, model_path)
        del wanted[name]
    if not wanted:
        return None
    saver = tf1.train.Saver(wanted, reshape=reshape_variables)
    return lambda session: saver.restore(session, model_path)


def add_gradients_summaries(grads_and_vars: Sequence[MaybePair]) -> List[tf.Tensor]:
    """Return a histogram of each gradient and one of its norm, by the variable's name.

    Args:
        grads_and_vars: (gradient or None, variable) pairs.

    Returns:
        The summaries, two for each variable that has a gradient.
    """
    summaries = []
    for gradient, variable in grads_and_vars:
        name = variable_name(variable)
        if gradient is None:
            log.info('%s has no gradient', name)
            continue
        values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
        norm = tf.linalg.global_norm([values])
        summaries.append(tf1.summary.histogram(f'{name}/gradient', values))
        summaries.append(tf1.summary.histogram(f'{name}/gradient_norm', norm))
    return summaries
