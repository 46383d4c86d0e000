"""Images to bytes and back, outside of a graph."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from model_fns import images

tf1 = tf.compat.v1

_PNG_COLOR_TYPES = {1: 0, 3: 2, 4: 6}  # by number of channels


def encode_png(pixels: np.ndarray) -> bytes:
    """A PNG file.

    Args:
        pixels: uint8 or uint16 [height, width] or [height, width, channels] with 1, 3 or 4
            channels.
    """
    if pixels.dtype not in (np.uint8, np.uint16):
        raise ValueError(f'a PNG has pixels of uint8 or uint16, got {pixels.dtype}.')
    height, width = pixels.shape[:2]
    channels = pixels.shape[2] if pixels.ndim == 3 else 1
    rows = np.ascontiguousarray(pixels.astype(pixels.dtype.newbyteorder('>'))).view(np.uint8)
    rows = rows.reshape(height, -1)
    unfiltered = np.zeros((height, 1), np.uint8)  # each row starts with its filter: 0 is none
    data = np.concatenate([unfiltered, rows], axis=1).tobytes()
    bit_depth = 8 * pixels.dtype.itemsize
    header = struct.pack('>IIBBBBB', width, height, bit_depth, _PNG_COLOR_TYPES[channels], 0, 0, 0)
    return (
        images.PNG_SIGNATURE
        + _png_chunk(b'IHDR', header)
        + _png_chunk(b'IDAT', zlib.compress(data, 6))
        + _png_chunk(b'IEND', b'')
    )


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))


class ImageCodec:
    """Encodes and decodes with TensorFlow's kernels, in a small session of its own.

    A context manager; safe to use from several threads.
    """

    def __init__(self):
        graph = tf.Graph()
        with graph.as_default():
            encoded = tf1.placeholder(tf.string, [])
            pixels = tf1.placeholder(tf.uint8, [None, None, 3])
            decoded = images.decode_image(encoded)
            jpeg = tf.io.encode_jpeg(pixels, quality=92)
        config = tf1.ConfigProto(intra_op_parallelism_threads=1, device_count={'GPU': 0})
        self._session = tf1.Session(graph=graph, config=config)
        self._decode = self._session.make_callable(decoded, [encoded])
        self._encode_jpeg = self._session.make_callable(jpeg, [pixels])

    def decode(self, encoded: bytes) -> np.ndarray:
        """uint8 [height, width, 3] of an image of any format that `images.decode_image` reads.

        Raises:
            errors.DataError: it does not decode; the message says why, but names no file.
        """
        try:
            return self._decode(encoded)
        except tf.errors.InvalidArgumentError as error:
            raise errors.DataError(f'the image does not decode: {_reason(error)}') from error

    def encode_jpeg(self, pixels: np.ndarray) -> bytes:
        """A JPEG file of uint8 [height, width, 3]."""
        return self._encode_jpeg(pixels)

    def close(self) -> None:
        """Frees the session."""
        self._session.close()

    def __enter__(self) -> ImageCodec:
        return self

    def __exit__(self, error_type, error, traceback) -> None:
        self.close()


def _reason(error: tf.errors.OpError) -> str:
    """What the kernel said, without where in the graph it said it."""
    lines = [line.strip() for line in error.message.splitlines()]
    said = [line for line in lines if line and not line.startswith('[[')]
    return said[-1].split(' [[{{')[0].rstrip('.') + '.'
