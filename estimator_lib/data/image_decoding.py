"""Decoding of images to pixels: the same for training, serving and prediction."""

from __future__ import annotations

import io
from typing import Optional, Union

import numpy as np
import tensorflow as tf
from PIL import Image

from estimator_lib.task_interfaces.image_format import ImageFormat

# First bytes of the supported formats.
# `GIF8` begins both versions, GIF87a and GIF89a.
SIGNATURES = {'JPEG': b'\xff\xd8', 'PNG': b'\x89PNG\r\n\x1a\n', 'GIF': b'GIF8', 'BMP': b'BM'}

# Offset of the width and height in the header of each format but JPEG, and the factors of their
# bytes.
# PNG: the IHDR chunk follows the signature, its length and its type (8 + 4 + 4 bytes). GIF: the
# logical screen follows `GIF89a`. BMP: the width follows the file header (14) and the size of the
# second header (4).
_HIGH_FIRST, _LOW_FIRST = (1 << 24, 1 << 16, 1 << 8, 1), (1, 1 << 8, 1 << 16, 1 << 24)
_SIDES = {'PNG': (16, _HIGH_FIRST), 'GIF': (6, _LOW_FIRST[:2]), 'BMP': (18, _LOW_FIRST)}
# Up to the end of a BMP's height (18 + 2 * 4), the farthest of these fields.
_HEADER_BYTES = 26
_PNG_DEPTH_AT = 24  # in a PNG file, see ISO/IEC 15948, 11.2.2

# Key of a `tf.train.Example` with a gray image for each further channel, as published.
ADDITIONAL_CHANNELS = 'image/additional_channels/encoded'


def decode_image(encoded: tf.Tensor, channels: int = 3) -> tf.Tensor:
    """Decode a JPEG, PNG, GIF (its first frame) or BMP image.

    Transparency is dropped, palette indices become colors and 16 bits become 8.

    Args:
        encoded: string scalar.
        channels: 3, or 1 for the luminance.

    Returns:
        uint8 [height, width, channels]. Running it raises `tf.errors.InvalidArgumentError` with the
        reason where the bytes are empty, of another format, or corrupt.

    Raises:
        ValueError: `channels` is neither 1 nor 3.
    """
    if channels not in (1, 3):
        raise ValueError(f'channels must be 1 or 3, got {channels}.')
    # TensorFlow 2.16 and later decode other formats too: WebP, JPEG XL. Two bytes tell them apart.
    start = tf.strings.substr(encoded, 0, 2)
    # The empty text is among them so that an empty image keeps TensorFlow's message about it.
    starts = [b'', *(signature[:2] for signature in SIGNATURES.values())]
    encoded = tf.where(tf.reduce_any(tf.equal(start, starts)), encoded, 'unknown')
    # TensorFlow's common kernel misreads BMP files with a palette, and does not change the number
    # of channels of the others.
    is_bmp = tf.equal(start, SIGNATURES['BMP'])
    image = tf.cond(
        is_bmp,
        lambda: _decode_bmp(encoded, channels),
        # With `expand_animations` as by default, a GIF would have four dimensions.
        lambda: tf.io.decode_image(encoded, channels=channels, expand_animations=False),
    )
    image.set_shape([None, None, channels])
    return image


def decode_channels(
    image_format: ImageFormat, encoded: tf.Tensor, further: Optional[tf.Tensor] = None
) -> tf.Tensor:
    """Decode all channels of an image: [height, width, channels] of the format's type.

    Args:
        image_format: of the image.
        encoded: string scalar, the colors.
        further: string [additional], a gray image for each further channel.

    Raises:
        tf.errors.InvalidArgumentError: when it runs, where an image does not decode, or their sizes
            differ.
    """
    colors = _decode_bits(encoded, 3, image_format.bits)
    count = image_format.additional
    if not count:
        return colors
    parts = [_decode_bits(part, 1, image_format.bits) for part in tf.unstack(further, count)]
    size = tf.shape(colors)[:2]
    same = tf.reduce_all([tf.reduce_all(tf.equal(tf.shape(one)[:2], size)) for one in parts])
    text = f'{ADDITIONAL_CHANNELS}: a channel differs in size from the image'
    with tf.control_dependencies([tf.raw_ops.Assert(condition=same, data=[text])]):
        return tf.concat([tf.identity(colors), *parts], -1)


def _decode_bits(encoded: tf.Tensor, channels: int, bits: int) -> tf.Tensor:
    """Decode an image; with more than 8 bits, to float32 in [0, 255]."""
    if bits == 8:
        return decode_image(encoded, channels)
    padded = tf.strings.join([tf.strings.substr(encoded, 0, _HEADER_BYTES), bytes(_HEADER_BYTES)])
    header = tf.io.decode_raw(padded, tf.uint8)[:_HEADER_BYTES]
    signature = np.frombuffer(SIGNATURES['PNG'], np.uint8)
    is_png = tf.reduce_all(tf.equal(header[: len(signature)], signature))

    def decode_deep() -> tf.Tensor:
        values = tf.io.decode_png(encoded, channels=channels, dtype=tf.uint16)
        scaled = tf.cast(values, tf.float32) * np.float32(255.0 / (2**bits - 1))
        # A PNG of 16 bits can hold values above 2^bits - 1: they are white.
        return tf.minimum(scaled, 255.0)

    image = tf.cond(
        is_png & tf.equal(header[_PNG_DEPTH_AT], 16),
        decode_deep,
        lambda: tf.cast(decode_image(encoded, channels), tf.float32),
    )
    image.set_shape([None, None, channels])
    return image


