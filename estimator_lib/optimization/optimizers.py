"""Which optimizer a config asks for.

The optimizers are those of `tf.compat.v1.train`, so their slots have the published names:
`<variable>/Momentum`, `<variable>/RMSProp`, `<variable>/RMSProp_1`, `<variable>/Adam`, ...
"""

from __future__ import annotations

import math
from typing import Callable, Mapping, Union

import tensorflow as tf

from estimator_lib import errors
from protos import optimizer_pb2

LearningRate = Union[float, tf.Tensor]


def create_optimizer(
    config: optimizer_pb2.Optimizer, learning_rate: LearningRate
) -> tf.compat.v1.train.Optimizer:
    """The optimizer of a config.

    Args:
        config: one of the optimizers, and its parameters.
        learning_rate: float32 scalar, from `learning_rates.create_learning_rate`.

    Raises:
        errors.ConfigError: none is chosen, or a parameter is out of its range.
    """
    chosen = _chosen(config)
    return _OPTIMIZERS[chosen](getattr(config, chosen), learning_rate)


def learning_rate_config(config: optimizer_pb2.Optimizer) -> optimizer_pb2.LearningRate:
    """The schedule inside an optimizer's config.

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


def _rms_prop(config, learning_rate):
    name = 'rms_prop_optimizer'
    _require_fraction(f'{name}.momentum_optimizer_value', config.momentum_optimizer_value)
    _require_fraction(f'{name}.decay', config.decay)
    _require_positive(f'{name}.epsilon', config.epsilon)
    return tf.compat.v1.train.RMSPropOptimizer(
        learning_rate,
        decay=config.decay,
        momentum=config.momentum_optimizer_value,
        epsilon=config.epsilon,
        centered=config.centered,
    )


def _momentum(config, learning_rate):
    field = 'momentum_optimizer.momentum_optimizer_value'
    _require_fraction(field, config.momentum_optimizer_value)
    return tf.compat.v1.train.MomentumOptimizer(
        learning_rate, momentum=config.momentum_optimizer_value, use_nesterov=config.use_nesterov
    )


def _adam(config, learning_rate):
    name = 'adam_optimizer'
    _require_fraction(f'{name}.beta1', config.beta1)
    _require_fraction(f'{name}.beta2', config.beta2)
    _require_at_least_zero(f'{name}.epsilon', config.epsilon)
    return tf.compat.v1.train.AdamOptimizer(
        learning_rate, beta1=config.beta1, beta2=config.beta2, epsilon=config.epsilon
    )


def _sgd(config, learning_rate):
    del config
    return tf.compat.v1.train.GradientDescentOptimizer(learning_rate)


def _adagrad(config, learning_rate):
    field = 'adagrad_optimizer.initial_accumulator_value'
    _require_positive(field, config.initial_accumulator_value)
    return tf.compat.v1.train.AdagradOptimizer(
        learning_rate, initial_accumulator_value=config.initial_accumulator_value
    )


def _adadelta(config, learning_rate):
    _require_fraction('adadelta_optimizer.rho', config.rho)
    _require_positive('adadelta_optimizer.epsilon', config.epsilon)
    return tf.compat.v1.train.AdadeltaOptimizer(
        learning_rate, rho=config.rho, epsilon=config.epsilon
    )


def _ftrl(config, learning_rate):
    name = 'ftrl_optimizer'
    if not config.learning_rate_power <= 0:
        raise errors.ConfigError(
            f'{name}.learning_rate_power is {config.learning_rate_power}; expected at most 0.'
        )
    _require_at_least_zero(f'{name}.initial_accumulator_value', config.initial_accumulator_value)
    _require_at_least_zero(f'{name}.l1', config.l1)
    _require_at_least_zero(f'{name}.l2', config.l2)
    return tf.compat.v1.train.FtrlOptimizer(
        learning_rate,
        learning_rate_power=config.learning_rate_power,
        initial_accumulator_value=config.initial_accumulator_value,
        l1_regularization_strength=config.l1,
        l2_regularization_strength=config.l2,
    )


def _require_fraction(field: str, value: float) -> None:
    if not 0 <= value < 1:
        raise errors.ConfigError(f'{field} is {value}; expected at least 0 and less than 1.')


def _require_positive(field: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise errors.ConfigError(f'{field} is {value}; expected more than 0.')


def _require_at_least_zero(field: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise errors.ConfigError(f'{field} is {value}; expected at least 0.')


_OPTIMIZERS: Mapping[str, Callable[..., tf.compat.v1.train.Optimizer]] = {
    'rms_prop_optimizer': _rms_prop,
    'momentum_optimizer': _momentum,
    'adam_optimizer': _adam,
    'sgd_optimizer': _sgd,
    'adagrad_optimizer': _adagrad,
    'adadelta_optimizer': _adadelta,
    'ftrl_optimizer': _ftrl,
}
