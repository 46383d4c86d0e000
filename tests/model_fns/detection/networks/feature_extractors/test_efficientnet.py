import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns import layers
from model_fns.detection.networks.feature_extractors import efficientnet
from model_fns.detection.networks.feature_extractors.bifpn import BidirectionalPyramid
from protos import ssd_pb2
from tests.model_fns.detection.extractor_configs import build, shapes_of

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1

TYPE = "type: 'ssd_efficientnet-b0_bifpn_keras'"
NARROW = f'{TYPE} depth_multiplier: 0.25 min_depth: 8'


def neck(fields):
    made = build(fields)
    return efficientnet.build_neck(made.settings, made.backbone)


# Table 1 of the paper, and the published configs of D6 and D7.
@pytest.mark.parametrize(
    ('size', 'iterations', 'depth', 'combine'),
    [
        (0, 3, 64, 'fast_attention'),
        (1, 4, 88, 'fast_attention'),
        (2, 5, 112, 'fast_attention'),
        (3, 6, 160, 'fast_attention'),
        (4, 7, 224, 'fast_attention'),
        (5, 7, 288, 'fast_attention'),
        (6, 8, 384, 'sum'),
        (7, 8, 384, 'sum'),
    ],
)
def test_each_type_has_the_neck_that_it_was_published_with(size, iterations, depth, combine):
    kind = f"type: 'ssd_efficientnet-b{size}_bifpn_keras'"
    assert neck(kind) == BidirectionalPyramid(iterations, depth, combine)
    # What a config says of it holds; 0 is what it does not say.
    said = neck(f"{kind} bifpn {{ num_iterations: 2 max_level: 6 combine_method: 'attention' }}")
    assert said == BidirectionalPyramid(2, depth, 'attention', max_level=6)
    assert neck(f'{kind} bifpn {{ num_filters: 8 }}').depth == 16  # min_depth


@pytest.mark.parametrize(
    ('fields', 'message'),
    [
        ('use_explicit_padding: true', 'use_explicit_padding: not honored'),
        ('use_depthwise: true', 'use_depthwise: not honored'),
        ('num_layers: 5', 'num_layers: not honored'),
        ('fpn { min_level: 3 }', 'fpn: not honored .* its neck is `bifpn`'),
        ("bifpn { combine_method: 'sums' }", r"bifpn\.combine_method: unknown .*'sums'"),
        ('bifpn { min_level: 6 }', r'bifpn\.min_level: 6; expected one of 1, 2, 3, 4, 5'),
        ('bifpn { min_level: 4 max_level: 4 }', r'bifpn\.max_level: 4; expected more than'),
    ],
)
def test_what_it_has_no_place_for_is_refused_by_name(fields, message):
    with pytest.raises(errors.ConfigError, match=message):
        build(f'{TYPE} {fields}')


@pytest.mark.parametrize('field', ['bifpn {}', 'drop_path_keep_prob: 0.9'])
@pytest.mark.parametrize('kind', ['ssd_mobilenet_v2_keras', 'ssd_resnet50_v1_fpn_keras'])
def test_others_have_no_place_for_what_it_has(kind, field):
    with pytest.raises(errors.ConfigError, match=f'{field.split(":")[0].split()[0]}: not honored'):
        build(f"type: '{kind}' {field}")


@pytest.fixture(scope='module')
def narrow():
    return shapes_of(f'{NARROW} bifpn {{ num_iterations: 1 num_filters: 32 }}', (128, 256))


def test_maps_and_variables_of_a_narrow_one(narrow):
    assert narrow.maps == [(16 // size, 32 // size, 8) for size in (1, 2, 4, 8, 16)]
    # Below the published width there is nothing that features are not made of.
    assert not any('/top/' in name or '/logits/' in name for name in narrow.variables)
    assert narrow.variables['EfficientNet/stack_6/block_0/project/weights'] == (1, 1, 288, 80)
    assert narrow.variables['bifpn/node_03_1_dn_lvl_5/input_0/weights'] == (1, 1, 80, 8)
    assert narrow.variables['bifpn/node_03_1_dn_lvl_5/combine_weights'] == (2, 1)


def test_levels_are_those_that_are_asked_for():
    fields = f'{NARROW} bifpn {{ min_level: 2 max_level: 4 num_iterations: 1 num_filters: 32 }}'
    made = shapes_of(fields, (48, 16))
    assert made.maps == [(12, 4, 8), (6, 2, 8), (3, 1, 8)]
    assert not any('stack_5' in name for name in made.variables)


def test_deeper_networks_are_tapped_within_their_stacks():
    made = shapes_of(
        "type: 'ssd_efficientnet-b2_bifpn_keras' depth_multiplier: 0.25 "
        'bifpn { num_iterations: 1 }',
        (128, 128),
    )
    read = {
        op.inputs[0].op.name.partition('EfficientNet/')[2]
        for op in made.graph.get_operations()
        if op.type == 'Conv2D' and '/input_0/' in op.name
    }
    assert read == {
        'stack_2/block_1/add',
        'stack_4/block_2/add',
        'stack_6/block_0/project/BatchNorm/FusedBatchNormV3',
    }
    assert 'EfficientNet/stack_2/block_2/expand/weights' in made.variables
    assert not any('stack_6/block_1' in name for name in made.variables)


def test_inputs_are_prepared_as_classifiers_see_them():
    images = tf.constant([[[[0.0, 127.5, 255.0]]]])
    seen = build(TYPE).preprocess(images)
    expected = [-0.485 / 0.229, (0.5 - 0.456) / 0.224, (1 - 0.406) / 0.225]
    np.testing.assert_allclose(seen[0, 0, 0], expected, rtol=1e-5)
    luminance = images[..., :1]
    assert build(TYPE).preprocess(luminance) is luminance


def test_hyperparameters_override_the_regularizer_alone():
    own = build(TYPE).base_style()
    assert own.regularizer == own.bias_regularizer == layers.l2(1e-5)
    asked = build(f'{TYPE} override_base_feature_extractor_hyperparams: true').base_style()
    assert asked.regularizer == asked.bias_regularizer == layers.l2(0.25)
    assert asked.but(regularizer=own.regularizer, bias_regularizer=own.regularizer) == own
    assert not build(TYPE, freeze_batch_norm=True).base_style().batch_norm.train


def test_the_multiple_of_sides_is_the_coarsest_stride():
    def of(kind, **levels):
        config = ssd_pb2.SsdFeatureExtractor(type=kind)
        config.bifpn.SetInParent()
        for name, level in levels.items():
            setattr(config.bifpn, name, level)
        return efficientnet.size_multiple(config)

    assert of('ssd_efficientnet-b7_bifpn_keras') == 128
    assert of('ssd_efficientnet-b1_bifpn_keras', max_level=6) == 64
    assert of('ssd_mobilenet_v2_keras') == 1
    # What is out of range is said of the field itself.
    assert of('ssd_efficientnet-b0_bifpn_keras', max_level=2_000_000_000) == 1
