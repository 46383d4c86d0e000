"""What each family makes of the options; one graph a type."""

from __future__ import annotations

import pytest
import tensorflow as tf

from estimator_lib import errors
from tests.model_fns.detection.extractor_configs import shapes_of

tf1 = tf.compat.v1

# Half as wide, explicitly padded, four separable maps.
OPTIONS = """type: '%s' depth_multiplier: 0.5 min_depth: 24 use_explicit_padding: true
    use_depthwise: true num_layers: 4 override_base_feature_extractor_hyperparams: %s"""


def check_padding(graph, explicit_backbone=True):
    """Convolutions of stride 2 are padded by a rule that does not depend on the image's size."""
    strided = [
        op
        for op in graph.get_operations()
        if op.type in ('Conv2D', 'DepthwiseConv2dNative')
        and op.get_attr('strides')[1] == 2
        and op.inputs[1].shape[0] > 1
    ]
    assert len(strided) > 5
    for op in strided:
        explicit = 'EXPLICIT' if op.type == 'Conv2D' else 'VALID'
        added = '_s2_' in op.name or '/fpn/' in op.name
        expected = explicit if added or explicit_backbone else 'SAME'
        assert op.get_attr('padding').decode() == expected, op.name


@pytest.mark.parametrize(
    'kind, maps, stacked',
    [
        (
            'ssd_mobilenet_v1',
            [(4, 6, 256), (2, 3, 512), (1, 2, 256), (1, 1, 128)],
            'MobilenetV1/Conv2d_13_pointwise',
        ),
        (
            'embedded_ssd_mobilenet_v1',
            [(4, 6, 256), (2, 3, 512), (1, 2, 256), (1, 1, 128)],
            'MobilenetV1/Conv2d_13_pointwise',
        ),
        # 80 * 6 channels within the block; 1280 / 2.
        (
            'ssd_mobilenet_v2',
            [(4, 6, 288), (2, 3, 640), (1, 2, 256), (1, 1, 128)],
            'MobilenetV2/layer_19',
        ),
        # 56 * 6; 480 / 2.
        (
            'ssd_mobilenet_v3_large',
            [(4, 6, 336), (2, 3, 240), (1, 2, 256), (1, 1, 128)],
            'MobilenetV3/layer_17',
        ),
        # 24 * 6; 288 / 2.
        (
            'ssd_mobilenet_v3_small',
            [(4, 6, 144), (2, 3, 144), (1, 2, 256), (1, 1, 128)],
            'MobilenetV3/layer_13',
        ),
        # 48 * 4; 192 / 2.
        (
            'ssd_mobilenet_edgetpu',
            [(4, 6, 192), (2, 3, 96), (1, 2, 256), (1, 1, 128)],
            'MobilenetEdgeTPU/layer_23',
        ),
        (
            'ssd_inception_v2',
            [(4, 6, 288), (2, 3, 512), (1, 2, 256), (1, 1, 128)],
            'InceptionV2/Mixed_5c',
        ),
    ],
)
def test_stacked_families(kind, maps, stacked):
    override = 'true' if 'inception' in kind else 'false'
    made = shapes_of(OPTIONS % (kind, override), (64, 96))
    variables = made.variables
    assert made.maps == maps
    assert variables[f'{stacked}_1_Conv2d_2_1x1_128/weights'] == (1, 1, maps[1][-1], 128)
    scope = f'{stacked}_2_Conv2d_2_3x3_s2_256'
    assert variables[f'{scope}_depthwise/depthwise_weights'] == (3, 3, 128, 1)
    assert variables[f'{scope}/weights'] == (1, 1, 128, 256)
    assert not any('_Conv2d_4_' in name for name in variables)
    check_padding(made.graph, explicit_backbone='inception' not in kind)


def test_inception_v3():
    fields = OPTIONS % ('ssd_inception_v3', 'true')
    made = shapes_of(fields, (96, 160))
    # Without padding, a 96x160 image leaves 9x17 of the first pooled maps.
    assert made.maps == [(9, 17, 144), (4, 8, 384), (1, 3, 1024), (1, 2, 256)]
    assert made.variables['InceptionV3/Mixed_7c_1_Conv2d_3_1x1_128/weights'] == (1, 1, 1024, 128)


