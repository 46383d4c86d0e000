"""Figures of matplotlib whose text is literal, and drawings whose failure ends no run."""

from __future__ import annotations

import contextlib
import logging
import threading
from typing import TYPE_CHECKING, Any, Iterator, Mapping

from estimator_lib import errors

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.legend import Legend

log = logging.getLogger('estimator_lib')


_drawing = threading.RLock()


@contextlib.contextmanager
def literal_text() -> Iterator[None]:
    """Draw the text of figures as it is in the block, which creates and saves them.

    By default matplotlib parses text with two dollar signs as a formula, and raises an error where
    it is none. Settings of matplotlib are those of the process: one thread draws at a time, else
    the thread that ends last would restore the settings of the other one's block.
    """
    import matplotlib

    settings: Any = {'text.parse_math': False, 'text.usetex': False}
    with _drawing, matplotlib.rc_context(settings):
        yield


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
