"""Exponential moving averages of variables, and evaluation and export from them."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any, Collection, Dict, Optional, Sequence, Union

import tensorflow as tf

from estimator_lib.config import schedule_checks
from estimator_lib.optimization.partitioned import (
    MOVING_AVERAGE,
    components,
    is_eager,
    slice_info,
    variable_name,
    whole_name,
)
from protos import optimizer_pb2

log = logging.getLogger('estimator_lib')


@dataclasses.dataclass(frozen=True)
class MovingAverages:
    """Moving averages that a training graph keeps.

    Attributes:
        decay: largest decay of a step, in [0, 1).
        of_model: True: averages of all variables of the model, with batch-norm statistics, by the
            decay `min(decay, (1 + n) / (10 + n))` in step n. False: averages of the trained
            variables, by the same decay in each step.
    """

    decay: float
    of_model: bool = False

    @classmethod
    def from_config(
        cls, config: optimizer_pb2.Optimizer, of_model: bool = False
    ) -> Optional[MovingAverages]:
        """Create the averages that an optimizer's config asks for; return None if it asks for none.

        Args:
            config: the config of the optimizer.
            of_model: `Task.averages_model_variables()`, used for `OF_THE_TASK`.

        Raises:
            errors.ConfigError: the decay is not in [0, 1).
        """
        if not config.use_moving_average:
            return None
        schedule_checks.require_optimizer(config)
        if config.moving_averages != optimizer_pb2.Optimizer.OF_THE_TASK:
            of_model = config.moving_averages == optimizer_pb2.Optimizer.MODEL_VARIABLES
        return cls(config.moving_average_decay, of_model)

    def update(
        self,
        trained: Sequence[tf.Variable],
        global_step: Optional[tf.Variable],
        factor: Union[float, tf.Tensor] = 1.0,
    ) -> tf.Operation:
        """Create the averages, and return the op that updates them.

        Args:
            trained: the trained variables.
            global_step: the n of the decay; read after its update, so 1 in the first step.
            factor: factor on the change of the averages.
        """
        # `MovingAverageOptimizer` in the Object Detection API averages trained variables by a fixed
        # decay; TF-Slim's train_image_classifier averages model variables, and passes the global
        # step.
        if not self.of_model:
            return update(trained, self.decay, factor=factor)
        model = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.MODEL_VARIABLES)
        known = {variable.ref() for variable in trained}
        others = [variable for variable in model if variable.ref() not in known]
        return update([*trained, *others], self.decay, global_step, factor)


def average_name(variable: tf.Variable) -> str:
    """Return the name of a variable's average, in graphs and checkpoints."""
    return f'{whole_name(variable)}/{MOVING_AVERAGE}'


def update(
    variables: Sequence[tf.Variable],
    decay: float,
    num_updates: Optional[tf.Variable] = None,
    factor: Union[float, tf.Tensor] = 1.0,
) -> tf.Operation:
    """Create the averages, and return the op that updates them.

    Each run computes `average -= (1 - decay) * (average - variable)`. An average begins with its
    variable's initial value. Code that sets variables from a checkpoint in another way has to set
    the averages too. (`tf.train.ExponentialMovingAverage` computes the same, but its test whether a
    variable is initialized takes longer to build than the rest of the optimizer.)

    Args:
        variables: the variables to average.
        decay: in [0, 1).
        num_updates: n; it limits the decay to `(1 + n) / (10 + n)`, so that the initial values are
            soon forgotten.
        factor: factor on the change of the averages; 0: no change.

    Returns:
        The op; call this function where its reads come after the optimizer's updates.
    """
    # Subtracted in float64: in float32, 1 - 0.9999 is 1.00017e-4.
    weight = tf.constant(1.0 - decay, tf.float32)
    if num_updates is not None:
        # 1 - (1 + n) / (10 + n)
        weight = tf.maximum(weight, 9.0 / (10.0 + tf.cast(num_updates.read_value(), tf.float32)))
    weight = factor * weight
    moves = []
    for variable in variables:
        average = _create_average(variable)
        # `read_value` reads where it stands: behind the control dependency on the optimizer's
        # update. A cached read could be older.
        difference = average.read_value() - variable.read_value()
        moves.append(average.assign_sub(weight * difference, read_value=False))
    return tf.group(*moves)


def variables_to_restore(
    variables: Sequence[tf.Variable], checkpoint_names: Collection[str]
) -> Dict[str, tf.Variable]:
    """Map names in a checkpoint to variables, so that evaluation and export use the averages.

    Args:
        variables: the variables to restore.
        checkpoint_names: the names in the checkpoint.

    Returns:
        Variables by their name in the checkpoint: the name of the average if there is one, else the
        variable's own name. A checkpoint without averages (published ones have the averages in
        place of the variables) is read by the plain names, with a warning.
    """
    names = set(checkpoint_names)
    averaged = {average_name(variable) for variable in variables} & names
    if not averaged:
        # The exporter of the Object Detection API saves averages under the names of the variables.
        log.warning('the checkpoint holds no moving averages: the variables themselves are used')
    restore = {}
    for variable in variables:
        name = average_name(variable)
        restore[name if name in averaged else whole_name(variable)] = variable
    return restore


def _initial_value(variable: tf.Variable) -> Any:
    """Return the initial value of a variable's average, as `tf.compat.v1.Variable` takes it."""
    return components(variable)[0].read_value if is_eager(variable) else variable.initial_value


def _create_average(variable: tf.Variable) -> tf.Variable:
    # Where replicas have different values of a variable, the average is that of the saved value.
    first, mean = tf.VariableAggregation.ONLY_FIRST_REPLICA, tf.VariableAggregation.MEAN
    aggregation = first if variable.aggregation == first else mean
    # The average is on the variable's device, and its name does not depend on the name scope.
    with tf.device(variable.device), tf.compat.v1.name_scope(None):
        average = tf.compat.v1.Variable(
            _initial_value(variable),
            trainable=False,
            name=f'{variable_name(variable)}/{MOVING_AVERAGE}',
            aggregation=aggregation,
        )
    part = slice_info(variable)
    if part is not None:
        # The average of a part of a partitioned variable is saved as a part of the whole's average.
        average._set_save_slice_info(
            tf.Variable.SaveSliceInfo(
                f'{part.full_name}/{MOVING_AVERAGE}',
                part.full_shape,
                part.var_offset,
                part.var_shape,
            )
        )
    return average
