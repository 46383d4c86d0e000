"""Each optimizer against its update rule, written out in NumPy."""

import json

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.optimization import optimizers
from protos import optimizer_pb2

LEARNING_RATE = 0.1
START = np.array([1.0, -2.0, 0.5])
GRADIENTS = [np.array([0.3, -0.1, 2.0]), np.array([-0.2, 0.4, 1.0]), np.array([0.1, 0.1, 0.1])]


def parse(text):
    return text_format.Parse(text, optimizer_pb2.Optimizer())


def train(text):
    """The variable after each gradient, and the names of the variables that were made."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        optimizer = optimizers.create_optimizer(parse(text), tf.constant(LEARNING_RATE))
        variable = tf.compat.v1.get_variable(
            'layer/weights', initializer=tf.constant(START, tf.float32)
        )
        gradient = tf.compat.v1.placeholder(tf.float32, [3])
        step = optimizer.apply_gradients([(gradient, variable)])
        session.run(tf.compat.v1.global_variables_initializer())
        values = []
        for value in GRADIENTS:
            session.run(step, {gradient: value})
            values.append(session.run(variable))
        return values, {v.op.name for v in tf.compat.v1.global_variables()}


def sgd():
    w = START.copy()
    for g in GRADIENTS:
        w = w - LEARNING_RATE * g
        yield w


def momentum(m, nesterov):
    w, v = START.copy(), 0.0
    for g in GRADIENTS:
        v = m * v + g
        w = w - LEARNING_RATE * (g + m * v if nesterov else v)
        yield w


def rms_prop(decay, m, epsilon, centered):
    w, mean_square, mean, v = START.copy(), 1.0, 0.0, 0.0
    for g in GRADIENTS:
        mean_square = decay * mean_square + (1 - decay) * g**2
        mean = decay * mean + (1 - decay) * g if centered else 0.0
        v = m * v + LEARNING_RATE * g / np.sqrt(mean_square - mean**2 + epsilon)
        w = w - v
        yield w


def adam(beta1, beta2, epsilon):
    w, first, second = START.copy(), 0.0, 0.0
    for t, g in enumerate(GRADIENTS, 1):
        first = beta1 * first + (1 - beta1) * g
        second = beta2 * second + (1 - beta2) * g**2
        rate = LEARNING_RATE * np.sqrt(1 - beta2**t) / (1 - beta1**t)
        w = w - rate * first / (np.sqrt(second) + epsilon)
        yield w


def adagrad(initial):
    w, total = START.copy(), initial
    for g in GRADIENTS:
        total = total + g**2
        w = w - LEARNING_RATE * g / np.sqrt(total)
        yield w


def adadelta(rho, epsilon):
    w, squares, updates = START.copy(), 0.0, 0.0
    for g in GRADIENTS:
        squares = rho * squares + (1 - rho) * g**2
        update = np.sqrt(updates + epsilon) / np.sqrt(squares + epsilon) * g
        updates = rho * updates + (1 - rho) * update**2
        w = w - LEARNING_RATE * update
        yield w


def ftrl(initial, l1, l2):
    w, n, z = START.copy(), initial, 0.0
    for g in GRADIENTS:
        larger = n + g**2
        z = z + g - (np.sqrt(larger) - np.sqrt(n)) / LEARNING_RATE * w
        n = larger
        shrunk = np.sign(z) * np.maximum(np.abs(z) - l1, 0)
        w = -shrunk / (np.sqrt(n) / LEARNING_RATE + 2 * l2)
        yield w


RULES = [
    ('sgd_optimizer { }', sgd(), set()),
    (
        'momentum_optimizer { momentum_optimizer_value: 0.5 }',
        momentum(0.5, False),
        {'Momentum'},
    ),
    (
        'momentum_optimizer { momentum_optimizer_value: 0.5 use_nesterov: true }',
        momentum(0.5, True),
        {'Momentum'},
    ),
    (
        'rms_prop_optimizer { decay: 0.8 momentum_optimizer_value: 0.5 epsilon: 0.25 }',
        rms_prop(0.8, 0.5, 0.25, False),
        {'RMSProp', 'RMSProp_1'},
    ),
    (
        'rms_prop_optimizer { centered: true }',
        rms_prop(0.9, 0.9, 1.0, True),
        {'RMSProp', 'RMSProp_1', 'RMSProp_2'},
    ),
    ('adam_optimizer { }', adam(0.9, 0.999, 1e-8), {'Adam', 'Adam_1'}),
    (
        'adam_optimizer { beta1: 0.5 beta2: 0.75 epsilon: 0.5 }',
        adam(0.5, 0.75, 0.5),
        {'Adam', 'Adam_1'},
    ),
    ('adagrad_optimizer { initial_accumulator_value: 0.5 }', adagrad(0.5), {'Adagrad'}),
    (
        'adadelta_optimizer { rho: 0.75 epsilon: 0.5 }',
        adadelta(0.75, 0.5),
        {'Adadelta', 'Adadelta_1'},
    ),
    (
        'ftrl_optimizer { initial_accumulator_value: 0.5 l1: 0.25 l2: 0.125 }',
        ftrl(0.5, 0.25, 0.125),
        {'Ftrl', 'Ftrl_1'},
    ),
]


@pytest.mark.parametrize('text,rule,slots', RULES, ids=[text for text, _, _ in RULES])
def test_update_rule_and_slot_names(text, rule, slots):
    values, names = train(text)
    np.testing.assert_allclose(values, list(rule), rtol=1e-5, atol=1e-6)
    assert {n for n in names if n.startswith('layer/weights/')} == {
        f'layer/weights/{slot}' for slot in slots
    }


# The ranges are those of the fields, and have their tests with the rules.
BAD = [
    ('', 'optimizer is empty; expected one of adadelta_optimizer, .*sgd_optimizer'),
    ('rms_prop_optimizer { decay: 1 }', 'rms_prop_optimizer.decay: 1; expected at least 0 and'),
    ('adam_optimizer { epsilon: nan }', 'epsilon: nan; expected a finite number'),
]


@pytest.mark.parametrize('text,message', BAD)
def test_bad_values_are_named(text, message):
    with pytest.raises(errors.ConfigError, match=message):
        optimizers.create_optimizer(parse(text), 0.1)


def test_learning_rate_config_finds_the_schedule():
    config = parse(
        'adam_optimizer { learning_rate { constant_learning_rate { learning_rate: 0.5 } } }'
    )
    found = optimizers.learning_rate_config(config)
    assert found.constant_learning_rate.learning_rate == 0.5
    with pytest.raises(errors.ConfigError, match='optimizer is empty'):
        optimizers.learning_rate_config(parse(''))


def test_recorded_optimizers(shared):
    cases = json.loads((shared / 'golden' / 'learning_rates.json').read_text())
    recorded = [case for case in cases if 'optimizer' in case]
    assert recorded
    for case in recorded:
        optimizer = optimizers.create_optimizer(parse(case['params']), 0.1)
        expected = dict(case['optimizer'])
        assert type(optimizer).__name__ == expected.pop('cls')
        for name, value in expected.items():
            actual = getattr(optimizer, f'_{name}')
            if isinstance(value, float):
                # A config's numbers are float32, and so is what the kernels compute with.
                actual, value = np.float32(actual), np.float32(value)
            assert actual == value, (case['params'], name)
