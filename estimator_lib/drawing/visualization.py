"""Pictures for people: text, lines, boxes, grids of images, PNG files.

Pictures are uint8 [height, width, 3] arrays. Pillow draws lines and letters, on the image that
`canvas` provides.
"""

from __future__ import annotations

import contextlib
import functools
import io
import math
import unicodedata
from typing import Iterator, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf
from PIL import Image, ImageDraw, ImageFont

from estimator_lib.drawing import colors
from estimator_lib.drawing.colors import Color

WHITE: Color = (255, 255, 255)
INK: Color = (33, 37, 41)
PAPER: Color = (250, 250, 250)
CALM: Color = (38, 50, 66)
ALARM: Color = (176, 32, 37)

_TEXT_SIZE = 10  # pixels from the top of the letters to the baseline
_CAPTION_SIZE = 16
_CAPTION_LINE = 20
_CAPTION_MARGIN = 6
_MIN_CAPTION_WIDTH = 240
_CAPTION_SCALE_WIDTH = 800  # captions of wider pictures are larger
_MOST_PIXELS = 1 << 25  # of a picture: memory and time of drawing are bounded
PNG, JPEG = 'png', 'jpeg'
FORMATS = (JPEG, PNG)
ENDINGS = {PNG: '.png', JPEG: '.jpg'}
_JPEG_QUALITY = 90  # edges of letters stay sharp
_PNG_COMPRESSION = 3  # level 9 takes six times as long, and saves a tenth of the bytes

Legend = Sequence[Tuple[str, Color]]  # names with their colors


def displayable(image: np.ndarray) -> np.ndarray:
    """Convert an image to a form that people can look at.

    Args:
        image: [height, width, channels]; channels beside the colors are not shown, and of an image
            beyond `drawn_step` every n-th row and column is. uint8 images
            stay; others, which a network's preprocessing has shifted and scaled, are stretched so
            that their values go from 0 to 255.

    Returns:
        uint8 [height, width, 3].
    """
    step = drawn_step(*image.shape[:2])
    image = image[::step, ::step, :3]
    if image.dtype != np.uint8:
        values = np.nan_to_num(image.astype(np.float64), posinf=0.0, neginf=0.0)
        low, high = values.min(), values.max()
        values = (
            (values - low) * (255.0 / (high - low)) if high > low else np.full_like(values, 127)
        )
        image = np.rint(values).astype(np.uint8)
    return np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image


def drawn_share(height: int, width: int) -> float:
    """Return the factor of the sides of an image in its picture.

    It is 1 up to 2 ** 25 pixels (33 million), which a picture has at most.
    """
    return min(1.0, math.sqrt(_MOST_PIXELS / max(height * width, 1)))


def drawn_step(height: int, width: int) -> int:
    """Return the distance of the rows and columns that a picture of pixels as they are shows."""
    return math.ceil(1.0 / drawn_share(height, width))


@contextlib.contextmanager
def canvas(picture: np.ndarray) -> Iterator[Image.Image]:
    """Open an image to draw on, and copy it back to the picture, uint8 [height, width, 3]."""
    # Pillow may share the array's memory, but then copies it before the first line is drawn:
    # without the copy back nothing would be seen.
    image = Image.fromarray(picture)
    yield image
    picture[:] = np.asarray(image)


def draw_tag(
    image: Image.Image, text: str, bottom: int, left: int, color: Color, scale: float = 1.0
) -> None:
    """Write a line of text on a colored bar, moved so that it lies inside the image."""
    font, text = _font(round(_TEXT_SIZE * scale)), _plain(text)
    pad = round(2 * scale)
    width = math.ceil(font.getlength(text)) + 2 * pad
    height = sum(font.getmetrics())
    top = min(max(bottom - height, 0), max(image.height - height, 0))
    left = min(max(left, 0), max(image.width - width, 0))
    draw = ImageDraw.Draw(image)
    draw.rectangle((left, top, left + width - 1, top + height - 1), color)
    draw.text((left + pad, top), text, INK if colors.is_light(color) else WHITE, font)


