"""TF-Slim's helpers for variables and gradients, for programs that call them."""

from __future__ import annotations

import logging
import re
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.checkpoints.checkpoint_files import checkpoint_shapes, open_checkpoint
from estimator_lib.optimization.partitioned import (
    slice_info,
    take_slice,
    variable_name,
    whole_name,
)
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
        # `match`, as TF-Slim's scopes are beginnings of names, by `tf.get_collection`.
        return any(re.match(scope, variable_name(variable)) for scope in scopes)

    included = [''] if include is None else include
    return [
        variable
        for variable in tf1.global_variables()
        if matches(variable, included) and not matches(variable, exclude or ())
    ]


def get_variables(
    scope: Union[str, tf.Variable, None] = None,
    suffix: Optional[str] = None,
    collection: str = tf1.GraphKeys.GLOBAL_VARIABLES,
) -> List[tf.Variable]:
    """Return the variables of a collection by scope and end of name.

    Args:
        scope: a regular expression that matches at the beginning of names, or a variable, for its
            name; None: all.
        suffix: the end of the names, such as `weights`; None: any.
        collection: the collection.
    """
    if scope is not None and not isinstance(scope, str):
        scope = variable_name(scope)
    if suffix is not None:
        # The colon ends the name of an op in that of its tensor, so a suffix is the end of the
        # name.
        scope = f'{scope or ""}.*{suffix if ":" in suffix else suffix + ":"}'
    return tf1.get_collection(collection, scope)


def get_model_variables(
    scope: Union[str, tf.Variable, None] = None, suffix: Optional[str] = None
) -> List[tf.Variable]:
    """Return the variables that layers have added to `MODEL_VARIABLES`, as `get_variables` does.

    Args:
        scope: the beginning of names, or a variable; None: all.
        suffix: the end of the names; None: any.
    """
    return get_variables(scope, suffix, tf1.GraphKeys.MODEL_VARIABLES)


def get_unique_variable(var_op_name: str) -> tf.Variable:
    """Return the variable of a name.

    Args:
        var_op_name: the name of the variable's op.

    Raises:
        ValueError: there is no such variable.
    """
    variables = {variable_name(variable): variable for variable in tf1.global_variables()}
    if var_op_name not in variables:
        raise ValueError(
            f'{var_op_name!r} is not the name of a variable.'
            f'{errors.did_you_mean(var_op_name, variables)}'
        )
    return variables[var_op_name]


def assign_from_values(
    var_names_to_values: Mapping[str, Any],
) -> Tuple[tf.Operation, Dict[tf.Tensor, np.ndarray]]:
    """Build an op that sets variables to values.

    Args:
        var_names_to_values: NumPy arrays of the variables' shapes, by name.

    Returns:
        The op, and the feeds of the run that runs it.

    Raises:
        ValueError: there is no variable of a name, or it has another number of values.
    """
    return _assign(
        [(get_unique_variable(name), values) for name, values in var_names_to_values.items()]
    )


def assign_from_values_fn(var_names_to_values: Mapping[str, Any]) -> Callable[[tf1.Session], None]:
    """Return a function that sets variables to values: the `init_fn` of `train`.

    Args:
        var_names_to_values: NumPy arrays of the variables' shapes, by name.

    Raises:
        ValueError: there is no variable of a name, or it has another number of values.
    """
    update, feeds = assign_from_values(var_names_to_values)
    return lambda session: session.run(update, feeds)


def assign_from_checkpoint(
    model_path: str, var_list: Variables, ignore_missing_vars: bool = False
) -> Tuple[tf.Operation, Dict[tf.Tensor, np.ndarray]]:
    """Build an op that sets variables from a checkpoint, whose values are read here.

    Args:
        model_path: the checkpoint.
        var_list: the variables to set, as a list or by their name in the checkpoint; by name, a
            partitioned variable is the list of its parts.
        ignore_missing_vars: whether to skip variables that the checkpoint lacks, with a warning.

    Returns:
        The op, and the feeds of the run that runs it.

    Raises:
        errors.CheckpointError: the checkpoint cannot be read, or lacks a variable.
        ValueError: there is nothing to set, or a variable has another number of values.
    """
    reader = open_checkpoint(model_path)
    pairs = []
    for name, variable in _stored_variables(model_path, var_list, ignore_missing_vars).items():
        values = reader.get_tensor(name)
        parts = variable if isinstance(variable, (list, tuple)) else [variable]
        pairs += [(part, take_slice(values, part)) for part in parts]
    return _assign(pairs)


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
    wanted = _stored_variables(model_path, var_list, ignore_missing_vars)
    if not wanted:
        return None
    saver = tf1.train.Saver(wanted, reshape=reshape_variables)
    return lambda session: saver.restore(session, model_path)


def add_gradients_summaries(grads_and_vars: Sequence[MaybePair]) -> List[tf.Tensor]:
    """Add a histogram of each gradient and its norm as a scalar, named by the variable.

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
        summaries.append(tf1.summary.scalar(f'{name}/gradient_norm', norm))
    return summaries


def _stored_variables(
    model_path: str, var_list: Variables, ignore_missing_vars: bool
) -> Dict[str, Any]:
    """Return variables, or lists of the parts of one, by the names of their stored values."""
    if not var_list:
        raise ValueError('var_list is empty; expected variables to restore.')
    wanted: Dict[str, Any] = {}
    if isinstance(var_list, Mapping):
        wanted.update(var_list)
    else:
        for variable in var_list:
            if slice_info(variable) is None:
                wanted[variable_name(variable)] = variable
            else:
                wanted.setdefault(whole_name(variable), []).append(variable)
    missing = sorted(wanted.keys() - checkpoint_shapes(model_path).keys())
    if missing and not ignore_missing_vars:
        raise errors.CheckpointError(
            f'{model_path} lacks {errors.shortened(missing)}; expected all {len(wanted)} '
            'variables, or ignore_missing_vars=True.'
        )
    for name in missing:
        log.warning('%s is not in %s, and keeps its value', name, model_path)
        del wanted[name]
    return wanted


def _assign(
    pairs: Sequence[Tuple[tf.Variable, Any]],
) -> Tuple[tf.Operation, Dict[tf.Tensor, np.ndarray]]:
    """Build an op that sets variables, and the feeds of its values.

    Values are fed, so that the graph does not hold them.
    """
    updates: List[tf.Operation] = []
    feeds: Dict[tf.Tensor, np.ndarray] = {}
    for variable, values in pairs:
        values, shape = np.asarray(values), variable.shape
        # The number of values and not the shape: TF-Slim reshapes them.
        if values.size != shape.num_elements():
            raise ValueError(
                f'{variable_name(variable)} has the shape {list(shape)}, but its values have '
                f'{list(values.shape)}; expected as many numbers.'
            )
        placeholder = tf1.placeholder(variable.dtype.base_dtype, shape)
        updates.append(variable.assign(placeholder).op)
        feeds[placeholder] = values.reshape(shape)
    return tf.group(updates), feeds
