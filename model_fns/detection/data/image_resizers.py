"""Resizers, which bring images of any size to the size of a network input."""

from __future__ import annotations

import abc
import dataclasses
from typing import List, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib.config.section import Section
from estimator_lib.task_interfaces.resizing import KEEP_ASPECT, Resize
from model_fns.detection.config_rules import checks
from model_fns.structures import images as image_ops
from protos import image_resizer_pb2

_METHODS = {
    image_resizer_pb2.BILINEAR: 'bilinear',
    image_resizer_pb2.NEAREST_NEIGHBOR: 'nearest',
    image_resizer_pb2.BICUBIC: 'bicubic',
    image_resizer_pb2.AREA: 'area',
}


@dataclasses.dataclass(frozen=True)
class Resized:
    """An image of the network's input size.

    Attributes:
        image: float32 [height, width, channels].
        masks: [n, height, width], resized by nearest neighbor; None if there are none.
        true_shape: int32 [3]: height, width and channels without padding.
    """

    image: tf.Tensor
    masks: Optional[tf.Tensor]
    true_shape: tf.Tensor


class ImageResizer(abc.ABC):
    """Conversion of images to the network's input size.

    Args:
        method: `bilinear`, `nearest`, `bicubic` or `area`.
        grayscale: True: the network takes one channel, see `to_network_channels`.

    Attributes:
        static_size: (height, width) of every result; None if it depends on the image: then a batch
            is padded to its largest image.
        pad_values: value of padding for each color; single-shot detectors pad normalized images.
        aligns_corners: see `images.resize`.
    """

    static_size: Optional[Tuple[int, int]] = None
    pad_values: Tuple[float, ...] = (0.0,)
    aligns_corners = False

    def __init__(self, method: str = 'bilinear', grayscale: bool = False):
        self._method = method
        self._grayscale = grayscale

    @property
    def largest_size(self) -> Optional[Tuple[int, int]]:
        """(height, width) of the largest result, in landscape; None if sizes are unbounded."""
        return self.static_size

    @property
    def channels(self) -> int:
        """Number of channels of the network's input."""
        return 1 if self._grayscale else 3

    @property
    def rule(self) -> Optional[Resize]:
        """Rule for programs beside files; None for one that they cannot follow."""
        return None

    @property
    def pads(self) -> bool:
        """True if a batch may contain padding, within a result or because result sizes differ."""
        return True

    @abc.abstractmethod
    def content_size(self, height: tf.Tensor, width: tf.Tensor) -> Sequence[tf.Tensor]:
        """Compute height and width of the resized content: ints, or int32 scalars."""

    def padded_size(self, height: tf.Tensor, width: tf.Tensor) -> Optional[Sequence[tf.Tensor]]:
        """Compute the padded size of content of this size; None if nothing is padded.

        Returns:
            int32 scalars.
        """
        del height, width
        return None

    def resize(self, image: tf.Tensor, masks: Optional[tf.Tensor] = None) -> Resized:
        """Resize an image and its masks to the network's input size.

        Args:
            image: uint8 or float32 [height, width, channels].
            masks: [n, height, width].
        """
        height, width, _ = tf.unstack(tf.shape(image))
        content = self.content_size(height, width)
        padded = self.padded_size(*content)
        aligns = self.aligns_corners
        resized = image_ops.resize(image, *content, self._method, aligns)
        if masks is not None:
            masks = image_ops.resize(masks[..., tf.newaxis], *content, 'nearest', aligns)[..., 0]
        if padded is not None:
            below, beside = padded[0] - content[0], padded[1] - content[1]
            resized = image_ops.surround(resized, tf.zeros([2], tf.int32), [below, beside])
            if masks is not None:
                masks = tf.pad(masks, [[0, 0], [0, below], [0, beside]])
        if self.static_size is not None:
            resized.set_shape([*self.static_size, image.shape[-1]])
            if masks is not None:
                masks.set_shape([None, *self.static_size])
        true_shape = tf.stack([*content, image.shape[-1]])
        return Resized(tf.cast(resized, tf.float32), masks, true_shape)

    def to_network_channels(self, images: tf.Tensor) -> tf.Tensor:
        """Convert colors to luminance (ITU-R BT.601) if the config asks for it.

        As published this happens after padding, and in single-shot detectors after normalization.
        So a detector calls it, not `resize`.

        Args:
            images: float32 [..., 3], or [..., 1], which are returned unchanged.
        """
        if not self._grayscale or images.shape[-1] == 1:
            return images
        return tf.image.rgb_to_grayscale(images)


