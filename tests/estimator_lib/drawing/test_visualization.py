from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from estimator_lib.drawing import bitmap_font, visualization

tf1 = tf.compat.v1


def decoded(encoded):
    with tf.Graph().as_default(), tf1.Session() as session:
        return session.run(tf.io.decode_png(encoded))


def drawn(mask):
    return [''.join('#' if pixel else '.' for pixel in row) for row in mask]


def test_a_letter():
    assert drawn(bitmap_font.text_mask('A')) == [
        '.###.',
        '#...#',
        '#...#',
        '#####',
        '#...#',
        '#...#',
        '#...#',
    ]


def test_letters_are_one_pixel_apart_and_scale():
    mask = bitmap_font.text_mask('-|')
    assert drawn(mask)[3] == '#####.' + '..#..'
    doubled = bitmap_font.text_mask('-|', 2)
    assert drawn(doubled)[6] == drawn(doubled)[7] == '##########..' + '....##....'


@given(st.text(max_size=8), st.integers(1, 3))
def test_every_text_can_be_drawn(text, scale):
    mask = bitmap_font.text_mask(text, scale)
    assert mask.shape[0] == 7 * scale
    if text.isascii():
        assert mask.shape[1] == bitmap_font.text_width(len(text), scale)
        assert bitmap_font.letters_within(mask.shape[1], scale) == len(text)


def test_all_ascii_glyphs_differ():
    glyphs = {bitmap_font.text_mask(chr(code)).tobytes() for code in range(32, 127)}
    assert len(glyphs) == 95


def test_accents_are_left_out_and_unknown_letters_are_boxes():
    np.testing.assert_array_equal(bitmap_font.text_mask('é'), bitmap_font.text_mask('e'))
    assert drawn(bitmap_font.text_mask('字'))[0] == '#####'


@pytest.mark.parametrize('shape', [(1, 1, 3), (5, 7, 3), (64, 33, 3)])
def test_png_is_read_back(shape):
    picture = np.random.RandomState(0).randint(0, 256, shape).astype(np.uint8)
    np.testing.assert_array_equal(decoded(visualization.encode_png(picture)), picture)


def test_write_png(tmp_path):
    picture = np.full([4, 4, 3], 9, np.uint8)
    path = tmp_path / 'picture.png'
    visualization.write_png(str(path), picture)
    np.testing.assert_array_equal(decoded(path.read_bytes()), picture)


def test_displayable_stretches_what_a_network_takes():
    image = np.array([[[-1.0], [0.0]], [[1.0], [np.nan]]])
    picture = visualization.displayable(image)
    assert picture.dtype == np.uint8
    assert picture.shape == (2, 2, 3)
    np.testing.assert_array_equal(picture[:, :, 0], [[0, 128], [255, 128]])


def test_displayable_leaves_bytes_alone():
    image = np.array([[[1, 2, 3]]], np.uint8)
    np.testing.assert_array_equal(visualization.displayable(image), image)
    np.testing.assert_array_equal(visualization.displayable(image[:, :, :1]), [[[1, 1, 1]]])


def test_an_image_of_one_value_is_grey():
    assert (visualization.displayable(np.full([2, 2, 3], 5.0)) == 127).all()


def test_a_caption_is_below_an_enlarged_image():
    image = np.zeros([10, 100, 3], np.uint8)
    image[:, 50:] = 255
    picture = visualization.captioned(image, ['one', 'two'])
    assert picture.shape == (30 + 2 * 20 + 6, 300, 3)
    np.testing.assert_array_equal(picture[:30, 149:151, 0], [[0, 255]] * 30)
    assert (picture[-1] == visualization.CALM).all()
    assert (picture[30:50] == visualization.WHITE).all(axis=-1).any()
    assert (visualization.captioned(image, ['x'], True)[-1] == visualization.ALARM).all()


def test_a_long_caption_is_cut_but_keeps_its_end():
    image = np.zeros([10, 240, 3], np.uint8)
    picture = visualization.captioned(image, ['a very long name of a class indeed 93%'])
    assert picture.shape[1] == 240
    shortened = visualization._shortened('a very long name of a class indeed 93%', 19)
    assert shortened == 'a very long ..d 93%'
    assert visualization._shortened('abcdef', 4) == 'ab..'
    assert visualization._shortened('abcdef', 1) == '.'


def test_text_outside_is_cut_off():
    picture = np.zeros([5, 5, 3], np.uint8)
    visualization.draw_text(picture, 'MMM', -3, -3, (255, 0, 0))
    assert (picture[:, :, 0] == 255).any()


