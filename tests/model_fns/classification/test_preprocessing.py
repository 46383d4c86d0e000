import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns.classification import pixel_steps, preprocessing

tf1 = tf.compat.v1

FAMILIES = ('inception', 'slow inception', 'efficientnet', 'vgg', 'lenet', 'cifarnet')
HEIGHT, WIDTH = 24, 20


def _family(name, **options):
    slow = name.startswith('slow')
    return preprocessing.get_family(name.split()[-1], slow_color_distortion=slow, **options)


def _train(family, image, height, width, seed):
    return family.finish(family.distort(image, height, width, seed))


class _Runner:
    """Train and evaluation preprocessing of every family, built once for a number of channels."""

    def __init__(self, channels):
        self._graph = tf.Graph()
        with self._graph.as_default():
            self._image = tf1.placeholder(tf.uint8, [None, None, channels])
            self._seed = tf1.placeholder(tf.int64, [2])
            self.trained, self.evaluated, self.batch = {}, {}, {}
            for name in FAMILIES:
                family = _family(name)
                self.trained[name] = _train(family, self._image, HEIGHT, WIDTH, self._seed)
                self.evaluated[name] = family.evaluate(self._image, HEIGHT, WIDTH)
                self.batch[name] = family.evaluate(self._image[tf.newaxis], HEIGHT, WIDTH)
        self._session = tf1.Session(graph=self._graph)

    def __call__(self, tensors, image, seed=(0, 0)):
        return self._session.run(tensors, {self._image: image, self._seed: seed})


@pytest.fixture(scope='module')
def color():
    return _Runner(3)


@pytest.fixture(scope='module')
def gray():
    return _Runner(1)


def _noise(height, width, channels=3, seed=0):
    return np.random.RandomState(seed).randint(0, 256, (height, width, channels)).astype(np.uint8)


def _evaluate(family, image, height, width):
    with tf.Graph().as_default(), tf1.Session() as session:
        return session.run(family.evaluate(tf.constant(image), height, width))


def test_evaluation_equals_the_recorded_cases(shared):
    cases = np.load(shared / 'golden' / 'classification' / 'preprocessing_eval.npz')
    kinds = {
        'vgg/{}/224': (preprocessing.Vgg(), 224, 224),
        'vgg/{}/28/resize_side_min=32': (preprocessing.Vgg(short_side=32), 28, 28),
        'inception/{}/224': (preprocessing.Inception(), 224, 224),
        'inception/{}/28': (preprocessing.Inception(), 28, 28),
        'inception/{}/32/crop_image=False': (preprocessing.Inception(central_fraction=1), 32, 32),
        'lenet/{}/28': (preprocessing.Lenet(), 28, 28),
        'lenet/{}/28/gray': (preprocessing.Lenet(use_grayscale=True), 28, 28),
        # The recorded function took the width for the height.
        'lenet/{}/24x40': (preprocessing.Lenet(), 40, 24),
        'cifarnet/{}/32': (preprocessing.Cifarnet(), 32, 32),
        'cifarnet/{}/24x40': (preprocessing.Cifarnet(), 40, 24),
    }
    recorded = {key for key in cases if not key.startswith('image')}
    seen = set()
    for image in ('100x140', '300x200'):
        for kind, (family, height, width) in kinds.items():
            key = kind.format(image)
            result = _evaluate(family, cases[f'image_uint8/{image}'], height, width)
            np.testing.assert_allclose(result, cases[key], atol=1e-5, err_msg=key)
            seen.add(key)
    assert seen == recorded


@pytest.mark.parametrize('family', FAMILIES)
def test_shapes_are_static_and_a_batch_equals_its_images(color, gray, family):
    for runner, channels in ((color, 3), (gray, 1)):
        shape = [HEIGHT, WIDTH, channels]
        assert runner.trained[family].shape.as_list() == shape
        assert runner.evaluated[family].shape.as_list() == shape
        assert runner.batch[family].shape.as_list() == [1, *shape]
        for size in ((50, 40), (9, 13), (HEIGHT, WIDTH), (1, 1)):
            image = _noise(*size, channels)
            one, batch, trained = runner(
                [runner.evaluated[family], runner.batch[family], runner.trained[family]], image
            )
            np.testing.assert_array_equal(batch[0], one)
            assert np.isfinite(trained).all() and trained.dtype == np.float32


@pytest.mark.parametrize('family', FAMILIES)
def test_training_is_a_function_of_the_seed(color, family):
    image = _noise(40, 50)
    train = color.trained[family]
    results = [color(train, image, (3, i)) for i in (1, 1, 2, 3)]
    np.testing.assert_array_equal(results[0], results[1])
    if family == 'lenet':
        np.testing.assert_array_equal(results[0], color(color.evaluated[family], image))
    else:
        assert np.abs(results[2] - results[0]).max() > 0.05
        assert np.abs(results[3] - results[2]).max() > 0.05


