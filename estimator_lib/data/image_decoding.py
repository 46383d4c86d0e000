"""Encoded images as pixels: the same for training, serving and prediction."""

from __future__ import annotations

import io
from typing import Optional, Union

import numpy as np
import tensorflow as tf
from PIL import Image

# How the files that are read begin.
SIGNATURES = {'JPEG': b'\xff\xd8', 'PNG': b'\x89PNG\r\n\x1a\n', 'GIF': b'GIF8', 'BMP': b'BM'}

# Where the two sides are in the headers of the others than JPEG, and what each byte counts for.
_HIGH_FIRST, _LOW_FIRST = (1 << 24, 1 << 16, 1 << 8, 1), (1, 1 << 8, 1 << 16, 1 << 24)
_SIDES = {'PNG': (16, _HIGH_FIRST), 'GIF': (6, _LOW_FIRST[:2]), 'BMP': (18, _LOW_FIRST)}
_HEADER_BYTES = 26


def decode_image(encoded: tf.Tensor, channels: int = 3) -> tf.Tensor:
    """Decode a JPEG, PNG, GIF (its first frame) or BMP image.

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


def limit_pixels(
    encoded: tf.Tensor, most: Union[int, tf.Tensor], name: str = 'the image'
) -> tf.Tensor:
    """Return an encoded image whose header does not announce too many pixels: it is safe to decode.

    Args:
        encoded: string scalar, as `decode_image` takes it.
        most: how many pixels it may have; an int32 or int64 scalar where that is a tensor.
        name: of the image, for the message.

    Returns:
        `encoded`. Running it fails with `tf.errors.InvalidArgumentError` where there are more.
    """
    is_jpeg = tf.equal(tf.strings.substr(encoded, 0, 2), SIGNATURES['JPEG'])
    pixels = tf.cond(
        is_jpeg,
        lambda: tf.reduce_prod(tf.cast(tf.image.extract_jpeg_shape(encoded)[:2], tf.int64)),
        lambda: _announced_pixels(encoded),
    )
    most = tf.cast(most, tf.int64)
    parts = [name, ' has ', tf.strings.as_string(pixels), ' pixels; expected at most ',
             tf.strings.as_string(most), ' (max_image_pixels, or what its image has)']  # fmt: skip
    # Without the guard of `tf.debugging.Assert`, a conditional, which is slow to build.
    check = tf.raw_ops.Assert(condition=pixels <= most, data=[tf.strings.join(parts)])
    with tf.control_dependencies([check]):
        return tf.identity(encoded)


def _announced_pixels(encoded: tf.Tensor) -> tf.Tensor:
    """int64 scalar: height x width by the header of a PNG, GIF or BMP; 0 for anything else."""
    # A row for each side of each kind; kind 0 has sides of 0.
    factors = np.zeros([1 + len(_SIDES), 2, _HEADER_BYTES], np.int64)
    kinds = np.zeros([256], np.int32)  # by the first byte of a file
    for kind, (name, (start, counts)) in enumerate(_SIDES.items(), 1):
        kinds[SIGNATURES[name][0]] = kind
        for side in range(2):
            first = start + side * len(counts)
            factors[kind, side, first : first + len(counts)] = counts
    padded = tf.strings.join([tf.strings.substr(encoded, 0, _HEADER_BYTES), bytes(_HEADER_BYTES)])
    header = tf.io.decode_raw(padded, tf.uint8)[:_HEADER_BYTES]
    kind = tf.gather(kinds, tf.cast(header[0], tf.int32))
    sides = tf.linalg.matvec(tf.gather(factors, kind), tf.cast(header, tf.int64))
    # The height of a BMP is negative where its rows run downwards.
    return tf.reduce_prod(tf.minimum(sides, 2**32 - sides))


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
    """The colors of a BMP file of 8 bits a pixel: uint8 [256, 3], in the order of the indices."""
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
