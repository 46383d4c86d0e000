"""Exponential moving averages of trained variables, and evaluation and export from them."""

from __future__ import annotations

import logging
from typing import Collection, Dict, Optional, Sequence

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.optimization.partitioned import MOVING_AVERAGE, variable_name
from protos import optimizer_pb2

log = logging.getLogger('estimator_lib')


def decay_from_config(config: optimizer_pb2.Optimizer) -> Optional[float]:
    """The decay that an optimizer's config asks for; None when there are to be no averages.

    Raises:
        errors.ConfigError: it is not in [0, 1).
    """
    if not config.use_moving_average:
        return None
    decay = config.moving_average_decay
    if not 0 <= decay < 1:
        raise errors.ConfigError(
            f'optimizer.moving_average_decay is {decay}; expected at least 0 and less than 1.'
        )
    return decay


def average_name(variable: tf.Variable) -> str:
    """The name of a variable's average, in graphs and checkpoints."""
    return f'{_full_name(variable)}/{MOVING_AVERAGE}'


def update(variables: Sequence[tf.Variable], decay: float) -> tf.Operation:
    """Creates the averages, and the op that moves them.

    At each run `average -= (1 - decay) * (average - variable)`. An average begins with its
    variable's initial value; who sets variables from a checkpoint by other means than their initial
    value has to set the averages too, as `checkpoints.fine_tune_start` does.
    (`tf.train.ExponentialMovingAverage` computes the same; its conditional on whether a variable is
    initialised takes longer to build than the rest of the optimizer.)

    Args:
        variables: what is averaged.
        decay: in [0, 1).

    Returns:
        The op; call this where its reads come after the optimizer's updates.
    """
    weight = tf.constant(1.0 - decay, tf.float32)
    moves = []
    for variable in variables:
        average = _create_average(variable)
        difference = average.read_value() - variable.read_value()
        moves.append(average.assign_sub(weight * difference, read_value=False))
    return tf.group(*moves)


def variables_to_restore(
    variables: Sequence[tf.Variable], checkpoint_names: Collection[str]
) -> Dict[str, tf.Variable]:
    """Where evaluation and export read each variable, to run on the averages.

    Args:
        variables: what is restored.
        checkpoint_names: the names in the checkpoint.

    Returns:
        Variables by their name in the checkpoint: the average's where there is one, else (batch
        norm's statistics, frozen variables, the global step) their own. A checkpoint without any
        (published ones have the averages in the variables' place) is read by the plain names, and
        a warning says so.
    """
    names = set(checkpoint_names)
    averaged = {average_name(variable) for variable in variables} & names
    if not averaged:
        log.warning('the checkpoint holds no moving averages: the variables themselves are used')
    restore = {}
    for variable in variables:
        name = average_name(variable)
        restore[name if name in averaged else _full_name(variable)] = variable
    return restore


def _create_average(variable: tf.Variable) -> tf.Variable:
    # Beside its variable (on its parameter server), and named after it whatever the name scope is.
    with tf.device(variable.device), tf.compat.v1.name_scope(None):
        average = tf.compat.v1.Variable(
            variable.initial_value,
            trainable=False,
            name=f'{variable_name(variable)}/{MOVING_AVERAGE}',
            aggregation=tf.VariableAggregation.MEAN,
        )
    part = _part(variable)
    if part is not None:
        # A part of a partitioned variable: saved as that part of the whole's average.
        average._set_save_slice_info(
            tf.Variable.SaveSliceInfo(
                f'{part.full_name}/{MOVING_AVERAGE}',
                part.full_shape,
                part.var_offset,
                part.var_shape,
            )
        )
    return average


def _full_name(variable: tf.Variable) -> str:
    part = _part(variable)
    return part.full_name if part is not None else variable_name(variable)


def _part(variable: tf.Variable) -> Optional[tf.Variable.SaveSliceInfo]:
    """Which part of a partitioned variable it is; None when it is a whole."""
    return getattr(variable, '_save_slice_info', None)
