"""Files of any program: networks whose meaning follows from the names and shapes of their outputs.

A `ForeignFile` knows how a format is run. The table that says which outputs mean what is the
caller's, since it is about tasks.
"""

from __future__ import annotations

import abc
from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.export import exported_model, serving
from estimator_lib.task import Tensors

tf1 = tf.compat.v1

Shape = Sequence[Optional[int]]
# (outputs of the file, images as received) -> outputs by the names that a task gives them.
Convert = Callable[[Tensors, tf.Tensor], Tensors]


class ImageInput(NamedTuple):
    """Input of a file.

    Attributes:
        kind: name of the placeholder of `serving` that means the same.
        dtype: type of its values.
        shape: [batch, height, width, channels], None for any side; of strings [batch].
        black: value of a pixel of 0, of all channels or of each.
        white: likewise, of a pixel of 255.
    """

    kind: str
    dtype: tf.DType
    shape: Shape
    black: Tuple[float, ...] = (0.0,)
    white: Tuple[float, ...] = (255.0,)


class ForeignFile(abc.ABC):
    """Opened file.

    Attributes:
        path: of the file.
        image: its input.
        labels: lines of a list of names that lies in the file; empty: there is none.
    """

    path: str
    image: ImageInput
    labels: Sequence[str] = ()

    @abc.abstractmethod
    def compute(self, images: tf.Tensor) -> Tensors:
        """Add the network to the current graph.

        Args:
            images: of the type and shape of `image`.

        Returns:
            Its outputs by name, in their order; quantized ones as float32.
        """

    def add(self) -> Tuple[tf.Tensor, Tensors]:
        """Add the network to the current graph, behind a placeholder of `serving`.

        Images are resized to the size of the file by bilinear interpolation, as the programs do
        that train such networks; their aspect ratio is lost.

        Returns:
            The placeholder, and the outputs by name.
        """
        kind, dtype, shape = self.image.kind, self.image.dtype, self.image.shape
        if dtype == tf.string:
            received = tf1.placeholder(tf.string, shape, kind)
            return received, self.compute(received)
        received = tf1.placeholder(tf.uint8, [shape[0], None, None, 3], kind)
        return received, self.compute(self._fitted(received))

    def output_shapes(self) -> Mapping[str, Optional[Shape]]:
        """Return the shapes of the outputs by name; None for one without a known rank."""
        with tf.Graph().as_default():
            _, outputs = self.add()
            return {name: _sides(output.shape) for name, output in outputs.items()}

    def _fitted(self, received: tf.Tensor) -> tf.Tensor:
        """Bring pixels [B, height, width, 3] from 0 to 255 to size, channels and range."""
        _, height, width, channels = self.image.shape
        images = received
        if height is not None and width is not None:
            # The first version, without half-pixel centers, is what programs of TensorFlow 1
            # trained with.
            images = tf1.image.resize_bilinear(images, [height, width])
        if channels == 1:
            images = tf.image.rgb_to_grayscale(images)
        is_unchanged = images.dtype == self.image.dtype
        black, white = (np.array(end, np.float32) for end in (self.image.black, self.image.white))
        if is_unchanged and not black.any() and (white == 255).all():
            return images
        values = tf.cast(images, tf.float32) * ((white - black) / 255) + black
        return tf.cast(
            tf.round(values) if self.image.dtype.is_integer else values, self.image.dtype
        )


class ForeignPredictor(exported_model.Predictor):
    """Predictor of a file of any program.

    Args:
        file: the file.
        convert: says what its outputs mean.
    """

    def __init__(self, file: ForeignFile, convert: Convert):
        self.path = file.path

        def load(session: tf1.Session) -> Any:
            del session
            received, outputs = file.add()
            named = convert(outputs, received)
            return tf1.saved_model.predict_signature_def({serving.INPUT_KEY: received}, named)

        self._open(load)


def _sides(shape: tf.TensorShape) -> Optional[Shape]:
    return None if shape.rank is None else shape.as_list()


def refuse(path: str, reason: str) -> errors.UserError:
    """Return the error of a file that cannot be read, with a reason."""
    return errors.UserError(f'{path} cannot be run on images: {reason}.')
