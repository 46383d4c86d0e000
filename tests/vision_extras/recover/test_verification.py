"""Differences of outputs."""

import types

import numpy as np
import pytest

from vision_extras.recover import verification
from vision_extras.recover.verification import Difference


def test_one_large_or_unknown_difference_is_none_accepted():
    small, large = Difference('a', 1e-5, ''), Difference('b', 2e-4, '')
    assert verification.agrees([small])
    assert not verification.agrees([small, large])
    assert not verification.agrees([Difference('a', float('nan'), '')])
    assert not verification.agrees([])


@pytest.mark.parametrize('rows', ['', 'rows'])
def test_nan_and_other_infinities_are_no_agreement(rows):
    ours = [{'x': np.array([[np.inf], [1.0], [7.0]]), 'rows': np.array([3])}]
    for value, agrees in ((1.0, True), (np.nan, False), (1.1, False), (-np.inf, False)):
        theirs = [{'x': np.array([[np.inf], [value], [7.0]])}]
        assert verification.agrees([verification._difference('x', theirs, ours, rows)]) == agrees


def test_padding_rows_do_not_count():
    theirs = [{'x': np.array([[1.0], [5.0]])}]
    ours = [{'x': np.array([[[1.0], [0.0]]]), 'rows': np.array([1])}]
    assert verification._difference('x', theirs, ours, 'rows').largest == 0
    assert verification._difference('x', theirs, ours).largest == 5


def test_nothing_to_compare_is_no_agreement():
    theirs = [{'x': np.array([[1.0], [5.0]])}]
    ours = [{'x': np.zeros([1, 2, 1]), 'rows': np.array([0])}]
    difference = verification._difference('x', theirs, ours, 'rows')
    assert not verification.agrees([difference])
    assert verification.agrees([difference, Difference('a', 1e-5, '')])
    assert difference.meaning == 'over no row: the recovered model has none'


def test_different_shapes_are_no_agreement():
    difference = verification._difference('x', [{'x': np.zeros([2])}], [{'x': np.zeros([3])}])
    assert not verification.agrees([difference])
    assert str(difference) == 'x has shape [2] there and [3] here'


def test_few_other_rows_are_accepted_in_any_order():
    rows = np.arange(100.0)[:, np.newaxis]
    ours = [{'x': rows[np.newaxis], 'rows': np.array([100])}]
    swapped = rows[::-1].copy()
    swapped[7] = 0.5
    difference = verification._difference('x', [{'x': swapped}], ours, 'rows')
    assert verification.agrees([difference])
    assert '1 of 100 rows, up to 0.5' in difference.meaning
    assert difference.largest == 0
    swapped[:3] = 0.5
    assert not verification.agrees([verification._difference('x', [{'x': swapped}], ours, 'rows')])


def test_classes_of_pixels_may_differ_only_beside_equal_scores():
    theirs, ours = [{'x': np.arange(200)}], [{'x': np.append(np.arange(199), 0)}]
    classes = verification._difference('x', theirs, ours)
    assert classes.largest == 0.005
    assert not verification.agrees([classes])
    assert verification.agrees([classes, Difference('a', 1e-5, '')])


def test_scores_beyond_one_are_compared_relative_to_the_largest():
    theirs, ours = [{'x': np.array([20.001, 1.0])}], [{'x': np.array([20.0, 1.0])}]
    assert verification.agrees([verification._difference('x', theirs, ours)])


@pytest.mark.parametrize('shape', [(8, 12, 1), (8, 12, 3)])
def test_images_have_the_shape_that_a_graph_does_not_say(shape):
    runner = types.SimpleNamespace(input_shape=None)
    images = verification._images(runner, False, shape)
    assert [image.shape for image in images] == [shape, shape]


def test_views_of_outputs_that_were_not_computed_are_left_out():
    values = {'x': np.array([1, 2])}
    verification._apply({'x': lambda value: value[::-1], 'y': np.squeeze}, values)
    assert list(values) == ['x'] and values['x'].tolist() == [2, 1]
