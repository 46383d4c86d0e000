"""What detection asks of a kind of boxes: everything that depends on the numbers of a box.

A family is a module with these functions, such as `axis_aligned`. Parts of a model are given
theirs; data is not tied to one: how many numbers its boxes have tells it. Upright boxes are the
same in both. Rotated ones are corners in data, normalized as images are (`quadrilaterals`), and
center, sides and angle in a model, in pixels of its input (`rotated`, which has the functions that
models need alone).
"""

from __future__ import annotations

from typing import Protocol, Sequence, Tuple

import tensorflow as tf

from model_fns.detection.boxes import axis_aligned, quadrilaterals, rotated


class Boxes(Protocol):
    """What a model asks of boxes [..., SIZE]; leading dimensions broadcast.

    Attributes:
        SIZE: numbers of a box.
    """

    SIZE: int

    def area(self, boxes: tf.Tensor) -> tf.Tensor:
        """Return areas [...]."""

    def has_area(self, boxes: tf.Tensor) -> tf.Tensor:
        """Return bool [...]: whether all sides are above 0."""

    def hull(self, boxes: tf.Tensor) -> tf.Tensor:
        """Return the smallest upright boxes around, [..., 4]: ymin, xmin, ymax, xmax."""

    def pairwise_iou(self, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        """Return intersection over union of [..., N, SIZE] and [..., P, SIZE]: [..., N, P]."""

    def pairwise_ioa(self, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        """Return intersection over the area of the second box, [..., N, P]."""

    def self_iou(self, boxes: tf.Tensor) -> tf.Tensor:
        """Intersection over union [N, N] of boxes with each other; any number with themselves."""

    def elementwise_iou(self, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        """Return intersection over union of the boxes at the same place, [...]."""

    def clip_to_window(self, boxes: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
        """Return boxes cut off at a window [..., 4], as far as the family can be cut."""

    def scale(self, boxes: tf.Tensor, y_scale: tf.Tensor, x_scale: tf.Tensor) -> tf.Tensor:
        """Return boxes of an image whose sides are multiplied by these factors [...]."""


class ModelBoxes(Boxes, Protocol):
    """What a model of two stages asks of boxes in pixels, beside that."""

    def crop(
        self,
        features: tf.Tensor,
        boxes: tf.Tensor,
        images: tf.Tensor,
        size: int,
        image_size: Tuple[tf.Tensor, tf.Tensor],
    ) -> tf.Tensor:
        """Features [n, size, size, channels] inside of boxes [n, SIZE]; 0 outside of the map.

        The borders of boxes are sampled too. No gradient goes to boxes.

        Args:
            features: [B, height, width, channels].
            boxes: in pixels of the input.
            images: int32 [n]: the row of `features` that each box is on.
            size: rows and columns of a crop.
            image_size: height and width of the input in pixels, float32.
        """


class BoxFamily(Boxes, Protocol):
    """What data asks of normalized boxes, beside that.

    Attributes:
        RECORD_KEYS: keys of a record, one for each number that it has of a box.
        IS_ROTATED: whether boxes are turned: outputs have the numbers of a record, which are of
            the image as it came, and corners.
    """

    RECORD_KEYS: Tuple[str, ...]
    IS_ROTATED: bool

    def to_boxes(self, boxes: tf.Tensor, height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
        """Return boxes as models have them (see `of_models`), in pixels of the image.

        Args:
            boxes: [..., SIZE], normalized to an image.
            height: of the image in pixels; a scalar, or of a shape that broadcasts against [...].
            width: likewise.
        """

    def from_boxes(self, boxes: tf.Tensor, height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
        """Normalized boxes [..., SIZE] of a model's; see `to_boxes`."""

    def from_record(self, numbers: tf.Tensor, height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
        """Boxes [n, SIZE] of the numbers of a record, and the size of its image in pixels."""

    def to_record(self, boxes: tf.Tensor, height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
        """What a record would have of boxes [..., SIZE]; sides broadcast against [...]."""

    def is_sound(self, numbers: tf.Tensor, overhang: float) -> tf.Tensor:
        """Return bool [...]: numbers of a record that are no mistake; NaN is taken for none."""

    def problem_of(self, box: Sequence[float], overhang: float) -> str:
        """Return why the normalized box of a record cannot be meant; empty when it can."""

    def has_sides(self, box: Sequence[float]) -> bool:
        """Return whether the box of a record has an area."""

    def area_inside(self, boxes: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
        """Return areas of the parts of boxes that are inside of a window."""

    def change_frame(self, boxes: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
        """Boxes in coordinates of a window [..., 4]: its corners become (0, 0) and (1, 1)."""

    def flip(self, boxes: tf.Tensor, axis: int) -> tf.Tensor:
        """Normalized boxes of an image mirrored top to bottom (0) or left to right (1)."""

    def rotate90(self, boxes: tf.Tensor) -> tf.Tensor:
        """Normalized boxes of an image turned by a quarter, counterclockwise."""

    def transform(self, boxes: tf.Tensor, matrix: tf.Tensor, shift: tf.Tensor) -> tf.Tensor:
        """Return boxes [n, SIZE] after each point p, (y, x), went to matrix p + shift."""


_FAMILIES = {one.SIZE: one for one in (axis_aligned, quadrilaterals)}


# What models have in place of normalized boxes.
_OF_MODELS = {axis_aligned.SIZE: axis_aligned, quadrilaterals.SIZE: rotated}


def of_models(family: BoxFamily) -> ModelBoxes:
    """Return the boxes, in pixels of the input, that a model has of a family's."""
    return _OF_MODELS[family.SIZE]


def family_of(boxes: tf.Tensor) -> BoxFamily:
    """Return the family of boxes, by the static size of their last dimension.

    Raises:
        ValueError: there is none of that size.
    """
    if boxes.shape[-1] not in _FAMILIES:
        raise ValueError(
            f'boxes of {boxes.shape[-1]} numbers; expected {" or ".join(map(str, _FAMILIES))}'
        )
    return _FAMILIES[boxes.shape[-1]]
