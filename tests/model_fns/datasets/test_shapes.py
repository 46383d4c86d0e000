import math

import numpy as np
import pytest

from model_fns.datasets import shapes
from model_fns.datasets.shapes import Placement


def _image(name, placement, height, width):
    covered = shapes.coverage(name, placement, height, width)
    image = np.zeros((height, width))
    image[covered.rows, covered.columns] = covered.values
    return image


# Areas as shares of the box, by geometry.
_AREAS = {
    'ellipse': math.pi / 4,
    'rectangle': 1,
    'triangle': 0.5,
    'cross': 2 * 0.33 - 0.33**2,
    'ring': math.pi / 4 * (1 - 0.55**2),
    'arrow': (1 * 0.8 + 0.5 * 1 * 2) / 4,
}


@pytest.mark.parametrize('name, share', _AREAS.items())
@pytest.mark.parametrize('angle', [0, 0.7, -2.5])
def test_areas(name, share, angle):
    image = _image(name, Placement(60.3, 70.8, 50, 80, angle), 120, 140)
    assert image.sum() == pytest.approx(share * 50 * 80, rel=0.015)


@pytest.mark.parametrize('name', shapes.NAMES)
def test_every_shape_touches_the_four_sides_of_its_box_and_no_more(name):
    mask = _image(name, Placement(50, 60, 60, 80, 0), 100, 120) >= 0.5
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    # Thin tips may end a few pixels before they cover half of one.
    assert 20 <= rows[0] <= 23 and 76 <= rows[-1] <= 79
    assert 20 <= columns[0] <= 23 and 96 <= columns[-1] <= 99


def test_pixels_are_where_the_placement_says():
    image = _image('rectangle', Placement(4, 6, 2, 6, 0), 8, 12)
    expected = np.zeros((8, 12))
    expected[3:5, 3:9] = 1
    np.testing.assert_allclose(image, expected, atol=1e-5)


def test_angles_turn_the_x_axis_towards_the_y_axis():
    # An arrow to the right, turned by a quarter of a circle, points down.
    down = _image('arrow', Placement(20, 20, 20, 20, math.pi / 2), 40, 40)
    right = _image('arrow', Placement(20, 20, 20, 20, 0), 40, 40)
    np.testing.assert_allclose(down, right.T, atol=1e-4)
    assert right[20, 27] > 0.5 > right[12, 27]


def test_outlines_are_soft():
    image = _image('rectangle', Placement(10, 10.25, 10, 10, 0), 20, 20)
    assert image[10, 4:7].tolist() == pytest.approx([0, 0.75, 1])
    assert image[10, 14:17].tolist() == pytest.approx([1, 0.25, 0])


def test_a_shape_outside_of_the_image_covers_nothing():
    covered = shapes.coverage('ellipse', Placement(-50, 10, 8, 8, 1), 20, 30)
    assert covered.values.size == 0
    partly = _image('rectangle', Placement(0, 0, 10, 10, 0), 20, 30)
    assert partly.sum() == pytest.approx(25)


@pytest.mark.parametrize('one', shapes.NAMES)
def test_shapes_differ(one):
    placement = Placement(30, 30, 40, 40, 0)
    image = _image(one, placement, 60, 60)
    for other in shapes.NAMES:
        if other != one:
            assert np.abs(image - _image(other, placement, 60, 60)).sum() > 200
