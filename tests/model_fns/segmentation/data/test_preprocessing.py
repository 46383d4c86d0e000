import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator_lib import errors
from model_fns.segmentation import fields
from model_fns.segmentation.data import preprocessing
from model_fns.segmentation.data.preprocessing import Preprocessing
from model_fns.segmentation.data.resize_range import ResizeRange
from protos import segmentation_pb2
from tests.model_fns.segmentation.segmentation_records import place_example

tf1 = tf.compat.v1

MEAN = (100.0, 110.0, 120.0)


class Runner:
    """Runs augment and fit of one preprocessing for any example and seed in one graph."""

    def __init__(self, settings):
        with tf.Graph().as_default():
            self.image = tf1.placeholder(tf.uint8, [None, None, 3])
            self.semantic = tf1.placeholder(tf.int32, [None, None])
            self.instances = tf1.placeholder(tf.int32, [None, None])
            self.shape = tf1.placeholder(tf.int32, [3])
            self.source = tf1.placeholder(tf.string, [])
            self.seed = tf1.placeholder(tf.int64, [2])
            example = {
                fields.IMAGE: self.image,
                fields.SEMANTIC: self.semantic,
                fields.INSTANCES: self.instances,
                fields.TRUE_IMAGE_SHAPE: self.shape,
                fields.SOURCE_ID: self.source,
            }
            self.fitted = settings.fit(example)
            augmented = settings.augment(example, self.seed)
            assert sorted(augmented) == sorted(example)
            self.augmented = settings.fit(augmented)
            self.session = tf1.Session()

    def run(self, what, example, seed=(0, 0)):
        feeds = {
            self.image: example[fields.IMAGE],
            self.semantic: example[fields.SEMANTIC],
            self.instances: example[fields.INSTANCES],
            self.shape: example[fields.TRUE_IMAGE_SHAPE],
            self.source: example[fields.SOURCE_ID],
            self.seed: seed,
        }
        features, labels = self.session.run(what, feeds)
        return {**features, **labels}


