from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from estimator_lib.drawing import visualization

tf1 = tf.compat.v1


def decoded(encoded):
    with tf.Graph().as_default(), tf1.Session() as session:
        return session.run(tf.io.decode_png(encoded))


def drawn(mask):
    return [''.join('#' if pixel else '.' for pixel in row) for row in mask]


def drawing(height, width, draw, *arguments, **options):
    """A black picture on which one of the functions has drawn."""
    picture = np.zeros([height, width, 3], np.uint8)
    with visualization.canvas(picture) as image:
        draw(image, *arguments, **options)
    return picture


@pytest.mark.parametrize('shape', [(1, 1, 3), (5, 7, 3), (64, 33, 3), (6, 3, 1), (4, 4, 4), (3, 8)])
def test_png_is_read_back(shape):
    picture = np.random.RandomState(0).randint(0, 256, shape).astype(np.uint8)
    expected = picture.reshape(*shape[:2], -1)
    np.testing.assert_array_equal(decoded(visualization.encode_png(picture)), expected)


def test_png_of_16_bits_is_read_back():
    pixels = np.array([[0, 1, 255], [256, 40000, 65535]], np.uint16)
    encoded = visualization.encode_png(pixels)
    with tf.Graph().as_default(), tf1.Session() as session:
        back = session.run(tf.io.decode_png(encoded, dtype=tf.uint16))
    np.testing.assert_array_equal(back[:, :, 0], pixels)


@pytest.mark.parametrize(
    ('pixels', 'message'),
    [
        (np.zeros([2, 2], np.float32), r'got float32 \[2, 2\]'),
        (np.zeros([2, 2, 3], np.uint16), r'got uint16 \[2, 2, 3\]'),
    ],
)
def test_other_pixels_are_refused(pixels, message):
    with pytest.raises(ValueError, match=message):
        visualization.encode_png(pixels)


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


def test_an_image_of_one_value_is_gray():
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
    font = visualization._font(16)
    text = 'a very long name of a class indeed 93%'
    for width in range(0, 300, 7):
        shown = visualization._shortened(text, font, width)
        assert font.getlength(shown) <= width
        if 120 < width < font.getlength(text):
            assert shown.startswith('a very') and shown.endswith('..d 93%')
    assert visualization._shortened(text, font, 1000) == text
    picture = visualization.captioned(np.zeros([10, 240, 3], np.uint8), [text])
    assert picture.shape[1] == 240
    # The margins are free of letters.
    assert (picture[10:, -6:] == visualization.CALM).all()
    assert (picture[10:, :6] == visualization.CALM).all()


@given(st.text(max_size=8))
def test_every_text_can_be_drawn(text):
    assert drawing(9, 30, visualization.draw_tag, text, 5, 5, (255, 0, 0)).any()


def test_accents_are_left_out_and_lines_are_joined():
    assert visualization._plain('Café\nß\t字') == 'Cafe ß 字'


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


def marks(picture):
    return drawn(picture[:, :, 0] > 0)


def test_a_box_is_inside_its_sides():
    picture = drawing(6, 8, visualization.draw_box, [1, 2, 5, 7], (255, 0, 0))
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
    assert marks(drawing(4, 4, visualization.draw_box, box, (255, 0, 0))) == rows


def test_thick_lines_are_inside_the_box():
    picture = drawing(8, 9, visualization.draw_box, [1, 1, 7, 8], (255, 0, 0), thickness=2)
    assert marks(picture) == [
        '.........',
        '.#######.',
        '.#######.',
        '.##...##.',
        '.##...##.',
        '.#######.',
        '.#######.',
        '.........',
    ]
    picture = drawing(5, 6, visualization.draw_box, [1, 1, 4, 5], (255, 0, 0), thickness=9)
    assert marks(picture) == ['......', '.####.', '.####.', '.####.', '......']


def test_lines():
    picture = drawing(4, 5, visualization.draw_line, (0, 0), (3, 3), (255, 0, 0))
    assert marks(picture) == ['#....', '.#...', '..#..', '...#.']
    picture = drawing(4, 5, visualization.draw_line, (-5, 2), (9, 2), (255, 0, 0), thickness=3)
    assert marks(picture) == ['.###.'] * 4


def test_dots():
    picture = drawing(5, 6, visualization.draw_dot, (2, 3), (255, 0, 0), 3)
    rows = marks(picture)
    assert rows[2] == '..###.' and rows[0] == rows[4] == '......'
    assert rows[1][3] == rows[3][3] == '#' and rows[1][0] == '.'


