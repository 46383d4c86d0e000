"""PNG files whose pixels are ids: of a class (semantic labels) or of an instance.

A grey PNG of 1, 2, 4, 8 or 16 bits holds ids as they are. A palette holds them too, but decoders
put colours in their place; `without_palette` makes such a file a grey one.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple, Optional

import numpy as np
import tensorflow as tf

from model_fns import images

# Where in a PNG file the bits of a channel and the kind of colour are (ISO/IEC 15948, 11.2.2).
_DEPTH_AT = 24
_KIND_AT = 25
_HEADER_START, _HEADER_END = 12, 29  # what the header's CRC is of: its name and 13 bytes
_CHUNK_EXTRA = 12  # length, name and CRC of a chunk
_GREY, _PALETTE, _GREY_ALPHA = 0, 3, 4
_KINDS = {
    _GREY: 'grey',
    2: 'colour',
    _PALETTE: 'palette',
    _GREY_ALPHA: 'grey and alpha',
    6: 'colour and alpha',
}

# By the bits of a pixel: what the decoder multiplies an id by to fill 16 bits.
_FILLED = np.array([65535 // (2**bits - 1) if bits else 1 for bits in range(17)], np.int32)


class PngKind(NamedTuple):
    """What the header of a PNG file says of its pixels.

    Attributes:
        bits: of a channel.
        color: `grey`, `colour`, `palette`, `grey and alpha`, `colour and alpha`, or the number of
            another kind.
    """

    bits: int
    color: str


def png_kind(encoded: bytes) -> Optional[PngKind]:
    """The kind of a PNG file; None for any other file."""
    if not encoded.startswith(images.PNG_SIGNATURE) or len(encoded) < _HEADER_END:
        return None
    kind = encoded[_KIND_AT]
    return PngKind(encoded[_DEPTH_AT], _KINDS.get(kind, f'kind {kind}'))


def problem_with(encoded: bytes) -> Optional[str]:
    """Why the pixels of a file are not ids, by its header alone; None when they may be."""
    kind = png_kind(encoded)
    if kind is None:
        return 'not a PNG file'
    if kind.color in (_KINDS[_GREY], _KINDS[_GREY_ALPHA]):
        return None
    return (
        f'a PNG of {kind.color}, {kind.bits} bits; expected a grey one, whose values are ids: '
        'model_fns.datasets.convert makes these, of files with a palette too'
    )


def decode(encoded: tf.Tensor, name: str) -> tf.Tensor:
    """The ids of a grey PNG.

    Args:
        encoded: string scalar.
        name: of what is decoded, for messages.

    Returns:
        int32 [height, width]. Running it fails with `tf.errors.InvalidArgumentError` where the file
        is damaged, no PNG, or one of colours or of a palette: what would be decoded are no ids.
    """
    filler = bytes(_HEADER_END)  # for a file that ends before
    start = tf.strings.join([tf.strings.substr(encoded, 0, _HEADER_END), filler])
    header = tf.io.decode_raw(start, tf.uint8)
    kind = tf.cast(header[_KIND_AT], tf.int32)
    signature = np.frombuffer(images.PNG_SIGNATURE, np.uint8)
    is_png = tf.reduce_all(tf.equal(header[: len(signature)], signature))
    # Without the guard of `tf.debugging.Assert`, a conditional, which is slow to build.
    check = tf.raw_ops.Assert(
        condition=is_png & (tf.equal(kind, _GREY) | tf.equal(kind, _GREY_ALPHA)),
        data=[f'{name} is not a grey PNG of ids; model_fns.datasets.convert makes such files'],
    )
    with tf.control_dependencies([check]):
        pixels = tf.io.decode_png(encoded, channels=1, dtype=tf.uint16)
    bits = tf.minimum(tf.cast(header[_DEPTH_AT], tf.int32), 16)
    return tf.cast(pixels[:, :, 0], tf.int32) // tf.gather(_FILLED, bits)


def without_palette(encoded: bytes) -> bytes:
    """A PNG with a palette as the grey one whose values are the indices; any other as it is.

    The pixels of both are stored alike: only the header, and chunks that belong to a palette,
    differ.
    """
    kind = png_kind(encoded)
    if kind is None or kind.color != _KINDS[_PALETTE]:
        return encoded
    header = encoded[_HEADER_START:_KIND_AT] + bytes([_GREY]) + encoded[_KIND_AT + 1 : _HEADER_END]
    crc = struct.pack('>I', zlib.crc32(header))
    parts = [encoded[:_HEADER_START], header, crc]
    position = _HEADER_END + len(crc)
    while position + _CHUNK_EXTRA <= len(encoded):
        (length,) = struct.unpack_from('>I', encoded, position)
        end = position + _CHUNK_EXTRA + length
        if encoded[position + 4 : position + 8] in (b'IDAT', b'IEND'):
            parts.append(encoded[position:end])
        position = end
    return b''.join(parts)
