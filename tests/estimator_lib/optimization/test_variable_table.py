"""The table of what happens to each variable."""

import pytest
import tensorflow as tf

from estimator_lib.optimization import adamw, gradients, optimize_loss
from estimator_lib.optimization.gradients import GradientPolicy

tf1 = tf.compat.v1


@pytest.fixture(scope='module')
def variables():
    shapes = {'Net/conv/weights': [3, 4], 'Net/conv/biases': [4], 'Logits/weights': [4, 2]}
    with tf.Graph().as_default():
        yield [tf1.get_variable(name, shape) for name, shape in shapes.items()]


def describe(variables, trained, policy, rates, decays=None):
    factors = gradients.policy_multipliers(trained, policy)
    return optimize_loss.describe_variables(variables, trained, policy, factors, rates, decays)


def test_each_variable_is_in_one_line(variables):
    policy = GradientPolicy(freeze_patterns=('conv/weights',), bias_multiplier=2.0, layer_decay=0.5)
    rates = {'Net/conv/biases': 0.5, 'Logits/weights': 1.0}
    lines = describe(variables, variables[1:], policy, rates)
    assert [line.split() for line in lines[1:]] == [
        ['1', '4', '2', '0.5', 'Net/conv/biases'],
        ['1', '8', '1', '1', 'Logits/weights'],
        ['1', '12', 'frozen', 'Net/conv/weights'],
    ]


def test_the_decay_of_an_adamw_is_in_the_table(variables):
    policy = GradientPolicy(freeze_patterns=('Logits',))
    decays = adamw.AdamWOptimizer(0.1, weight_decay=0.01).decays
    lines = describe(variables, variables[:2], policy, {}, decays)
    assert [line.split() for line in lines] == [
        ['variables', 'parameters', 'gradient', 'x', 'rate', 'x', 'decay'],
        ['1', '12', '1', '1', 'yes', 'Net/conv/weights'],
        ['1', '4', '1', '1', 'no', 'Net/conv/biases'],
        ['1', '8', 'frozen', 'Logits/weights'],
    ]


def test_variables_of_two_patterns_are_named(variables):
    policy = GradientPolicy(pattern_multipliers=(('conv', 2.0), ('weights', 3.0)))
    lines = describe(variables, variables, policy, {})
    assert [line.split()[:3] for line in lines[1:-1]] == [
        ['1', '12', '6'],
        ['1', '8', '3'],
        ['1', '4', '2'],
    ]
    assert lines[-1].startswith('1 variable in several gradient_multipliers')
    assert lines[-1].endswith('Net/conv/weights')


def test_a_run_without_such_fields_has_no_table():
    assert optimize_loss.is_plain(GradientPolicy(clip_norm=10.0, last_layer_scopes=('Logits',)))
    assert not optimize_loss.is_plain(GradientPolicy(freeze_patterns=('a',)))
    assert not optimize_loss.is_plain(GradientPolicy(layer_decay=0.5))
