"""Pictures for people, in NumPy: text, lines, boxes, grids of images, matrices, PNG files.

Pictures are uint8 [height, width, 3].
"""

from __future__ import annotations

import math
import struct
import zlib
from typing import List, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib.drawing import bitmap_font, colors
from estimator_lib.drawing.colors import Color

WHITE: Color = (255, 255, 255)
INK: Color = (33, 37, 41)
PAPER: Color = (250, 250, 250)
RULE: Color = (208, 212, 216)
CALM: Color = (38, 50, 66)
ALARM: Color = (176, 32, 37)

# From no examples to all: shares are told by lightness, which prints and color-blind eyes keep.
_RAMP = np.array([[255, 255, 255], [158, 202, 225], [49, 130, 189], [8, 48, 107]], np.float64)

_CAPTION_SCALE = 2
_MIN_CAPTION_WIDTH = 240
_MAX_MATRIX_PIXELS = 1000


def displayable(image: np.ndarray) -> np.ndarray:
    """An image as people can look at it.

    Args:
        image: [height, width, 1 or 3]. uint8 images stay; others, which a network's preprocessing
            has shifted and scaled, are stretched so that their values go from 0 to 255.

    Returns:
        uint8 [height, width, 3].
    """
    if image.dtype != np.uint8:
        values = np.nan_to_num(image.astype(np.float64), posinf=0.0, neginf=0.0)
        low, high = values.min(), values.max()
        values = (
            (values - low) * (255.0 / (high - low)) if high > low else np.full_like(values, 127)
        )
        image = np.rint(values).astype(np.uint8)
    return np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image


def draw_text(
    picture: np.ndarray, text: str, top: int, left: int, color: Color, scale: int = 1
) -> None:
    """Writes a line of text into a picture, in place; what is outside is cut off."""
    _stamp(picture, bitmap_font.text_mask(text, scale), top, left, color)


def draw_tag(
    picture: np.ndarray, text: str, bottom: int, left: int, color: Color, scale: int = 1
) -> None:
    """Writes a line of text on a bar of a colour; one that would be cut off is moved inside."""
    mask = np.pad(bitmap_font.text_mask(text, scale), 2 * scale)
    top = min(max(bottom - mask.shape[0], 0), max(picture.shape[0] - mask.shape[0], 0))
    left = min(max(left, 0), max(picture.shape[1] - mask.shape[1], 0))
    _stamp(picture, np.ones_like(mask), top, left, color)
    _stamp(picture, mask, top, left, INK if colors.is_light(color) else WHITE)


def draw_box(picture: np.ndarray, box: Sequence[float], color: Color, thickness: int = 1) -> None:
    """Draws the outline of a box into a picture, in place; what is outside is cut off.

    Args:
        picture: uint8 [height, width, 3].
        box: ymin, xmin, ymax, xmax in pixels; the line is inside. It is never less than a pixel.
        color: of the line.
        thickness: of the line in pixels.
    """
    top, left, bottom, right = (round(float(side)) for side in box)
    bottom, right = max(bottom, top + 1), max(right, left + 1)
    for rows in ((top, top + thickness), (bottom - thickness, bottom)):
        _fill(picture, max(rows[0], top), min(rows[1], bottom), left, right, color)
    for columns in ((left, left + thickness), (right - thickness, right)):
        _fill(picture, top, bottom, max(columns[0], left), min(columns[1], right), color)


