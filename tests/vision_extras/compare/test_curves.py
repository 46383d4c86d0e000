"""Curves of several runs in one drawing."""

import pytest

from vision_extras.compare import curves


def test_each_run_with_values_has_a_curve():
    figure = pytest.importorskip('matplotlib.figure').Figure()
    of_runs = {'a': ([10, 20], [0.5, 0.75]), 'b': ([], []), 'c': ([15], [0.25])}
    curves.draw(figure, of_runs)
    (axes,) = figure.axes
    drawn = {
        line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines
    }
    assert drawn == {'a': ([10, 20], [0.5, 0.75]), 'c': ([15], [0.25])}
    assert axes.get_xlabel() == 'step'
