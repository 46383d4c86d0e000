"""Views of images for test-time augmentation: scaled and mirrored copies of the inputs."""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

import tensorflow as tf

from estimator_lib.config import message_checks, schema
from estimator_lib.config.rules import ConfigRules
from estimator_lib.config.section import Section
from protos import eval_pb2

WHERE = 'eval_config.test_time_augmentation'  # for messages


class Views(NamedTuple):
    """Views of an image.

    Attributes:
        scales: factors on the sides of the network's input.
        mirrors: whether each scale is also seen mirrored left to right.
    """

    scales: Tuple[float, ...]
    mirrors: bool

    @property
    def total(self) -> int:
        """Number of views."""
        return len(self.scales) * (1 + self.mirrors)

    @property
    def scaled(self) -> Tuple[float, ...]:
        """Scales other than 1."""
        return tuple(scale for scale in self.scales if scale != 1.0)

    def with_mirrored(self, images: tf.Tensor, widths: Optional[tf.Tensor] = None) -> tf.Tensor:
        """Append the mirrored images to a batch, if there are such views.

        Args:
            images: [batch, height, width, channels].
            widths: int32 [batch]: columns that are not padding, which stays at the right; None:
                all.

        Returns:
            [batch or 2 * batch, height, width, channels].
        """
        if not self.mirrors:
            return images
        if widths is None:
            return tf.concat([images, tf.reverse(images, [2])], 0)
        # A plain reversal would move the padding to the left, but the content begins there.
        mirrored = tf.reverse_sequence(images, widths, seq_axis=2, batch_axis=0)
        return tf.concat([images, mirrored], 0)

    def tile(self, values: tf.Tensor) -> tf.Tensor:
        """Repeat the values [batch, ...] of images for their mirrored copies."""
        return tf.concat([values, values], 0) if self.mirrors else values


def from_config(config: eval_pb2.EvalConfig) -> Optional[Views]:
    """Return the views of evaluations and predictions; None: the image as it is.

    Raises:
        errors.ConfigError: a scale is out of range.
    """
    asked = config.test_time_augmentation
    # A prediction does not check the parts of evaluations.
    message_checks.check_message(ConfigRules(), Section(asked, WHERE))
    # The number that was written: as float32, 0.7 is 0.699999988, which could round a side down.
    scales = tuple(map(schema.decimal_number, asked.scales)) or (1.0,)
    views = Views(scales, asked.flip_horizontally)
    return views if views.scaled or views.total > 1 else None


def resize(images: tf.Tensor, height: int, width: int) -> tf.Tensor:
    """Resize a batch of float32 images bilinearly, with the centers of pixels at half numbers.

    A mirrored image so becomes the mirror of the resized one.
    """
    if images.shape[1:3].as_list() == [height, width]:
        return images
    return tf.image.resize(images, [height, width])


def scale_side(side: int, scale: float) -> int:
    """Return a side at a scale, rounded to a whole number of pixels."""
    return round(side * scale)
