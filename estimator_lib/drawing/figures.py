"""Figures of matplotlib whose text is literal, and drawings whose failure ends no run."""

from __future__ import annotations

import contextlib
import gc
import logging
import threading
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, Optional, TypeVar

from estimator_lib import errors

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas
    from matplotlib.legend import Legend

log = logging.getLogger('estimator_lib')

Result = TypeVar('Result')


_drawing = threading.RLock()


def with_canvas(
    use: Callable[[Canvas], Result], style: Optional[Mapping[str, Any]] = None, **options: Any
) -> Result:
    """Call a function with a figure that it draws and saves, whose text is literal.

    By default matplotlib parses text with two dollar signs as a formula, and raises an error where
    it is none. Settings of matplotlib are those of the process: one thread draws at a time, else
    the thread that ends last would restore the settings of the other one.

    A figure is thousands of objects that refer to each other. Beside the million objects of a
    model's graph Python looks for such garbage so seldom that 30 MB of it gather. So the objects
    stay in the youngest generation while they are used, which is freed at once.

    Args:
        use: called with the figure, which nothing may keep.
        style: further settings of matplotlib.
        **options: of `matplotlib.figure.Figure`.

    Returns:
        What `use` returns.
    """
    import matplotlib
    from matplotlib.figure import Figure  # takes half a second

    settings: Any = {'text.parse_math': False, 'text.usetex': False, **(style or {})}
    with _drawing, matplotlib.rc_context(settings):
        collects = gc.isenabled()
        gc.disable()
        try:
            # Not a figure of pyplot, which keeps each one until it is closed and chooses a backend
            # of windows.
            return use(Figure(**options))
        finally:
            if collects:
                gc.enable()
            gc.collect(0)


def add_legend(axes: Axes, artists: Mapping[str, Artist], **options: Any) -> Legend:
    """Add a legend, also of names that begin with an underscore, which matplotlib leaves out.

    Args:
        axes: the axes.
        artists: what each name labels.
        **options: of `Axes.legend`.
    """
    legend = axes.legend(list(artists.values()), ['-'] * len(artists), **options)
    for text, name in zip(legend.get_texts(), artists):
        text.set_text(name)
    return legend


@contextlib.contextmanager
def tolerated(what: str) -> Iterator[None]:
    """Log a warning in place of any error of the block, which only draws.

    Args:
        what: what is drawn, for the warning.
    """
    try:
        yield
    except Exception as error:  # a picture is never worth a run
        log.warning(
            '%s: it cannot be drawn: %s: %s', what, type(error).__name__, errors.first_line(error)
        )
