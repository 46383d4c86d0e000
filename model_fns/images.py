"""Encoded images: what their headers say, and resizing as the field does it.

The published networks were trained with pictures resized without half-pixel centres: output pixel i
reads the input at i * (input size / output size). That is not what `tf.image.resize` does, so the
kernels are called directly here.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, Optional, Tuple

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.data.image_decoding import decode_image as decode_image

_RESIZE_KERNELS = {
    'bilinear': tf.raw_ops.ResizeBilinear,
    'nearest': tf.raw_ops.ResizeNearestNeighbor,
    'bicubic': tf.raw_ops.ResizeBicubic,
    'area': tf.raw_ops.ResizeArea,
}
RESIZE_METHODS = tuple(_RESIZE_KERNELS)

PNG_SIGNATURE = b'\x89PNG\r\n\x1a\n'
# A JPEG segment of one of these types starts with the precision, the height and the width; the
# three types left out of the range are tables (ITU-T T.81, table B.1).
_JPEG_FRAME_TYPES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_TYPES_WITHOUT_LENGTH = frozenset(range(0xD0, 0xDA)) | {0x01}


class ImageHeader(NamedTuple):
    """What the first bytes of an encoded image say.

    Args:
        format: `jpeg`, `png`, `gif` or `bmp`: the value of `image/format`.
        height: in pixels.
        width: in pixels.
    """

    format: str
    height: int
    width: int


def resize(
    image: tf.Tensor,
    height: int,
    width: int,
    method: str = 'bilinear',
    align_corners: bool = False,
) -> tf.Tensor:
    """Resizes as the published systems do, without half-pixel centres.

    Args:
        image: [height, width, channels] or [batch, height, width, channels], any numeric type.
        height: of the result: an int or an int32 scalar tensor.
        width: of the result.
        method: `bilinear`, `nearest`, `bicubic` or `area`.
        align_corners: whether the centres of the corner pixels stay where they are (the scale is
            (input size - 1) / (output size - 1)).

    Returns:
        The resized image or images: float32, or for `nearest` the type of `image`.
    """
    is_single = image.shape.rank == 3
    arguments = {'half_pixel_centers': False} if method in ('bilinear', 'nearest') else {}
    resized = _RESIZE_KERNELS[method](
        images=image[tf.newaxis] if is_single else image,
        size=tf.stack([height, width])
        if tf.is_tensor(height) or tf.is_tensor(width)
        else [height, width],
        align_corners=align_corners,
        **arguments,
    )
    return resized[0] if is_single else resized


def crop_or_pad(image: tf.Tensor, height: int, width: int) -> tf.Tensor:
    """Brings images to a size around their centre: crops what is too large, pads with 0.

    Where the difference is odd, the smaller half is at the top or left.

    Args:
        image: [..., height, width, channels].
        height: of the result.
        width: of the result.

    Returns:
        [..., height, width, channels] of the same type.
    """
    start = tf.truncatediv(tf.shape(image)[-3:-1] - [height, width], 2)
    return window(image, start, height, width)


def window(image: tf.Tensor, start: tf.Tensor, height: int, width: int) -> tf.Tensor:
    """Cuts a window out of images; where it reaches over their edges it holds 0.

    Args:
        image: [..., height, width, channels] with a rank of 3 or 4.
        start: int32 [2], the row and the column of the image that come first; may be negative.
        height: of the window.
        width: of the window.

    Returns:
        [..., height, width, channels] of the same type.
    """
    begin = tf.maximum(start, 0)
    size = tf.minimum(start + [height, width], tf.shape(image)[-3:-1]) - begin
    before = begin - start
    after = [height, width] - size - before
    batch_dimensions = [0] * (image.shape.rank - 3)
    whole = [-1] * len(batch_dimensions)
    inside = tf.slice(
        image, tf.concat([batch_dimensions, begin, [0]], 0), tf.concat([whole, size, [-1]], 0)
    )
    paddings = tf.pad(tf.stack([before, after], 1), [[len(batch_dimensions), 1], [0, 0]])
    padded = tf.pad(inside, paddings)
    padded.set_shape(image.shape[:-3].as_list() + [height, width, image.shape[-1]])
    return padded


def surround(
    image: tf.Tensor, before: tf.Tensor, after: tf.Tensor, color: Optional[tf.Tensor] = None
) -> tf.Tensor:
    """An image with rows and columns of one colour around it.

    Args:
        image: [height, width, channels].
        before: int32 [2], rows above it and columns to its left.
        after: int32 [2], rows below it and columns to its right.
        color: [channels], of the image's type; None: zeros.
    """
    channels = image.shape[-1]
    if color is None:
        color = tf.zeros([channels], image.dtype)
    # Channels beside each other in one line: a plain `tf.pad` takes forty times as long.
    size = tf.shape(image)[:2]
    lines = tf.reshape(image, tf.stack([1, size[0], size[1] * channels]))
    surrounded = surround_lines(lines, before, after, color)
    return tf.reshape(surrounded, tf.concat([size + before + after, [channels]], 0))


def surround_lines(
    lines: tf.Tensor, before: tf.Tensor, after: tf.Tensor, filler: tf.Tensor
) -> tf.Tensor:
    """Images, their channels beside each other, with a filler around them; see `surround`.

    Args:
        lines: [n, height, width * channels].
        before: int32 [2], rows above and columns to the left.
        after: int32 [2], rows below and columns to the right.
        filler: [channels], of the type of `lines`.
    """
    count, height, _ = tf.unstack(tf.shape(lines))

    def filled(height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
        return tf.tile(filler[tf.newaxis, tf.newaxis], tf.stack([count, height, width]))

    (above, left), (below, right) = tf.unstack(before), tf.unstack(after)
    lines = tf.concat([filled(height, left), lines, filled(height, right)], 2)
    width = tf.shape(lines)[2] // filler.shape[0]
    return tf.concat([filled(above, width), lines, filled(below, width)], 1)


def image_header(encoded: bytes) -> ImageHeader:
    """Reads the size off an encoded image without decoding it.

    Args:
        encoded: the bytes of a JPEG, PNG, GIF or BMP file, or enough of its beginning.

    Returns:
        Its format and size.

    Raises:
        errors.DataError: it is of no such format, or ends before its size is known. The message
            does not name a file: the caller knows it.
    """
    try:
        name, (height, width) = _format_and_size(encoded)
    except (struct.error, IndexError) as error:
        raise errors.DataError(
            f'the image ends within its header, after {len(encoded)} bytes.'
        ) from error
    if height <= 0 or width <= 0:
        raise errors.DataError(f'the {name} image has the size {height}x{width} (height, width).')
    return ImageHeader(name, height, width)


def _format_and_size(encoded: bytes) -> Tuple[str, Tuple[int, int]]:
    if encoded.startswith(b'\xff\xd8'):
        return 'jpeg', _jpeg_size(encoded)
    if encoded.startswith(PNG_SIGNATURE):
        width, height = struct.unpack_from('>II', encoded, 16)
        return 'png', (height, width)
    if encoded.startswith((b'GIF87a', b'GIF89a')):
        width, height = struct.unpack_from('<HH', encoded, 6)
        return 'gif', (height, width)
    if encoded.startswith(b'BM'):
        return 'bmp', _bmp_size(encoded)
    if not encoded:
        raise errors.DataError('the image is empty (0 bytes).')
    raise errors.DataError(
        f'the image starts with {encoded[:8]!r}, which is not JPEG, PNG, GIF or BMP.'
    )


def _jpeg_size(encoded: bytes) -> Tuple[int, int]:
    """Walks over the segments up to the frame header."""
    position = 2
    while True:
        if encoded[position] != 0xFF:
            raise errors.DataError(
                f'the jpeg image is damaged: byte {position} of its header is '
                f'{encoded[position]:#04x}, expected 0xff.'
            )
        kind = encoded[position + 1]
        if kind in _JPEG_FRAME_TYPES:
            return struct.unpack_from('>HH', encoded, position + 5)
        if kind == 0xFF:  # a fill byte
            position += 1
        elif kind in _JPEG_TYPES_WITHOUT_LENGTH:
            position += 2
        else:
            position += 2 + struct.unpack_from('>H', encoded, position + 2)[0]


def _bmp_size(encoded: bytes) -> Tuple[int, int]:
    if struct.unpack_from('<I', encoded, 14)[0] == 12:  # the header of OS/2 has short fields
        width, height = struct.unpack_from('<HH', encoded, 18)
        return height, width
    width, height = struct.unpack_from('<ii', encoded, 18)
    return abs(height), width  # a negative height means that the top row comes first
