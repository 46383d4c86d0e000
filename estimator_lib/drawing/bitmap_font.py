"""A small built-in font, so that pictures can be labelled without a graphics library."""

from __future__ import annotations

import functools
import unicodedata

import numpy as np

GLYPH_HEIGHT = 7
GLYPH_WIDTH = 5

_FIRST, _LAST = ' ', '~'
# One glyph is 35 pixels, row by row from the top left, as a number of nine hexadecimal digits.
_DIGITS = 9
_GLYPHS = (
    '000000000108421004294a00000295f57d4a11f4717c463222226332544564d108800000088842082'
    '2082108880095754800084f90800000030880000f800000000018c0022222003a33ae62e11842108e'
    '3a211111f7c441062e08ca97c427e1e0862e1910f462e7c22221083a317462e3a317844c018c03180'
    '018c03088088882082001f07c002082088883a21110043a37ada0e3a31fc6317a31f463e3a308422e'
    '72518c65c7e10f421f7e10f42103a30bc62f4631fc63138842108e1c4210a4c4654c525142108421f'
    '4775ac6314639ace313a318c62e7a31f42103a318d64d7a31f52513e107043e7c842108446318c62e'
    '46318c5444631ad6aa462a22a31462a210847c222221f39084210e02082082038421084e115100000'
    '00000001f208200000000e0be2f4216cc63e000e8422e042d9c62f000e8fe0e1928e210801f18bc2e'
    '4216cc631100c2108e080610a4c4212a629230842108e001aad6310016cc631000e8c62e001e8fa10'
    '000d9bc210016cc210000e8383e211c4212600118c66d00118c54400118d6aa00115115100118bc2e'
    '001f1111f0884410821084210842084110880008a8800'
)
_BOX = '7e318c63f'  # for what the font does not have


def text_mask(text: str, scale: int = 1) -> np.ndarray:
    """Which pixels a line of text covers.

    Args:
        text: ASCII; accents are left out, and what remains unknown is shown as a box.
        scale: pixels for each pixel of the font, which has 5 x 7 a letter and 1 between letters.

    Returns:
        bool [7 * scale, width]; the width is 0 for an empty text.
    """
    plain = unicodedata.normalize('NFKD', text)
    letters = [letter for letter in plain if not unicodedata.combining(letter)]
    if not letters:
        return np.zeros([GLYPH_HEIGHT * scale, 0], bool)
    gap = np.zeros([GLYPH_HEIGHT, 1], bool)
    columns = [part for letter in letters for part in (_glyph(letter), gap)][:-1]
    return np.kron(np.concatenate(columns, axis=1), np.ones([scale, scale], bool))


def text_width(length: int, scale: int = 1) -> int:
    """How wide a text of so many letters is, in pixels."""
    return max(0, length * (GLYPH_WIDTH + 1) - 1) * scale


def letters_within(width: int, scale: int = 1) -> int:
    """How many letters fit into a width in pixels."""
    return max(0, (width // scale + 1) // (GLYPH_WIDTH + 1))


@functools.cache
def _glyph(letter: str) -> np.ndarray:
    """Its pixels, bool [7, 5]."""
    start = (ord(letter) - ord(_FIRST)) * _DIGITS
    is_known = _FIRST <= letter <= _LAST
    number = int(_GLYPHS[start : start + _DIGITS] if is_known else _BOX, 16)
    pixels = GLYPH_HEIGHT * GLYPH_WIDTH
    bits = [number >> place & 1 for place in reversed(range(pixels))]
    return np.array(bits, bool).reshape(GLYPH_HEIGHT, GLYPH_WIDTH)
