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

# A list of variables; or by name in a checkpoint, variables or lists of the parts of one variable.
Variables = Union[Sequence[tf.Variable], Mapping[str, Any]]


def get_variables_to_restore(
    include: Optional[Sequence[str]] = None, exclude: Optional[Sequence[str]] = None
) -> List[tf.Variable]:
    """Return the graph's global variables in some scopes and not in others.

    Args:
        include: regular expressions that match at the beginning of names; None: all variables.
        exclude: regular expressions of variables to leave out.

    Raises:
        TypeError: an argument is not a list or tuple.
    """
    for name, scopes in (('include', include), ('exclude', exclude)):
        if scopes is not None and not isinstance(scopes, (list, tuple)):
            raise TypeError(f'{name} is {scopes!r}; expected a list or a tuple of scopes.')

    def matches(variable: tf.Variable, scopes: Sequence[str]) -> bool:
        return any(re.match(scope, variable_name(variable)) for scope in scopes)

    included = [''] if include is None else include
    return [
        variable
        for variable in tf1.global_variables()
        if matches(variable, included) and not matches(variable, exclude or ())
    ]


def assign_from_checkpoint_fn(
    model_path: str,
    var_list: Variables,
    ignore_missing_vars: bool = False,
    reshape_variables: bool = False,
) -> Optional[Callable[[tf1.Session], None]]:
    """Return a function that sets variables from a checkpoint: the `init_fn` of `train`.

    Args:
        model_path: the checkpoint.
        var_list: the variables to set, as a list or by their name in the checkpoint.
        ignore_missing_vars: whether to skip variables that the checkpoint lacks, with a warning.
        reshape_variables: whether values may have another shape with as many numbers.

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
        log.warning('%s is not in %s, and keeps its value', name, model_path)
        del wanted[name]
    if not wanted:
        return None
    saver = tf1.train.Saver(wanted, reshape=reshape_variables)
    return lambda session: saver.restore(session, model_path)


def add_gradients_summaries(grads_and_vars: Sequence[MaybePair]) -> List[tf.Tensor]:
    """Add histograms of each gradient and of its norm, named by the variable.

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
