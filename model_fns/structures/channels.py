"""Channels of images beside red, green and blue, and values of more than 8 bits."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.data import image_decoding
from estimator_lib.task_interfaces.image_format import COLOR, ImageFormat
from model_fns.structures import images
from protos import pipeline_pb2

KEY = image_decoding.ADDITIONAL_CHANNELS
COLORS = 3

# Scale from [0, 255] to [-1, 1], for channels without a mean.
_MIDDLE = 127.5

Change = Callable[[tf.Tensor], tf.Tensor]


@dataclasses.dataclass(frozen=True)
class Channels:
    """Channels of the images of a config: three colors, and any number of further ones.

    Attributes:
        format: what files of images hold.
        means: of each channel, of pixels from 0 to 255; empty: the network normalizes colors, and
            further channels are scaled to [-1, 1].
        deviations: standard deviation of each channel, or empty: 1.
    """

    format: ImageFormat = COLOR
    means: Tuple[float, ...] = ()
    deviations: Tuple[float, ...] = ()

    @property
    def total(self) -> int:
        """Number of all channels."""
        return self.format.channels

    @property
    def has_more(self) -> bool:
        """True if there are channels beside the colors."""
        return self.total > COLORS

    def keys(self) -> Dict[str, Any]:
        """Return the features of a record that hold further channels, as they are parsed."""
        if not self.has_more:
            return {}
        return {KEY: tf.io.FixedLenFeature([self.format.additional], tf.string)}

    def decode(self, parsed: Mapping[str, tf.Tensor], max_pixels: int) -> tf.Tensor:
        """Decode the image of a record.

        Args:
            parsed: `image/encoded`, and the features of `keys`.
            max_pixels: limit of the size of each encoded image.

        Returns:
            [height, width, channels]: uint8, or float32 in [0, 255] with more than 8 bits. Running
            it fails where the channels differ in size.
        """
        encoded = images.limit_pixels(parsed['image/encoded'], max_pixels)
        further = None
        if self.has_more:
            parts = tf.unstack(parsed[KEY])
            further = tf.stack([images.limit_pixels(part, max_pixels, KEY) for part in parts])
        return image_decoding.decode_channels(self.format, encoded, further)

    def normalize(self, pixels: tf.Tensor, of_colors: Change) -> tf.Tensor:
        """Normalize pixels for a network.

        Args:
            pixels: float32 [..., channels] in [0, 255].
            of_colors: the network's own normalization.
        """
        if self.means:
            centered = pixels - np.array(self.means, np.float32)
            return centered / np.array(self.deviations or 1.0, np.float32)
        if not self.has_more:
            return of_colors(pixels)
        # The network's normalization is of three colors: means of ImageNet say nothing of infrared.
        further = pixels[..., COLORS:] / _MIDDLE - 1.0
        return tf.concat([of_colors(pixels[..., :COLORS]), further], -1)

    def denormalize(self, inputs: tf.Tensor, of_colors: Change) -> tf.Tensor:
        """Invert `normalize`, given the inverse of the network's own normalization."""
        if self.means:
            spread = inputs * np.array(self.deviations or 1.0, np.float32)
            return spread + np.array(self.means, np.float32)
        if not self.has_more:
            return of_colors(inputs)
        further = (inputs[..., COLORS:] + 1.0) * _MIDDLE
        return tf.concat([of_colors(inputs[..., :COLORS]), further], -1)

    def padding_color(self, color: Sequence[float]) -> Tuple[float, ...]:
        """Return the pixel that is normalized to 0, given that of the network's colors."""
        if self.means:
            return self.means
        return (*color, *[_MIDDLE] * self.format.additional)

    def find_problem(self, features: Any) -> Optional[str]:
        """Describe what is wrong with the further channels of a record; None: nothing.

        Args:
            features: of a `tf.train.Example` with `image/encoded`, by key.
        """
        if not self.has_more:
            return None
        encoded = features[KEY].bytes_list.value
        wanted = self.format.additional
        if len(encoded) != wanted:
            return (
                f'{KEY} has {len(encoded)} images; expected {wanted} '
                '(train_input_reader.num_additional_channels)'
            )
        try:
            image = images.image_header(features['image/encoded'].bytes_list.value[0])
        except errors.DataError:
            return None  # found by the check of the image itself
        for index, part in enumerate(encoded):
            try:
                header = images.image_header(part)
            except errors.DataError as error:
                return f'{KEY}[{index}]: {str(error).rstrip(".")}'
            if (header.height, header.width) != (image.height, image.width):
                return (
                    f'{KEY}[{index}]: {header.height} x {header.width} pixels; the image has '
                    f'{image.height} x {image.width}'
                )
        return None


THREE_COLORS = Channels()


def from_config(config: pipeline_pb2.TrainEvalPipelineConfig) -> Channels:
    """Return the channels of the training reader, or of the first evaluation reader."""
    reader = config.train_input_reader
    if config.eval_input_reader and not config.HasField('train_input_reader'):
        reader = config.eval_input_reader[0]
    return Channels(
        ImageFormat(reader.num_additional_channels, reader.image_bits),
        tuple(reader.channel_means),
        tuple(reader.channel_deviations),
    )


def change_colors(image: tf.Tensor, change: Change) -> tf.Tensor:
    """Apply a function to the colors of an image [..., channels]; further channels stay."""
    if image.shape[-1] is None or image.shape[-1] <= COLORS:
        return change(image)
    colors = change(image[..., :COLORS])
    return tf.concat([colors, tf.cast(image[..., COLORS:], colors.dtype)], -1)
