"""Required fields and choices, numbers in order, and all problems of a message in one error."""

import pytest

from estimator_lib import errors
from estimator_lib.config import message_checks
from estimator_lib.config.rules import ConfigRules, Problem
from estimator_lib.config.section import Section
from tests.estimator_lib.config import ruled_schema

NO_TASK = ConfigRules()
GOOD = 'net { kind: "a" size: 3 layers: 4 part { dense: true } }'


def problems(text, rules=NO_TASK):
    config = Section(ruled_schema.parse(text))
    return {problem.path: problem.text for problem in message_checks.find_problems(rules, config)}


def test_what_is_not_there_is_not_asked_for():
    assert problems('') == problems(GOOD) == {}


def test_missing_fields():
    assert problems('nets { least: 1 }') == {
        'nets.0.kind': 'not set.',
        'nets.0.size': 'not set; expected at least 1 and at most 9.',
        'nets.0.layers': 'empty; expected at least one.',
        'nets.0.part': 'is missing; expected one of: dense, sparse.',
    }


@pytest.mark.parametrize(
    ('old', 'new', 'expected'),
    [
        ('dense: true', '', {'net.part': 'empty; expected one of: dense, sparse.'}),
        ('kind: "a"', 'kind: ""', {'net.kind': 'not set.'}),
        ('size: 3', '', {'net.size': 'not set; expected at least 1 and at most 9.'}),
        ('size: 3', 'size: 3 least: 3', {'net.least': '3; expected at most 2, most.'}),
        ('size: 3', 'size: 3 least: 3 most: 3', {}),
    ],
)
def test_messages_that_are_there(old, new, expected):
    assert problems(GOOD.replace(old, new)) == expected


@pytest.mark.parametrize(
    ('more', 'expected'),
    [
        ('means: [1, 2]', {'net.means': '2 values; expected 3, or none.'}),
        ('means: [1, 2, 3]', {}),
        ('kernels: [3, 3]', {'net.kernels': '2 values; expected 1, one for each of layers.'}),
        ('kernels: 3', {}),
    ],
)
def test_lengths_of_lists(more, expected):
    assert problems(GOOD[:-1] + more + '}') == expected


def test_a_list_alone_may_have_any_length():
    assert problems('net { kernels: [3, 3] }')['net.layers'] == 'empty; expected at least one.'
    assert 'net.kernels' not in problems('net { kernels: [3, 3] }')


def test_a_task_requires_more():
    rules = ConfigRules(required={'RuledNet': ('queue',)})
    assert problems(GOOD, rules) == {'net.queue': 'not set.'}


def test_all_problems_of_a_message_are_one_error():
    net = ruled_schema.parse('net { kind: "a" size: 10 layers: 4 square: true least: 3 }').net
    further = [Problem('here.layers', 'too few.')]
    with pytest.raises(errors.ConfigError) as caught:
        message_checks.check_message(NO_TASK, Section(net, 'here'), further)
    assert [line.split(': ')[0].strip() for line in str(caught.value).splitlines()[1:]] == [
        'here.size',
        'here.square',
        'here.part',
        'here.least',
        'here.layers',
    ]


def test_a_message_without_problems():
    message_checks.check_message(NO_TASK, Section(ruled_schema.parse(GOOD).net, 'here'))
