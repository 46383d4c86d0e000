"""PNG files whose pixels are ids: of a class (semantic labels) or of an instance.

A gray PNG of 1, 2, 4, 8 or 16 bits holds ids as they are. A palette holds them too, but decoders
put colors in their place: in records there are gray ones.
"""

from __future__ import annotations

import io
from typing import Optional

import numpy as np
import tensorflow as tf
from PIL import Image, PngImagePlugin

from estimator_lib import errors
from estimator_lib.data import image_decoding
from model_fns.structures import images

# Where in a PNG file the bits of a channel and the kind of color are (ISO/IEC 15948, 11.2.2).
_DEPTH_AT = 24
_KIND_AT = 25
_HEADER_END = 29
_GRAY, _GRAY_ALPHA = 0, 4
# Pillow's modes of what is gray, and words for the others.
# A gray PNG of 16 bits has the mode I or I;16, by the release of Pillow.
_GRAY_MODES = ('1', 'L', 'LA', 'I', 'I;16', 'I;16B')
_WORDS = {'P': 'a palette', 'RGB': 'colors', 'RGBA': 'colors and alpha'}

# By the bits of a pixel: what the decoder multiplies an id by to fill 16 bits.
# The division is exact for the depths of PNG: 1, 2, 4, 8 and 16.
_FILLED = np.array([65535 // (2**bits - 1) if bits else 1 for bits in range(17)], np.int32)


class ColorError(errors.DataError):
    """Error: a file has colors where ids are expected."""


def find_problem(encoded: bytes) -> Optional[str]:
    """Describe why the pixels of a file are not ids, by its header alone; None: they may be."""
    try:
        mode = _open(encoded).mode
    except errors.DataError as error:
        return str(error)
    if mode in _GRAY_MODES:
        return None
    return (
        f'a PNG of {_WORDS.get(mode, mode)}; expected a gray one, whose values are ids: '
        'model_fns.datasets.convert makes these, of files with a palette too'
    )


def read(encoded: bytes) -> np.ndarray:
    """Return the ids of a PNG, outside of a graph: gray values, or indices into the palette.

    Returns:
        int32 [height, width].

    Raises:
        errors.DataError: it is no PNG, one of colors, or corrupt; the message names no file.
    """
    image = _open(encoded)
    bits = encoded[_DEPTH_AT]
    # Of 16 bits with alpha Pillow only keeps the upper 8, so that ids would be lost.
    if image.mode not in (*_GRAY_MODES, 'P') or (image.mode == 'LA' and bits == 16):
        raise ColorError(
            f'a PNG of {_WORDS.get(image.mode, image.mode)}, {bits} bits; expected a gray one or '
            'one with a palette, whose values are ids'
        )
    try:
        pixels = np.array(image, np.int32)
    except Exception as error:  # of many kinds, one for each way in which bytes can be wrong
        raise errors.DataError(f'corrupt: {error}') from error
    if image.mode == 'LA':
        pixels = pixels[:, :, 0]
    # Pillow spreads gray values of 2 and 4 bits over 8, as it should where they are brightness.
    return pixels // (255 // (2**bits - 1)) if image.mode == 'L' and bits < 8 else pixels


def read_colors(encoded: bytes) -> np.ndarray:
    """Return the colors of a PNG as numbers; alpha is dropped.

    Returns:
        int32 [height, width]: 65536 * red + 256 * green + blue, 8 bits of each.

    Raises:
        errors.DataError: it is no PNG, or corrupt; the message names no file.
    """
    try:
        pixels = np.array(_open(encoded).convert('RGB'), np.int32)
    except errors.DataError:
        raise
    except Exception as error:  # of many kinds, one for each way in which bytes can be wrong
        raise errors.DataError(f'corrupt: {error}') from error
    return pixels @ np.array([1 << 16, 1 << 8, 1], np.int32)


def _open(encoded: bytes) -> Image.Image:
    image_format = image_decoding.detect_format(encoded)
    if image_format != 'PNG':
        raise errors.DataError(f'not a PNG file but {image_format or "of an unknown format"}')
    try:
        image = PngImagePlugin.PngImageFile(io.BytesIO(encoded))
    except Exception as error:
        raise errors.DataError(f'a PNG file with a corrupt header: {error}') from error
    count = image.width * image.height
    if count > images.MOST_DECODED:  # Nothing is decoded yet: a few bytes can claim any size.
        raise errors.DataError(
            f'a PNG of {count} pixels; expected at most {images.MOST_DECODED}, as of images'
        )
    return image


def decode(encoded: tf.Tensor, name: str) -> tf.Tensor:
    """Return the ids of a gray PNG.

    Args:
        encoded: string scalar.
        name: of what is decoded, for messages.

    Returns:
        int32 [height, width]. Running it fails with `tf.errors.InvalidArgumentError` where the file
        is corrupt, no PNG, or one of colors or of a palette: what would be decoded are no ids.
    """
    # The graph reads the header, because `decode_png` turns palettes and colors into gray without
    # an error.
    filler = bytes(_HEADER_END)  # for a file that ends before
    start = tf.strings.join([tf.strings.substr(encoded, 0, _HEADER_END), filler])
    header = tf.io.decode_raw(start, tf.uint8)
    kind = tf.cast(header[_KIND_AT], tf.int32)
    signature = np.frombuffer(image_decoding.SIGNATURES['PNG'], np.uint8)
    is_png = tf.reduce_all(tf.equal(header[: len(signature)], signature))
    # Without the guard of `tf.debugging.Assert`, a conditional, which is slow to build.
    check = tf.raw_ops.Assert(
        condition=is_png & (tf.equal(kind, _GRAY) | tf.equal(kind, _GRAY_ALPHA)),
        data=[f'{name} is not a gray PNG of ids; model_fns.datasets.convert makes such files'],
    )
    with tf.control_dependencies([check]):
        pixels = tf.io.decode_png(encoded, channels=1, dtype=tf.uint16)
    bits = tf.minimum(tf.cast(header[_DEPTH_AT], tf.int32), 16)
    return tf.cast(pixels[:, :, 0], tf.int32) // tf.gather(_FILLED, bits)
