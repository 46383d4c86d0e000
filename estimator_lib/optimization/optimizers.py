"""The optimizer that a config asks for.

The optimizers are those of `tf.compat.v1.train`, so their slots have the published names:
`<variable>/Momentum`, `<variable>/RMSProp`, `<variable>/RMSProp_1`, `<variable>/Adam`, ...
AdamW is a class of this package with the slots of Adam.
"""

from __future__ import annotations

from typing import Mapping, Union

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.config import schedule_checks, schema
from estimator_lib.optimization import adamw, layer_rates
from protos import optimizer_pb2

tf1 = tf.compat.v1

LearningRate = Union[float, tf.Tensor]


def create_optimizer(
    config: optimizer_pb2.Optimizer, learning_rate: LearningRate
) -> tf.compat.v1.train.Optimizer:
    """Create the optimizer of a config.

    Args:
        config: one of the optimizers, and its parameters.
        learning_rate: float32 scalar, from `learning_rates.create_learning_rate`.

    Raises:
        errors.ConfigError: no optimizer is chosen, or a parameter is out of its range.
    """
    chosen = _chosen(config)
    schedule_checks.require_optimizer(config)
    make = _OPTIMIZERS[chosen]
    numbers = schema.scalar_fields(getattr(config, chosen))
    arguments = {_ARGUMENTS.get(field, field): value for field, value in numbers.items()}
    if config.layer_decay != 1:
        make = layer_rates.with_layer_rates(make)
    return make(learning_rate, **arguments)


def learning_rate_config(config: optimizer_pb2.Optimizer) -> optimizer_pb2.LearningRate:
    """Return the schedule inside an optimizer's config.

    Raises:
        errors.ConfigError: no optimizer is chosen.
    """
    return getattr(config, _chosen(config)).learning_rate


def _chosen(config: optimizer_pb2.Optimizer) -> str:
    chosen = config.WhichOneof('optimizer')
    if chosen is None:
        raise errors.ConfigError(
            f'train_config.optimizer is empty; expected one of {", ".join(sorted(_OPTIMIZERS))}.'
        )
    return chosen


_OPTIMIZERS: Mapping[str, type] = {
    'rms_prop_optimizer': tf1.train.RMSPropOptimizer,
    'momentum_optimizer': tf1.train.MomentumOptimizer,
    'adam_optimizer': tf1.train.AdamOptimizer,
    'adamw_optimizer': adamw.AdamWOptimizer,
    'sgd_optimizer': tf1.train.GradientDescentOptimizer,
    'adagrad_optimizer': tf1.train.AdagradOptimizer,
    'adadelta_optimizer': tf1.train.AdadeltaOptimizer,
    'ftrl_optimizer': tf1.train.FtrlOptimizer,
}
# Arguments of these classes whose fields have other names.
_ARGUMENTS = {
    'momentum_optimizer_value': 'momentum',
    'l1': 'l1_regularization_strength',
    'l2': 'l2_regularization_strength',
}
