"""Preparation of image files for records: EXIF orientation applied, in a format that decodes.

Cameras store pictures as the sensor was held, with an EXIF orientation. Decoders of training and
serving neither rotate images nor read WebP and TIFF: this module does both, once.
"""

from __future__ import annotations

import io
from typing import BinaryIO, NamedTuple, Optional, Tuple

from PIL import Image, ImageOps

from estimator_lib import errors
from estimator_lib.data import image_decoding
from model_fns.structures import images

ENDINGS = ('.jpg', '.jpeg', '.png', '.gif', '.bmp', '.webp', '.tif', '.tiff')
FORMATS = 'JPEG, PNG, GIF, BMP, WebP or TIFF'

_DEPTH_AT = 24  # in a PNG file, see ISO/IEC 15948, 11.2.2
_ORIENTATION = 0x0112  # the EXIF tag
_AS_STORED = 1
_TURNED_BY_A_QUARTER = (5, 6, 7, 8)
_CONVERTED = ('WEBP', 'TIFF')
# The highest that Pillow advises: above, files grow and the quality hardly does.
_JPEG_QUALITY = 95
_START = 16  # bytes that tell the format
# Modes that a PNG holds as they are, and those that become 8 bits of color.
_PNG_MODES = ('1', 'L', 'LA', 'P', 'RGB', 'RGBA', 'I;16')
_COLOR_MODES = ('CMYK', 'YCbCr', 'LAB', 'HSV', 'RGBX', 'PA')


class ImageFile(NamedTuple):
    """An image file in the form of a record.

    Attributes:
        encoded: the bytes of a JPEG, PNG, GIF or BMP file.
        header: its format and size.
        orientation: EXIF orientation of the original file, 1 to 8; 1 (also of a TIFF): not rotated.
    """

    encoded: bytes
    header: images.ImageHeader
    orientation: int

    @property
    def swaps_sides(self) -> bool:
        """True where EXIF rotates the picture by 90 degrees, so that height becomes width."""
        return self.orientation in _TURNED_BY_A_QUARTER


def prepare(encoded: bytes, apply_exif: bool = True, max_pixels: Optional[int] = None) -> ImageFile:
    """Convert an image file to the form of a record.

    A JPEG is encoded again only where it is rotated. WebP and TIFF (the first picture) become PNG.

    Args:
        encoded: the bytes of a file of one of `FORMATS`.
        apply_exif: rotate the picture as its EXIF orientation says; a TIFF always is.
        max_pixels: limit of the size in the header; None: as many as TensorFlow decodes.

    Raises:
        errors.DataError: it is of no such format, corrupt, or too large; the message names no file.
    """
    name = image_decoding.detect_format(encoded)
    try:
        if name is None:
            image, name = _open_other(encoded), 'PNG'
        else:
            images.image_header(encoded)
            image = images.open_image(encoded)
        _check_pixels(image.width * image.height, max_pixels)
        orientation = _orientation(image, encoded)
        is_rotated = apply_exif and orientation != _AS_STORED
        if is_rotated:
            image = ImageOps.exif_transpose(image)
        if is_rotated or image.format in _CONVERTED:
            encoded = _encode(image, 'JPEG' if name == 'JPEG' else 'PNG')
    except errors.DataError:
        raise
    except Exception as error:  # Pillow raises many kinds on corrupt files.
        raise errors.DataError(_problem(encoded, error)) from error
    return ImageFile(encoded, images.image_header(encoded), orientation)


