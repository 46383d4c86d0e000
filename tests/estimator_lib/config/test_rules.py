"""Ranges, rules that are added, and the problems of what is made of a config."""

import math

import pytest

from estimator_lib import errors
from estimator_lib.config import rules
from estimator_lib.config.rules import Range


@pytest.mark.parametrize(
    ('allowed', 'inside', 'outside', 'text'),
    [
        (Range(1), [1, 2, math.inf], [0, -1, math.nan], 'at least 1'),
        (Range(0, open_low=True), [1e-9], [0, -1], 'more than 0'),
        (Range(0, 1, open_high=True), [0, 0.999], [1, -0.1], 'at least 0 and less than 1'),
        (Range(0, 1, open_low=True), [1, 0.1], [0, 1.1], 'more than 0 and at most 1'),
        (Range(high=0), [0, -5], [0.1], 'at most 0'),
        (rules.COUNT, [1, 10**6], [0, 10**6 + 1], 'at least 1 and at most 1000000'),
        (rules.or_0(rules.FEW), [0, 1000], [-1, 1001], 'at least 0 and at most 1000'),
    ],
)
def test_ranges(allowed, inside, outside, text):
    assert all(allowed.holds(value) for value in inside)
    assert not any(allowed.holds(value) for value in outside)
    assert str(allowed) == text


@pytest.fixture(name='both')
def _both():
    one = rules.ConfigRules(
        supported={'A': frozenset({'x'})},
        ignored={'A': {'y': 'why'}},
        choices=('c',),
        required={'A': ('x',)},
    )
    other = rules.ConfigRules(
        supported={'A': frozenset({'z'}), 'B': rules.ALL},
        unsupported={'A': {'u': 'no'}},
        choices=('d',),
        required={'A': ('z',)},
    )
    return one + other


def test_rules_of_one_message_add_up(both):
    assert both.supported == {'A': frozenset({'x', 'z'}), 'B': rules.ALL}
    assert both.choices == ('c', 'd')
    assert both.required == {'A': ('x', 'z')}


@pytest.mark.parametrize(
    ('message', 'field', 'expected'),
    [
        ('A', 'x', ['supported']),
        ('A', 'y', ['ignored']),
        ('A', 'u', ['unsupported']),
        ('B', 'anything', ['supported']),
        ('A', 'w', []),
        ('C', 'x', []),
    ],
)
def test_support_of_a_field(both, message, field, expected):
    assert both.support(message, field) == expected


@pytest.mark.parametrize(
    ('message', 'expected'),
    [
        ('a.b: 3; expected 4', rules.Problem('a.b', '3; expected 4')),
        ('a b: c', rules.Problem('', 'a b: c')),
        ('no path', rules.Problem('', 'no path')),
    ],
)
def test_problems_of_what_is_made(message, expected):
    def fails(text):
        raise errors.ConfigError(text)

    (problem,) = rules.problems_of(fails, message)
    assert problem == expected and str(problem) == message
    assert list(rules.problems_of(str, 3)) == []