class FixedShapeResizer(ImageResizer):
    """Resizer to a fixed height and width, which may change the aspect ratio."""

    def __init__(self, height: int, width: int, method: str = 'bilinear', grayscale: bool = False):
        super().__init__(method, grayscale)
        self.static_size = (height, width)

    @property
    def pads(self) -> bool:
        """False: all results have the same size."""
        return False

    @property
    def rule(self) -> Optional[Resize]:
        """Rule for programs beside files."""
        return Resize() if self._method == 'bilinear' else None

    def content_size(self, height: tf.Tensor, width: tf.Tensor) -> Sequence[tf.Tensor]:
        """Return the fixed height and width: int32 scalars."""
        return self.static_size


class KeepAspectRatioResizer(ImageResizer):
    """Resizer of the shorter side to `least`, unless the longer side would exceed `most`.

    Args:
        least: size of the shorter side, in pixels.
        most: largest size of the longer side, in pixels.
        method: see `ImageResizer`.
        pad: whether both sides are padded to `most`.
        pad_values: see `ImageResizer`.
        grayscale: see `ImageResizer`.
    """

    def __init__(
        self,
        least: int,
        most: int,
        method: str = 'bilinear',
        pad: bool = False,
        pad_values: Sequence[float] = (),
        grayscale: bool = False,
    ):
        super().__init__(method, grayscale)
        self._least, self._most = least, most
        self.pad_values = tuple(pad_values) or (0.0,)
        self.static_size = (most, most) if pad else None

    @property
    def largest_size(self) -> Optional[Tuple[int, int]]:
        """(height, width) of the largest result: the padded size, or `least` by `most`."""
        return self.static_size or (self._least, self._most)

    @property
    def rule(self) -> Optional[Resize]:
        """Rule for programs beside files."""
        sides = self._least, self._most
        return Resize(KEEP_ASPECT, sides=sides) if self._method == 'bilinear' else None

    def content_size(self, height: tf.Tensor, width: tf.Tensor) -> Sequence[tf.Tensor]:
        """Compute both sides times the factor, rounded half to even: int32 scalars."""
        sides = tf.cast(tf.stack([height, width]), tf.float32)
        shorter, longer = tf.reduce_min(sides), tf.reduce_max(sides)
        up = tf.round(sides * (self._least / shorter))
        down = tf.round(sides * (self._most / longer))
        # Compared after rounding, as published: a longer side of 1024.4 fits in 1024.
        return _whole(tf.where(tf.reduce_max(up) > self._most, down, up))

    def padded_size(self, height: tf.Tensor, width: tf.Tensor) -> Optional[Sequence[tf.Tensor]]:
        """Return `most` by `most` if results are padded, else None: int32 scalars."""
        return self.static_size


class IdentityResizer(ImageResizer):
    """Resizer that keeps the size of an image."""

    def content_size(self, height: tf.Tensor, width: tf.Tensor) -> Sequence[tf.Tensor]:
        """Return the size of the image: int32 scalars."""
        return height, width

    def resize(self, image: tf.Tensor, masks: Optional[tf.Tensor] = None) -> Resized:
        """Convert an image to float32 without resizing: [height, width, channels]."""
        return Resized(tf.cast(image, tf.float32), masks, tf.shape(image))


class SmallImageResizer:
    """Resizer of images that fit in a tile; larger ones, and their masks, stay whole.

    Evaluations by tiles compare masks with those of whole images. At the size of the network's
    input those of small objects would have no pixels.

    Args:
        resizer: for images that fit.
        tile: side of a tile in pixels.
    """

    def __init__(self, resizer: ImageResizer, tile: int):
        self._resizer = resizer
        self._tile = tile

    def resize(self, image: tf.Tensor, masks: tf.Tensor) -> Resized:
        """Resize an image and its masks; see `ImageResizer.resize`."""

        def whole() -> Tuple[tf.Tensor, ...]:
            return tf.cast(image, tf.float32), masks, tf.shape(image)

        def resized() -> Tuple[tf.Tensor, ...]:
            own = self._resizer.resize(image, masks)
            return own.image, own.masks, own.true_shape

        is_large = tf.reduce_any(tf.shape(image)[:2] > self._tile)
        pixels, masks, true_shape = tf.cond(is_large, whole, resized)
        pixels.set_shape([None, None, image.shape[-1]])
        return Resized(pixels, tf.ensure_shape(masks, [None, None, None]), true_shape)


