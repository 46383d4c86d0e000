"""Figures as files: PNG for people, SVG that takes the colors of its page."""

import io
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from PIL import Image

from estimator_lib.analysis import plots, rendering
from estimator_lib.analysis.parts import Figure

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


def test_no_global_state_changes(drawing):
    import matplotlib

    del drawing
    assert matplotlib.rcParams['text.color'] == matplotlib.rcParamsDefault['text.color']
    assert matplotlib.rcParams['svg.fonttype'] == 'path'
    assert sys.modules.get('matplotlib.pyplot') is None or not matplotlib.pyplot.get_fignums()
