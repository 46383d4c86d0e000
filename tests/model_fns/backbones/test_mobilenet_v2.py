from __future__ import annotations

import functools

import pytest
import tensorflow as tf

from model_fns.backbones import mobilenet_parts, mobilenet_v2, registry
from tests.model_fns.backbones import recorded_backbones

pytestmark = pytest.mark.usefixtures('no_initial_values')


def _features(images, **options):
    style = mobilenet_parts.mobilenet_style(False, registry.Options())
    return mobilenet_v2.mobilenet_v2_features(images, style, registry.Options(**options))


def test_parameter_count_of_the_published_checkpoint():
    count = recorded_backbones.count_parameters('mobilenet_v2_140', num_classes=1001)
    assert count / 1e6 == pytest.approx(6.1, abs=0.05)


def test_a_small_factor_leaves_the_last_layer_in_the_classifier_only():
    options = registry.Options(depth_multiplier=0.5)
    built = recorded_backbones.build('mobilenet_v2', (32, 32), False, options=options)
    assert built.end_points['layer_19'].shape[-1] == 1280
    assert built.end_points['layer_18'].shape[-1] == 160
    with tf.Graph().as_default():
        end_points = _features(tf.zeros([1, 32, 32, 3]), depth_multiplier=0.5)
        assert end_points['layer_19'].shape[-1] == 640


def test_divisor_one_keeps_odd_channel_counts():
    with tf.Graph().as_default():
        end_points = _features(
            tf.zeros([1, 32, 32, 3]), depth_multiplier=0.3, channel_divisor=1, min_depth=1
        )
        channels = [end_points[f'layer_{i}'].shape[-1] for i in (1, 2, 3, 18)]
        assert channels == [10, 5, 7, 96]
        # Expanded channels are multiples of 8 nevertheless: 6 * 5 = 30.
        assert end_points['layer_3/expansion_output'].shape[-1] == 32


def test_atrous_features_hold_the_strided_ones():
    recorded_backbones.check_atrous_features(
        functools.partial(
            _features, depth_multiplier=0.25, final_endpoint='layer_18', padding='FIXED'
        ),
        8,
        'layer_18',
    )


def test_unknown_end_points_are_refused():
    with tf.Graph().as_default(), pytest.raises(ValueError, match="no layer 'layer_20'; it has"):
        _features(tf.zeros([1, 32, 32, 3]), final_endpoint='layer_20')
