"""Interfaces of box families: everything in detection that depends on how a box is encoded.

A family is a module with these functions, such as `axis_aligned`. Parts of a model get their family
as an argument. In data the number of values of a box tells the family. Axis-aligned boxes have the
same encoding in data and in models. Rotated boxes are normalized corners in data
(`quadrilaterals`). In a model they are center, sides and angle in pixels of its input (`rotated`,
which only has the functions that models need).
"""

from __future__ import annotations

from typing import Optional, Protocol, Sequence, Tuple

import tensorflow as tf

from model_fns.detection.boxes import axis_aligned, quadrilaterals, rotated


class Boxes(Protocol):
    """Operations of a model on boxes [..., SIZE]; leading dimensions broadcast.

    Attributes:
        SIZE: number of values of a box.
    """

    SIZE: int

    def area(self, boxes: tf.Tensor) -> tf.Tensor:
        """Compute areas [...], of boxes [..., K]."""

    def has_area(self, boxes: tf.Tensor) -> tf.Tensor:
        """Check which boxes have only sides above 0: bool [...], of boxes [..., K]."""

    def enclosing_boxes(self, boxes: tf.Tensor) -> tf.Tensor:
        """Compute the smallest enclosing axis-aligned boxes, [..., 4]: ymin, xmin, ymax, xmax."""

    def pairwise_iou(self, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        """Compute the IoU of [..., N, SIZE] and [..., P, SIZE]: [..., N, P]."""

    def pairwise_ioa(self, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        """Compute intersection over the area of the second box, [..., N, P]."""

    def self_iou(self, boxes: tf.Tensor) -> tf.Tensor:
        """Compute the IoU [N, N] of boxes with each other; the diagonal is undefined."""

    def elementwise_iou(self, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        """Compute intersection over union of boxes at the same index, [...], of boxes [..., K]."""

    def clip_to_window(self, boxes: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
        """Clip boxes to a window [..., 4], if boxes of the family can be clipped."""

    def scale(self, boxes: tf.Tensor, y_scale: tf.Tensor, x_scale: tf.Tensor) -> tf.Tensor:
        """Scale boxes with their image, whose sides are multiplied by these factors [...].

        Returns:
            The boxes, [..., K].
        """


class ModelBoxes(Boxes, Protocol):
    """Further operations of models on their boxes."""

    def to_rectangles(self, boxes: tf.Tensor) -> tf.Tensor:
        """Convert boxes to [..., 5]: center, height, width and angle, see `rotated`."""

    def crop(
        self,
        features: tf.Tensor,
        boxes: tf.Tensor,
        images: tf.Tensor,
        size: int,
        image_size: Tuple[tf.Tensor, tf.Tensor],
    ) -> tf.Tensor:
        """Crop features inside of boxes [n, SIZE]: [n, size, size, channels]; 0 off the map.

        The borders of boxes are sampled too. Boxes get no gradient.

        Args:
            features: [B, height, width, channels].
            boxes: in pixels of the input.
            images: int32 [n]: the row of `features` that each box is on.
            size: rows and columns of a crop.
            image_size: height and width of the input in pixels, float32.
        """


class BoxFamily(Boxes, Protocol):
    """Further operations of the data pipeline on normalized boxes.

    Attributes:
        RECORD_KEYS: keys of a record, one for each value of a box.
        IS_ROTATED: True for rotated boxes. Their outputs have the values of a record, which refer
            to the original image, and corners.
    """

    RECORD_KEYS: Tuple[str, ...]
    IS_ROTATED: bool

    def to_boxes(self, boxes: tf.Tensor, height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
        """Convert boxes to those of models (see `model_family`), in pixels of the image.

        Args:
            boxes: [..., SIZE], normalized to an image.
            height: of the image in pixels; a scalar, or of a shape that broadcasts against [...].
            width: likewise.
        """

    def from_boxes(self, boxes: tf.Tensor, height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
        """Convert boxes of a model to normalized boxes [..., SIZE]; see `to_boxes`."""

    def from_record(self, numbers: tf.Tensor, height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
        """Convert the values of a record to boxes [n, SIZE]; sides are in pixels."""

    def to_record(self, boxes: tf.Tensor, height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
        """Convert boxes [..., SIZE] to the values of a record; sides broadcast against [...]."""

    def is_sound(self, numbers: tf.Tensor, overhang: float) -> tf.Tensor:
        """Check which values of a record are plausible: bool [...]; NaN passes.

        Args:
            numbers: float32 [..., K].
            overhang: distance by which a box may extend beyond the image.
        """

    def find_problem(self, box: Sequence[float], overhang: float) -> str:
        """Describe why the normalized box of a record is implausible; empty if plausible."""

    def clip_numbers(self, box: Sequence[float]) -> Optional[Sequence[float]]:
        """Return the box of a record, clipped at the border of its image; None: nothing is left."""

    def has_sides(self, box: Sequence[float]) -> bool:
        """Check whether the box of a record has an area."""

    def area_inside(self, boxes: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
        """Compute the areas of the parts of boxes inside of a window: [...] of boxes [..., K]."""

    def change_frame(self, boxes: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
        """Convert boxes to coordinates of a window [..., 4]: its corners are (0, 0), (1, 1)."""

    def flip(self, boxes: tf.Tensor, axis: int) -> tf.Tensor:
        """Mirror normalized boxes with their image, top to bottom (0) or left to right (1).

        Returns:
            [..., K].
        """

    def rotate90(self, boxes: tf.Tensor) -> tf.Tensor:
        """Rotate normalized boxes with their image by 90 degrees, counterclockwise: [..., K]."""

    def transform(self, boxes: tf.Tensor, matrix: tf.Tensor, shift: tf.Tensor) -> tf.Tensor:
        """Transform boxes [n, SIZE]: each point p, (y, x), moves to matrix p + shift."""


_FAMILIES = {family.SIZE: family for family in (axis_aligned, quadrilaterals)}


# Families in models by the size of the family in data.
# Modules are no keys here, because data only tells the number of values.
_MODEL_FAMILIES = {axis_aligned.SIZE: axis_aligned, quadrilaterals.SIZE: rotated}


def model_family(family: BoxFamily) -> ModelBoxes:
    """Return the family that models use, in pixels of the input, for a family of data."""
    return _MODEL_FAMILIES[family.SIZE]


def find_family(boxes: tf.Tensor) -> BoxFamily:
    """Find the family of boxes [..., K] by K, the static size of their last dimension.

    Raises:
        ValueError: no family has that size.
    """
    if boxes.shape[-1] not in _FAMILIES:
        raise ValueError(
            f'boxes of {boxes.shape[-1]} numbers; expected {" or ".join(map(str, _FAMILIES))}'
        )
    return _FAMILIES[boxes.shape[-1]]
