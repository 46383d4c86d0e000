"""Codecs of images, for use outside of a graph."""

from __future__ import annotations

import collections
import concurrent.futures
import threading
from typing import Any, Callable, Generic, TypeVar

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.data import image_decoding
from estimator_lib.drawing.visualization import encode_png as encode_png
from model_fns.structures import images

tf1 = tf.compat.v1

Decoded = TypeVar('Decoded')

# Tiles of one image follow each other: threads work on at most two images at a time.
_KEPT = 2


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
            deep = tf.io.decode_png(encoded, channels=3, dtype=tf.uint16)
            jpeg = tf.io.encode_jpeg(pixels, quality=92)
        # No number of threads: all sessions of a process share the pool of its first session.
        # Without GPUs: a session would take nearly all of their memory.
        config = tf1.ConfigProto(device_count={'GPU': 0})
        self._session = tf1.Session(graph=graph, config=config)
        self._decode = self._session.make_callable(decoded, [encoded])
        self._decode_deep = self._session.make_callable(deep, [encoded])
        self._encode_jpeg = self._session.make_callable(jpeg, [pixels])

    def decode(self, encoded: bytes) -> np.ndarray:
        """Decode an image of any format that `images.decode_image` reads: uint8 [height, width, 3].

        Raises:
            errors.DataError: it does not decode; the message has the reason, without a file name.
        """
        try:
            return self._decode(encoded)
        except tf.errors.InvalidArgumentError as error:
            problem = image_decoding.decoding_problem(encoded)
            raise errors.DataError(f'the image {problem}.') from error

    def scale_depth(self, encoded: bytes, bits: int) -> bytes:
        """Convert a PNG of 16 bits a channel to one of 8 bits.

        Args:
            encoded: the bytes of the file.
            bits: of the values, 8 to 16: the brightest is 2 ** bits - 1.

        Raises:
            errors.DataError: it does not decode.
        """
        try:
            pixels = self._decode_deep(encoded)
        except tf.errors.InvalidArgumentError as error:
            problem = image_decoding.decoding_problem(encoded)
            raise errors.DataError(f'the image {problem}.') from error
        return encode_png(np.minimum(pixels >> (bits - 8), 255).astype(np.uint8))

    def encode_jpeg(self, pixels: np.ndarray) -> bytes:
        """Return a JPEG file of uint8 [height, width, 3]."""
        return self._encode_jpeg(pixels)

    def close(self) -> None:
        """Free the session."""
        self._session.close()

    def __enter__(self) -> ImageCodec:
        return self

    def __exit__(self, error_type, error, traceback) -> None:
        self.close()


class DecodedImages(Generic[Decoded]):
    """Cache of the last decoded images; safe to use from several threads.

    Args:
        decode: key of an image, and further arguments -> decoded image. It is called once for an
            image in the cache: threads that ask for the image at the same time wait for the first.
    """

    def __init__(self, decode: Callable[..., Decoded]):
        self._decode = decode
        self._lock = threading.Lock()
        self._images: collections.OrderedDict[str, concurrent.futures.Future] = (
            collections.OrderedDict()
        )

    def get(self, key: str, *arguments: Any) -> Decoded:
        """Return the decoded image of a key, or raise the error of `decode`."""
        with self._lock:
            known = self._images.get(key)
            # A future, so that the lock is not held while an image is decoded.
            image = self._images.setdefault(key, known or concurrent.futures.Future())
            self._images.move_to_end(key)
            while len(self._images) > _KEPT:
                self._images.popitem(last=False)
        if known is None:
            try:
                image.set_result(self._decode(key, *arguments))
            # Also an interrupt: threads that wait for the image would wait without end.
            except BaseException as error:
                image.set_exception(error)
        return image.result()
