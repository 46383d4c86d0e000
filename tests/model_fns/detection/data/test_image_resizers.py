from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.config.section import Section
from model_fns.detection import detector
from model_fns.detection.data import image_resizers
from protos import image_resizer_pb2
from tests.conftest import shared_folder
from tests.model_fns.detection.architectures.faster_rcnn import oracles

tf1 = tf.compat.v1

WHERE = 'model.ssd.image_resizer'


def resizer_of(text):
    config = text_format.Parse(text, image_resizer_pb2.ImageResizer())
    return image_resizers.build_image_resizer(Section(config, WHERE))


def resize(text, image, masks=None, static=True):
    """Return (image, masks, true shape) as arrays."""
    resizer = resizer_of(text)
    image = np.asarray(image, np.uint8)
    with tf.Graph().as_default(), tf1.Session() as session:
        shape = image.shape if static else [None, None, image.shape[2]]
        images = tf1.placeholder(tf.uint8, shape)
        given = None if masks is None else tf1.placeholder(tf.uint8, [None, None, None])
        found = resizer.resize(images, given)
        assert found.image.dtype == tf.float32
        if resizer.static_size is not None:
            assert found.image.shape[:2].as_list() == list(resizer.static_size)
            assert given is None or found.masks.shape[1:].as_list() == list(resizer.static_size)
        feeds = {images: image}
        if given is not None:
            feeds[given] = masks
        fetched = session.run([found.image, found.true_shape], feeds)
        of_masks = None if given is None else session.run(found.masks, feeds)
        return fetched[0], of_masks, fetched[1].tolist()


def ramp(height, width, channels=1):
    """Build an image whose values grow by 10 per column and 1 per row."""
    rows = np.arange(height)[:, None] + 10 * np.arange(width)[None]
    return np.repeat(rows[..., None], channels, axis=2)


def test_fixed_shape_without_half_pixel_centers():
    text = 'fixed_shape_resizer { height: 2 width: 4 }'
    image, _, true_shape = resize(text, ramp(1, 2, 3))
    np.testing.assert_array_equal(image[..., 0], [[0, 5, 10, 10]] * 2)
    assert true_shape == [2, 4, 3]
    assert resizer_of(text).static_size == (2, 4)
    assert not resizer_of(text).pads


@pytest.mark.parametrize(
    ('method', 'row'),
    [
        ('NEAREST_NEIGHBOR', [0, 0, 10, 10]),
        ('BILINEAR', [0, 5, 10, 10]),
        ('AREA', [0, 0, 10, 10]),
    ],
)
def test_methods(method, row):
    text = f'fixed_shape_resizer {{ height: 1 width: 4 resize_method: {method} }}'
    assert resize(text, ramp(1, 2))[0][..., 0].tolist() == [row]


def test_bicubic_goes_beyond_its_values():
    image = np.array([[[0], [0], [100], [100]]])
    text = 'fixed_shape_resizer { height: 1 width: 8 resize_method: BICUBIC }'
    assert resize(text, image)[0].min() < 0


def test_masks_stay_0_or_1():
    masks = np.array([[[1, 0], [0, 0]], [[0, 0], [1, 1]]])
    _, found, _ = resize('fixed_shape_resizer { height: 4 width: 3 }', ramp(2, 2), masks)
    assert found.tolist() == [
        [[1, 1, 0], [1, 1, 0], [0, 0, 0], [0, 0, 0]],
        [[0, 0, 0], [0, 0, 0], [1, 1, 1], [1, 1, 1]],
    ]


def test_no_masks_of_an_image_without_objects():
    none = np.zeros([0, 2, 2], np.uint8)
    for text in (
        'fixed_shape_resizer { height: 4 width: 3 }',
        'keep_aspect_ratio_resizer { min_dimension: 4 max_dimension: 4 }',
    ):
        assert resize(text, ramp(2, 2), none)[1].shape[0] == 0