def check_places(result, tolerance=0.51):
    """Where there is no padding, ids are those of the place that the pixel shows."""
    ids, image = result[fields.SEMANTIC], result[fields.IMAGE]
    inside = ids != 65535
    assert (np.abs(image[..., 0] - ids // 256)[inside] <= tolerance).all()
    assert (np.abs(image[..., 1] - ids % 256)[inside] <= tolerance).all()
    np.testing.assert_array_equal(result[fields.INSTANCES], np.where(inside, ids + 1, 0))
    np.testing.assert_allclose(image[~inside], np.broadcast_to(MEAN, image[~inside].shape))
    return inside


@pytest.fixture(scope='module')
def plain():
    """No scaling, no mirroring."""
    return Runner(
        Preprocessing(
            (9, 11), MEAN, 65535, scales=(1.0, 1.0), flip_probability=0.0, least_size=(24, 40)
        )
    )


@pytest.fixture(scope='module')
def varied():
    return Runner(Preprocessing((17, 21), MEAN, 65535))


def test_evaluation_pads_at_the_bottom_and_right(plain):
    example = place_example(20, 30)
    result = plain.run(plain.fitted, example)
    assert result[fields.IMAGE].shape == (24, 40, 3)
    assert result[fields.IMAGE].dtype == np.float32
    np.testing.assert_array_equal(result[fields.IMAGE][:20, :30], example[fields.IMAGE])
    np.testing.assert_array_equal(result[fields.SEMANTIC][:20, :30], example[fields.SEMANTIC])
    assert check_places(result).sum() == 20 * 30
    np.testing.assert_array_equal(result[fields.TRUE_IMAGE_SHAPE], [20, 30, 3])
    assert result[fields.SOURCE_ID] == b'a.png'


@pytest.mark.parametrize('height, width, size', [(25, 30, (25, 40)), (24, 41, (24, 41))])
def test_a_larger_image_keeps_its_size_in_evaluation(plain, height, width, size):
    result = plain.run(plain.fitted, place_example(height, width))
    assert result[fields.IMAGE].shape == (*size, 3)
    assert check_places(result)[:height, :width].all()
    assert check_places(result).sum() == height * width


def test_evaluation_pads_to_the_crop_where_no_other_size_is_given(varied):
    result = varied.run(varied.fitted, place_example(5, 40))
    assert result[fields.IMAGE].shape == (17, 40, 3)


def test_a_crop_without_scaling_is_a_part_of_the_image(plain):
    firsts = set()
    for tag in range(40):
        result = plain.run(plain.augmented, place_example(11, 14), (7, tag))
        image = result[fields.IMAGE]
        top, left = np.rint(image[0, 0, :2]).astype(int)
        firsts.add((top, left))
        expected = place_example(11, 14)[fields.IMAGE][top : top + 9, left : left + 11]
        np.testing.assert_allclose(image, expected, atol=1e-3)
        check_places(result, 1e-3)
    assert len(firsts) > 8 and max(firsts)[0] == 2 and max(f[1] for f in firsts) == 3


def test_a_small_image_is_padded_in_training(plain):
    result = plain.run(plain.augmented, place_example(5, 30))
    inside = check_places(result, 1e-3)
    assert inside[:5].all() and not inside[5:].any()
    np.testing.assert_array_equal(result[fields.TRUE_IMAGE_SHAPE], [5, 11, 3])


def test_mirroring_turns_image_ids_and_padding():
    runner = Runner(Preprocessing((6, 12), MEAN, 65535, scales=(1.0, 1.0), flip_probability=1.0))
    example = place_example(6, 9)
    result = runner.run(runner.augmented, example)
    np.testing.assert_allclose(
        result[fields.IMAGE][:, 3:], example[fields.IMAGE][:, ::-1], atol=1e-3
    )
    np.testing.assert_array_equal(result[fields.SEMANTIC][:, 3:], example[fields.SEMANTIC][:, ::-1])
    assert not check_places(result, 1e-3)[:, :3].any()


@settings(max_examples=60, deadline=None)
@given(height=st.integers(1, 60), width=st.integers(1, 60), tag=st.integers(0, 2**62))
def test_ids_stay_with_their_pixels(varied, height, width, tag):
    result = varied.run(varied.augmented, place_example(height, width), (3, tag))
    inside = check_places(result)
    rows, columns, _ = result[fields.TRUE_IMAGE_SHAPE]
    assert inside.sum() == rows * columns
    # The content begins at the top, and at the left or, mirrored, at the right.
    assert inside[:rows, :columns].all() or inside[:rows, 21 - columns :].all()


def test_the_seed_alone_decides(varied):
    first = varied.run(varied.augmented, place_example(30, 40), (5, 6))
    again = varied.run(varied.augmented, place_example(30, 40), (5, 6))
    other = varied.run(varied.augmented, place_example(30, 40), (5, 7))
    np.testing.assert_array_equal(first[fields.IMAGE], again[fields.IMAGE])
    assert not np.array_equal(first[fields.IMAGE], other[fields.IMAGE])


def test_scales_are_drawn_by_steps(varied):
    """Neighboring pixels of a ramp differ by about the inverse of the scale."""
    sizes = set()
    for tag in range(60):
        result = varied.run(varied.augmented, place_example(16, 12), (1, tag))
        rows, columns, _ = result[fields.TRUE_IMAGE_SHAPE]
        sizes.add((rows, columns))
    scales = (0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)
    expected = {(min(int(16 * s), 17), min(int(12 * s), 21)) for s in scales}
    assert sizes == expected


def test_steps_that_floating_point_does_not_divide():
    config = segmentation_pb2.SegmentationPreprocessing(
        min_scale_factor=0.5, max_scale_factor=2.0, scale_factor_step_size=0.1
    )
    made = preprocessing.from_config(config, (9, 9), MEAN, 255)
    with tf.Graph().as_default(), tf1.Session() as session:
        uniform = tf1.placeholder(tf.float32, [])
        scale = made._scale(uniform)
        drawn = [session.run(scale, {uniform: u}) for u in np.linspace(0, 0.9999, 400)]
    np.testing.assert_allclose(sorted(set(drawn)), np.arange(5, 21) / 10, rtol=1e-6)


def test_any_scale_without_steps():
    runner = Runner(Preprocessing((40, 40), MEAN, 65535, scales=(0.5, 1.9), scale_step=0.0))
    rows = {
        runner.run(runner.augmented, place_example(20, 20), (0, tag))[fields.TRUE_IMAGE_SHAPE][0]
        for tag in range(50)
    }
    assert len(rows) > 12 and min(rows) >= 10 and max(rows) <= 38


def slow_resize(pixels, height, width, nearest):
    """Corner pixels stay where they are."""
    places = [
        np.arange(new) * ((old - 1) / max(new - 1, 1))
        for old, new in zip(pixels.shape[:2], (height, width))
    ]
    if nearest:
        rows, columns = (np.floor(place + 0.5).astype(int) for place in places)
        return pixels[rows][:, columns]
    result = pixels.astype(np.float64)
    for axis, place in enumerate(places):
        low = np.floor(place).astype(int)
        high = np.minimum(low + 1, pixels.shape[axis] - 1)
        share = (place - low).reshape([-1, 1, 1] if axis == 0 else [1, -1, 1])
        result = np.take(result, low, axis) * (1 - share) + np.take(result, high, axis) * share
    return result


def test_evaluation_resizes_with_aligned_corners():
    settings = Preprocessing((40, 60), MEAN, 65535, resize=ResizeRange(21, 50, 4))
    runner = Runner(settings)
    example = place_example(14, 19)
    example[fields.IMAGE] = np.random.default_rng(0).integers(0, 256, (14, 19, 3)).astype(np.uint8)
    result = runner.run(runner.fitted, example)
    assert tuple(result[fields.TRUE_IMAGE_SHAPE]) == (21, 29, 3)
    np.testing.assert_allclose(
        result[fields.IMAGE][:21, :29], slow_resize(example[fields.IMAGE], 21, 29, False), atol=0.01
    )
    np.testing.assert_array_equal(
        result[fields.SEMANTIC][:21, :29], slow_resize(example[fields.SEMANTIC], 21, 29, True)
    )
    # Training: the same range, then the scale, in one step.
    sizes = {
        tuple(
            runner.run(runner.augmented, place_example(14, 19), (0, tag))[fields.TRUE_IMAGE_SHAPE]
        )
        for tag in range(30)
    }
    assert (10, 14, 3) in sizes and (21, 29, 3) in sizes and (40, 58, 3) in sizes


def test_the_window_shows_what_resizing_the_whole_would():
    settings = Preprocessing((50, 50), MEAN, 255, scales=(1.5, 1.5), flip_probability=0.0)
    runner = Runner(settings)
    example = place_example(20, 30)
    example[fields.IMAGE] = np.random.default_rng(0).integers(0, 256, (20, 30, 3)).astype(np.uint8)
    result = runner.run(runner.augmented, example)
    np.testing.assert_allclose(
        result[fields.IMAGE][:30, :45], slow_resize(example[fields.IMAGE], 30, 45, False), atol=0.02
    )


def test_rotation_turns_ids_with_the_image():
    settings = Preprocessing((31, 31), MEAN, 65535, scales=(1.0, 1.0), max_rotation=90.0)
    runner = Runner(settings)
    shares = []
    for tag in range(8):
        result = runner.run(runner.augmented, place_example(31, 31), (0, tag))
        ids, image = result[fields.SEMANTIC], result[fields.IMAGE]
        inside = np.pad(ids != 65535, 1)
        # Edges are mixed with what fills the corners.
        inner = inside[1:-1, 1:-1] & inside[:-2, 1:-1] & inside[2:, 1:-1]
        inner &= inside[1:-1, :-2] & inside[1:-1, 2:]
        assert (np.abs(image[..., 0] - ids // 256)[inner] < 0.52).all()
        assert (np.abs(image[..., 1] - ids % 256)[inner] < 0.52).all()
        np.testing.assert_allclose(image[15, 15], [15, 15, 50], atol=0.01)
        shares.append((ids != 65535).mean())
        assert (result[fields.INSTANCES][ids == 65535] == 0).all()
    assert 0.75 < min(shares) < 0.95


def test_all_distortions_together_leave_the_padding():
    settings = Preprocessing(
        (40, 40), MEAN, 65535, scales=(1.0, 1.0), flip_probability=0.0, max_brightness=0.2,
        max_contrast=1.5, max_saturation=1.5, max_blur_length=5, blur_probability=0.5,
    )  # fmt: skip
    runner = Runner(settings)
    seen = []
    for tag in range(6):
        image = runner.run(runner.augmented, place_example(20, 30), (0, tag))[fields.IMAGE]
        np.testing.assert_array_equal(image[20:], np.broadcast_to(np.float32(MEAN), (20, 40, 3)))
        assert image.min() >= 0 and image.max() <= 255
        seen.append(image[:20, :30].mean())
    assert len(set(seen)) == 6


def test_serving_pads_to_the_crop_or_beyond():
    images = np.random.default_rng(0).integers(0, 256, (2, 20, 30, 3)).astype(np.uint8)
    with tf.Graph().as_default(), tf1.Session() as session:
        received = tf1.placeholder(tf.uint8, [None, None, None, 3])
        served = Preprocessing((25, 25), MEAN).resize_for_serving(received)
        resized = Preprocessing((25, 25), MEAN, resize=ResizeRange(9, 30)).resize_for_serving(
            received
        )
        (pixels, size), (small, small_size) = session.run([served, resized], {received: images})
    np.testing.assert_array_equal(size, [20, 30])
    assert pixels.shape == (2, 25, 30, 3)
    np.testing.assert_array_equal(pixels[:, :20], images)
    np.testing.assert_array_equal(pixels[:, 20:], np.broadcast_to(np.float32(MEAN), (2, 5, 30, 3)))
    np.testing.assert_array_equal(small_size, [9, 13])
    assert small.shape == (2, 25, 25, 3)
    np.testing.assert_allclose(small[1, :9, :13], slow_resize(images[1], 9, 13, False), atol=0.01)


def build(**values):
    config = segmentation_pb2.SegmentationPreprocessing(**values)
    return preprocessing.from_config(config, (33, 65), MEAN, 7)


def test_from_config():
    made = build(
        min_resize_value=100, max_resize_value=200, resize_factor=16, keep_aspect_ratio=False,
        min_scale_factor=0.75, max_scale_factor=1.25, scale_factor_step_size=0.0,
        flip_probability=0.25, max_rotation_degrees=10, max_brightness_change=0.5,
        max_motion_blur_length=9, motion_blur_probability=0.75, max_contrast_factor=2,
        max_saturation_factor=4,
    )  # fmt: skip
    assert made == Preprocessing(
        (33, 65), MEAN, 7, ResizeRange(100, 200, 16, False), (0.75, 1.25), 0.0, 0.25, 10.0, 0.5,
        2.0, 4.0, 9, 0.75,
    )  # fmt: skip
    assert build() == Preprocessing((33, 65), MEAN, 7)


@pytest.mark.parametrize(
    'values, message',
    [
        ({'min_scale_factor': float('nan')}, 'min_scale_factor: nan'),
        ({'min_scale_factor': 3.0}, 'min_scale_factor: 3; expected at most 2, max_scale_factor'),
        ({'min_resize_value': 9, 'max_resize_value': 8}, 'expected min_resize_value <='),
    ],
)
def test_what_a_config_cannot_ask_for(values, message):
    with pytest.raises(errors.ConfigError, match=message):
        build(**values)


def test_what_is_varied_is_told():
    assert Preprocessing((33, 65)).augmentations() == [
        'scales from 0.5 to 2',
        'crops of 33 x 65',
        'mirroring (probability 0.5)',
    ]
    still = Preprocessing((33, 65), scales=(1, 1), flip_probability=0, max_rotation=5)
    assert still.augmentations() == ['crops of 33 x 65', 'rotation (up to 5 degrees)']