def test_a_tag_stands_on_its_bottom_and_stays_inside():
    red = (255, 0, 0)
    picture = drawing(30, 60, visualization.draw_tag, 'dog', 20, 3, red)
    plain = drawing(30, 60, visualization.draw_tag, '', 20, 3, red)
    height = sum(visualization._font(10).getmetrics())
    width = int(np.ceil(visualization._font(10).getlength('dog'))) + 4
    assert width > 15
    bar = np.zeros([30, 60], bool)
    bar[20 - height : 20, 3 : 3 + width] = True
    np.testing.assert_array_equal(picture[:, :, 0] > 0, bar)
    letters = picture[:, :, 1] > 0  # white on red
    assert letters[bar].sum() > 30
    # Letters are inside of the bar, whose first and last columns are free.
    assert not letters[:, :5].any() and not letters[:, 3 + width - 1 :].any()
    assert not letters[~bar].any()
    np.testing.assert_array_equal(plain[:, :, 0] > 0, bar & (np.arange(60) < 7))

    picture = drawing(30, 60, visualization.draw_tag, 'dog', -5, 100, red)
    np.testing.assert_array_equal(
        picture[:, :, 0] > 0, np.roll(bar, [height - 20, 57 - width], (0, 1))
    )


def test_text_on_a_light_tag_is_dark():
    picture = drawing(20, 40, visualization.draw_tag, 'dog', 20, 0, (255, 255, 0))
    assert (picture[8:, :30, 0] < 100).any()
    assert not (picture == visualization.WHITE).all(axis=-1).any()


def test_the_picture_is_what_was_before_where_nothing_is_drawn():
    before = np.random.RandomState(0).randint(0, 256, [9, 9, 3]).astype(np.uint8)
    picture = before.copy()
    with visualization.canvas(picture) as image:
        visualization.draw_box(image, [2, 2, 4, 4], (1, 2, 3))
    changed = (picture != before).any(axis=-1)
    assert changed.sum() == 4 and changed[2:4, 2:4].all()


def test_tint_mixes():
    picture = np.full([2, 2, 3], 100, np.uint8)
    mask = np.array([[True, False], [False, False]])
    visualization.tint(picture, mask, (200, 0, 100), opacity=0.5)
    np.testing.assert_array_equal(picture[0, 0], [150, 50, 100])
    assert (picture[~mask] == 100).all()


def test_resized_interpolates_between_centers():
    image = np.zeros([1, 2, 3], np.uint8)
    image[0, 1] = 200
    np.testing.assert_array_equal(
        visualization.resized(image, 2, 4)[:, :, 0], [[0, 50, 150, 200]] * 2
    )
    np.testing.assert_array_equal(visualization.resized(image, 1, 1)[:, :, 0], [[100]])
    np.testing.assert_array_equal(visualization.resized(image, 1, 2), image)


def test_a_legend_is_one_line_whatever_it_names():
    image = np.zeros([4, 300, 3], np.uint8)
    red, green = (255, 0, 0), (0, 255, 0)
    few = visualization.captioned(image, ['a'], legend=[('cat', red), ('dog', green)])
    none = visualization.captioned(image, ['a'], legend=())
    many = visualization.captioned(image, ['a'], legend=[('a long name', red)] * 50)
    assert few.shape == none.shape == many.shape == (4 + 2 * 20 + 6, 300, 3)
    assert (few == red).all(axis=-1).any() and (few == green).all(axis=-1).any()
    assert not (none == red).all(axis=-1).any()
    squares = (many == red).all(axis=-1).any(axis=0)
    assert 1 <= np.count_nonzero(np.diff(squares.astype(int)) == 1) < 10
    # The number of the others is at its end.
    assert (many[-22:, -60:] == visualization.WHITE).all(axis=-1).any()


def test_captions_are_larger_below_larger_pictures():
    heights = [
        visualization.captioned(np.zeros([1, width, 3], np.uint8), ['a']).shape[0] - 1
        for width in (300, 1100, 1920, 4000)
    ]
    assert heights == [26, 26, 52, 130]


def test_huge_images_are_displayed_in_part(monkeypatch):
    assert visualization.drawn_step(1, 1) == visualization.drawn_step(4096, 8192) == 1
    assert visualization.drawn_step(4097, 8192) == 2
    monkeypatch.setattr(visualization, '_MOST_PIXELS', 4)
    image = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    np.testing.assert_array_equal(visualization.displayable(image), image[::2, ::2])
