"""Views of images: their number, sizes and mirrors."""

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors
from model_fns.structures import views
from protos import eval_pb2


def views_of(text):
    config = eval_pb2.EvalConfig()
    text_format.Parse(f'test_time_augmentation {{ {text} }}', config)
    return views.from_config(config)


def test_views_of_a_config():
    assert views.from_config(eval_pb2.EvalConfig()) is None
    assert views_of('') is None
    assert views_of('scales: 1') is None
    assert views_of('flip_horizontally: true') == ((1.0,), True)
    seen = views_of('flip_horizontally: true scales: [0.7, 1]')
    assert seen.scales == (0.7, 1.0)  # not 0.699999988
    assert (seen.total, seen.scaled) == (4, (0.7,))
    assert views_of('scales: [0.7, 1]').total == 2


@pytest.mark.parametrize('scale', ['0', '-0.5', '101'])
def test_scales_out_of_range_are_refused(scale):
    with pytest.raises(errors.ConfigError) as caught:
        views_of(f'scales: [1, {scale}]')
    assert str(caught.value) == (
        f'eval_config.test_time_augmentation.scales.1: {scale}; expected more than 0 and at most '
        '100.'
    )


def test_padding_stays_at_the_right_of_mirrored_images():
    images = tf.reshape(tf.range(12.0), [2, 1, 6, 1])
    seen = views.Views((1.0,), True)
    whole = seen.with_mirrored(images).numpy()[..., 0]
    np.testing.assert_array_equal(whole[2:, 0], [[5, 4, 3, 2, 1, 0], [11, 10, 9, 8, 7, 6]])
    padded = seen.with_mirrored(images, tf.constant([4, 6])).numpy()[..., 0]
    np.testing.assert_array_equal(padded[:2], images[..., 0])
    np.testing.assert_array_equal(padded[2:, 0], [[3, 2, 1, 0, 4, 5], [11, 10, 9, 8, 7, 6]])
    assert views.Views((0.5,), False).with_mirrored(images) is images


def test_the_mirror_of_a_resized_image_is_the_resized_mirror():
    images = tf.constant(np.random.RandomState(0).uniform(size=[1, 5, 7, 3]), tf.float32)
    found = views.resize(images[:, :, ::-1], 4, 9)
    np.testing.assert_allclose(found, views.resize(images, 4, 9)[:, :, ::-1], atol=1e-6)
    assert views.resize(images, 5, 7) is images


def test_values_of_images_repeat_for_their_mirrors():
    values = tf.constant([1, 2])
    assert views.Views((1.0,), True).tile(values).numpy().tolist() == [1, 2, 1, 2]
    assert views.Views((0.5,), False).tile(values) is values
    assert [views.scale_side(side, 0.8) for side in (300, 33)] == [240, 26]
