"""Heights and widths, static or dynamic.

All resizes of DeepLab keep the centers of the corner pixels in place (align_corners). So a side of
d pixels has d - 1 intervals, and these are scaled: at scale s, it becomes int((d - 1) * s + 1).
"""

from __future__ import annotations

from typing import Tuple, Union

import tensorflow as tf

from model_fns import layers

Side = Union[int, tf.Tensor]  # in pixels or features; a tensor is an int32 scalar
Size = Tuple[Side, Side]  # height, width


def spatial_size(features: tf.Tensor) -> Size:
    """Return height and width of float32 [batch, height, width, channels], as ints where static."""
    sides = features.shape.as_list()[1:3]
    if None in sides:
        dynamic = tf.shape(features)
        sides = [dynamic[i + 1] if side is None else side for i, side in enumerate(sides)]
    return sides[0], sides[1]


def scaled(size: Size, scale: float) -> Size:
    """Compute the size of an image at a scale: int((d - 1) * scale + 1) for each side d."""
    return _scaled_side(size[0], scale), _scaled_side(size[1], scale)


def strided(size: Size, stride: int) -> Size:
    """Compute the size of features at an output stride: (d - 1) // stride + 1 for each side d."""
    return (size[0] - 1) // stride + 1, (size[1] - 1) // stride + 1


def resize(features: tf.Tensor, size: Size, method: str = 'bilinear') -> tf.Tensor:
    """Resize features with aligned corners.

    Args:
        features: [batch, height, width, channels].
        size: of the result.
        method: `bilinear` or `nearest`.

    Returns:
        [batch, *size, channels] in the type of the features, or float32 where integers are resized
        bilinearly. Features that statically have the size are returned as they are.
    """
    # A resize to the same size is exact, but the kernel runs, and TFLite files keep it.
    if same(spatial_size(features), size):
        return features
    return layers.resize(features, size[0], size[1], method)


def same(one: Size, other: Size) -> bool:
    """Return whether two sizes are statically the same."""
    return all(
        a is b or (isinstance(a, int) and isinstance(b, int) and a == b) for a, b in zip(one, other)
    )


def _scaled_side(side: Side, scale: float) -> Side:
    if scale == 1.0:
        return side
    if isinstance(side, int):
        return int((side - 1) * scale + 1)
    # float64, as Python has for static sizes: at 0.7 a side of 91 is 63 in both, 64 in float32.
    return tf.cast(tf.cast(side - 1, tf.float64) * scale + 1.0, tf.int32)
