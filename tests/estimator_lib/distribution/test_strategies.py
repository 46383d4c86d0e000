"""Strategies of plans, and Estimators that lack theirs."""

import dataclasses

import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.distribution import Mode, Plan, strategies
from tests.estimator_lib.two_replicas import TWO


def test_only_strategies_are_made():
    assert strategies.create_strategy(Plan(Mode.CLONES)) is None
    assert strategies.create_strategy(TWO).num_replicas_in_sync == 2


def test_an_estimator_without_the_strategy_is_refused():
    strategies.require(Plan(Mode.CLONES))
    with pytest.raises(errors.ConfigError, match='mode is MIRRORED, but the Estimator has no'):
        strategies.require(TWO)


def test_a_program_that_works_already_cannot_divide_its_processor():
    tf.constant(1.0).numpy()
    plan = dataclasses.replace(TWO, without_sessions=True)
    with pytest.raises(errors.ConfigError, match='TensorFlow is initialized'):
        strategies.create_strategy(plan)
