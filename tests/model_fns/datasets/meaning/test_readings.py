"""Numbers of boxes that mean something else than their format says."""

import numpy as np
import pytest

from model_fns.datasets.meaning import readings
from model_fns.datasets.meaning.annotated import Annotated, Object
from model_fns.datasets.meaning.issues import Severity

SIZE = (120, 160)
# x 20 to 60, y 30 to 70, and x 90 to 150, y 20 to 110: ymin, xmin, ymax, xmax.
BOXES = [[30, 20, 70, 60], [20, 90, 110, 150]]
# The same two, in each reading, computed by hand.
WRITTEN = {
    'corners': [[20, 30, 60, 70], [90, 20, 150, 110]],
    'sizes': [[20, 30, 40, 40], [90, 20, 60, 90]],
    'centers': [[40, 50, 40, 40], [120, 65, 60, 90]],
    'swapped corners': [[30, 20, 70, 60], [20, 90, 110, 150]],
    'mirrored sizes': [[20, 50, 40, 40], [90, 10, 60, 90]],
    'mirrored corners': [[20, 50, 60, 90], [90, 10, 150, 100]],
    'normalized corners': [[0.125, 0.25, 0.375, 7 / 12], [0.5625, 1 / 6, 0.9375, 11 / 12]],
    'normalized sizes': [[0.125, 0.25, 0.25, 1 / 3], [0.5625, 1 / 6, 0.375, 0.75]],
    'normalized centers': [[0.25, 5 / 12, 0.25, 1 / 3], [0.75, 65 / 120, 0.375, 0.75]],
}


def find(reading, rows, outlines=(None, None), num_images=4):
    check = readings.BoxReadings()
    for image in range(num_images):
        objects = [
            Object(f'file {image}, object {index}', row, reading, outline)
            for index, (row, outline) in enumerate(zip(rows, outlines))
        ]
        check.add(Annotated(f'image {image}', SIZE, objects, len(objects)))
    return check.issues()


@pytest.mark.parametrize('name', list(WRITTEN))
def test_readings_by_hand(name):
    boxes = readings.READINGS[name].boxes(np.array(WRITTEN[name], np.float64), SIZE)
    np.testing.assert_allclose(boxes, BOXES, atol=1e-9)


@pytest.mark.parametrize('outlines', [(None, None), BOXES], ids=['boxes', 'polygons'])
@pytest.mark.parametrize('name', list(WRITTEN))
def test_numbers_that_mean_what_they_should_give_no_issue(name, outlines):
    assert find(name, WRITTEN[name], outlines) == []


# What is written, and what the format expects.
UNITS = [
    ('normalized corners', 'corners', 'normalized, it seems'),
    ('normalized sizes', 'sizes', 'normalized, it seems'),
    ('normalized centers', 'corners', 'normalized, it seems'),
    ('corners', 'normalized centers', 'pixels, it seems'),
    ('sizes', 'normalized corners', 'pixels, it seems'),
    ('centers', 'normalized centers', 'pixels, it seems'),
]


@pytest.mark.parametrize(('written', 'expected', 'said'), UNITS)
def test_other_units_are_an_error_even_in_one_image(written, expected, said):
    (issue,) = find(expected, WRITTEN[written], num_images=1)
    assert issue.severity is Severity.ERROR
    assert said in str(issue) and 'file 0, object 0' in str(issue)
    assert (issue.number, issue.total) == (2, 2)


# Each of these fits the image also as what is expected, so it takes the polygon to see it.
ORDERS = [
    ('corners', 'sizes'),
    ('sizes', 'corners'),
    ('swapped corners', 'corners'),
    ('mirrored sizes', 'sizes'),
    ('mirrored corners', 'corners'),
    ('centers', 'sizes'),
]


@pytest.mark.parametrize(('written', 'expected'), ORDERS)
def test_boxes_that_are_not_around_their_polygons(written, expected):
    (issue,) = find(expected, WRITTEN[written], BOXES, num_images=1)
    assert issue.severity is Severity.ERROR
    order = readings.READINGS[written].order
    assert f'make no sense as {readings.READINGS[expected].order} in pixels' in str(issue)
    assert f'do as {order} in pixels' in str(issue)


