"""Figures with literal text, and drawings that fail."""

import weakref

import matplotlib
import pytest

from estimator_lib.drawing import figures


@pytest.mark.parametrize('name', ['$a$ $\\q$', '_x', '\\frac{1}'])
def test_text_is_literal(tmp_path, name):
    def save(figure):
        axes = figure.add_subplot()
        (line,) = axes.plot([0, 1], [0, 1])
        legend = figures.add_legend(axes, {name: line})
        axes.set_title(name)
        figure.savefig(tmp_path / 'a.png')
        return axes, legend

    axes, legend = figures.with_canvas(save)
    assert [text.get_text() for text in legend.get_texts()] == [name]
    assert not axes.title.get_parse_math()
    assert matplotlib.rcParams['text.parse_math']


def test_a_figure_is_freed_at_once():
    def use(figure):
        return weakref.ref(figure), weakref.ref(figure.add_subplot().plot([0, 1], [0, 1])[0])

    figure, line = figures.with_canvas(use)
    assert figure() is None and line() is None


def test_a_drawing_that_fails_is_a_warning(caplog):
    with figures.tolerated('a.png'):
        raise ValueError('first\nsecond')
    assert caplog.messages == ['a.png: it cannot be drawn: ValueError: first']
    with pytest.raises(KeyboardInterrupt), figures.tolerated('a.png'):
        raise KeyboardInterrupt
