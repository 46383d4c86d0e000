"""A class for each pixel: PNGs of class ids, and those drawn of the shapes of objects."""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Sequence

import numpy as np

from estimator_lib import errors
from model_fns.datasets import codecs, records
from model_fns.datasets.annotations import pixel_masks
from model_fns.structures import images
from model_fns.structures.label_map import LabelMap

BACKGROUND = 0
IGNORED = 255  # value of pixels that count for nothing, in records
# Ids of regions to ignore while an annotation is read, see `ignored_regions`.
# Above all ids of label maps, and still an int32.
FIRST_IGNORED_ID = 1 << 20
_MAX_BYTE = 255


class Shape(NamedTuple):
    """The pixels of an object.

    Attributes:
        class_id: of the object; 0: it is background.
        mask: of the object; None: the pixels of its box.
        box: ymin, xmin, ymax, xmax in pixels.
        is_crowd: several objects as one, whose pixels count for nothing.
    """

    class_id: int
    mask: Optional[pixel_masks.PixelMask]
    box: Sequence[float]
    is_crowd: bool = False

    @property
    def is_ignored(self) -> bool:
        """True if the pixels count for nothing."""
        return self.is_crowd or self.class_id >= FIRST_IGNORED_ID


def class_features(classes: np.ndarray) -> records.Features:
    """Return the record features of the pixels' class ids.

    Args:
        classes: int [height, width].
    """
    dtype = np.uint8 if classes.max(initial=0) <= _MAX_BYTE else np.uint16
    return {
        'image/segmentation/class/encoded': codecs.encode_png(classes.astype(dtype)),
        'image/segmentation/class/format': 'png',
    }


def check_ignored(classes: LabelMap, pixels: str) -> None:
    """Check that no class has the id of ignored pixels.

    Args:
        classes: the label map.
        pixels: a description of the ignored pixels, for the message.

    Raises:
        errors.DataError: the label map has a class of the id `IGNORED`.
    """
    if IGNORED in classes.names:
        raise errors.DataError(
            f'the label map has a class of id {IGNORED}, which {pixels} have in records; expected '
            'ids below.'
        )


def draw(shapes: Sequence[Shape], header: images.ImageHeader, classes: LabelMap) -> np.ndarray:
    """Draw shapes as class ids; other pixels are background.

    Smaller objects are above larger ones, of equal ones the last. Crowds and regions to ignore are
    below all objects, and their pixels are ignored.

    Args:
        shapes: of the objects of an image.
        header: the image's size.
        classes: the label map.

    Returns:
        int32 [height, width].

    Raises:
        errors.DataError: there is a crowd, and the label map has a class of the id `IGNORED`.
    """
    if any(shape.is_ignored for shape in shapes):
        check_ignored(classes, 'the pixels of crowds and of regions to ignore')
    drawn = np.full([header.height, header.width], BACKGROUND, np.int32)
    masks = [shape.mask or pixel_masks.of_box(shape.box, header) for shape in shapes]
    order = sorted(
        range(len(shapes)), key=lambda i: (not shapes[i].is_ignored, -masks[i].num_pixels)
    )
    for index in order:
        shape, mask = shapes[index], masks[index]
        value = IGNORED if shape.is_ignored else shape.class_id
        drawn[mask.window][mask.pixels > 0] = value
    return drawn


def box_around(mask: np.ndarray) -> List[int]:
    """Return the box around pixels: ymin, xmin, ymax, xmax; ymax and xmax are exclusive.

    Args:
        mask: bool [height, width], with at least one pixel.
    """
    rows, columns = (np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0))
    # Pixel i covers i to i + 1, as COCO's boxes of masks do.
    return [rows[0], columns[0], rows[-1] + 1, columns[-1] + 1]