@pytest.mark.parametrize(
    'kind, maps, scope',
    [
        ('cpu', [(4, 6, 40), (2, 3, 72), (1, 2, 256), (1, 1, 128)], 'MobileDetCPU'),
        ('dsp', [(4, 6, 72), (2, 3, 120), (1, 2, 256), (1, 1, 128)], 'MobileDetDSP'),
        ('edgetpu', [(4, 6, 48), (2, 3, 192), (1, 2, 256), (1, 1, 128)], 'MobileDetEdgeTPU'),
        ('gpu', [(4, 6, 64), (2, 3, 192), (1, 2, 256), (1, 1, 128)], 'MobileDetGPU'),
    ],
)
def test_mobiledets(kind, maps, scope):
    fields = f"type: 'ssd_mobiledet_{kind}' depth_multiplier: 0.5 min_depth: 24 num_layers: 4"
    made = shapes_of(fields, (64, 96))
    assert made.maps == maps
    assert made.variables[f'{scope}/C5_2_Conv2d_3_3x3_s2_128/weights'] == (3, 3, 64, 128)


@pytest.mark.parametrize(
    'kind, lite, last, coarse, fine',
    [
        ('ssd_mobilenet_v1_fpn', False, 512, 'Conv2d_14', 64),
        ('ssd_mobilenet_v1_fpn', True, 128, 'Conv2d_14', 64),
        ('ssd_mobilenet_v2_fpn', False, 640, 'Conv2d_20', 24),
        ('ssd_mobilenet_v2_fpn', True, 128, 'Conv2d_20', 24),
        ('ssd_resnet50_v1_fpn', False, 1024, 'block5', 128),
    ],
)
def test_pyramids(kind, lite, last, coarse, fine):
    fields = f"""type: '{kind}' depth_multiplier: 0.5 min_depth: 24
        use_depthwise: {str(lite).lower()}
        fpn {{ min_level: 2 max_level: 6 additional_layer_depth: 80 }}"""
    explicit = 'resnet' not in kind and lite
    fields += f' use_explicit_padding: {str(explicit).lower()}'
    made = shapes_of(fields, (160, 192))
    sizes = [(40, 48), (20, 24), (10, 12), (5, 6), (3, 3)]
    assert made.maps == [(*size, 40) for size in sizes]
    by_name = {name.split('/', 1)[1]: shape for name, shape in made.variables.items()}
    # Projections are numbered from the finest, whatever its level.
    assert by_name['fpn/projection_4/weights'] == (1, 1, last, 40)
    assert by_name['fpn/projection_1/weights'] == (1, 1, fine, 40)
    kernel = 'depthwise_weights' if lite else 'weights'
    assert by_name[f'fpn/bottom_up_{coarse}/{kernel}'] == (3, 3, 40, 1 if lite else 40)
    assert by_name[f'fpn/smoothing_3/{kernel}'] == (3, 3, 40, 1 if lite else 40)
    if explicit:
        check_padding(made.graph)


def test_pooling_pyramids():
    made = shapes_of("type: 'ssd_mobilenet_v1_ppn' num_layers: 3", (64, 96))
    assert made.maps == [(4, 6, 512), (2, 3, 512), (1, 2, 512)]
    made = shapes_of("type: 'ssd_resnet50_v1_ppn'", (300, 300))
    assert made.maps == [(size, size, 1024) for size in (19, 10, 5, 3, 2, 1)]
    assert made.variables['resnet_v1_50/Base_Conv2d_1x1_1024/weights'] == (1, 1, 1024, 1024)
    # The last block is in published checkpoints, and not used here.
    assert 'resnet_v1_50/block4/unit_3/bottleneck_v1/conv3/weights' in made.variables


def test_the_resnets_keep_their_own_batch_norm_when_the_rest_is_overridden():
    fields = """type: 'ssd_resnet50_v1_fpn' override_base_feature_extractor_hyperparams: true
        fpn { min_level: 3 max_level: 6 }"""
    made = shapes_of(fields, (160, 160), is_training=True)
    norms = [op for op in made.graph.get_operations() if op.type == 'FusedBatchNormV3']
    rates = {
        (round(op.get_attr('epsilon'), 7), round(op.get_attr('exponential_avg_factor'), 7))
        for op in norms
        if '/fpn/' not in op.name
    }
    assert rates == {(1e-5, 0.003)}
    added = [op for op in norms if '/fpn/' in op.name]
    assert [round(op.get_attr('epsilon'), 7) for op in added] == [0.01] * 3
    # Everything else is overridden: activations are cut at 6, but for the sums.
    kinds = [op.type for op in made.graph.get_operations() if op.type in ('Relu', 'Relu6')]
    assert kinds.count('Relu') == 16 and kinds.count('Relu6') == 1 + 2 * 16 + 3
    penalties = made.graph.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)
    assert len(penalties) == 53 + 3 + 3


def test_images_too_small_for_retinanet():
    with pytest.raises(errors.ConfigError, match='at least 129 x 129'):
        shapes_of("type: 'ssd_resnet50_v1_fpn'", (128, 256))
