"""Preprocessing of images of any size, with their labels, for the network's input.

* Training: resize range, random scale, padding, random crop, mirroring. The crop is one window of
  the scaled image. Its pixels are sampled directly from the decoded image, so that nothing outside
  of the crop is computed.
* Evaluation: resize range, and padding to the least size.
* Serving: the same for a batch.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib.config import ConfigRules, message_checks
from estimator_lib.config.section import Section
from estimator_lib.task import Example, Features, Labels
from model_fns.layers import crops
from model_fns.segmentation import fields
from model_fns.segmentation.data import distortions, resize_range
from model_fns.structures import images
from protos import segmentation_pb2

Size = Tuple[int, int]  # height, width

_STEP_ROUNDING = 1e-4  # In floating point, 1.5 / 0.1 is not a whole number.


class ServedImages(NamedTuple):
    """Batch of served images for the network.

    Attributes:
        images: float32 [batch, height, width, channels], at least of the least size.
        size: int32 [2]: height and width without padding.
    """

    images: tf.Tensor
    size: tf.Tensor


class _Window(NamedTuple):
    """Window of the scaled image that a crop shows.

    Attributes:
        size: int32 [2], at most that of the crop.
        box: float32 [4]: first row, first column, last row, last column, normalized by the image's
            last row and column; in a mirrored image the columns are in descending order.
        is_mirrored: bool scalar.
    """

    size: tf.Tensor
    box: tf.Tensor
    is_mirrored: tf.Tensor


@dataclasses.dataclass(frozen=True)
class Preprocessing:
    """Preprocessing of images and labels, with random variation in training.

    Attributes:
        crop: (height, width) of the input in training.
        least_size: (height, width) of the input in evaluation and serving at least; None: `crop`.
        mean_pixel: the color of padding, 0 to 255, which the network normalizes to 0.
        ignore_label: of padding.
        resize: range of sizes for the first resize; None: images keep their size.
        scales: least and largest factor of training.
        scale_step: distance between factors; 0: any factor.
        flip_probability: of mirroring.
        max_rotation: largest angle in either direction, in degrees.
        max_brightness: largest change as a fraction of the full range.
        max_contrast: factor, and divisor.
        max_saturation: factor, and divisor.
        max_blur_length: largest length of a motion blur, in pixels; 0: no blur.
        blur_probability: of a blur.
    """

    crop: Size
    mean_pixel: Tuple[float, ...] = (127.5, 127.5, 127.5)
    ignore_label: int = 255
    resize: Optional[resize_range.ResizeRange] = None
    scales: Tuple[float, float] = (0.5, 2.0)
    scale_step: float = 0.25
    flip_probability: float = 0.5
    max_rotation: float = 0.0
    max_brightness: float = 0.0
    max_contrast: float = 1.0
    max_saturation: float = 1.0
    max_blur_length: int = 0
    blur_probability: float = 0.5
    least_size: Optional[Size] = None

    def augmentations(self) -> List[str]:
        """Return a description of each random step of `augment`."""
        steps = {
            f'scales from {self.scales[0]:g} to {self.scales[1]:g}': self.scales != (1, 1),
            f'crops of {self.crop[0]} x {self.crop[1]}': True,
            f'mirroring (probability {self.flip_probability:g})': self.flip_probability,
            f'brightness (up to {self.max_brightness:g})': self.max_brightness,
            f'contrast (up to {self.max_contrast:g})': self.max_contrast > 1,
            f'saturation (up to {self.max_saturation:g})': self.max_saturation > 1,
            f'motion blur (up to {self.max_blur_length} pixels)': self.max_blur_length,
            f'rotation (up to {self.max_rotation:g} degrees)': self.max_rotation,
        }
        return [text for text, is_done in steps.items() if is_done]

    def augment(self, example: Example, seed: tf.Tensor) -> Example:
        """Augment one example and crop it.

        Args:
            example: from `inputs.decode`.
            seed: int64 [2]; determines all random numbers.

        Returns:
            The example: `IMAGE` float32 [crop height, crop width, channels], ids int32 [crop
            height, crop width]. `TRUE_IMAGE_SHAPE` is the size without padding, which a mirrored
            example has on the left.
        """
        # `tf.random.stateless_uniform` adds fifty operations to the graph; the raw op adds one.
        draws = tf.unstack(tf.raw_ops.StatelessRandomUniform(shape=[11], seed=seed))
        # Each step has its own draws, used or not: a step that is left out changes no other one.
        window = self._window(tf.shape(example[fields.IMAGE])[:2], draws[:4])
        image = _sample(example[fields.IMAGE], window, 'bilinear')
        ids = {
            name: tf.cast(_sample(example[name][..., tf.newaxis], window, 'nearest'), tf.int32)[
                ..., 0
            ]
            for name in self._fillers(example)
        }
        # After the crop: pixels that it leaves out need no colors.
        image = self._distort(image, draws[4:10])
        if self.max_rotation:
            ids = distortions.rotate(
                image, ids, draws[10], self.max_rotation, self.mean_pixel, self._fillers(example)
            )
            image = ids.pop('')
        padding = self.crop - window.size
        before = tf.where(window.is_mirrored, padding * [0, 1], 0)
        return {
            **example,
            **self._pad(image, ids, before, padding - before, self.crop),
            fields.TRUE_IMAGE_SHAPE: tf.concat([window.size, [image.shape[-1]]], 0),
        }

    def fit(self, example: Example) -> Tuple[Features, Labels]:
        """Bring one example to the network's input.

        Args:
            example: from `augment`: float32 at the crop's size; or from `inputs.decode`: it is
                padded to the least size.

        Returns:
            Features and labels without a batch dimension, see `fields`.
        """
        # An augmented image is of the crop's size; a decoded one is of any.
        image = example[fields.IMAGE]
        if not (image.dtype.is_floating and image.shape[:2].is_fully_defined()):
            example = self._fit_decoded(example)
        names = (fields.IMAGE, fields.TRUE_IMAGE_SHAPE, fields.SOURCE_ID)
        features = {name: example[name] for name in names}
        return features, {name: example[name] for name in self._fillers(example)}

    def resize_for_serving(self, served: tf.Tensor) -> ServedImages:
        """Resize and pad served images for the network.

        Args:
            served: uint8 [batch, height, width, channels] of dynamic size.
        """
        size = self._resized_size(tf.shape(served)[1:3])
        pixels = self._resized(served, size, 'bilinear')
        count, height, width, channels = tf.unstack(tf.shape(pixels))
        padded = tf.maximum(size, self.least_size or self.crop)
        lines = images.surround_lines(
            tf.reshape(pixels, tf.stack([count, height, width * channels])),
            tf.zeros([2], tf.int32),
            padded - size,
            tf.constant(self.mean_pixel, tf.float32),
        )
        pixels = tf.reshape(lines, tf.concat([[count], padded, [channels]], 0))
        pixels.set_shape([None, None, None, served.shape[-1]])
        return ServedImages(pixels, size)

    def resized_size(self, height: Any, width: Any) -> Tuple[Any, Any]:
        """Compute height and width after the resize range, for ints or arrays."""
        return (height, width) if self.resize is None else self.resize.size(height, width)

    def _fillers(self, example: Example) -> Dict[str, int]:
        """Return the ids of padding, by the names of the ids in the example."""
        # 0 is no instance in all of our records.
        known = {fields.SEMANTIC: self.ignore_label, fields.INSTANCES: 0}
        return {name: filler for name, filler in known.items() if name in example}

    def _window(self, size: tf.Tensor, draws: Sequence[tf.Tensor]) -> _Window:
        """Compute the window of a crop from four random numbers."""
        scale, row, column, flip = draws
        scaled = tf.cast(self._resized_size(size), tf.float32) * self._scale(scale)
        # Cut, not rounded: int(dim * scale), as in DeepLab's randomly_scale_image_and_label.
        scaled = tf.maximum(tf.cast(scaled, tf.int32), 1)
        content = tf.minimum(scaled, self.crop)
        spare = tf.cast(scaled - content + 1, tf.float32)
        # Draws are at most 1 - 2^-23, so that the product stays below `spare`.
        first = tf.cast(tf.stack([row, column]) * spare, tf.int32)
        # Corners are aligned: a side of n pixels has n - 1 intervals. At least 1, for one pixel.
        intervals = tf.cast(tf.tile(tf.maximum(scaled - 1, 1), [2]), tf.float32)
        box = tf.cast(tf.concat([first, first + content - 1], 0), tf.float32) / intervals
        is_mirrored = flip < self.flip_probability
        # Sampled from right to left: mirroring costs no op on pixels.
        box = tf.where(is_mirrored, tf.gather(box, [0, 3, 2, 1]), box)
        return _Window(content, box, is_mirrored)

    def _scale(self, uniform: tf.Tensor) -> tf.Tensor:
        low, high = self.scales
        if not self.scale_step:
            return low + uniform * (high - low)
        count = int((high - low) / self.scale_step + 1 + _STEP_ROUNDING)
        # DeepLab's steps: linspace and not arange, which may have one factor more or less.
        factors = np.linspace(low, high, count).astype(np.float32)
        return tf.gather(factors, tf.cast(uniform * count, tf.int32))

    def _distort(self, image: tf.Tensor, draws: Sequence[tf.Tensor]) -> tf.Tensor:
        """Vary the colors and the sharpness, with six random numbers."""
        brightness, contrast, saturation, is_blurred, direction, length = draws
        if self.max_brightness:
            image = distortions.shift_brightness(image, brightness, self.max_brightness)
        # In the graph only where it is asked for; the draws of the others stay unused.
        if self.max_contrast != 1.0:
            image = distortions.scale_contrast(image, contrast, self.max_contrast)
        if self.max_saturation != 1.0:
            image = distortions.scale_saturation(image, saturation, self.max_saturation)
        if self.max_blur_length > 1:
            image = tf.cond(
                is_blurred < self.blur_probability,
                lambda: distortions.blur_motion(image, direction, length, self.max_blur_length),
                lambda: image,
            )
        return image

    def _fit_decoded(self, example: Example) -> Example:
        """Resize an example and pad it at the bottom and right."""
        size = self._resized_size(tf.shape(example[fields.IMAGE])[:2])
        # At the end only: a mask of true sizes is then enough to tell padding.
        padding = tf.maximum(self.least_size or self.crop, size) - size
        image = self._resized(example[fields.IMAGE], size, 'bilinear')
        ids = {
            name: self._resized(example[name][..., tf.newaxis], size, 'nearest')[..., 0]
            for name in self._fillers(example)
        }
        return {
            **example,
            **self._pad(image, ids, tf.zeros([2], tf.int32), padding),
            fields.TRUE_IMAGE_SHAPE: tf.concat([size, [image.shape[-1]]], 0),
        }

    def _resized_size(self, size: tf.Tensor) -> tf.Tensor:
        """Compute the size after the resize range: int32 [2] from int32 [2]."""
        return size if self.resize is None else tf.stack(self.resize.size(*tf.unstack(size)))

    def _resized(self, pixels: tf.Tensor, size: tf.Tensor, method: str) -> tf.Tensor:
        """Resize images, to float32, or ids, in their type, to the size of the resize range."""
        if self.resize is not None:
            pixels = images.resize(pixels, size[0], size[1], method, align_corners=True)
        return tf.cast(pixels, tf.float32) if method == 'bilinear' else pixels

    def _pad(
        self,
        image: tf.Tensor,
        ids: Dict[str, tf.Tensor],
        before: tf.Tensor,
        after: tf.Tensor,
        size: Tuple[Optional[int], Optional[int]] = (None, None),
    ) -> Dict[str, tf.Tensor]:
        """Pad image and ids; return them by name. `size` is their static size."""
        color = tf.constant(self.mean_pixel, tf.float32)
        surrounded = images.surround(image, before, after, color)
        padded = {fields.IMAGE: tf.ensure_shape(surrounded, [*size, image.shape[-1]])}
        for name, filler in self._fillers(ids).items():
            values = ids[name][..., tf.newaxis]
            values = images.surround(values, before, after, tf.constant([filler], tf.int32))
            padded[name] = tf.ensure_shape(values[..., 0], size)
        return padded


def from_config(
    config: segmentation_pb2.SegmentationPreprocessing,
    crop: Size,
    mean_pixel: Sequence[float],
    ignore_label: int,
    least_size: Optional[Size] = None,
) -> Preprocessing:
    """Build the preprocessing that a config describes.

    Args:
        config: of the preprocessing.
        crop: (height, width) of the input in training.
        mean_pixel: of the backbone.
        ignore_label: of the data set.
        least_size: least (height, width) of the input in evaluation and serving; None: `crop`.

    Raises:
        errors.ConfigError: a value outside of its range, or two that contradict each other.
    """
    section = Section(config, 'model.segmentation.preprocessing')
    message_checks.check_message(ConfigRules(), section)
    return Preprocessing(
        crop=crop,
        mean_pixel=tuple(mean_pixel),
        ignore_label=ignore_label,
        resize=resize_range.from_config(section),
        scales=(config.min_scale_factor, config.max_scale_factor),
        scale_step=config.scale_factor_step_size,
        flip_probability=config.flip_probability,
        max_rotation=config.max_rotation_degrees,
        max_brightness=config.max_brightness_change,
        max_contrast=config.max_contrast_factor,
        max_saturation=config.max_saturation_factor,
        max_blur_length=config.max_motion_blur_length,
        blur_probability=config.motion_blur_probability,
        least_size=least_size,
    )


def _sample(pixels: tf.Tensor, window: _Window, method: str) -> tf.Tensor:
    """Sample a window of the scaled image: float32 [height, width, channels]."""
    sampled = crops.crop_and_resize(
        pixels[tf.newaxis], window.box[tf.newaxis], [0], window.size, method
    )[0]
    sampled.set_shape([None, None, pixels.shape[-1]])
    return sampled
