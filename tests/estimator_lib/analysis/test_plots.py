"""Drawings: what their axes hold."""

import numpy as np
import pytest

from estimator_lib.analysis import plots

figures = pytest.importorskip('matplotlib.figure')
COUNTS = np.array([[3, 1], [0, 4]])


def drawn(draw, *arguments, **options):
    figure = figures.Figure()
    draw(figure, *arguments, **options)
    return figure.axes


def texts(axes):
    return [text.get_text() for text in axes.texts]


def test_a_confusion_matrix():
    (axes,) = drawn(plots.confusion_matrix, COUNTS, ['a', 'b'])
    assert texts(axes) == ['3', '1', '4']
    assert [label.get_text() for label in axes.get_xticklabels()] == ['a', 'b']
    (axes,) = drawn(plots.confusion_matrix, COUNTS, ['a', 'b'], normalized=True)
    assert texts(axes) == ['0.75', '0.25', '1.00']
    np.testing.assert_allclose(axes.images[0].get_array(), [[0.75, 0.25], [0.0, 1.0]])
    (axes,) = drawn(plots.confusion_matrix, np.zeros([2, 2]), ['a', 'b'], normalized=True)
    assert texts(axes) == []


def test_a_matrix_of_many_classes_has_no_texts():
    (axes,) = drawn(plots.confusion_matrix, np.eye(50), [str(index) for index in range(50)])
    assert texts(axes) == [] and '49' not in [label.get_text() for label in axes.get_xticklabels()]


def test_curves_of_many_classes_have_a_short_legend():
    x = np.linspace(0, 1, 5)
    lines = {'all': (x, x), **{f'class {index}': (x, x**2) for index in range(30)}}
    (axes,) = drawn(plots.curves, lines, 'recall', 'precision', main='all')
    assert len(axes.lines) == 31 and axes.lines[0].get_linewidth() > 2
    assert len(axes.get_legend().get_texts()) == 10
    assert axes.get_xlabel() == 'recall' and axes.get_ylabel() == 'precision'


def test_names_that_begin_with_an_underscore_are_in_the_legend():
    x = np.linspace(0, 1, 5)
    for draw, titles in ((plots.curves, ('recall', 'precision')), (plots.scatter, ('w', 'h'))):
        (axes,) = drawn(draw, {'_cat': (x, x), 'dog': (x, x)}, *titles)
        assert [text.get_text() for text in axes.get_legend().get_texts()] == ['_cat', 'dog']


def test_bars_are_in_order_and_bounded():
    (axes,) = drawn(plots.bars, {'a': 2.0, 'b': 1.5, 'c': 3352.0}, 'points')
    assert [patch.get_width() for patch in axes.patches] == [2.0, 1.5, 3352.0]
    assert texts(axes) == ['2', '1.5', '3,352'] and axes.yaxis_inverted()
    (axes,) = drawn(plots.bars, {str(index): 1.0 for index in range(100)}, 'points')
    assert len(axes.patches) == 40
    drawn(plots.bars, {}, 'points')


def test_histograms():
    first, second = drawn(plots.histograms, {'a': np.arange(4.0), 'b': np.ones(3)}, 'n', bins=2)
    assert [patch.get_height() for patch in first.patches] == [2, 2]
    assert first.get_ylabel() == 'n' and second.get_xlabel() == 'b'
    (axes,) = drawn(plots.histograms, {'a': np.ones(2)}, 'n', limits=(0.0, 2.0), line=0.5)
    assert axes.lines[0].get_xdata() == [0.5, 0.5]


def test_a_scatter_and_a_density():
    points = {'boxes': (np.array([1.0, 2]), np.array([4.0, 8])), 'anchors': ([16.0], [16.0])}
    (axes,) = drawn(plots.scatter, points, 'w', 'h')
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ['boxes', 'anchors']
    assert axes.get_xscale() == 'log'
    (axes,) = drawn(plots.density, np.array([0.1, 0.1]), np.array([0.9, 0.9]), 'x', 'y')
    counts = axes.images[0].get_array()
    assert counts[28, 3] == counts.sum() == 2  # row of y, column of x, of 32 each


def test_a_reliability_diagram():
    confidences, accuracies = np.array([0.2, 0.0]), np.array([0.5, 0.0])
    upper, lower = drawn(plots.reliability, confidences, accuracies, np.array([4, 0]))
    assert [patch.get_height() for patch in upper.patches] == [0.5]
    assert [patch.get_height() for patch in lower.patches] == [4, 0]