def test_corners_for_sizes_without_polygons():
    # x + width of the second box is 240, beyond the image; of the first it is 80.
    (issue,) = find('sizes', WRITTEN['corners'])
    assert (issue.severity, issue.number) == (Severity.ERROR, 4)
    assert issue.example == 'file 0, object 1: 90, 20, 150, 110'
    (issue,) = find('corners', WRITTEN['sizes'])
    assert issue.severity is Severity.ERROR and 'as x, y, width, height' in str(issue)


def test_few_boxes_without_polygons_do_not_tell_an_order():
    assert find('sizes', [[90, 20, 150, 110]], num_images=3) == []
    assert find('sizes', [[90, 20, 150, 110]], num_images=4)


def test_some_slips_are_no_other_reading():
    good = WRITTEN['corners'] * 10
    assert find('corners', [*good, [150, 20, 90, 110]], [None] * 21) == []
    (issue,) = find('corners', [*good, [20.0, 30.0, 20.4, 70.0]], [None] * 21)
    assert issue.severity is Severity.WARNING and issue.number == 4
    assert '4 of 84 boxes have a side of less than a pixel' in str(issue)


def test_a_box_elsewhere_than_its_polygon_is_a_warning():
    rows, outlines = WRITTEN['corners'] * 10, BOXES * 10
    rows = [*rows, [20, 30, 60, 70]]
    (issue,) = find('corners', rows, [*outlines, [80, 100, 110, 150]])
    assert issue.severity is Severity.WARNING
    assert '4 of 84 boxes are elsewhere than their own polygon or mask' in str(issue)


def test_boxes_of_thin_polygons_agree():
    # A polygon that is a horizontal line, and a box around it that is a pixel high.
    assert find('corners', [[20, 30, 60, 31]], [[30, 20, 30, 60]]) == []


def test_boxes_that_reach_out_a_little_make_sense():
    assert find('corners', [[-2, -2, 161, 121]] * 4, [None] * 4) == []


def test_numbers_that_are_none_do_not_count_as_any_reading():
    rows = [[float('nan')] * 4, [float('inf'), 0, 1, 1]] * 3
    assert find('corners', rows, [None] * 6) == []


def lying(numbers, apply_exif=True, **fields):
    check = readings.LyingPictures(apply_exif)
    boxes = [Object('a: box', numbers, readings.CORNERS)] if numbers else []
    image = Annotated('a', (160, 120), boxes, 1, other_size=(120, 160), **fields)
    check.add(Annotated('b', (120, 160), boxes, 1))
    check.add(image)
    check.add(image._replace(place='c', objects=(), has_other_size=False))
    return [str(issue) for issue in check.issues()]


def test_photographs_whose_boxes_are_of_the_stored_picture():
    # The picture is 160 high and 120 wide for people, 120 high and 160 wide as stored.
    said = (
        '1 of 2 photographs that EXIF orientations lay on their side have annotations of the '
        'picture as stored; write --exif=ignore (first: a)'
    )
    assert lying([90, 20, 150, 110]) == [said]
    assert lying([], has_other_size=True) == [said]
    assert lying([90, 20, 110, 110]) == []  # fits both
    assert lying([90, 20, 110, 150]) == []
    assert lying([90, 20, 150, 150]) == []  # fits none
    (reverse,) = lying([90, 20, 150, 110], apply_exif=False)
    assert 'annotations of the picture upright; write --exif=apply' in reverse


@pytest.mark.filterwarnings('error')
@pytest.mark.parametrize('number', [1e308, -1e308, float('inf'), float('nan')])
def test_numbers_beyond_any_image_make_no_sense_without_a_warning_of_numpy(number):
    check, lying_pictures = readings.BoxReadings(), readings.LyingPictures(True)
    item = Object('a: box', [number, 20, number, 110], readings.SIZES, [0, 0, number, 1e308])
    for each in (check, lying_pictures):
        each.add(Annotated('a', SIZE, [item] * 4, 4, other_size=SIZE[::-1]))
    assert lying_pictures.issues() == []
    check.issues()
