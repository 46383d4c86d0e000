"""Box coders: boxes as offsets from anchors, and back."""

from __future__ import annotations

import abc
from typing import Tuple

import tensorflow as tf

from estimator_lib import errors
from model_fns.detection.boxes import axis_aligned as box_ops
from model_fns.detection.boxes.axis_aligned import SIZE
from protos import box_coding_pb2

EPSILON = box_ops.EPSILON


class BoxCoder(abc.ABC):
    """Relative codes of boxes.

    Attributes:
        code_size: numbers in a code.
    """

    code_size: int = SIZE

    @abc.abstractmethod
    def encode(self, boxes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Codes [..., code_size] of boxes [..., 4] relative to anchors (broadcast to [..., 4])."""

    @abc.abstractmethod
    def decode(self, codes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Return boxes [..., 4] of codes [..., code_size] relative to anchors."""


class FasterRcnnBoxCoder(BoxCoder):
    """Center offsets in units of the anchor's size, and logarithms of size ratios.

    ty = sy (y - ya) / ha, tx = sx (x - xa) / wa, th = sh ln(h / ha), tw = sw ln(w / wa), in that
    order (Ren et al. 2015, equation 2, with scales).

    Args:
        scales: (sy, sx, sh, sw).

    Attributes:
        scales: as given.
    """

    def __init__(self, scales: Tuple[float, float, float, float] = (10.0, 10.0, 5.0, 5.0)):
        self.scales = scales

    def encode(self, boxes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """See `BoxCoder`."""
        ya, xa, ha, wa = _positive_sizes(anchors)
        y, x, h, w = _positive_sizes(boxes)
        offsets = [(y - ya) / ha, (x - xa) / wa, tf.math.log(h / ha), tf.math.log(w / wa)]
        return tf.stack(offsets, axis=-1) * tf.constant(self.scales)

    def decode(self, codes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """See `BoxCoder`."""
        ya, xa, ha, wa = box_ops.to_center_size(anchors)
        ty, tx, th, tw = tf.unstack(codes / tf.constant(self.scales), axis=-1)
        return box_ops.from_center_size(
            ty * ha + ya, tx * wa + xa, tf.exp(th) * ha, tf.exp(tw) * wa
        )


class MeanStddevBoxCoder(BoxCoder):
    """Differences of corners, in units of a standard deviation.

    Args:
        stddev: the unit.
    """

    def __init__(self, stddev: float = 0.01):
        self._stddev = stddev

    def encode(self, boxes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """See `BoxCoder`."""
        return (boxes - anchors) / self._stddev

    def decode(self, codes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """See `BoxCoder`."""
        return codes * self._stddev + anchors


class SquareBoxCoder(BoxCoder):
    """Codes of squares: ty, tx as in `FasterRcnnBoxCoder`, tl = sl ln(l / la), l = sqrt(h w).

    Args:
        scales: (sy, sx, sl).
    """

    code_size = 3

    def __init__(self, scales: Tuple[float, float, float] = (10.0, 10.0, 5.0)):
        self._scales = scales

    def encode(self, boxes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """See `BoxCoder`."""
        ya, xa, ha, wa = box_ops.to_center_size(anchors)
        y, x, h, w = box_ops.to_center_size(boxes)
        anchor_length = tf.sqrt(ha * wa) + EPSILON
        length = tf.sqrt(h * w) + EPSILON
        offsets = [
            (y - ya) / anchor_length,
            (x - xa) / anchor_length,
            tf.math.log(length / anchor_length),
        ]
        return tf.stack(offsets, axis=-1) * tf.constant(self._scales)

    def decode(self, codes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """See `BoxCoder`."""
        ya, xa, ha, wa = box_ops.to_center_size(anchors)
        anchor_length = tf.sqrt(ha * wa)
        ty, tx, tl = tf.unstack(codes / tf.constant(self._scales), axis=-1)
        length = tf.exp(tl) * anchor_length
        return box_ops.from_center_size(
            ty * anchor_length + ya, tx * anchor_length + xa, length, length
        )


def build_box_coder(config: box_coding_pb2.BoxCoder, where: str) -> BoxCoder:
    """Return the box coder that a config describes.

    Args:
        config: which.
        where: its path, for error messages.

    Raises:
        errors.ConfigError: it describes none.
    """
    kind = config.WhichOneof('box_coder_oneof')
    if kind == 'faster_rcnn_box_coder':
        coder = config.faster_rcnn_box_coder
        return FasterRcnnBoxCoder(
            (coder.y_scale, coder.x_scale, coder.height_scale, coder.width_scale)
        )
    if kind == 'mean_stddev_box_coder':
        return MeanStddevBoxCoder(config.mean_stddev_box_coder.stddev)
    if kind == 'square_box_coder':
        coder = config.square_box_coder
        return SquareBoxCoder((coder.y_scale, coder.x_scale, coder.length_scale))
    raise errors.ConfigError(
        f'{where}: {kind or "empty"}; expected faster_rcnn_box_coder, '
        'mean_stddev_box_coder or square_box_coder.'
    )


def _positive_sizes(boxes: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Centers, and sizes that can be divided by and have a logarithm."""
    y, x, h, w = box_ops.to_center_size(boxes)
    return y, x, h + EPSILON, w + EPSILON