def limit_pixels(
    encoded: tf.Tensor, most: Union[int, tf.Tensor], name: str = 'the image'
) -> tf.Tensor:
    """Check that the header of an encoded image does not announce too many pixels.

    Args:
        encoded: string scalar, as `decode_image` takes it.
        most: largest number of pixels; an int32 or int64 scalar if it is a tensor.
        name: the name of the image in the message.

    Returns:
        `encoded`, which is safe to decode. Running it raises `tf.errors.InvalidArgumentError` where
        the image has more pixels.
    """
    # A JPEG has its sides in a frame header behind segments of any length, so no fixed offset.
    # int64, since 65,535 x 65,535 pixels are more than int32 holds.
    is_jpeg = tf.equal(tf.strings.substr(encoded, 0, 2), SIGNATURES['JPEG'])
    pixels = tf.cond(
        is_jpeg,
        lambda: tf.reduce_prod(tf.cast(tf.image.extract_jpeg_shape(encoded)[:2], tf.int64)),
        lambda: _announced_pixels(encoded),
    )
    most = tf.cast(most, tf.int64)
    parts = [name, ' has ', tf.strings.as_string(pixels), ' pixels; expected at most ',
             tf.strings.as_string(most), ' (max_image_pixels, or what its image has)']  # fmt: skip
    # The raw op lacks the conditional of `tf.debugging.Assert`, which is slow to build.
    check = tf.raw_ops.Assert(condition=pixels <= most, data=[tf.strings.join(parts)])
    with tf.control_dependencies([check]):
        return tf.identity(encoded)


def _announced_pixels(encoded: tf.Tensor) -> tf.Tensor:
    """Return height x width (int64 scalar) by the header of a PNG, GIF or BMP; else 0."""
    # A row for each side of each kind; kind 0 has sides of 0.
    # A table in place of conditionals, each of which is two functions in the graph of decoding.
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
    # By default it returns the channels of the file: 1 (a palette), 3, or 4 with transparency.
    pixels = tf.io.decode_bmp(encoded)
    image = tf.cond(
        tf.equal(tf.shape(pixels)[2], 1),
        lambda: tf.gather(_bmp_palette(encoded), tf.cast(pixels[:, :, 0], tf.int32)),
        lambda: pixels[:, :, :3],
    )
    image.set_shape([None, None, 3])
    return tf.image.rgb_to_grayscale(image) if channels == 1 else image


def _bmp_palette(encoded: tf.Tensor) -> tf.Tensor:
    """Return the colors of a BMP file of 8 bits a pixel: uint8 [256, 3], in order of index."""
    # The palette follows both headers; the second one begins with its own size. Each entry is blue,
    # green, red and a reserved byte.
    file_header_size = 14
    header_size = tf.io.decode_raw(tf.strings.substr(encoded, file_header_size, 4), tf.int32)[0]
    colors = tf.strings.substr(encoded, file_header_size + header_size, 256 * 4)
    blue_green_red = tf.reshape(tf.io.decode_raw(colors, tf.uint8, fixed_length=1024), [256, 4])
    return tf.reverse(blue_green_red[:, :3], [1])


def detect_format(encoded: bytes) -> Optional[str]:
    """Return `JPEG`, `PNG`, `GIF` or `BMP` by the first bytes of a file; else None."""
    starts = SIGNATURES.items()
    return next((name for name, start in starts if encoded.startswith(start)), None)


def decoding_problem(encoded: bytes) -> str:
    """Describe why `decode_image` fails on these bytes; the text follows "the image"."""
    if not encoded:
        return 'is empty (0 bytes)'
    name = detect_format(encoded)
    if name is None:
        return f'is not a JPEG, PNG, GIF or BMP: it starts with {encoded[:8]!r}'
    try:
        # Only the decoder of this format: others of Pillow may accept what TensorFlow has refused.
        Image.open(io.BytesIO(encoded), formats=[name]).load()
    except Exception as error:  # PIL raises many kinds of errors for corrupt bytes
        if 'truncated' in str(error).lower():
            return f'is truncated: the data of the {name} end too early, after {len(encoded)} bytes'
        if isinstance(error, Image.UnidentifiedImageError):
            return f'has a corrupt {name} header, or ends within it, after {len(encoded)} bytes'
        return f'is a corrupt {name}: {str(error).rstrip(".")}'
    return f'is a corrupt {name}, or one of a kind that is not supported'
