from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from model_fns.segmentation.networks import decoder, head_layers
from tests.model_fns.backbones import slow_layers
from tests.model_fns.segmentation import tiny_networks

tf1 = tf.compat.v1

RANDOM = np.random.RandomState(3)
FEATURES = RANDOM.normal(size=[2, 3, 3, 5]).astype(np.float32)  # at output stride 16
AT_8 = RANDOM.normal(size=[2, 5, 5, 3]).astype(np.float32)
AT_4 = RANDOM.normal(size=[2, 9, 9, 2]).astype(np.float32)
IMAGE_SIZE = (33, 33)
STYLE = head_layers.head_style(
    is_training=False, fine_tune_batch_norm=True, weight_decay=1e-3, batch_norm_decay=0.9
)


def _refine(options, earlier):
    with tf.Graph().as_default(), tf1.Session() as session:
        settings = decoder.Decoder(num_filters=4, **options)
        early = [tf.constant(value) for value in earlier]
        outputs = decoder.refine(tf.constant(FEATURES), early, settings, STYLE, IMAGE_SIZE)
        values = tiny_networks.lively(session)
        return session.run(outputs), values


def _layer(image, values, scope):
    weights = values.get(f'{scope}/weights')
    if weights is None:  # of each channel on its own: a full convolution that mixes none.
        depthwise = values[f'{scope}/depthwise_weights']
        weights = depthwise * np.eye(depthwise.shape[2])
    outputs = slow_layers.conv2d(image, weights)
    return slow_layers.relu(slow_layers.batch_norm(outputs, values, f'{scope}/BatchNorm', 1e-5))


def _layers(image, values, *scopes):
    for scope in scopes:
        image = _layer(image, values, f'decoder/{scope}')
    return image


SEPARABLE = [f'decoder_conv{i}_{part}' for i in (0, 1) for part in ('depthwise', 'pointwise')]
PLAIN = [f'decoder_conv0/decoder_conv0_{i}' for i in (1, 2)]


@pytest.mark.parametrize('separable', [True, False])
def test_concatenated_against_definition(separable):
    outputs, values = _refine({'separable': separable}, [AT_4])
    early = _layers(AT_4, values, 'feature_projection0')
    assert early.shape[-1] == 48
    both = np.concatenate([tiny_networks.align_corners(FEATURES, 9, 9), early], 3)
    expected = _layers(both, values, *(SEPARABLE if separable else PLAIN))
    np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-4)
    assert len({name.rsplit('/', 1)[0] for name in values if 'weights' in name}) == (
        5 if separable else 3
    )


def test_a_unet_against_definition():
    """The last of its strides is that of the image, which has no earlier features."""
    options = {'output_strides': (8, 4, 1), 'unet_filters': (6, 4, 2), 'separable': False}
    outputs, values = _refine(options, [AT_8, AT_4])
    expected = FEATURES
    for stage, (side, early) in enumerate(((5, AT_8), (9, AT_4), (33, None))):
        expected = tiny_networks.align_corners(expected, side, side)
        if early is not None:
            expected = np.concatenate([expected, early], 3)
        suffix = f'_{stage}' if stage else ''
        expected = _layers(expected, values, f'unet_conv0{suffix}', f'unet_conv1{suffix}')
    assert outputs.shape == (2, 33, 33, 2)
    np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize('separable', [True, False])
def test_summed_against_definition(separable):
    outputs, values = _refine({'separable': separable, 'sum_merge': True}, [AT_4])
    early = _layers(AT_4, values, 'feature_projection0')
    scopes = SEPARABLE[:2] if separable else ['decoder_conv0']
    late = _layers(tiny_networks.align_corners(FEATURES, 9, 9), values, *scopes)
    np.testing.assert_allclose(outputs, early + late, rtol=1e-4, atol=1e-4)


def test_several_output_strides_follow_each_other():
    options = {'output_strides': (8, 4), 'sum_merge': True, 'separable': False}
    outputs, values = _refine(options, [AT_8, AT_4])
    middle = _layers(AT_8, values, 'feature_projection0') + _layers(
        tiny_networks.align_corners(FEATURES, 5, 5), values, 'decoder_conv0'
    )
    expected = _layers(AT_4, values, 'feature_projection0_1') + _layers(
        tiny_networks.align_corners(middle, 9, 9), values, 'decoder_conv0_1'
    )
    np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    'separable, names',
    [
        (
            True,
            [
                f'{name}_1_{part}'
                for name in ('decoder_conv0', 'decoder_conv1')
                for part in ('depthwise', 'pointwise')
            ],
        ),
        (False, ['decoder_conv0_1/decoder_conv0_1_1', 'decoder_conv0_1/decoder_conv0_1_2']),
    ],
)
def test_names_of_a_second_output_stride(separable, names):
    _, values = _refine({'output_strides': (8, 4), 'separable': separable}, [AT_8, AT_4])
    scopes = {name.rsplit('/', 1)[0] for name in values if name.endswith('weights')}
    first = SEPARABLE if separable else PLAIN
    expected = {'feature_projection0', 'feature_projection0_1', *first, *names}
    assert scopes == {f'decoder/{name}' for name in expected}


def test_logits_are_sums_of_linear_layers():
    outputs, values = _refine({'sum_merge': True, 'output_is_logits': True}, [AT_4])
    assert sorted(values) == [
        'decoder/decoder_conv0/biases',
        'decoder/decoder_conv0/weights',
        'decoder/feature_projection0/biases',
        'decoder/feature_projection0/weights',
    ]
    upsampled = tiny_networks.align_corners(FEATURES, 9, 9)
    expected = sum(
        image @ values[f'decoder/{scope}/weights'][0, 0] + values[f'decoder/{scope}/biases']
        for image, scope in ((upsampled, 'decoder_conv0'), (AT_4, 'feature_projection0'))
    )
    np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-4)


def test_from_config():
    text = 'decoder { output_strides: [8, 4] sum_merge: true %s }'
    plain = tiny_networks.config(text % 'num_filters: 64 separable_convolution: false')
    assert decoder.Decoder.from_config(plain.decoder, 21) == decoder.Decoder(
        output_strides=(8, 4), separable=False, num_filters=64, sum_merge=True
    )
    logits = tiny_networks.config(text % 'output_is_logits: true')
    assert decoder.Decoder.from_config(logits.decoder, 21).num_filters == 21
    assert decoder.Decoder.from_config(tiny_networks.config('').decoder, 21) == decoder.Decoder()