def read_header(
    file: BinaryIO, apply_exif: bool = True
) -> Tuple[images.ImageHeader, Optional[Tuple[int, int]]]:
    """Read the size that `prepare` gives an image, from the beginning of its file.

    EXIF behind the pixels of a PNG is not looked for.

    Args:
        file: of one of `FORMATS`, opened for reading.
        apply_exif: the picture is rotated as its EXIF orientation says.

    Returns:
        The header, and height and width with the opposite of `apply_exif`; None where these are the
        same.

    Raises:
        errors.DataError: it has no header of such a format.
    """
    try:
        name = image_decoding.detect_format(file.read(_START))
        file.seek(0)
        if name is None:
            # Named formats only: else Pillow tries each decoder that it has.
            image = Image.open(file, formats=_CONVERTED)
        else:
            image = images.open_file(file, name)
        size, other = (image.height, image.width), None
        has_exif = name in ('JPEG', None) and image.format != 'TIFF'
        if has_exif and image.getexif().get(_ORIENTATION) in _TURNED_BY_A_QUARTER:
            swapped = (image.width, image.height)
            size, other = (swapped, size) if apply_exif else (size, swapped)
    except Exception as error:  # Pillow raises many kinds on corrupt files.
        raise errors.DataError(f'the image has no header that can be read: {error}.') from error
    return images.ImageHeader((name or 'png').lower(), *size), other


def is_deep(encoded: bytes) -> bool:
    """Return whether a file is a PNG of 16 bits a channel, by its header."""
    return image_decoding.detect_format(encoded) == 'PNG' and encoded[_DEPTH_AT] == 16


def _check_pixels(count: int, most: Optional[int]) -> None:
    reason = 'max_image_pixels'
    if most is None:
        most, reason = images.MOST_DECODED, 'TensorFlow decodes no more; cut the image into several'
    if count > most:
        raise errors.DataError(f'the image has {count} pixels; expected at most {most} ({reason}).')


def _open_other(encoded: bytes) -> Image.Image:
    try:
        return Image.open(io.BytesIO(encoded), formats=_CONVERTED)
    except Image.DecompressionBombError:
        raise errors.DataError(
            f'the image is a TIFF of more than {2 * Image.MAX_IMAGE_PIXELS} pixels, which Pillow '
            'does not decode; save it as a PNG or JPEG.'
        ) from None
    except Image.UnidentifiedImageError:
        if not encoded:
            raise errors.DataError('the image is empty (0 bytes).') from None
        raise errors.DataError(
            f'the image starts with {encoded[:8]!r}, and is not a {FORMATS} that can be read.'
        ) from None


def _orientation(image: Image.Image, encoded: bytes) -> int:
    # Pillow applies the orientation of a TIFF when it reads it. It would decode a whole PNG to look
    # for EXIF after the pixels.
    if image.format in ('GIF', 'BMP', 'TIFF') or (image.format == 'PNG' and b'eXIf' not in encoded):
        return _AS_STORED
    orientation = image.getexif().get(_ORIENTATION, _AS_STORED)
    return orientation if orientation in range(1, 9) else _AS_STORED


def _encode(image: Image.Image, name: str) -> bytes:
    """Encode the pixels without EXIF, whose orientation would no longer be right."""
    file = io.BytesIO()
    if name == 'JPEG':
        image = image if image.mode in ('L', 'RGB') else image.convert('RGB')
        # Colors at full resolution: the rotated file is encoded a second time.
        image.save(file, 'JPEG', quality=_JPEG_QUALITY, subsampling=0, exif=b'')
    else:
        _as_png(image).save(file, 'PNG', exif=b'')
    return file.getvalue()


def _as_png(image: Image.Image) -> Image.Image:
    if image.mode in ('I;16B', 'I;16L', 'I;16N'):
        return (
            image.convert('I;16') if image.mode == 'I;16L' else image.convert('I').convert('I;16')
        )
    if image.mode in _PNG_MODES:
        return image
    if image.mode in _COLOR_MODES:
        return image.convert('RGB')
    raise errors.DataError(
        f'the image is a {image.format or "TIFF"} of {image.mode} pixels; expected 8 or 16 bits.'
    )


def _problem(encoded: bytes, error: Exception) -> str:
    if image_decoding.detect_format(encoded) is not None:
        return f'the image {image_decoding.decoding_problem(encoded)}.'
    if 'truncated' in str(error).lower():
        return f'the image is truncated: its data end too early, after {len(encoded)} bytes.'
    return f'the image is corrupt: {str(error).rstrip(".")}.'
