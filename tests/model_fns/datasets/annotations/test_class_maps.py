"""Class ids that are drawn of shapes, by hand."""

import io

import numpy as np
import pytest
from PIL import Image

from estimator_lib import errors
from model_fns.datasets.annotations import class_maps
from model_fns.datasets.annotations.class_maps import Shape
from model_fns.datasets.annotations.pixel_masks import PixelMask
from model_fns.structures import images
from model_fns.structures.label_map import LabelMap, LabelMapItem

HEADER = images.ImageHeader('png', 4, 6)
CLASSES = LabelMap.from_names(['a', 'b', 'c'])


def mask(rows, columns):
    pixels = np.zeros([4, 6], np.uint8)
    pixels[rows, columns] = 1
    return PixelMask(0, 0, pixels)


ROWS = slice(0, 2)


def test_smaller_objects_are_above_larger_ones():
    shapes = [
        Shape(2, mask(slice(0, 1), slice(1, 3)), [0, 1, 1, 3]),
        Shape(1, mask(ROWS, slice(0, 4)), [0, 0, 2, 4]),
        Shape(3, None, [1, 3, 2, 6]),
    ]
    expected = [
        [1, 2, 2, 1, 0, 0],
        [1, 1, 1, 3, 3, 3],
        [0] * 6,
        [0] * 6,
    ]
    for order in ([0, 1, 2], [2, 1, 0]):
        drawn = class_maps.draw([shapes[index] for index in order], HEADER, CLASSES)
        np.testing.assert_array_equal(drawn, expected)


def test_crowds_are_ignored_where_no_object_is():
    shapes = [
        Shape(1, mask(slice(0, 3), slice(0, 5)), [0, 0, 3, 5]),
        Shape(2, mask(slice(0, 1), slice(0, 6)), [0, 0, 1, 6], is_crowd=True),
    ]
    drawn = class_maps.draw(shapes, HEADER, CLASSES)
    np.testing.assert_array_equal(drawn[0], [1, 1, 1, 1, 1, 255])
    classes = LabelMap((LabelMapItem(255, 'x', 'x'),))
    with pytest.raises(
        errors.DataError, match='class of id 255, which the pixels of crowds and of'
    ):
        class_maps.draw(shapes, HEADER, classes)


@pytest.mark.parametrize('largest, dtype', [(255, np.uint8), (256, np.uint16)])
def test_classes_have_as_many_bits_as_they_need(largest, dtype):
    classes = np.array([[0, 1], [2, largest]])
    features = class_maps.class_features(classes)
    pixels = np.asarray(Image.open(io.BytesIO(features['image/segmentation/class/encoded'])))
    np.testing.assert_array_equal(pixels, classes)
    assert pixels.dtype == dtype
    assert features['image/segmentation/class/format'] == 'png'
