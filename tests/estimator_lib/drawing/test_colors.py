from __future__ import annotations

import itertools

import pytest

from estimator_lib import errors
from estimator_lib.drawing import colors


@pytest.mark.parametrize(
    ('name', 'color'),
    [
        ('black', (0, 0, 0)),
        ('LightBlue', (173, 216, 230)),
        ('darkgray', (169, 169, 169)),
        ('#0a0B0c', (10, 11, 12)),
        ('yellowgreen', (154, 205, 50)),
    ],
)
def test_named(name, color):
    assert colors.named(name) == color


@pytest.mark.parametrize(('name', 'hint'), [('blak', 'black'), ('#12', 'unknown'), ('', 'unknown')])
def test_an_unknown_name(name, hint):
    with pytest.raises(errors.ConfigError, match=hint):
        colors.named(name)


def test_classes_differ():
    def distance(first, second):
        return sum(abs(one - other) for one, other in zip(first, second))

    several = [colors.class_color(number) for number in range(1, 9)]
    assert min(distance(*pair) for pair in itertools.combinations(several, 2)) > 60
    assert len({colors.class_color(number) for number in range(1, 91)}) == 90


def test_light_and_dark():
    assert colors.is_light((255, 255, 0))
    assert not colors.is_light((0, 0, 255))
