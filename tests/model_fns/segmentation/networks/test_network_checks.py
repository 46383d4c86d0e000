from __future__ import annotations

import re

import pytest

from estimator_lib import errors
from estimator_lib.config import schema
from model_fns.segmentation.networks import network_checks, sizes
from model_fns.segmentation.networks.network import SegmentationNetwork
from tests.model_fns.segmentation import tiny_networks

BACKBONE = 'backbone { name: "mobilenet_v2" } '

REFUSED = {
    'backbone { name: "mobilenet_v22" }': "backbone.name: .*'mobilenet_v22'.*did you mean",
    'backbone { name: "mobilenet_v2" output_stride: 6 }': (
        'backbone.output_stride: got 6; expected 1, 2, 4, 8, 16'
    ),
    'dense_prediction_cell {}': 'dense_prediction_cell: got neither',
    'logits_kernel_size: 3': 'logits_kernel_size: got 3.*batch_norm: false',
    'decoder { output_strides: [4, 8] }': r'decoder.output_strides: .* 4, 8 .* of 16',
    'decoder { output_strides: [8, 8] }': r'decoder.output_strides: .* 8, 8',
    'decoder { output_strides: 16 }': r'decoder.output_strides: .* 16 behind a backbone of 16',
    'decoder { output_strides: 1 }': r'decoder.output_strides: .*expected 2, 4, 8, 16',
    'decoder { output_strides: [4, 1] unet_filters: 8 }': r'unet_filters: 1 values; expected 2,',
    'decoder { unet_filters: 8 num_filters: 4 }': 'decoder.num_filters: a U-Net concatenates',
    'decoder { output_is_logits: true sum_merge: true num_filters: 3 }': 'num_filters: got 3.* 21',
    'decoder { output_is_logits: true sum_merge: true separable_convolution: true }': (
        'decoder.separable_convolution: '
    ),
    'decoder { output_is_logits: true sum_merge: true } offset {}': 'offset: .*output_is_logits',
    'decoder { output_is_logits: true sum_merge: true } '
    'aspp { batch_norm: false atrous_rates: 6 }': 'decoder.output_is_logits: ',
    'aspp { image_pooling_stride_height: 4 }': 'aspp.image_pooling_stride_height: ',
    'aspp { quantized_sigmoid_gate: true }': 'aspp.quantized_sigmoid_gate: ',
    'aspp { concat_projection: false dropout_keep_prob: 0.8 }': 'aspp.dropout_keep_prob: ',
    'aspp { concat_projection: false squeeze_and_excitation: true atrous_rates: 6 }': (
        'aspp.squeeze_and_excitation: .* 2 branches'
    ),
    'aspp { batch_norm: false num_filters: 64 }': 'aspp.num_filters: with batch_norm: false',
    'aspp { batch_norm: false image_level_feature: true }': 'aspp.image_level_feature: ',
    'image_pyramid: [0.5, 0.501]': 'image_pyramid: .*0.50 more than once',
    'edge { num_classes: 5 }': r'edge.num_classes: got 5; expected 2 .* or 21',
}


@pytest.mark.parametrize('text', REFUSED)
def test_what_cannot_be_is_refused(text):
    prefix = '' if text.startswith('backbone') else BACKBONE
    config = tiny_networks.config(prefix + text)
    with pytest.raises(errors.ConfigError) as raised:
        SegmentationNetwork.from_config(config, 21)
    message = str(raised.value)
    assert message.startswith('model.segmentation')
    assert re.search(REFUSED[text], message), message


def test_too_few_classes():
    with pytest.raises(errors.ConfigError, match='num_classes: got 1'):
        SegmentationNetwork.from_config(tiny_networks.config(BACKBONE), 1)


def test_an_option_that_the_backbone_does_not_have():
    config = tiny_networks.config('backbone { name: "mobilenet_v2" multi_grid: [1, 2, 4] }')
    with pytest.raises(errors.ConfigError, match='model.segmentation.backbone.multi_grid'):
        SegmentationNetwork.from_config(config, 21)


@pytest.mark.parametrize(
    'text',
    [
        'logits_kernel_size: 3 aspp { batch_norm: false atrous_rates: [6, 12] }',
        'aspp { batch_norm: false image_level_feature: false batch_norm_decay: 0.9 }',
        'aspp { squeeze_and_excitation: true concat_projection: false num_filters: 128 '
        'quantized_sigmoid_gate: true image_pooling_crop_height: 769 '
        'image_pooling_crop_width: 769 image_pooling_stride_height: 4 } '
        'decoder { output_strides: 8 sum_merge: true output_is_logits: true num_filters: 21 }',
        'decoder { output_strides: [8, 4] } edge { num_classes: 21 }',
        'dense_prediction_cell { branches {} }',
    ],
)
def test_what_can_be_is_accepted(text):
    SegmentationNetwork.from_config(tiny_networks.config(BACKBONE + text), 21)


def test_rates_at_another_output_stride():
    assert network_checks.scale_rates((6, 12, 18), 16, 8, ()) == (12, 24, 36)
    assert network_checks.scale_rates((12, 24), 8, 16, ()) == (6, 12)
    assert network_checks.scale_rates((6, 12), 16, 8, (7, 9)) == (7, 9)
    assert network_checks.scale_rates((), 16, 8, ()) == ()
    where = 'model.segmentation.export'
    with pytest.raises(errors.ConfigError, match='export.atrous_rates: got 1 .7.; expected 2'):
        network_checks.scale_rates((6, 12), 16, 8, (7,), where)
    with pytest.raises(errors.ConfigError, match='export.atrous_rates: .* 5 .*no whole numbers'):
        network_checks.scale_rates((5,), 16, 32, (), where)


def test_an_output_stride_of_exports_that_no_backbone_has():
    network = SegmentationNetwork.from_config(tiny_networks.config(BACKBONE), 21)
    with pytest.raises(errors.ConfigError, match=r'export\.output_stride: got 12; expected 1, 2,'):
        network.change_output_stride(12, where='model.segmentation.export')


def test_a_decoder_refines_nothing_finer_than_itself():
    config = tiny_networks.config(BACKBONE + 'decoder { output_strides: 8 }')
    network = SegmentationNetwork.from_config(config, 21)
    with pytest.raises(errors.ConfigError, match='model.segmentation.export.output_stride: '):
        network.change_output_stride(8, where='model.segmentation.export')


def test_sizes():
    assert sizes.scaled((513, 1025), 0.5) == (257, 513)
    assert sizes.scaled((129, 11), schema.decimal_number(0.699999988079071)) == (90, 8)
    assert sizes.strided((513, 130), 16) == (33, 9)
    assert sizes.same((513, 513), (int('513'), 513))
    assert not sizes.same((513, 513), (513, 512))
