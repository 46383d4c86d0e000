import pytest

from estimator_lib import errors
from estimator_lib.registry import Registry


@pytest.fixture
def registry():
    made = Registry('animal')
    made.add('cat', 1)
    made.add('camel', 2)
    return made


def test_finds_by_name(registry):
    assert registry.get('cat') == 1
    assert 'cat' in registry and 'dog' not in registry
    assert list(registry) == ['camel', 'cat']


def test_a_name_is_taken_once(registry):
    with pytest.raises(ValueError, match="animal 'cat' is registered twice"):
        registry.add('cat', 3)


def test_decorator_returns_the_part(registry):
    @registry.register('dog')
    def dog():
        return 'woof'

    assert registry.get('dog') is dog


def test_unknown_name_says_where_what_and_the_nearest(registry):
    with pytest.raises(errors.ConfigError) as caught:
        registry.get('camal', 'zoo.animal')
    message = str(caught.value)
    assert message.startswith("zoo.animal: unknown animal 'camal'")
    assert "did you mean 'camel'?" in message
    assert 'Known: camel, cat' in message


def test_a_long_list_is_not_printed():
    assert 'Known' not in errors.did_you_mean('zzz', [f'name{i}' for i in range(100)])