def test_inception_values(color):
    flat = np.full((30, 30, 3), (255, 0, 51), np.uint8)
    evaluated = color(color.evaluated['inception'], flat)
    np.testing.assert_allclose(evaluated[3, 4], [1, -1, -0.6], atol=1e-6)
    for seed in range(20):
        trained = color(color.trained['inception'], _noise(60, 60), (1, seed))
        assert -1 <= trained.min() < -0.2 and 0.2 < trained.max() <= 1


def test_efficientnet_has_the_colors_of_imagenet(color, gray):
    # What is made of a flat image: 51 is 0.2.
    sides = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    flat = np.full((30, 40, 3), 51, np.uint8)
    mean, deviation = np.array(sides)
    seen = color(color.evaluated['efficientnet'], flat)
    np.testing.assert_allclose(seen, np.broadcast_to((0.2 - mean) / deviation, seen.shape), 1e-4)
    # Of one channel: mean and deviation as luminance has them.
    mean, deviation = np.array(sides) @ [0.2989, 0.587, 0.114]
    seen = gray(gray.evaluated['efficientnet'], flat[..., :1])
    np.testing.assert_allclose(seen, np.full_like(seen, (0.2 - mean) / deviation), atol=1e-4)


@pytest.mark.parametrize(
    'whole, size, crop, start',
    [
        # 224 / 256 of the shorter side; what is spared is rounded up before the crop.
        ((100, 140), (224, 224), (87, 87), (7, 27)),
        ((140, 101), (224, 224), (88, 88), (26, 7)),
        # 32 / 64, and 600 / 632.
        ((100, 100), (32, 32), (50, 50), (25, 25)),
        ((100, 100), (600, 600), (94, 94), (3, 3)),
        # A result that is not square: 96 / 128 of the height, or 64 / 96 of the width.
        ((128, 400), (96, 64), (96, 64), (16, 168)),
        ((400, 96), (96, 64), (96, 64), (152, 16)),
    ],
)
def test_evaluation_of_efficientnet_is_a_crop_from_the_middle(whole, size, crop, start):
    rows, columns = np.mgrid[: whole[0], : whole[1]]
    image = np.stack([rows // 2, columns // 2, np.zeros_like(rows)], -1).astype(np.uint8)
    family = preprocessing.EfficientNet()
    with tf.Graph().as_default(), tf1.Session() as session:
        pixels = session.run(family.denormalize(family.evaluate(tf.constant(image), *size)))
    assert pixels.shape == (*size, 3)
    for axis in (0, 1):
        found = 2 * np.take(pixels[..., axis], size[1 - axis] // 2, 1 - axis)
        expected = start[axis] + np.arange(size[axis]) * crop[axis] / size[axis]
        # Pairs of pixels share a value: half a pixel below the ramp on average.
        np.testing.assert_allclose(found, expected - 0.5, atol=1.25)
        assert abs(np.mean(found - expected) + 0.5) < 0.3


def test_evaluation_of_efficientnet_resizes_bicubically():
    """A cubic kernel overshoots at an edge; a linear one does not."""
    image = np.zeros((64, 64, 3), np.uint8)
    image[:, 32:] = 200
    family = preprocessing.EfficientNet()
    with tf.Graph().as_default(), tf1.Session() as session:
        pixels = session.run(family.denormalize(family.evaluate(tf.constant(image), 224, 224)))
    assert 205 < pixels.max() < 230 and -30 < pixels.min() < -5
    np.testing.assert_allclose(pixels[:, -1], 200, atol=1e-2)


def _hue(pixel):
    """The sector position of a pixel that has its largest value in red."""
    red, green, blue = pixel
    return (green - blue) / (red - min(green, blue))


def test_fast_inception_varies_brightness_and_saturation_but_not_hue(color):
    flat = np.full((30, 30, 3), (150, 90, 110), np.uint8)
    pixels = np.stack([color(color.trained['inception'], flat, (5, i))[0, 0] for i in range(200)])
    values = (pixels + 1) * 127.5
    # The largest channel only moves with the brightness: by less than 32.
    shift = values.max(1) - 150
    assert -32 <= shift.min() < -27 and 27 < shift.max() <= 32
    # Saturation is the share of the range in the largest value; it is scaled by 0.5 to 1.5.
    saturation = (values.max(1) - values.min(1)) / values.max(1)
    shifted = 60 / (150 + shift)
    factor = saturation / shifted
    assert 0.499 < factor.min() < 0.55
    assert 1.45 < factor.max() <= 1.501
    np.testing.assert_allclose([_hue(pixel) for pixel in values], -20 / 60, atol=1e-3)


def test_slow_inception_varies_hue(color):
    flat = np.full((30, 30, 3), (150, 90, 110), np.uint8)
    largest = [
        color(color.trained['slow inception'], flat, (5, i))[0, 0].argmax() for i in range(100)
    ]
    # A hue shift of 0.2 reaches from red over its neighbors.
    assert len(set(largest)) > 1


def test_random_crops_of_inception_have_the_published_areas_and_shapes(color):
    # Each pixel holds its own coordinates, so a crop shows where it was cut.
    size = 200
    rows, columns = np.mgrid[:size, :size]
    image = np.stack([rows, columns, np.full_like(rows, 255)], -1).astype(np.uint8)
    graph = tf.Graph()
    with graph.as_default(), tf1.Session() as session:
        seed = tf1.placeholder(tf.int64, [2])
        crop = pixel_steps.random_box(tf.constant(image), seed)
        crops = [session.run(crop, {seed: (7, i)}) for i in range(200)]
    areas = np.array([crop.shape[0] * crop.shape[1] / size**2 for crop in crops])
    ratios = np.array([crop.shape[1] / crop.shape[0] for crop in crops])
    assert 0.045 < areas.min() < 0.15 and areas.max() > 0.8
    assert 0.7 < ratios.min() < 0.8 and 1.25 < ratios.max() < 1.4
    corners = np.array([crop[0, 0, :2] for crop in crops])
    assert len(np.unique(corners, axis=0)) > 150


@pytest.mark.parametrize('family', ['inception', 'vgg', 'cifarnet'])
def test_half_of_the_images_are_mirrored(color, family):
    ramp = np.broadcast_to(np.arange(0, 240, 4, dtype=np.uint8)[:, None], (60, 60, 3))
    rising = [
        np.diff(color(color.trained[family], ramp, (11, i)).mean((0, 2))).mean() > 0
        for i in range(100)
    ]
    assert 30 < sum(rising) < 70


def test_vgg_sizes_and_means():
    family = preprocessing.Vgg()
    flat = np.full((64, 64, 3), (123, 116, 103), np.uint8)
    np.testing.assert_allclose(
        _evaluate(family, flat, 20, 20)[5, 5], [-0.68, -0.78, -0.94], atol=1e-4
    )
    gray = preprocessing.Vgg(use_grayscale=True)
    luminance = 0.2989 * -0.68 + 0.587 * -0.78 + 0.114 * -0.94
    np.testing.assert_allclose(_evaluate(gray, flat, 20, 20)[5, 5], [luminance], atol=1e-4)
    # Larger than the published 256: the part of the short side that is kept stays 224 of 256.
    assert _evaluate(family, _noise(50, 80), 448, 300).shape == (448, 300, 3)


@pytest.mark.parametrize(
    'size, side', [(28, 32), (32, 37), (64, 74), (128, 147), (224, 256), (240, 275), (448, 512)]
)
def test_vgg_keeps_the_published_view_at_every_size(size, side):
    """224 of 256 pixels: the middle of the image, however small the result is."""
    ramp = np.broadcast_to(np.arange(256, dtype=np.uint8)[:, np.newaxis], (256, 256, 3))
    seen = _evaluate(preprocessing.Vgg(), ramp, size, size)[0, :, 0] + 123.68
    first = (side - size) // 2
    expected = (first + np.arange(size)) * 256 / side
    np.testing.assert_allclose(seen, np.minimum(expected, 255), atol=1e-2)


def test_vgg_training_crops_of_small_results_show_most_of_the_image():
    image = np.broadcast_to(np.arange(256, dtype=np.uint8)[:, np.newaxis], (256, 256, 3))
    with tf.Graph().as_default(), tf1.Session() as session:
        seed = tf1.placeholder(tf.int64, [2])
        trained = _train(preprocessing.Vgg(), tf.constant(image), 32, 32, seed)
        seen = [np.ptp(session.run(trained, {seed: (2, i)})[0, :, 0]) for i in range(20)]
    # 31 of 37 to 74 pixels.
    assert min(seen) > 256 * 31 / 75 and max(seen) < 256 * 31 / 36


def test_vgg_training_crops_are_of_every_scale():
    # A short side of 10 becomes 28 to 56: each source pixel becomes 2.8 to 5.6 wide.
    stripes = np.zeros((10, 10, 3), np.uint8)
    stripes[::2] = 250
    family = preprocessing.Vgg(short_side=28)
    with tf.Graph().as_default(), tf1.Session() as session:
        seed = tf1.placeholder(tf.int64, [2])
        trained = _train(family, tf.constant(stripes), 28, 28, seed)
        periods = []
        for i in range(60):
            column = session.run(trained, {seed: (2, i)})[:, 0, 0]
            centered = column - column.mean()
            changes = (np.diff(np.sign(centered)) != 0).sum()
            periods.append(28 / changes)
    assert min(periods) < 3.3 and max(periods) > 4.6


def test_lenet_pads_with_black():
    result = _evaluate(preprocessing.Lenet(), np.full((2, 3, 3), 192, np.uint8), 4, 5)
    expected = np.full((4, 5), -1.0)
    expected[1:3, 1:4] = 0.5
    np.testing.assert_array_equal(result[:, :, 0], expected)


def test_cifarnet_has_mean_0_and_variance_1(color):
    image = _noise(HEIGHT, WIDTH)
    for tensor in (color.trained['cifarnet'], color.evaluated['cifarnet']):
        result = color(tensor, image)
        assert abs(result.mean()) < 1e-5 and abs(result.std() - 1) < 1e-4
    # A flat image has no variance to divide by.
    assert not color(color.evaluated['cifarnet'], np.full((30, 30, 3), 9, np.uint8)).any()


def test_cifarnet_crops_reach_over_each_edge_by_4():
    white = np.full((12, 12, 1), 255, np.uint8)
    with tf.Graph().as_default(), tf1.Session() as session:
        seed = tf1.placeholder(tf.int64, [2])
        trained = _train(preprocessing.Cifarnet(), tf.constant(white), 12, 12, seed)
        tops, bottoms = set(), set()
        for i in range(150):
            inside = session.run(trained, {seed: (3, i)})[:, :, 0] > 0
            rows = np.flatnonzero(inside.any(1))
            if inside.any():
                tops.add(rows[0])
                bottoms.add(11 - rows[-1])
    assert tops == bottoms == {0, 1, 2, 3, 4}


@pytest.mark.parametrize('family', ['inception', 'vgg', 'lenet', 'cifarnet'])
def test_grayscale_has_one_channel(family):
    image = _noise(40, 30)
    result = _evaluate(_family(family, use_grayscale=True), image, 16, 12)
    assert result.shape == (16, 12, 1)
    if family != 'cifarnet':  # which is not linear
        separate = _evaluate(_family(family), image, 16, 12) @ np.array([0.2989, 0.587, 0.114])
        offset = {'inception': 1 - 0.9999, 'lenet': 1 - 0.9999, 'vgg': 0}[family]
        np.testing.assert_allclose(result[:, :, 0], separate - offset, atol=1e-4)


def test_unknown_families_and_options_are_named():
    with pytest.raises(errors.ConfigError, match=r"a\.b: .*'incepton'; did you mean 'inception'"):
        preprocessing.get_family('incepton', 'a.b')
    with pytest.raises(errors.ConfigError, match=r"slow_color_distortion.*a\.b is 'vgg'"):
        preprocessing.get_family('vgg', 'a.b', slow_color_distortion=True)


def test_graphs_are_small():
    for name, most in (('inception', 65), ('vgg', 110), ('lenet', 50), ('cifarnet', 90)):
        with tf.Graph().as_default() as graph:
            image = tf1.placeholder(tf.uint8, [None, None, 3])
            _train(_family(name), image, 32, 32, tf.constant([0, 0], tf.int64))
            assert len(graph.get_operations()) < most, name


@pytest.mark.parametrize('family', FAMILIES)
@pytest.mark.parametrize('channels', [1, 3])
def test_pixels_come_back_from_what_the_network_sees(family, channels):
    one = _family(family)
    pixels = np.random.RandomState(0).uniform(20, 240, [2, 6, 5, channels]).astype(np.float32)
    inputs = one.normalize(tf.constant(pixels))
    found = one.denormalize(inputs).numpy()
    if family == 'cifarnet':  # an image of another contrast, which the network sees as the same
        assert found.min() == 0 and found.max() == pytest.approx(255)
        np.testing.assert_allclose(one.normalize(tf.constant(found)), inputs, atol=1e-4)
    else:
        np.testing.assert_allclose(found, pixels, atol=1e-3)


@pytest.mark.parametrize('name', [name for name in FAMILIES if name != 'lenet'])
def test_mirroring_can_be_left_out(name):
    # Columns get brighter to the right, whatever is cropped, unless the image is mirrored.
    image = np.tile(np.arange(0, 240, 6, np.uint8)[np.newaxis, :, np.newaxis], [40, 1, 3])
    mirrored = {}
    with tf.Graph().as_default(), tf1.Session() as session:
        seed = tf1.placeholder(tf.int64, [2])
        for mirrors in (True, False):
            family = _family(name, mirrors=mirrors)
            trained = _train(family, tf.constant(image), 36, 36, seed)[..., 0]
            rows = [session.run(trained, {seed: (4, i)}).mean(0) for i in range(24)]
            mirrored[mirrors] = sum(row[20:28].mean() < row[8:16].mean() for row in rows)
            assert ('mirroring' in family.augmentations()) == mirrors
    assert 4 <= mirrored[True] <= 20 and mirrored[False] == 0
