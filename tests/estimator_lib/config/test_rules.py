"""Rules of a task beside those of the schema, and the problems of what is made of a config."""

import pytest

from estimator_lib import errors
from estimator_lib.config import rules
from estimator_lib.config.rules import ConfigRules, Range
from tests.estimator_lib.config import ruled_schema


@pytest.fixture(name='both')
def _both():
    one = ConfigRules(
        models=frozenset({'finder'}),
        supported={'RuledNet': frozenset({'head'})},
        ignored={'RuledNet': {'kind': 'why'}},
        required={'A': ('x',)},
    )
    other = ConfigRules(
        models=frozenset({'both'}),
        unlisted='nobody reads it',
        supported={'RuledNet': frozenset({'square'}), 'RuledPart': rules.ALL},
        unsupported={'RuledNet': {'size': 'no'}},
        required={'A': ('z',)},
    )
    return one + other


def test_rules_of_one_message_add_up(both):
    assert both.models == {'finder', 'both'} and both.unlisted == 'nobody reads it'
    assert (both + ConfigRules()).unlisted == 'nobody reads it'
    assert both.supported == {'RuledNet': frozenset({'head', 'square'}), 'RuledPart': rules.ALL}
    assert both.required == {'A': ('x', 'z')}


@pytest.mark.parametrize(
    ('path', 'expected'),
    [
        # What the task says is stronger than the schema.
        ('net.head', ('supported', '')),
        ('net.part.other', ('supported', '')),
        ('net.kind', ('ignored', 'why')),
        ('net.size', ('unsupported', 'no')),
        ('net.queue', ('ignored', 'there is none')),
        ('net.most', ('supported', '')),
        ('boxes', ('supported', '')),
    ],
)
def test_support_of_a_field(both, path, expected):
    assert both.support(ruled_schema.find_field(path)) == expected


def test_range_of_a_field(both):
    size, queue = map(ruled_schema.find_field, ('net.size', 'net.queue'))
    assert ConfigRules().range(size) == Range(1, 9) and ConfigRules().range(queue) is None
    assert both.range(size) is None  # it is not supported
    own = ConfigRules(ranges={'RuledNet.size': Range(2, 3)})
    assert own.range(size) == Range(2, 3)


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

    (problem,) = rules.find_build_problems(fails, message)
    assert problem == expected and str(problem) == message
    assert list(rules.find_build_problems(str, 3)) == []