class ConditionalShapeResizer(ImageResizer):
    """Resizer of images above (or below) a size to that size; others stay.

    As published, corners are aligned, and the other side is truncated to a whole number.

    Args:
        threshold: a size in pixels.
        if_greater: True: the threshold is the largest size of the longer side; False: the smallest
            size of the shorter side.
        method: see `ImageResizer`.
        grayscale: see `ImageResizer`.
    """

    aligns_corners = True

    def __init__(
        self,
        threshold: int,
        if_greater: bool = True,
        method: str = 'bilinear',
        grayscale: bool = False,
    ):
        super().__init__(method, grayscale)
        self._threshold = float(threshold)
        self._if_greater = if_greater

    def content_size(self, height: tf.Tensor, width: tf.Tensor) -> Sequence[tf.Tensor]:
        """Compute both sides times the factor to the threshold, truncated to integers.

        Returns:
            int32 scalars.
        """
        sides = tf.cast(tf.stack([height, width]), tf.float32)
        if self._if_greater:
            side = tf.reduce_max(sides)
            target = tf.minimum(side, self._threshold)
        else:
            side = tf.reduce_min(sides)
            target = tf.maximum(side, self._threshold)
        # The division comes first: a side at the threshold is multiplied by exactly 1.
        return _whole(sides * (target / side))


class PadToMultipleResizer(ImageResizer):
    """Resizer that pads images at the bottom and right to multiples of a number."""

    def __init__(self, multiple: int, grayscale: bool = False):
        # Content keeps its size. Unlike the others, this method keeps the type too.
        super().__init__('nearest', grayscale)
        self._multiple = multiple

    def content_size(self, height: tf.Tensor, width: tf.Tensor) -> Sequence[tf.Tensor]:
        """Return the size of the image: int32 scalars."""
        return height, width

    def padded_size(self, height: tf.Tensor, width: tf.Tensor) -> Optional[Sequence[tf.Tensor]]:
        """Round both sides up to the next multiple: int32 scalars."""
        return height + -height % self._multiple, width + -width % self._multiple


def _whole(sides: tf.Tensor) -> List[tf.Tensor]:
    """Convert height and width to int32, at least 1 even for a very long image."""
    return tf.unstack(tf.maximum(tf.cast(sides, tf.int32), 1))


def build_image_resizer(section: Section[image_resizer_pb2.ImageResizer]) -> ImageResizer:
    """Build the resizer that a config describes.

    Args:
        section: configuration message.

    Raises:
        errors.ConfigError: the message is empty, or its values contradict each other.
    """
    config = section.message
    kind = config.WhichOneof('image_resizer_oneof')
    if kind is None:
        known: List[str] = [field.name for field in config.DESCRIPTOR.fields]
        raise section.error('', f'empty; expected one of {", ".join(known)}.')
    checks.check_part(section)
    resizer = getattr(config, kind)
    if kind == 'identity_resizer':
        return IdentityResizer()
    gray = resizer.convert_to_grayscale
    if kind == 'pad_to_multiple_resizer':
        return PadToMultipleResizer(resizer.multiple, gray)
    method = _METHODS[resizer.resize_method]
    if kind == 'fixed_shape_resizer':
        return FixedShapeResizer(resizer.height, resizer.width, method, gray)
    if kind == 'conditional_shape_resizer':
        if resizer.condition == resizer.INVALID:
            raise section.child(kind).error('condition', expected='GREATER or SMALLER')
        if_greater = resizer.condition == resizer.GREATER
        return ConditionalShapeResizer(resizer.size_threshold, if_greater, method, gray)
    return KeepAspectRatioResizer(
        resizer.min_dimension,
        resizer.max_dimension,
        method,
        resizer.pad_to_max_dimension,
        list(resizer.per_channel_pad_value),
        gray,
    )
