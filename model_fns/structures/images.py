"""Encoded images: their headers, and resizing as the published systems do it.

The published networks were trained with pictures resized without half-pixel centers: output pixel i
reads the input at i * (input size / output size). That is not what `tf.image.resize` does, so the
kernels are called directly here.
"""

from __future__ import annotations

import io
from typing import BinaryIO, NamedTuple, Optional

import tensorflow as tf
from PIL import BmpImagePlugin, GifImagePlugin, Image, JpegImagePlugin, PngImagePlugin

from estimator_lib import errors
from estimator_lib.data import image_decoding
from estimator_lib.data.image_decoding import decode_image as decode_image
from estimator_lib.data.image_decoding import limit_pixels as limit_pixels
from protos import input_reader_pb2

_RESIZE_KERNELS = {
    'bilinear': tf.raw_ops.ResizeBilinear,
    'nearest': tf.raw_ops.ResizeNearestNeighbor,
    'bicubic': tf.raw_ops.ResizeBicubic,
    'area': tf.raw_ops.ResizeArea,
}
RESIZE_METHODS = tuple(_RESIZE_KERNELS)
_LARGE = 8  # times as many pixels as the result

MOST_DECODED = 2**29 - 1  # pixels that TensorFlow decodes
MAX_PIXELS = input_reader_pb2.InputReader().max_image_pixels  # where a config does not say

# What reads the header of each format. `Image.open` would, but refuses images that it takes for
# too large.
_READERS = {
    'JPEG': JpegImagePlugin.JpegImageFile,
    'PNG': PngImagePlugin.PngImageFile,
    'GIF': GifImagePlugin.GifImageFile,
    'BMP': BmpImagePlugin.BmpImageFile,
}


class ImageHeader(NamedTuple):
    """Header of an encoded image.

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
    """Resize as the published systems do, without half-pixel centers.

    Args:
        image: [height, width, channels] or [batch, height, width, channels], any numeric type.
        height: of the result: an int or an int32 scalar tensor.
        width: of the result.
        method: `bilinear`, `nearest`, `bicubic` or `area`.
        align_corners: whether the centers of the corner pixels stay where they are (the scale is
            (input size - 1) / (output size - 1)).

    Returns:
        The resized image or images: float32, or for `nearest` the type of `image`.
    """
    arguments = {'half_pixel_centers': False} if method in ('bilinear', 'nearest') else {}
    is_tensor = tf.is_tensor(height) or tf.is_tensor(width)
    size = tf.stack([height, width]) if is_tensor else [height, width]

    def resized(images: tf.Tensor) -> tf.Tensor:
        return _RESIZE_KERNELS[method](
            images=images, size=size, align_corners=align_corners, **arguments
        )

    if image.shape.rank != 3:
        return resized(image)
    batch = image[tf.newaxis]
    if image.dtype != tf.uint8 or method == 'nearest' or image.shape[-1] is None:
        return resized(batch)[0]
    # The kernels give the same numbers for float32, and take 0.5 to 0.9 of the time with the
    # conversion. The conversion alone takes as long for ten times the result's pixels or more.
    numbers = image.shape.num_elements() or tf.size(image)
    is_large = numbers > _LARGE * image.shape[-1] * height * width
    if not tf.is_tensor(is_large):
        return resized(batch if is_large else tf.cast(batch, tf.float32))[0]
    return tf.cond(is_large, lambda: resized(batch), lambda: resized(tf.cast(batch, tf.float32)))[0]


def crop_or_pad(image: tf.Tensor, height: int, width: int) -> tf.Tensor:
    """Crop images around their center, or pad them with 0, to a size.

    Where the difference is odd, the smaller half is at the top or left.

    Args:
        image: [..., height, width, channels].
        height: of the result.
        width: of the result.

    Returns:
        [..., height, width, channels] of the same type.
    """
    # Toward 0, as `tf.image.resize_with_crop_or_pad`. Floored, an odd padding would have its larger
    # half at the top.
    start = tf.truncatediv(tf.shape(image)[-3:-1] - [height, width], 2)
    return window(image, start, height, width)


def window(image: tf.Tensor, start: tf.Tensor, height: int, width: int) -> tf.Tensor:
    """Cut a window out of images; it is 0 outside of them.

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
    """Return an image with rows and columns of one color around it.

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
    """Return images, their channels beside each other, with a filler around them; see `surround`.

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


def reversed_where(happens: tf.Tensor, tensor: tf.Tensor, axis: int) -> tf.Tensor:
    """Return a tensor with one axis reversed, or as it is.

    Args:
        happens: int32 scalar: 1 to reverse, 0 to leave it as it is.
        tensor: of any type; only the axes before this one may be empty.
        axis: of the tensor.
    """
    # An axis of size 1 needs no conditional to be reversed. The kernel is several times faster for
    # the middle one of three axes than for none or any other.
    is_known = tensor.shape.is_fully_defined()
    shape = tensor.shape.as_list() if is_known else tf.shape(tensor)
    sides = shape if is_known else tf.unstack(shape)
    size = sides[axis] ** happens
    line = sides[axis]
    for side, known in zip(sides[axis + 1 :], tensor.shape[axis + 1 :]):
        line *= side if known is None else known
    lines = tf.reshape(tensor, tf.stack([-1, size, line // size]))
    moved = tf.reshape(tf.reverse(lines, [1]), shape)
    moved.set_shape(tensor.shape)
    return moved


def open_image(encoded: bytes) -> Image.Image:
    """Open a JPEG, PNG, GIF or BMP of any number of pixels, which are not decoded yet.

    Raises:
        KeyError: the bytes are of no such format.
        Exception: the header is corrupt; of many kinds.
    """
    return open_file(io.BytesIO(encoded), image_decoding.detect_format(encoded))


def open_file(file: BinaryIO, name: Optional[str]) -> Image.Image:
    """Open a file of one of the formats of `open_image`; its header is read, not its pixels."""
    return _READERS[name](file)


def image_header(encoded: bytes) -> ImageHeader:
    """Read the size of an encoded image without decoding it.

    Args:
        encoded: the bytes of a JPEG, PNG, GIF or BMP file.

    Returns:
        Its format and size.

    Raises:
        errors.DataError: it is of no such format, or its header is damaged. The message does not
            name a file: the caller knows it.
    """
    name = image_decoding.detect_format(encoded)
    if name is None:
        raise errors.DataError(f'the image {image_decoding.decoding_problem(encoded)}.')
    try:
        width, height = open_image(encoded).size
    except Exception as error:  # of many kinds, one for each way in which bytes can be wrong
        raise errors.DataError(
            f'the image has a corrupt {name} header, or ends within it, after {len(encoded)} bytes.'
        ) from error
    return ImageHeader(name.lower(), height, width)
