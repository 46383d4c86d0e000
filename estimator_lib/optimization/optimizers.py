"""The optimizer that a config asks for.

The optimizers are those of `tf.compat.v1.train`, so their slots have the published names:
`<variable>/Momentum`, `<variable>/RMSProp`, `<variable>/RMSProp_1`, `<variable>/Adam`, ...
AdamW is a class of this package with the slots of Adam.
"""

from __future__ import annotations

import math
from typing import Callable, Mapping, Tuple, Union

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.optimization import adamw, layer_rates
from estimator_lib.optimization.schedule_parts import require
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
    make, fields = _OPTIMIZERS[chosen]
    arguments = {}
    for field, (argument, (is_valid, expected)) in fields.items():
        value = getattr(getattr(config, chosen), field)
        require(is_valid(value), f'{chosen}.{field}', value, expected)
        arguments[argument] = value
    decay = config.layer_decay
    require(0 < decay <= 1, 'layer_decay', decay, 'more than 0 and at most 1')
    if decay != 1:
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


# A check of a value, and a description of the valid range.
_Range = Tuple[Callable[[float], bool], str]
_FRACTION: _Range = (lambda value: 0 <= value < 1, 'at least 0 and less than 1')
_POSITIVE: _Range = (lambda value: math.isfinite(value) and value > 0, 'more than 0')
_AT_LEAST_0: _Range = (lambda value: math.isfinite(value) and value >= 0, 'at least 0')
_AT_MOST_0: _Range = (lambda value: value <= 0, 'at most 0')
_ANY: _Range = (lambda value: True, '')

# The class of each optimizer; and the argument and range of each field but the learning rate.
_OPTIMIZERS: Mapping[str, Tuple[type, Mapping[str, Tuple[str, _Range]]]] = {
    'rms_prop_optimizer': (
        tf1.train.RMSPropOptimizer,
        {
            'momentum_optimizer_value': ('momentum', _FRACTION),
            'decay': ('decay', _FRACTION),
            'epsilon': ('epsilon', _POSITIVE),
            'centered': ('centered', _ANY),
        },
    ),
    'momentum_optimizer': (
        tf1.train.MomentumOptimizer,
        {
            'momentum_optimizer_value': ('momentum', _FRACTION),
            'use_nesterov': ('use_nesterov', _ANY),
        },
    ),
    'adam_optimizer': (
        tf1.train.AdamOptimizer,
        {
            'beta1': ('beta1', _FRACTION),
            'beta2': ('beta2', _FRACTION),
            'epsilon': ('epsilon', _AT_LEAST_0),
        },
    ),
    'adamw_optimizer': (
        adamw.AdamWOptimizer,
        {
            'beta1': ('beta1', _FRACTION),
            'beta2': ('beta2', _FRACTION),
            'epsilon': ('epsilon', _AT_LEAST_0),
            'weight_decay': ('weight_decay', _AT_LEAST_0),
        },
    ),
    'sgd_optimizer': (tf1.train.GradientDescentOptimizer, {}),
    'adagrad_optimizer': (
        tf1.train.AdagradOptimizer,
        {'initial_accumulator_value': ('initial_accumulator_value', _POSITIVE)},
    ),
    'adadelta_optimizer': (
        tf1.train.AdadeltaOptimizer,
        {'rho': ('rho', _FRACTION), 'epsilon': ('epsilon', _POSITIVE)},
    ),
    'ftrl_optimizer': (
        tf1.train.FtrlOptimizer,
        {
            'learning_rate_power': ('learning_rate_power', _AT_MOST_0),
            'initial_accumulator_value': ('initial_accumulator_value', _AT_LEAST_0),
            'l1': ('l1_regularization_strength', _AT_LEAST_0),
            'l2': ('l2_regularization_strength', _AT_LEAST_0),
        },
    ),
}
