"""Coder of rotated boxes relative to rotated anchors."""

from __future__ import annotations

import enum
import math
from typing import Tuple

import tensorflow as tf

from estimator_lib.config.section import Section
from model_fns.detection.boxes import rotated
from model_fns.detection.boxes.axis_aligned import EPSILON
from model_fns.detection.boxes.box_coders import BoxCoder
from protos import box_coding_pb2

# Decoded sides are at most 1000/16 times those of the anchor, and at least 16/1000: the bounds that
# two-stage detectors use since Detectron.
_MOST_LOG = math.log(1000 / 16)
_QUARTER = math.pi / 2


class AngleWrap(enum.Enum):
    """Range of the difference of two angles.

    NONE: the plain difference.
    PI: the equivalent rotation in [-pi/2, pi/2).
    HALF_PI: the equivalent rotation in [-pi/4, pi/4); the sides of the box are exchanged if needed.
    """

    NONE = 'none'
    PI = 'pi'
    HALF_PI = 'half pi'


_WRAPS = {
    box_coding_pb2.RotatedBoxCoder.NONE: AngleWrap.NONE,
    box_coding_pb2.RotatedBoxCoder.PI: AngleWrap.PI,
    box_coding_pb2.RotatedBoxCoder.HALF_PI: AngleWrap.HALF_PI,
}


class RotatedBoxCoder(BoxCoder):
    """Center along the anchor's axes in units of its sides, log sides, and angle difference.

    With dy, dx the distance of the centers and a the anchor's angle:

        ty = sy (-sin a dx + cos a dy) / ha    tx = sx (cos a dx + sin a dy) / wa
        th = sh ln(h / ha)    tw = sw ln(w / wa)    tt = st (angle - a) / (pi / 2)

    in that order. The code of an axis-aligned box is that of `FasterRcnnBoxCoder`, then 0.

    Example:
        With scales of 1 the box (14, 13, 2, 4, pi / 2 + 0.1) has the code
        (-1.5, 0.5, 0, -ln 2, 0.2 / pi) relative to the anchor (10, 10, 2, 8, pi / 2), which lies
        along the rows.

    Args:
        scales: (sy, sx, sh, sw, st).
        wrap: range of the difference of angles.
    """

    code_size = rotated.SIZE

    def __init__(
        self,
        scales: Tuple[float, float, float, float, float] = (10.0, 10.0, 5.0, 5.0, 10.0),
        wrap: AngleWrap = AngleWrap.PI,
    ):
        # The default of the angle is that of the published branch's message. Its two-stage presets
        # have 5 there, whatever the message says.
        self._scales = scales
        self._wrap = wrap

    def encode(self, boxes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Encode boxes [..., 5] relative to anchors (broadcast to [..., 5]): [..., 5]."""
        y, x, height, width, angle = tf.unstack(boxes, axis=-1)
        ya, xa, anchor_height, anchor_width, anchor_angle = tf.unstack(anchors, axis=-1)
        anchor_height, anchor_width = anchor_height + EPSILON, anchor_width + EPSILON
        # Without wrapping, as in the published branch, a box at 89 degrees is far from an anchor at
        # -89.
        turn = angle - anchor_angle
        if self._wrap is AngleWrap.PI:
            turn = rotated.wrap(turn)
        elif self._wrap is AngleWrap.HALF_PI:
            turn = rotated.wrap(turn)
            swap = tf.logical_or(turn < -0.5 * _QUARTER, turn >= 0.5 * _QUARTER)
            turn = rotated.wrap(turn, _QUARTER)
            height, width = tf.where(swap, width, height), tf.where(swap, height, width)
        cosine, sine = tf.cos(anchor_angle), tf.sin(anchor_angle)
        down, along = y - ya, x - xa
        offsets = [
            (cosine * down - sine * along) / anchor_height,
            (cosine * along + sine * down) / anchor_width,
            tf.math.log((height + EPSILON) / anchor_height),
            tf.math.log((width + EPSILON) / anchor_width),
            turn / _QUARTER,
        ]
        return tf.stack(offsets, axis=-1) * tf.constant(self._scales, boxes.dtype)

    def decode(self, codes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Decode codes [..., 5]; the angle of a box is that of its anchor plus the difference."""
        codes = codes / tf.constant(self._scales, codes.dtype)
        ty, tx, th, tw, turn = tf.unstack(codes, axis=-1)
        ya, xa, height, width, angle = tf.unstack(anchors, axis=-1)
        cosine, sine = tf.cos(angle), tf.sin(angle)
        down, along = ty * height, tx * width
        logs = [tf.clip_by_value(code, -_MOST_LOG, _MOST_LOG) for code in (th, tw)]
        boxes = [
            ya + cosine * down + sine * along,
            xa + cosine * along - sine * down,
            tf.exp(logs[0]) * height,
            tf.exp(logs[1]) * width,
            angle + turn * _QUARTER,
        ]
        return tf.stack(boxes, axis=-1)


def build_box_coder(section: Section[box_coding_pb2.BoxCoder]) -> RotatedBoxCoder:
    """Build the coder of rotated boxes that a config describes.

    Args:
        section: configuration message.

    Raises:
        errors.ConfigError: the message is empty, or of a coder of axis-aligned boxes.
    """
    config = section.message
    kind = config.WhichOneof('box_coder_oneof')
    if kind != 'rotated_box_coder':
        raise section.error(
            '', f'{kind or "empty"}; expected rotated_box_coder, with box_type: ROTATED.'
        )
    return build_from_message(config.rotated_box_coder)


def build_from_message(coder: box_coding_pb2.RotatedBoxCoder) -> RotatedBoxCoder:
    """Build the coder that a message describes."""
    scales = (
        coder.y_scale,
        coder.x_scale,
        coder.height_scale,
        coder.width_scale,
        coder.angle_scale,
    )
    return RotatedBoxCoder(scales, _WRAPS[coder.angle_wrap])
