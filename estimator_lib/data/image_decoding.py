"""Encoded images as pixels: the same for training, serving and prediction."""

from __future__ import annotations

import io
from typing import Optional

import tensorflow as tf
from PIL import Image

# How the files that are read begin.
SIGNATURES = {'JPEG': b'\xff\xd8', 'PNG': b'\x89PNG\r\n\x1a\n', 'GIF': b'GIF8', 'BMP': b'BM'}


def decode_image(encoded: tf.Tensor, channels: int = 3) -> tf.Tensor:
    """Decodes a JPEG, PNG, GIF (its first frame) or BMP image.

    Transparency is dropped, palettes are looked up and 16 bits become 8.

    Args:
        encoded: string scalar.
        channels: 3, or 1 for the luminance.

    Returns:
        uint8 [height, width, channels]. Running it fails with `tf.errors.InvalidArgumentError` and
        the reason where the bytes are empty, of another format, or corrupt.
    """
    if channels not in (1, 3):
        raise ValueError(f'channels must be 1 or 3, got {channels}.')
    # The common kernel misreads BMP files with a palette, and does not convert between numbers of
    # channels in others.
    is_bmp = tf.equal(tf.strings.substr(encoded, 0, 2), b'BM')
    image = tf.cond(
        is_bmp,
        lambda: _decode_bmp(encoded, channels),
        lambda: tf.io.decode_image(encoded, channels=channels, expand_animations=False),
    )
    image.set_shape([None, None, channels])
    return image


def _decode_bmp(encoded: tf.Tensor, channels: int) -> tf.Tensor:
    pixels = tf.io.decode_bmp(encoded)
    image = tf.cond(
        tf.equal(tf.shape(pixels)[2], 1),
        lambda: tf.gather(_bmp_palette(encoded), tf.cast(pixels[:, :, 0], tf.int32)),
        lambda: pixels[:, :, :3],
    )
    image.set_shape([None, None, 3])
    return tf.image.rgb_to_grayscale(image) if channels == 1 else image


def _bmp_palette(encoded: tf.Tensor) -> tf.Tensor:
    """The colours of a BMP file of 8 bits a pixel: uint8 [256, 3], in the order of the indices."""
    file_header_size = 14
    header_size = tf.io.decode_raw(tf.strings.substr(encoded, file_header_size, 4), tf.int32)[0]
    colors = tf.strings.substr(encoded, file_header_size + header_size, 256 * 4)
    blue_green_red = tf.reshape(tf.io.decode_raw(colors, tf.uint8, fixed_length=1024), [256, 4])
    return tf.reverse(blue_green_red[:, :3], [1])


def format_of(encoded: bytes) -> Optional[str]:
    """`JPEG`, `PNG`, `GIF` or `BMP`, by the first bytes of a file; None for any other."""
    starts = SIGNATURES.items()
    return next((name for name, start in starts if encoded.startswith(start)), None)


def decoding_problem(encoded: bytes) -> str:
    """Why `decode_image` fails on the bytes of a file: what follows "the image" in a message."""
    if not encoded:
        return 'is empty (0 bytes)'
    name = format_of(encoded)
    if name is None:
        return f'is not a JPEG, PNG, GIF or BMP: it starts with {encoded[:8]!r}'
    try:
        Image.open(io.BytesIO(encoded), formats=[name]).load()
    except Exception as error:  # of many kinds, one for each way in which bytes can be wrong
        if 'truncated' in str(error).lower():
            return f'is truncated: the data of the {name} end too early, after {len(encoded)} bytes'
        if isinstance(error, Image.UnidentifiedImageError):
            return f'has a corrupt {name} header, or ends within it, after {len(encoded)} bytes'
        return f'is a corrupt {name}: {str(error).rstrip(".")}'
    return f'is a corrupt {name}, or one of a kind that is not supported'
