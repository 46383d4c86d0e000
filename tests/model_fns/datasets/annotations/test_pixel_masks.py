"""Pixels of objects in a window of their image, by hand."""

import io

import numpy as np
from PIL import Image

from model_fns.datasets.annotations import class_maps, pixel_masks
from model_fns.structures import images

HEADER = images.ImageHeader('png', 4, 6)


def test_a_window_is_put_into_its_image():
    mask = pixel_masks.PixelMask(1, 3, np.array([[1, 0], [1, 1]], np.uint8))
    expected = [[0, 0, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0], [0, 0, 0, 1, 1, 0], [0, 0, 0, 0, 0, 0]]
    np.testing.assert_array_equal(mask.whole(HEADER), expected)
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(mask.png(HEADER)))), expected)
    assert mask.num_pixels == 3


def test_boxes_and_their_pixels():
    pixels = pixel_masks.of_box([1, 2, 3, 5], HEADER).whole(HEADER)
    assert pixels.sum() == 6 and pixels[1:3, 2:5].all()
    assert class_maps.box_around(pixels > 0) == [1, 2, 3, 5]
    beyond = pixel_masks.of_box([-2.0, 4.6, 1.4, 9.0], HEADER).whole(HEADER)
    assert beyond.sum() == 1 and beyond[0, 5]
    assert not pixel_masks.of_box([5, 7, 9, 9], HEADER).num_pixels