@pytest.mark.parametrize('static', [False, True])
@pytest.mark.parametrize(
    ('size', 'content'),
    [
        ((10, 20), (5, 10)),  # the shorter side to 5
        ((20, 10), (10, 5)),
        ((10, 40), (3, 12)),  # the longer one would be 20: it becomes 12, the other 3
        ((40, 10), (12, 3)),
        ((2, 2), (5, 5)),
        ((4, 6), (5, 8)),  # 7.5 is rounded to even
        ((1, 1), (5, 5)),
        ((1, 200), (1, 12)),  # not 0, which no image has
    ],
)
def test_keep_aspect_ratio(size, content, static):
    text = 'keep_aspect_ratio_resizer { min_dimension: 5 max_dimension: 12 }'
    image, _, true_shape = resize(text, ramp(*size), static=static)
    assert image.shape == (*content, 1)
    assert true_shape == [*content, 1]
    assert resizer_of(text).static_size is None


def test_keep_aspect_ratio_and_pad():
    text = """keep_aspect_ratio_resizer {
      min_dimension: 2 max_dimension: 4 pad_to_max_dimension: true
      per_channel_pad_value: 7 per_channel_pad_value: 8 per_channel_pad_value: 9
    }"""
    masks = np.ones([1, 2, 3], np.uint8)
    image, found, true_shape = resize(text, ramp(2, 3, 3), masks)
    assert image.shape == (4, 4, 3)
    assert true_shape == [2, 3, 3]
    np.testing.assert_array_equal(image[:2, :3], ramp(2, 3, 3))
    assert not image[2:].any() and not image[:, 3:].any()
    assert found.tolist() == [[[1, 1, 1, 0], [1, 1, 1, 0], [0] * 4, [0] * 4]]
    resizer = resizer_of(text)
    assert resizer.pads and resizer.static_size == (4, 4)
    assert resizer.pad_values == (7.0, 8.0, 9.0)


def test_pad_values_are_0_unless_given():
    assert resizer_of('keep_aspect_ratio_resizer { pad_to_max_dimension: true }').pad_values == (0,)


def test_identity():
    image, masks, true_shape = resize('identity_resizer {}', ramp(3, 5, 3), np.ones([2, 3, 5]))
    np.testing.assert_array_equal(image, ramp(3, 5, 3))
    assert masks.shape == (2, 3, 5)
    assert true_shape == [3, 5, 3]


@pytest.mark.parametrize(
    ('condition', 'size', 'content'),
    [
        ('GREATER', (10, 20), (4, 8)),
        ('GREATER', (8, 8), (8, 8)),
        ('GREATER', (3, 5), (3, 5)),
        ('GREATER', (100, 1), (8, 1)),
        ('GREATER', (20, 19), (8, 7)),  # 7.6 is truncated
        ('SMALLER', (4, 6), (8, 12)),
        ('SMALLER', (10, 9), (10, 9)),
    ],
)
def test_conditional_shape(condition, size, content):
    text = f'conditional_shape_resizer {{ condition: {condition} size_threshold: 8 }}'
    masks = np.ones([1, *size], np.uint8)
    image, found, true_shape = resize(text, ramp(*size), masks, static=False)
    assert image.shape == (*content, 1)
    assert found.shape == (1, *content)
    assert true_shape == [*content, 1]


def test_a_batch_holds_padding_unless_all_results_are_of_one_size():
    assert not resizer_of('fixed_shape_resizer {}').pads
    for kind in ('identity', 'conditional_shape', 'pad_to_multiple', 'keep_aspect_ratio'):
        assert resizer_of(f'{kind}_resizer {{}}').pads
        assert resizer_of(f'{kind}_resizer {{}}').static_size is None


def test_pad_to_multiple():
    text = 'pad_to_multiple_resizer { multiple: 4 }'
    image, masks, true_shape = resize(text, ramp(3, 8), np.ones([1, 3, 8]), static=False)
    assert image.shape == (4, 8, 1)
    np.testing.assert_array_equal(image[:3], ramp(3, 8))
    assert not image[3:].any()
    assert masks[0].tolist() == [[1] * 8] * 3 + [[0] * 8]
    assert true_shape == [3, 8, 1]