def test_a_grid_has_a_place_for_each_picture():
    pictures = [np.full([2, 3, 3], value, np.uint8) for value in (1, 2, 3)]
    sheet = visualization.grid(pictures, columns=2, gap=1)
    paper = visualization.PAPER[0]
    np.testing.assert_array_equal(
        sheet[:, :, 0],
        [
            [1, 1, 1, paper, 2, 2, 2],
            [1, 1, 1, paper, 2, 2, 2],
            [paper] * 7,
            [3, 3, 3, paper, paper, paper, paper],
            [3, 3, 3, paper, paper, paper, paper],
        ],
    )


@pytest.mark.parametrize('count', [1, 5, 40, 150, 1001])
def test_confusion_matrices_of_all_sizes(count):
    shares = np.eye(count) * 0.9
    picture = visualization.confusion_matrix(shares, [f'class {index}' for index in range(count)])
    assert picture.dtype == np.uint8
    assert max(picture.shape) < 1300
    assert picture.shape[0] == picture.shape[1] >= count


def test_a_confusion_matrix_is_dark_where_the_share_is_large():
    picture = visualization.confusion_matrix(np.array([[1.0, 0.0], [0.0, np.nan]]), ['a', 'b'])
    # The matrix is at the bottom right, two cells of 36 pixels from a border of 8.
    first, second = (picture[-8 - 72 + start + 3, -8 - 72 + start + 3] for start in (0, 36))
    assert tuple(first) == (8, 48, 107)
    assert tuple(second) == (255, 255, 255)


def marks(picture):
    return drawn(picture[:, :, 0] > 0)


def test_a_box_is_inside_its_sides():
    picture = np.zeros([6, 8, 3], np.uint8)
    visualization.draw_box(picture, [1, 2, 5, 7], (255, 0, 0))
    assert marks(picture) == [
        '........',
        '..#####.',
        '..#...#.',
        '..#...#.',
        '..#####.',
        '........',
    ]


@pytest.mark.parametrize(
    ('box', 'rows'),
    [
        ([-3, -3, 2, 2], ['.#..', '##..', '....', '....']),
        ([2.4, 1.6, 2.4, 1.6], ['....', '....', '..#.', '....']),
        ([0, 0, 9, 9], ['####', '#...', '#...', '#...']),
        ([7, 7, 9, 9], ['....'] * 4),
    ],
)
def test_boxes_that_are_cut_off_or_small(box, rows):
    picture = np.zeros([4, 4, 3], np.uint8)
    visualization.draw_box(picture, box, (255, 0, 0))
    assert marks(picture) == rows


def test_a_thick_line_never_leaves_the_box():
    picture = np.zeros([5, 6, 3], np.uint8)
    visualization.draw_box(picture, [1, 1, 4, 5], (255, 0, 0), thickness=9)
    assert marks(picture) == ['......', '.####.', '.####.', '.####.', '......']


def test_lines():
    picture = np.zeros([4, 5, 3], np.uint8)
    visualization.draw_line(picture, (0, 0), (2, 4), (255, 0, 0))
    assert marks(picture) == ['##...', '..#..', '...##', '.....']
    visualization.draw_line(picture, (-5, 2), (9, 2), (255, 0, 0), thickness=3)
    assert all(row[1:4] == '###' for row in marks(picture))


def test_a_tag_stands_on_its_bottom_and_stays_inside():
    picture = np.zeros([30, 40, 3], np.uint8)
    visualization.draw_tag(picture, 'A', 20, 3, (255, 0, 0))
    assert marks(picture)[8].count('#') == 0
    assert marks(picture)[9] == '...' + '#' * 9 + '.' * 28
    assert marks(picture)[19].count('#') == 9
    assert (picture == visualization.WHITE).all(axis=-1).any()
    picture[:] = 0
    visualization.draw_tag(picture, 'A', -5, 100, (255, 0, 0))
    assert marks(picture)[0] == '.' * 31 + '#' * 9


def test_tint_mixes():
    picture = np.full([2, 2, 3], 100, np.uint8)
    mask = np.array([[True, False], [False, False]])
    visualization.tint(picture, mask, (200, 0, 100), opacity=0.5)
    np.testing.assert_array_equal(picture[0, 0], [150, 50, 100])
    assert (picture[~mask] == 100).all()


def test_resized_interpolates_between_centres():
    image = np.zeros([1, 2, 3], np.uint8)
    image[0, 1] = 200
    np.testing.assert_array_equal(
        visualization.resized(image, 2, 4)[:, :, 0], [[0, 50, 150, 200]] * 2
    )
    np.testing.assert_array_equal(visualization.resized(image, 1, 1)[:, :, 0], [[100]])
    assert visualization.resized(image, 1, 2) is image
