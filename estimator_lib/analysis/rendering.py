"""Figures as PNG files, and as SVG that takes the colors of the page around it."""

from __future__ import annotations

import html
import io
import re
from typing import TYPE_CHECKING, Any, Callable, Dict, NamedTuple, Sequence

import numpy as np

from estimator_lib import texts
from estimator_lib.analysis.parts import Figure, Section
from estimator_lib.drawing import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

Draw = Callable[[Any], None]

_INK = '#1f2733'  # text and lines; in a page, its own color replaces it
_OPTIONS: Any = {
    'figsize': (6.4, 4.0),
    'dpi': 110,
    'layout': 'constrained',
    'facecolor': 'white',
}
_STYLE: Any = {  # names of settings depend on matplotlib's version
    'font.size': 10.0,
    # Text stays text, which the page can select, search and show in its own font.
    'svg.fonttype': 'none',
    # Without it the ids in a file are random, and equal figures differ.
    'svg.hashsalt': 'report',
    'axes.spines.top': False,
    'axes.spines.right': False,
    'axes.linewidth': 0.8,
    'axes.facecolor': 'none',
    'xtick.major.width': 0.8,
    'ytick.major.width': 0.8,
    **dict.fromkeys(
        ('text.color', 'axes.edgecolor', 'axes.labelcolor', 'xtick.color', 'ytick.color'), _INK
    ),
}
# What a page does not need of matplotlib's SVG: declarations, its description, fixed fonts.
_PROLOG = re.compile(r'^.*?(?=<svg )', re.DOTALL)
_METADATA = re.compile(r'<metadata>.*?</metadata>', re.DOTALL)
_STYLES = re.compile(r'<style.*?</style>', re.DOTALL)
_SIZE = re.compile(r'<svg ([^>]*?)width="[^"]*"([^>]*?)>', re.DOTALL)
_HEIGHT = re.compile(r'(<svg [^>]*?)height="[^"]*"', re.DOTALL)
_FONTS = re.compile(r"""'DejaVu Sans'[^;"]*sans-serif""")
# Ids of groups (`figure_1`, `axes_1`) would repeat in a page of several figures.
_IDS = re.compile(r'<g id="[^"]*">')


class Drawing(NamedTuple):
    """A drawn figure.

    Attributes:
        png: a PNG file, dark on white.
        svg: an `<svg>` element in the text color of the page around it, without a background.
        width: its natural width in pixels of a page.
    """

    png: bytes
    svg: str
    width: int


def render(figure: Figure) -> Drawing:
    """Draw a figure; matplotlib is imported here."""
    from matplotlib.backends import backend_agg, backend_svg

    def save(canvas: Canvas) -> Drawing:
        png, svg = io.BytesIO(), io.StringIO()
        figure.draw(canvas)
        # `savefig` would draw each file twice, and compute the layout once more.
        backend_agg.FigureCanvasAgg(canvas).print_png(png)
        canvas.set_layout_engine('none')
        canvas.set_facecolor('none')
        backend_svg.FigureCanvasSVG(canvas).print_svg(svg)
        # CSS has 96 pixels in an inch.
        width = round(96 * canvas.get_size_inches()[0])
        return Drawing(png.getvalue(), _page_element(svg.getvalue(), figure.title), width)

    return figures.with_canvas(save, _STYLE, **_OPTIONS)


def picture(draw: Draw) -> np.ndarray:
    """Draw a figure, as `Figure.draw` does, into a picture: uint8 [height, width, 3]."""
    from matplotlib.backends import backend_agg

    def pixels(canvas: Canvas) -> np.ndarray:
        draw(canvas)
        agg = backend_agg.FigureCanvasAgg(canvas)
        agg.draw()
        return np.array(agg.buffer_rgba())[..., :3]

    return figures.with_canvas(pixels, _STYLE, **_OPTIONS)


def render_all(sections: Sequence[Section]) -> Dict[str, Drawing]:
    """Draw the figures of sections, by name; one that fails is left out, with a warning."""
    drawings = {}
    for part in (part for section in sections for part in section.parts):
        if isinstance(part, Figure):
            with figures.tolerated(f'figure {part.title!r}'):
                drawings[part.name] = render(part)
    return drawings


def _page_element(svg: str, title: str) -> str:
    """Turn an SVG file into an element that inherits font and color."""
    for pattern in (_PROLOG, _METADATA, _STYLES):
        svg = pattern.sub('', svg, count=1)
    label = html.escape(title)
    svg = _SIZE.sub(
        lambda size: f'<svg role="img" aria-label="{label}" {size[1]}{size[2]}>', svg, 1
    )
    svg = _HEIGHT.sub(r'\1', svg, count=1)
    svg = _IDS.sub('<g>', svg)
    svg = _FONTS.sub('inherit', svg).replace(_INK, 'currentColor')
    return texts.escaped(svg, kept='\n')  # markup has no control characters