@pytest.mark.parametrize(
    'text',
    [
        'fixed_shape_resizer { height: 2 width: 2 %s }',
        'keep_aspect_ratio_resizer { min_dimension: 2 max_dimension: 2 %s }',
        'conditional_shape_resizer { %s }',
        'pad_to_multiple_resizer { %s }',
    ],
)
def test_grayscale(text):
    red = np.zeros([2, 2, 3], np.float32)
    red[..., 0] = 100
    gray, colored = (resizer_of(text % more) for more in ('convert_to_grayscale: true', ''))
    assert (gray.channels, colored.channels) == (1, 3)
    np.testing.assert_allclose(gray.to_network_channels(red), np.full([2, 2, 1], 29.89), rtol=1e-5)
    assert colored.to_network_channels(red) is red
    assert gray.to_network_channels(red[..., :1]).shape == (2, 2, 1)


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('', f'{WHERE}: empty; expected one of keep_aspect_ratio_resizer'),
        (
            'keep_aspect_ratio_resizer { min_dimension: 9 max_dimension: 8 }',
            'min_dimension: 9; expected at most 8, max_dimension',
        ),
        (
            'conditional_shape_resizer { condition: INVALID }',
            'condition: INVALID; expected GREATER',
        ),
        ('conditional_shape_resizer { size_threshold: 0 }', 'size_threshold: 0; expected at least'),
        (
            'keep_aspect_ratio_resizer { per_channel_pad_value: [1, 2] }',
            'per_channel_pad_value: 2 values; expected 3, or none',
        ),
    ],
)
def test_configs_that_cannot_be(text, message):
    with pytest.raises(errors.ConfigError, match=message):
        resizer_of(text)


def recorded_resizers():
    path = shared_folder() / 'golden' / 'tf2' / 'resizers.npz'
    if not path.is_file():
        pytest.skip('resizers.npz is not in ../shared/golden')
    return np.load(path)


def test_recorded_resizers():
    with recorded_resizers() as recorded:
        for name, text in json.loads(str(recorded['cases'])).items():
            resizer = resizer_of(text)
            for index in range(6):
                if f'{name}/{index}/image' not in recorded:
                    continue
                image = recorded[f'input_{index}']
                height, width, _ = image.shape
                mask = np.zeros([1, height, width], np.uint8)
                mask[:, height // 4 : 3 * height // 4, width // 3 :] = 1
                found = resizer.resize(tf.constant(image), tf.constant(mask))
                shape = found.true_shape.numpy()
                assert shape[:2].tolist() == recorded[f'{name}/{index}/true_shape'][:2].tolist()
                padded = detector.fill_raw_padding(
                    found.image[tf.newaxis], shape[np.newaxis], resizer.pad_values
                )
                seen = resizer.to_network_channels(padded)[0]
                np.testing.assert_allclose(
                    seen, recorded[f'{name}/{index}/image'], atol=2e-3, err_msg=f'{name} {index}'
                )
                if f'{name}/{index}/mask' in recorded:
                    np.testing.assert_array_equal(found.masks, recorded[f'{name}/{index}/mask'])


def test_recorded_sizes_of_images_that_keep_their_aspect():
    for row in oracles.case('keep_aspect_sizes')['table'].tolist():
        (height, width, least, most, pad), output, true = row[:5], row[5:7], row[7:]
        resizer = image_resizers.KeepAspectRatioResizer(least, most, pad=bool(pad))
        content = [int(side) for side in resizer.content_size(height, width)]
        whole = resizer.padded_size(*content) or content
        assert (list(whole), content) == (output, true), row


@pytest.mark.parametrize(
    ('text', 'size'),
    [
        ('fixed_shape_resizer { height: 4 width: 6 }', (4, 6)),
        ('keep_aspect_ratio_resizer { min_dimension: 4 max_dimension: 6 }', (4, 6)),
        (
            'keep_aspect_ratio_resizer { min_dimension: 4 max_dimension: 6 '
            'pad_to_max_dimension: true }',
            (6, 6),
        ),
        ('identity_resizer {}', None),
    ],
)
def test_the_largest_size(text, size):
    assert resizer_of(text).largest_size == size
