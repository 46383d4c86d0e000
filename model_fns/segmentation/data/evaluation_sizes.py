"""Check of the evaluation's image size in the config: all of its images must fit.

Only the headers of images are read.
"""

from __future__ import annotations

import dataclasses
from typing import Iterable, Iterator, Optional, Tuple

import tensorflow as tf

from estimator_lib import errors
from model_fns.segmentation.data import inputs, record_walk
from model_fns.segmentation.data.preprocessing import Preprocessing, Size
from model_fns.structures import images
from protos import input_reader_pb2, segmentation_pb2


@dataclasses.dataclass(frozen=True)
class _Image:
    """The image of a record.

    Attributes:
        place: of the record.
        name: of the image's file, '' where the record has none.
        size: height and width after the resize range.
    """

    place: record_walk.Place
    name: str
    size: Size


def least_size(model: segmentation_pb2.Segmentation) -> Size:
    """Return the least height and width of images in evaluation and serving."""
    evaluation = model.evaluation
    return (
        evaluation.crop_height or model.crop_height,
        evaluation.crop_width or model.crop_width,
    )


def check_sizes(
    readers: Iterable[input_reader_pb2.InputReader],
    preprocessing: Preprocessing,
    output_stride: int,
    asked: Size,
) -> None:
    """Check that no image of an evaluation is larger than the size in the config.

    Args:
        readers: of the images.
        preprocessing: has the resize range.
        output_stride: of the network: a legal side is a multiple of it plus 1.
        asked: height and width in the config; 0: any.

    Raises:
        errors.DataError: an image is larger; the message has its file and the smallest legal size
            that holds all images.
    """
    largest, worst = [0, 0], None
    for image in _images(readers, preprocessing):
        if any(side and size > side for size, side in zip(image.size, asked)):
            # The first one is named; the walk continues for the size that holds all of them.
            worst = worst or image
        largest = [max(pair) for pair in zip(largest, image.size)]
    if worst is not None:
        needed = tuple(smallest_legal(side, output_stride) for side in largest)
        raise errors.DataError(_too_large(worst, asked, needed))


def smallest_legal(side: int, output_stride: int) -> int:
    """Return the least multiple of the output stride plus 1 that is not below a side."""
    return side + (1 - side) % output_stride


def _too_large(image: _Image, asked: Size, needed: Tuple[int, ...]) -> str:
    height, width = (side or 'any' for side in asked)
    name = f' ({image.name})' if image.name else ''
    return (
        f'{image.place}{name}: the image has {image.size[0]} x {image.size[1]} pixels, more than '
        f'model.segmentation.evaluation asks for ({height} x {width}); the smallest legal size '
        f'that holds all images is crop_height: {needed[0]} crop_width: {needed[1]}, and without '
        'these fields each image is evaluated at its own size.'
    )


def _images(
    readers: Iterable[input_reader_pb2.InputReader], preprocessing: Preprocessing
) -> Iterator[_Image]:
    def image_and_name(record: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
        encoded = record_walk.text_feature(record, inputs.IMAGE_KEY)
        return encoded, record_walk.text_feature(record, 'image/filename', '')

    for reader in readers:
        walk = record_walk.walk(reader, image_and_name, 'sizes of images')
        for place, (encoded, name) in walk:
            header = _header(encoded)
            if header is not None:  # Else the evaluation itself reports the error.
                height, width = preprocessing.resized_size(header.height, header.width)
                yield _Image(place, name.decode('utf-8', 'replace'), (int(height), int(width)))


def _header(encoded: bytes) -> Optional[images.ImageHeader]:
    try:
        return images.image_header(encoded)
    except errors.DataError:
        return None
