from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns import layers
from model_fns.backbones import mobilenet_v1, resnet_blocks
from model_fns.detection.networks.feature_extractors import extractor
from tests.model_fns.detection.extractor_configs import build

tf1 = tf.compat.v1


def test_every_field_becomes_a_setting():
    made = build(
        """type: 'ssd_mobilenet_v2_fpn' depth_multiplier: 0.5 min_depth: 8 pad_to_multiple: 32
        use_explicit_padding: true use_depthwise: true
        override_base_feature_extractor_hyperparams: true
        fpn { min_level: 4 max_level: 6 additional_layer_depth: 64 }""",
        inplace_batch_norm_update=True,
    )
    settings = made.settings
    assert settings == extractor.Settings(
        style=settings.style,
        override_base=True,
        inplace_update=True,
        depth_multiplier=0.5,
        min_depth=8,
        pad_to_multiple=32,
        padding='FIXED',
        use_depthwise=True,
        num_layers=6,
        pyramid=extractor.Pyramid(4, 6, 64),
        type_name='ssd_mobilenet_v2_fpn',
    )
    assert settings.style.regularizer == layers.l2(0.25)
    assert settings.style.batch_norm == layers.BatchNorm(
        decay=pytest.approx(0.9), epsilon=pytest.approx(0.01), scale=True, inplace_update=True
    )


def test_channels_are_scaled_rounded_down_and_not_below_the_least():
    settings = dataclasses.replace(
        build("type: 'ssd_mobilenet_v1'").settings, depth_multiplier=0.33, min_depth=16
    )
    assert [settings.depth(channels) for channels in (512, 100, 8)] == [168, 33, 16]


def test_the_backbone_keeps_its_published_style_unless_overridden():
    settings = build("type: 'ssd_mobilenet_v1'").settings
    published = settings.base_style(mobilenet_v1.mobilenet_v1_style, regularize_depthwise=True)
    assert published.regularizer == layers.l2(4e-5)
    assert published.regularize_depthwise
    assert published.batch_norm.decay == 0.9997
    overridden = dataclasses.replace(settings, override_base=True)
    assert overridden.base_style(mobilenet_v1.mobilenet_v1_style) is settings.style


@pytest.mark.parametrize('override', ['true', 'false'])
def test_frozen_batch_norm_is_frozen_everywhere(override):
    fields = f"""type: 'ssd_resnet50_v1_fpn'
        override_base_feature_extractor_hyperparams: {override}"""
    settings = build(fields, freeze_batch_norm=True).settings
    assert not settings.style.batch_norm.train
    assert not settings.base_style(resnet_blocks.resnet_style).batch_norm.train


def test_hyperparameters_freeze_the_added_layers_and_an_overridden_backbone_only():
    settings = build("type: 'ssd_mobilenet_v1'", train='false').settings
    assert not settings.style.batch_norm.train
    assert settings.base_style(mobilenet_v1.mobilenet_v1_style).batch_norm.train
    overridden = dataclasses.replace(settings, override_base=True)
    assert not overridden.base_style(mobilenet_v1.mobilenet_v1_style).batch_norm.train


def test_an_unknown_type_names_the_nearest():
    with pytest.raises(
        errors.ConfigError, match=r"type: unknown .*did you mean 'ssd_mobilenet_v2'"
    ):
        build("type: 'ssd_mobilnet_v2'")


@pytest.mark.parametrize(
    'fields, message',
    [
        ("type: 'x' spaghettinet_arch_name: 'm'", r'spaghettinet_arch_name: .* SpaghettiNet'),
    ],
)
def test_fields_of_other_networks_are_refused_by_name(fields, message):
    with pytest.raises(errors.ConfigError, match=message):
        build(fields)


@pytest.mark.parametrize('kind', ['ssd_mobilenet_v1_ppn_keras', 'ssd_inception_v2_keras'])
def test_what_tensorflow_2_has_not_is_unknown(kind):
    with pytest.raises(errors.ConfigError, match=f"type: unknown feature extractor '{kind}'"):
        extractor.get_extractor(kind, 'type')


MNAS_FPN = 'ssd_mobilenet_v2_mnasfpn'
OVERRIDE = 'override_base_feature_extractor_hyperparams'


