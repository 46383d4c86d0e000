"""What detection asks of a kind of boxes: everything that depends on the numbers of a box.

A family is a module with these functions, such as `axis_aligned`. Parts of a model are given
theirs; data is not tied to one: how many numbers its boxes have tells it.
"""

from __future__ import annotations

from typing import Protocol, Sequence, Tuple

import tensorflow as tf

from model_fns.detection.boxes import axis_aligned


class BoxFamily(Protocol):
    """Functions of boxes [..., SIZE]; leading dimensions broadcast.

    Attributes:
        SIZE: numbers of a box.
        RECORD_KEYS: keys of a record, one for each of them.
    """

    SIZE: int
    RECORD_KEYS: Tuple[str, ...]

    def area(self, boxes: tf.Tensor) -> tf.Tensor:
        """Areas [...]."""

    def has_area(self, boxes: tf.Tensor) -> tf.Tensor:
        """Bool [...]: whether all sides are above 0."""

    def is_sound(self, boxes: tf.Tensor, overhang: float) -> tf.Tensor:
        """Bool [...]: normalized boxes that are no mistake; NaN is taken for none."""

    def problem_of(self, box: Sequence[float], overhang: float) -> str:
        """What is wrong with the normalized box of a record; empty when nothing is."""

    def hull(self, boxes: tf.Tensor) -> tf.Tensor:
        """The smallest upright boxes around, [..., 4]: ymin, xmin, ymax, xmax."""

    def pairwise_iou(self, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        """Intersection over union of [..., N, SIZE] and [..., P, SIZE]: [..., N, P]."""

    def pairwise_ioa(self, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        """Intersection over the area of the second box, [..., N, P]."""

    def elementwise_iou(self, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        """Intersection over union of the boxes at the same place, [...]."""

    def elementwise_giou(self, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        """Generalised IoU of the boxes at the same place, [...]."""

    def clip_to_window(self, boxes: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
        """Boxes cut off at a window [..., 4], as far as the family can be cut."""

    def is_inside(self, boxes: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
        """Bool [...]: boxes of which nothing is outside of a window [..., 4]."""

    def change_frame(self, boxes: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
        """Boxes in coordinates of a window [..., 4]: its corners become (0, 0) and (1, 1)."""

    def scale(self, boxes: tf.Tensor, y_scale: tf.Tensor, x_scale: tf.Tensor) -> tf.Tensor:
        """Boxes of an image whose sides are multiplied by these factors [...]."""

    def flip(self, boxes: tf.Tensor, axis: int) -> tf.Tensor:
        """Normalized boxes of an image mirrored top to bottom (0) or left to right (1)."""

    def rotate90(self, boxes: tf.Tensor) -> tf.Tensor:
        """Normalized boxes of an image turned by a quarter, counterclockwise."""

    def transform(self, boxes: tf.Tensor, matrix: tf.Tensor, shift: tf.Tensor) -> tf.Tensor:
        """Boxes [n, SIZE] after each point p, (y, x), went to matrix p + shift."""


_FAMILIES = {axis_aligned.SIZE: axis_aligned}


def family_of(boxes: tf.Tensor) -> BoxFamily:
    """The family of boxes, by the static size of their last dimension.

    Raises:
        ValueError: there is none of that size.
    """
    if boxes.shape[-1] not in _FAMILIES:
        raise ValueError(
            f'boxes of {boxes.shape[-1]} numbers; expected {" or ".join(map(str, _FAMILIES))}'
        )
    return _FAMILIES[boxes.shape[-1]]
