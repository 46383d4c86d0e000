"""Box coders: boxes encoded as offsets from anchors, and decoded again."""

from __future__ import annotations

import abc
from typing import Tuple

import tensorflow as tf

from estimator_lib.config.section import Section
from model_fns.detection.boxes import axis_aligned as box_ops
from model_fns.detection.boxes.axis_aligned import SIZE
from protos import box_coding_pb2

EPSILON = box_ops.EPSILON


class BoxCoder(abc.ABC):
    """Relative codes of boxes.

    Attributes:
        code_size: number of values of a code.
    """

    code_size: int = SIZE

    @abc.abstractmethod
    def encode(self, boxes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Encode boxes [..., 4] relative to anchors (broadcast to [..., 4]): [..., code_size]."""

    @abc.abstractmethod
    def decode(self, codes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Decode codes [..., code_size] relative to anchors: boxes [..., 4]."""


class FasterRcnnBoxCoder(BoxCoder):
    """Center offsets in units of the anchor's size, and logarithms of size ratios.

    ty = sy (y - ya) / ha, tx = sx (x - xa) / wa, th = sh ln(h / ha), tw = sw ln(w / wa), in that
    order (Ren et al. 2015, equation 2, with scales).

    Example:
        With scales of 1 the box [-4, 8, 16, 10] has the code (0.1, 0.25, ln 2, -ln 2) relative to
        the anchor [0, 6, 10, 10]: center (6, 9) against (5, 8), size 20 x 2 against 10 x 4.

    Args:
        scales: (sy, sx, sh, sw).

    Attributes:
        scales: (sy, sx, sh, sw).
    """

    def __init__(self, scales: Tuple[float, float, float, float] = (10.0, 10.0, 5.0, 5.0)):
        # The default is 1 / 0.1 and 1 / 0.2: the variances of the code of SSD, and the deviations
        # by which Fast R-CNN normalizes its targets.
        self.scales = scales

    def encode(self, boxes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Encode boxes as scaled center offsets and log size ratios, [..., 4]."""
        # Published: all four sides get EPSILON here, and none of them in `decode`.
        ya, xa, ha, wa = _positive_sizes(anchors)
        y, x, h, w = _positive_sizes(boxes)
        offsets = [(y - ya) / ha, (x - xa) / wa, tf.math.log(h / ha), tf.math.log(w / wa)]
        return tf.stack(offsets, axis=-1) * tf.constant(self.scales)

    def decode(self, codes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Decode center offsets and log size ratios [..., 4]."""
        ya, xa, ha, wa = box_ops.to_center_size(anchors)
        ty, tx, th, tw = tf.unstack(codes / tf.constant(self.scales), axis=-1)
        # No bound on th and tw (Detectron2 has ln(1000 / 16)): the published graphs and the op of
        # TFLite decode without one, and files are compared with what this code computes.
        return box_ops.from_center_size(
            ty * ha + ya, tx * wa + xa, tf.exp(th) * ha, tf.exp(tw) * wa
        )


class MeanStddevBoxCoder(BoxCoder):
    """Differences of corners, in units of a standard deviation.

    Example:
        With a deviation of 2 the box [-4, 8, 16, 10] has the code (-2, 1, 3, 0) relative to the
        anchor [0, 6, 10, 10].

    Args:
        stddev: the standard deviation.
    """

    def __init__(self, stddev: float = 0.01):
        self._stddev = stddev

    def encode(self, boxes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Encode boxes as differences of corners in units of the standard deviation.

        Returns:
            float32 [..., 4].
        """
        return (boxes - anchors) / self._stddev

    def decode(self, codes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Decode differences of corners in units of the standard deviation: float32 [..., 4]."""
        return codes * self._stddev + anchors


class SquareBoxCoder(BoxCoder):
    """Codes of squares: ty, tx as in `FasterRcnnBoxCoder`, tl = sl ln(l / la), l = sqrt(h w).

    Example:
        The box [-4, 8, 16, 10] has the code (10 / sqrt(40), 10 / sqrt(40), 0) relative to the
        anchor [0, 6, 10, 10]: both have the length sqrt(40), and the centers differ by (1, 1).

    Args:
        scales: (sy, sx, sl).
    """

    code_size = 3

    def __init__(self, scales: Tuple[float, float, float] = (10.0, 10.0, 5.0)):
        self._scales = scales

    def encode(self, boxes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Encode boxes as center offsets and a log length ratio, [..., 3]."""
        ya, xa, ha, wa = box_ops.to_center_size(anchors)
        y, x, h, w = box_ops.to_center_size(boxes)
        # As published, EPSILON is added to the root and not below it, and `decode` adds none.
        anchor_length = tf.sqrt(ha * wa) + EPSILON
        length = tf.sqrt(h * w) + EPSILON
        offsets = [
            (y - ya) / anchor_length,
            (x - xa) / anchor_length,
            tf.math.log(length / anchor_length),
        ]
        return tf.stack(offsets, axis=-1) * tf.constant(self._scales)

    def decode(self, codes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Decode center offsets and log length ratios [..., 3] into square boxes."""
        ya, xa, ha, wa = box_ops.to_center_size(anchors)
        anchor_length = tf.sqrt(ha * wa)
        ty, tx, tl = tf.unstack(codes / tf.constant(self._scales), axis=-1)
        length = tf.exp(tl) * anchor_length
        return box_ops.from_center_size(
            ty * anchor_length + ya, tx * anchor_length + xa, length, length
        )


def build_box_coder(section: Section[box_coding_pb2.BoxCoder]) -> BoxCoder:
    """Build the box coder that a config describes.

    Args:
        section: configuration message.

    Raises:
        errors.ConfigError: the message is empty, or of a coder for other boxes.
    """
    config = section.message
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
    known = 'faster_rcnn_box_coder, mean_stddev_box_coder or square_box_coder'
    raise section.error('', f'{kind or "empty"}; expected {known}.')


def _positive_sizes(boxes: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Compute centers, and sizes that are safe to divide by and to take the logarithm of."""
    y, x, h, w = box_ops.to_center_size(boxes)
    return y, x, h + EPSILON, w + EPSILON
