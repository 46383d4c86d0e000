"""Lines of Python that resize images, beside numbers by hand."""

import numpy as np
import pytest

from estimator_lib.task_interfaces import resizing
from estimator_lib.task_interfaces.resizing import CENTRAL_CROP, KEEP_ASPECT, SHRINK, Resize


def run(rule, image, size):
    """Return pixels and content of an image as a program computes them."""
    values = {'np': np, 'image': image, 'size': image.shape[:2]}
    exec(resizing.FUNCTION + '\n'.join(rule.program(size)), values)
    return values['pixels'], tuple(map(int, values['content']))


def ramp(height, width):
    """An image whose value is its row plus a hundredth of its column."""
    rows, columns = np.mgrid[:height, :width]
    return np.repeat((rows + columns / 100)[..., np.newaxis], 3, 2).astype(np.float32)


def test_a_side_is_scaled_from_its_first_pixel():
    pixels, content = run(Resize(), ramp(4, 6), (2, 3))
    # Rows 0 and 2, columns 0, 2 and 4.
    np.testing.assert_allclose(pixels[..., 0], [[0, 0.02, 0.04], [2, 2.02, 2.04]], atol=1e-6)
    assert content == (2, 3)
    pixels, _ = run(Resize(), ramp(2, 1), (4, 1))
    np.testing.assert_allclose(pixels[:, 0, 0], [0, 0.5, 1, 1])  # nothing lies beyond the last row


def test_corners_stay():
    rule = Resize(SHRINK, aligns_corners=True, padding=(9.0, 9.0, 9.0))
    pixels, content = run(rule, ramp(5, 9), (3, 4))
    # The factor of the longer side: 4 / 9 of 5 rows are 2.
    assert content == (2, 4)
    np.testing.assert_allclose(pixels[:2, 0, 0], [0, 4], atol=1e-6)
    np.testing.assert_allclose(pixels[0, :, 0], [0, 8 / 300, 16 / 300, 0.08], atol=1e-6)
    assert (pixels[2] == 9).all()


def test_a_small_image_is_only_padded():
    rule = Resize(SHRINK, aligns_corners=True, padding=(1.0, 2.0, 3.0))
    pixels, content = run(rule, ramp(2, 3), (4, 4))
    assert content == (2, 3)
    np.testing.assert_array_equal(pixels[:2, :3], ramp(2, 3))
    assert pixels[3, 3].tolist() == [1, 2, 3]


def test_the_middle():
    # An eighth of 16 rows is cut off: one row at each side; of 8 columns, half of one: none.
    pixels, _ = run(Resize(CENTRAL_CROP, 0.875), ramp(16, 8), (14, 8))
    np.testing.assert_allclose(pixels, ramp(16, 8)[1:15])


@pytest.mark.parametrize(
    'sides, size, expected',
    [((6, 20), (3, 5), (6, 10)), ((6, 8), (3, 5), (5, 8)), ((2, 9), (4, 1), (8, 2))],
)
def test_one_factor_for_both_sides(sides, size, expected):
    pixels, content = run(Resize(KEEP_ASPECT, sides=sides), ramp(*size), (None, None))
    assert content == pixels.shape[:2] == expected


@pytest.mark.parametrize(
    'rule, text',
    [
        (Resize(), 'stretch'),
        (Resize(CENTRAL_CROP, 0.875), 'central_crop 0.875'),
        (Resize(KEEP_ASPECT, sides=(600, 1024)), 'keep_aspect 600 1024'),
        (
            Resize(KEEP_ASPECT, sides=(640, 640), padding=(0.5, 0.0, 127.5)),
            'keep_aspect 640 640 pad 0.5 0 127.5',
        ),
        (Resize(SHRINK), 'shrink'),
    ],
)
def test_texts(rule, text):
    assert str(rule) == text


def test_a_file_that_resizes_gets_the_image():
    image = ramp(3, 5)
    pixels, content = run(Resize(resizing.INSIDE), image, (None, None))
    assert pixels is image and content == (3, 5)