def draw_line(
    picture: np.ndarray,
    start: Sequence[float],
    end: Sequence[float],
    color: Color,
    thickness: int = 1,
) -> None:
    """Draws a line from (y, x) to (y, x) in pixels, in place; what is outside is cut off."""
    away = np.subtract(end, start)
    steps = int(np.abs(away).max()) + 1
    points = np.rint(start + np.linspace(0.0, 1.0, steps + 1)[:, np.newaxis] * away).astype(int)
    for row, column in np.ndindex(thickness, thickness):
        _color_points(picture, points + [row - thickness // 2, column - thickness // 2], color)


def tint(picture: np.ndarray, mask: np.ndarray, color: Color, opacity: float = 0.4) -> None:
    """Mixes a colour into the pixels for which a mask, bool [height, width], is true, in place."""
    mixed = (1.0 - opacity) * picture[mask] + opacity * np.array(color)
    picture[mask] = np.rint(mixed).astype(np.uint8)


def resized(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """An image of another size, interpolated between the centres of pixels.

    Args:
        image: uint8 [h, w, 3].
        height: of the result.
        width: of the result.
    """
    if image.shape[:2] == (height, width):
        return image
    above, below, down = _neighbours(image.shape[0], height)
    left, right, along = _neighbours(image.shape[1], width)
    values = image.astype(np.float32)
    down, along = down[:, np.newaxis, np.newaxis], along[np.newaxis, :, np.newaxis]
    values = values[above] * (1.0 - down) + values[below] * down
    values = values[:, left] * (1.0 - along) + values[:, right] * along
    return np.rint(values).astype(np.uint8)


def captioned(image: np.ndarray, lines: Sequence[str], alarming: bool = False) -> np.ndarray:
    """An image with lines of text below it.

    Args:
        image: uint8 [height, width, 3]; one narrower than 240 pixels is enlarged by a whole number.
        lines: cut where they are longer than the image is wide.
        alarming: put them on red instead of dark blue.
    """
    factor = max(1, math.ceil(_MIN_CAPTION_WIDTH / image.shape[1]))
    image = np.kron(image, np.ones([factor, factor, 1], np.uint8))
    margin = 3 * _CAPTION_SCALE
    line_height = (bitmap_font.GLYPH_HEIGHT + 3) * _CAPTION_SCALE
    bar = _filled(line_height * len(lines) + margin, image.shape[1], ALARM if alarming else CALM)
    fitting = bitmap_font.letters_within(image.shape[1] - 2 * margin, _CAPTION_SCALE)
    for index, line in enumerate(lines):
        top = margin + line_height * index
        draw_text(bar, _shortened(line, fitting), top, margin, WHITE, _CAPTION_SCALE)
    return np.concatenate([image, bar], axis=0)


def grid(pictures: Sequence[np.ndarray], columns: int, gap: int = 8) -> np.ndarray:
    """Pictures side by side, row by row.

    Args:
        pictures: at least one; they may differ in size.
        columns: how many are in a row.
        gap: pixels between them.
    """
    height = max(picture.shape[0] for picture in pictures)
    width = max(picture.shape[1] for picture in pictures)
    columns = min(columns, len(pictures))
    rows = math.ceil(len(pictures) / columns)
    sheet = _filled(rows * (height + gap) - gap, columns * (width + gap) - gap, PAPER)
    for index, picture in enumerate(pictures):
        top = index // columns * (height + gap)
        left = index % columns * (width + gap)
        sheet[top : top + picture.shape[0], left : left + picture.shape[1]] = picture
    return sheet


def confusion_matrix(shares: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """A confusion matrix as a picture: rows are labels, columns what was predicted.

    Cells have their share in percent, and names are beside them, where there are few enough classes
    for it to be read.

    Args:
        shares: float [n, n] in [0, 1]: of the examples with the row's label, the share of which the
            column's class was predicted.
        names: of the n classes.
    """
    count = len(names)
    cell = min(36, max(1, _MAX_MATRIX_PIXELS // count))
    cells = np.kron(_colors(shares), np.ones([cell, cell, 1], np.uint8))
    if cell >= 22:
        _write_percents(cells, shares, cell)
    if cell >= 5:
        cells[::cell] = RULE
        cells[:, ::cell] = RULE
    return _with_names(cells, names, cell)


def encode_png(picture: np.ndarray) -> bytes:
    """A picture as the bytes of a PNG file.

    Args:
        picture: uint8 [height, width, 3].
    """
    height, width, _ = picture.shape
    rows = np.zeros([height, 1 + width * 3], np.uint8)  # each row begins with its filter: none
    rows[:, 1:] = picture.reshape(height, width * 3)
    eight_bit_rgb = struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0)
    return b''.join(
        [
            b'\x89PNG\r\n\x1a\n',
            _png_chunk(b'IHDR', eight_bit_rgb),
            _png_chunk(b'IDAT', zlib.compress(rows.tobytes(), 3)),
            _png_chunk(b'IEND', b''),
        ]
    )


def write_png(path: str, picture: np.ndarray) -> None:
    """Writes a picture as a PNG file."""
    with tf.io.gfile.GFile(path, 'wb') as file:
        file.write(encode_png(picture))


def _filled(height: int, width: int, color: Color) -> np.ndarray:
    return np.full([height, width, 3], color, np.uint8)


def _shortened(text: str, length: int) -> str:
    """A text of at most so many letters; what is left out is left out before its last word."""
    if len(text) <= length:
        return text
    end = text[-5:] if length > 12 else ''
    return (text[: max(0, length - len(end) - 2)] + '..' + end)[:length]


def _fill(picture: np.ndarray, top: int, bottom: int, left: int, right: int, color: Color) -> None:
    picture[max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)] = color


def _neighbours(old: int, new: int) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The two old pixels beside the centre of each new one, and how near it is to the second."""
    places = np.clip((np.arange(new) + 0.5) * (old / new) - 0.5, 0, old - 1)
    first = np.floor(places).astype(int)
    return first, np.minimum(first + 1, old - 1), (places - first).astype(np.float32)


def _stamp(picture: np.ndarray, mask: np.ndarray, top: int, left: int, color: Color) -> None:
    """Colors the pixels of a mask that are inside the picture."""
    _color_points(picture, np.argwhere(mask) + [top, left], color)


def _color_points(picture: np.ndarray, points: np.ndarray, color: Color) -> None:
    """Colors the points, int [n, 2] of row and column, that are inside the picture."""
    inside = np.all((points >= 0) & (points < picture.shape[:2]), axis=1)
    rows, columns = points[inside].T
    picture[rows, columns] = color


def _colors(shares: np.ndarray) -> np.ndarray:
    """uint8 [n, n, 3]: each share's place on the ramp."""
    places = np.clip(np.nan_to_num(shares), 0.0, 1.0) * (len(_RAMP) - 1)
    steps = np.arange(len(_RAMP))
    channels = [np.interp(places, steps, _RAMP[:, channel]) for channel in range(3)]
    return np.rint(np.stack(channels, axis=-1)).astype(np.uint8)


def _write_percents(cells: np.ndarray, shares: np.ndarray, cell: int) -> None:
    for row, column in zip(*np.nonzero(np.nan_to_num(shares) >= 0.005)):
        share = shares[row, column]
        mask = bitmap_font.text_mask(f'{100 * share:.0f}')
        top = row * cell + (cell - mask.shape[0]) // 2 + 1
        left = column * cell + (cell - mask.shape[1]) // 2 + 1
        _stamp(cells, mask, top, left, WHITE if share > 0.45 else INK)


def _with_names(cells: np.ndarray, names: Sequence[str], cell: int) -> np.ndarray:
    """Puts class names at the left (labels) and, from bottom to top, above (predictions)."""
    longest = 24
    named = cell >= bitmap_font.GLYPH_HEIGHT + 2
    shown: List[str] = [_shortened(name, longest) if named else '' for name in names]
    pad = 8
    heading = bitmap_font.GLYPH_HEIGHT + 2 * pad
    margin = pad + max(bitmap_font.text_mask(name).shape[1] for name in shown)
    size = cells.shape[0]
    corner = heading + margin
    sheet = _filled(corner + size + pad, corner + size + pad, PAPER)
    sheet[corner : corner + size, corner : corner + size] = cells
    for index, name in enumerate(shown):
        mask = bitmap_font.text_mask(name)
        middle = corner + index * cell + (cell - mask.shape[0]) // 2 + 1
        _stamp(sheet, mask, middle, corner - pad // 2 - mask.shape[1], INK)
        _stamp(sheet, np.rot90(mask), corner - pad // 2 - mask.shape[1], middle, INK)
    draw_text(sheet, 'predicted', pad, corner, CALM)
    label = np.rot90(bitmap_font.text_mask('label'))
    _stamp(sheet, label, corner, pad, CALM)
    return sheet


def _png_chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(kind + content)
    return struct.pack('>I', len(content)) + kind + content + struct.pack('>I', checksum)