def draw_box(image: Image.Image, box: Sequence[float], color: Color, thickness: int = 1) -> None:
    """Draw the outline of a box, clipped to the image.

    Args:
        image: the image to draw on.
        box: ymin, xmin, ymax, xmax in pixels; the line is inside. At least one pixel is drawn.
        color: color of the line.
        thickness: thickness of the line in pixels.
    """
    top, left, bottom, right = (round(float(side)) for side in box)
    bottom, right = max(bottom, top + 1), max(right, left + 1)
    # Pillow would draw a very thick line beyond the sides of the box.
    is_full = 2 * thickness >= min(bottom - top, right - left)
    ImageDraw.Draw(image).rectangle(
        # Pillow draws the second corner too.
        (left, top, right - 1, bottom - 1),
        fill=color if is_full else None,
        outline=color,
        width=thickness,
    )


def draw_line(
    image: Image.Image,
    start: Sequence[float],
    end: Sequence[float],
    color: Color,
    thickness: int = 1,
) -> None:
    """Draw a line from (y, x) to (y, x) in pixels, clipped to the image."""
    points = [(float(x), float(y)) for y, x in (start, end)]
    ImageDraw.Draw(image).line(points, color, thickness)


def draw_dot(image: Image.Image, center: Sequence[float], color: Color, diameter: int) -> None:
    """Draw a disc around (y, x) in pixels, clipped to the image."""
    y, x = (float(side) for side in center)
    reach = (diameter - 1) / 2
    ImageDraw.Draw(image).ellipse((x - reach, y - reach, x + reach, y + reach), color)


def tint(picture: np.ndarray, mask: np.ndarray, color: Color, opacity: float = 0.4) -> None:
    """Mix a color into the pixels for which a mask, bool [height, width], is true, in place."""
    mixed = (1.0 - opacity) * picture[mask] + opacity * np.array(color)
    picture[mask] = np.rint(mixed).astype(np.uint8)


