"""Figures as files: PNG for people, SVG that takes the colors of its page."""

import io
import sys
import threading
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from PIL import Image

from estimator_lib.analysis import plots, rendering
from estimator_lib.analysis.parts import Figure, Section

pytest.importorskip('matplotlib')
NAMES = ['cat', 'dog', 'eel']


@pytest.fixture(scope='module')
def drawing():
    counts = np.array([[3, 1, 0], [0, 2, 0], [1, 0, 5]])
    return rendering.render(
        Figure(
            'c', 'a "title" & <more>', lambda figure: plots.confusion_matrix(figure, counts, NAMES)
        )
    )


def test_the_png_is_dark_on_white(drawing):
    pixels = np.array(Image.open(io.BytesIO(drawing.png)).convert('RGB'))
    assert (pixels[0] == 255).all() and pixels.min() < 80
    assert drawing.width == pytest.approx(pixels.shape[1] / 110 * 96, abs=1.5)


def test_the_svg_is_an_element_of_a_page(drawing):
    root = ElementTree.fromstring(drawing.svg)
    assert root.tag.endswith('svg') and root.get('aria-label') == 'a "title" & <more>'
    assert root.get('width') is None and root.get('viewBox')
    texts = [each.text for each in root.iter() if each.tag.endswith('text')]
    assert {*NAMES, '5', 'groundtruth', 'prediction'} <= set(texts)
    assert 'currentColor' in drawing.svg
    assert rendering._INK not in drawing.svg and 'DejaVu' not in drawing.svg
    assert '<style' not in drawing.svg and '<metadata' not in drawing.svg


@pytest.mark.parametrize('count', [1, 40, 1001])
def test_a_picture_of_a_matrix_shows_all_classes(count):
    names = [f'class {index}' for index in range(count)]
    picture = rendering.picture(
        lambda figure: plots.confusion_matrix(figure, np.eye(count), names, normalized=True)
    )
    assert picture.dtype == np.uint8 and picture.shape[2] == 3
    assert 300 < max(picture.shape) < 2000
    # The diagonal has the accent, a blue.
    rows, columns = np.nonzero(picture[..., 2].astype(int) - picture[..., 0] > 60)
    assert np.ptp(rows) > 0.4 * len(picture) and np.ptp(columns) > 0.4 * len(picture[0])


@pytest.mark.parametrize('name', ['$x_$_^', '$ \\q $', 'a\x1b[31m', '\\1', 'a\nb'])
def test_names_are_literal(name):
    x = np.linspace(0, 1, 5)
    figures = [
        Figure('c', name, lambda canvas: plots.confusion_matrix(canvas, np.eye(2), [name, 'b'])),
        Figure('d', name, lambda canvas: plots.curves(canvas, {name: (x, x)}, name, name)),
        Figure('e', name, lambda canvas: plots.bars(canvas, {name: 1.0}, name)),
    ]
    for figure in figures:
        root = ElementTree.fromstring(rendering.render(figure).svg)
        texts = [''.join(each.itertext()) for each in root.iter() if each.tag.endswith('text')]
        shown = name.replace('\x1b', '\\x1b')
        assert set(shown.split('\n')) <= {text.strip() for text in texts}
        assert root.get('aria-label') in (shown, shown.replace('\n', ' '))


def test_a_figure_that_fails_is_left_out(caplog):
    figures = [Figure('a', 'Good', lambda canvas: None), Figure('b', 'Bad', lambda canvas: 1 / 0)]
    assert list(rendering.render_all([Section('s', figures)])) == ['a']
    assert "figure 'Bad': it cannot be drawn: ZeroDivisionError: division by zero" in caplog.text


def test_no_global_state_changes(drawing):
    import matplotlib

    del drawing
    assert matplotlib.rcParams['text.color'] == matplotlib.rcParamsDefault['text.color']
    assert matplotlib.rcParams['svg.fonttype'] == 'path'
    assert sys.modules.get('matplotlib.pyplot') is None or not matplotlib.pyplot.get_fignums()


def test_figures_of_two_threads_leave_the_settings_as_they_were():
    import matplotlib

    second_draws, first_ended = threading.Event(), threading.Event()

    def draw_second(canvas):
        second_draws.set()
        first_ended.wait(0.5)

    other = threading.Thread(target=rendering.picture, args=[draw_second])

    def draw_first(canvas):
        other.start()
        second_draws.wait(0.5)

    rendering.picture(draw_first)
    first_ended.set()
    other.join()
    assert matplotlib.rcParams['text.color'] == matplotlib.rcParamsDefault['text.color']