@pytest.mark.parametrize(
    'kind, field, name',
    [
        ('ssd_mobilenet_v1', 'fpn { min_level: 3 }', 'fpn'),
        ('ssd_inception_v2', 'fpn { min_level: 3 }', 'fpn'),
        ('ssd_resnet50_v1_ppn', 'fpn { min_level: 3 }', 'fpn'),
        ('ssd_mobilenet_v1_fpn', 'num_layers: 5', 'num_layers'),
        (MNAS_FPN, 'num_layers: 5', 'num_layers'),
        ('ssd_resnet50_v1_fpn', 'use_explicit_padding: true', 'use_explicit_padding'),
        ('ssd_mobiledet_cpu', 'use_explicit_padding: true', 'use_explicit_padding'),
        ('ssd_resnet50_v1_fpn', 'use_depthwise: true', 'use_depthwise'),
        ('ssd_mobilenet_v1_ppn', 'use_depthwise: true', 'use_depthwise'),
        ('ssd_mobiledet_cpu', f'{OVERRIDE}: true', OVERRIDE),
        ('ssd_inception_v3', f'{OVERRIDE}: false', OVERRIDE),
        ('ssd_resnet50_v1_ppn', 'depth_multiplier: 0.5', 'depth_multiplier'),
        (MNAS_FPN, 'fpn { min_level: 2 max_level: 6 }', 'fpn.min_level'),
        (MNAS_FPN, 'fpn { min_level: 3 max_level: 7 }', 'fpn.max_level'),
    ],
)
def test_what_a_network_has_no_place_for_is_refused_by_name(kind, field, name):
    override = ''
    if 'inception' in kind and 'override' not in field:
        override = 'override_base_feature_extractor_hyperparams: true'
    with pytest.raises(errors.ConfigError, match=rf'model\.ssd\.feature_extractor\.{name}.*: '):
        build(f"type: '{kind}' {override} {field}")


@pytest.mark.parametrize('size, refused', [((32, 64), True), ((33, 33), False)])
def test_images_that_are_too_small(size, refused):
    made = build("type: 'ssd_mobilenet_v1_ppn'", is_training=False)
    with tf.Graph().as_default():
        images = tf.zeros([1, *size, 3])
        if refused:
            with pytest.raises(errors.ConfigError, match='32 x 64 pixels.*at least 33 x 33'):
                made.extract(images)
        else:
            made.extract(images)


@pytest.mark.parametrize('shape', [[2, 30, 37, 3], [2, None, None, 3]])
def test_padding_to_a_multiple_adds_zeros_below_and_to_the_right(shape):
    images = np.random.RandomState(0).uniform(1.0, 2.0, [2, 30, 37, 3]).astype(np.float32)
    with tf.Graph().as_default(), tf1.Session() as session:
        holder = tf1.placeholder(tf.float32, shape)
        padded = extractor.pad_to_multiple(holder, 16)
        assert padded.shape.as_list()[1:3] == [None, None] if None in shape else [32, 48]
        value = session.run(padded, {holder: images})
    assert value.shape == (2, 32, 48, 3)
    np.testing.assert_array_equal(value[:, :30, :37], images)
    assert not value[:, 30:].any() and not value[:, :, 37:].any()


def test_no_padding_adds_no_ops():
    with tf.Graph().as_default() as graph:
        images = tf.zeros([1, 30, 37, 3])
        before = len(graph.get_operations())
        assert extractor.pad_to_multiple(images, 1) is images
        assert len(graph.get_operations()) == before


def test_extract_pads_before_the_network():
    made = build("type: 'ssd_mobilenet_v1_ppn' pad_to_multiple: 64", is_training=False)
    with tf.Graph().as_default():
        maps = made.extract(tf.zeros([1, 60, 100, 3]))
    assert [tuple(one.shape[1:3]) for one in maps[:2]] == [(4, 8), (2, 4)]


@pytest.mark.parametrize(
    'kind, expected',
    [
        ('ssd_mobilenet_v2', [[-1.0, 0.0, 1.0]]),
        ('ssd_mobiledet_dsp', [[-1.0, 0.0, 1.0]]),
        # Means of ImageNet, red first.
        ('ssd_resnet50_v1_fpn', [[-123.68, 127.5 - 116.779, 255.0 - 103.939]]),
        ('ssd_resnet101_v1_ppn', [[-123.68, 127.5 - 116.779, 255.0 - 103.939]]),
    ],
)
def test_preprocessing(kind, expected):
    with tf.Graph().as_default(), tf1.Session() as session:
        value = session.run(
            build(f"type: '{kind}'").preprocess(tf.constant([[[[0.0, 127.5, 255.0]]]]))
        )
    np.testing.assert_allclose(value[0, 0], expected, rtol=1e-5)