def resized(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """Resize an image by bilinear interpolation between the centers of pixels.

    Args:
        image: uint8 [h, w, 3].
        height: height of the result.
        width: width of the result.
    """
    size = (int(width), int(height))
    # Pillow copies the whole image to four bytes a pixel: of a huge one it gets every n-th row and
    # column, as long as these are not fewer than those of the result.
    least = max(1, min(image.shape[0] // size[1], image.shape[1] // size[0]))
    step = min(drawn_step(*image.shape[:2]), least)
    image = np.ascontiguousarray(image[::step, ::step])
    return np.array(Image.fromarray(image).resize(size, Image.Resampling.BILINEAR))


def captioned(
    image: np.ndarray,
    lines: Sequence[str],
    alarming: bool = False,
    legend: Optional[Legend] = None,
) -> np.ndarray:
    """Add lines of text below an image; they are larger below a picture of 1200 pixels or more.

    Args:
        image: uint8 [height, width, 3]; enlarged by an integer if it is narrower than 240 pixels.
        lines: the lines of text, shortened to the width of the image.
        alarming: write on red instead of dark blue.
        legend: names with their colors, in one more line, as many as its width holds. The line is
            there without names too, so that all frames of a video have one size. None: no line.
    """
    factor = max(1, math.ceil(_MIN_CAPTION_WIDTH / image.shape[1]))
    image = np.repeat(np.repeat(image, factor, axis=0), factor, axis=1)
    width = image.shape[1]
    scale = max(1, round(width / _CAPTION_SCALE_WIDTH))
    font, margin, step = (
        _font(_CAPTION_SIZE * scale),
        _CAPTION_MARGIN * scale,
        _CAPTION_LINE * scale,
    )
    height = step * (len(lines) + (legend is not None)) + margin
    bar = Image.new('RGB', (width, height), ALARM if alarming else CALM)
    for index, line in enumerate(lines):
        shown = _shortened(line, font, width - 2 * margin)
        ImageDraw.Draw(bar).text((margin, margin // 2 + step * index), shown, WHITE, font)
    _draw_legend(bar, legend or (), margin, margin // 2 + step * len(lines), font)
    return np.concatenate([image, np.asarray(bar)], axis=0)


def _draw_legend(
    bar: Image.Image, legend: Legend, margin: int, top: int, font: ImageFont.FreeTypeFont
) -> None:
    """Draw a line of colored squares with names; `+3` at the end counts those without room."""
    draw, side, left = ImageDraw.Draw(bar), round(0.75 * font.size), margin
    for index, (name, color) in enumerate(legend):
        rest = len(legend) - index
        more = font.getlength(f'+{rest}') + margin if rest > 1 else 0
        room = bar.width - margin - left - side - margin // 2 - more
        shown = _shortened(name, font, room)
        if not shown or (index and shown != _plain(name)):
            draw.text((left, top), f'+{rest}', WHITE, font)
            return
        draw.rectangle((left, top + side // 3, left + side - 1, top + side // 3 + side - 1), color)
        left += side + margin // 2
        draw.text((left, top), shown, WHITE, font)
        left += math.ceil(font.getlength(shown)) + margin


def sheet(pictures: Sequence[np.ndarray]) -> np.ndarray:
    """Place pictures, at least one, row by row on a sheet with as many columns as rows.

    Returns:
        uint8 [height, width, 3].
    """
    columns = math.ceil(math.sqrt(len(pictures)))
    return grid([reduced(picture) for picture in pictures], columns)


def reduced(picture: np.ndarray, most_side: int = 320) -> np.ndarray:
    """Reduce a picture whose longer side has more than `most_side` pixels.

    Returns:
        uint8 [height', width', 3].
    """
    height, width = picture.shape[:2]
    longest = max(height, width)
    if longest <= most_side:
        return picture
    sides = (max(1, side * most_side // longest) for side in (height, width))
    return resized(picture, *sides)


def grid(pictures: Sequence[np.ndarray], columns: int, gap: int = 8) -> np.ndarray:
    """Place pictures side by side, row by row.

    Args:
        pictures: at least one picture; they may differ in size.
        columns: number of pictures in a row.
        gap: pixels between pictures.

    Returns:
        uint8 [height, width, 3].
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


def encode_png(pixels: np.ndarray) -> bytes:
    """Encode pixels as the bytes of a PNG file.

    Args:
        pixels: uint8 [height, width] or [height, width, channels] with 1, 3 or 4 channels, or
            uint16 [height, width].

    Raises:
        ValueError: the pixels have another type, or are uint16 with channels.
    """
    # Pillow takes gray images without an axis of channels only.
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    if pixels.dtype != np.uint8 and (pixels.dtype != np.uint16 or pixels.ndim != 2):
        raise ValueError(
            'a PNG has pixels of uint8, or uint16 without channels; got '
            f'{pixels.dtype} {list(pixels.shape)}.'
        )
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, 'PNG', compress_level=_PNG_COMPRESSION)
    return file.getvalue()


def encode(picture: np.ndarray, kind: str) -> bytes:
    """Encode a picture, uint8 [height, width, 3], as the bytes of a file.

    Args:
        picture: the picture.
        kind: one of `FORMATS`.
    """
    if kind == PNG:
        return encode_png(picture)
    file = io.BytesIO()
    Image.fromarray(picture).save(file, 'JPEG', quality=_JPEG_QUALITY)
    return file.getvalue()


def write_png(path: str, picture: np.ndarray) -> None:
    """Write a picture as a PNG file: uint8 [height, width, 3]."""
    with tf.io.gfile.GFile(path, 'wb') as file:
        file.write(encode_png(picture))


@functools.cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    """Load the font that Pillow contains, so that pictures are the same on all machines."""
    # In any size from Pillow 10.1 on; before, there was one bitmap font.
    return ImageFont.load_default(size)


def _plain(text: str) -> str:
    """Convert a text to one line without accents, for which the font has no letters."""
    letters = unicodedata.normalize('NFKD', text)
    return ''.join(
        ' ' if letter.isspace() else letter
        for letter in letters
        if not unicodedata.combining(letter)
    )


def _shortened(text: str, font: ImageFont.FreeTypeFont, width: float) -> str:
    """Shorten a text to a width in pixels; the gap is before its last letters."""
    text = _plain(text)
    for length in range(len(text), 0, -1):
        end = text[-5:] if length > 12 else ''
        start = text[: max(0, length - len(end) - 2)]
        shown = text if length == len(text) else f'{start}..{end}'
        if font.getlength(shown) <= width:
            return shown
    return ''


def _filled(height: int, width: int, color: Color) -> np.ndarray:
    return np.full([height, width, 3], color, np.uint8)
