"""Colors: the names of CSS, and a color for each class."""

from __future__ import annotations

import colorsys
from typing import Tuple

from PIL import ImageColor

from estimator_lib import errors

Color = Tuple[int, int, int]

# Steps of the golden section keep each hue far from the hues of the last numbers.
_GOLDEN_SECTION = 0.618034
_FIRST_HUE = 0.33


def named(name: str) -> Color:
    """Return red, green and blue of a CSS color name (`LightBlue`), or of `#rrggbb`.

    Raises:
        errors.ConfigError: there is no such color; the message names the nearest.
    """
    plain = name.strip()
    try:
        red, green, blue = ImageColor.getrgb(plain)[:3]
    except ValueError:
        hint = errors.did_you_mean(plain.lower(), ImageColor.colormap)
        raise errors.ConfigError(f'unknown color {name!r}{hint}') from None
    return red, green, blue


def class_color(number: int) -> Color:
    """Return a bright color that differs from those of neighboring numbers."""
    hue = (_FIRST_HUE + number * _GOLDEN_SECTION) % 1.0
    value = (1.0, 0.8, 0.92)[number % 3]
    red, green, blue = colorsys.hsv_to_rgb(hue, 0.9, value)
    return round(255 * red), round(255 * green), round(255 * blue)


def is_light(color: Color) -> bool:
    """Return whether dark text on it is easier to read than white text."""
    red, green, blue = color
    # Luma of ITU-R BT.601.
    return 0.299 * red + 0.587 * green + 0.114 * blue > 140
