from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from model_fns.segmentation.networks import aspp, head_layers
from tests.model_fns.segmentation import tiny_networks

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1

FEATURES = np.random.RandomState(1).normal(size=[2, 5, 7, 3]).astype(np.float32)


def _style(is_training=False, fine_tune=True, bounded=False):
    return head_layers.head_style(
        is_training=is_training,
        fine_tune_batch_norm=fine_tune,
        weight_decay=1e-3,
        batch_norm_decay=0.9,
        bounded_activation=bounded,
    )


def _pyramid(options, features=FEATURES, shape=None, style=None, output_stride=16):
    """The features and the variables of a pyramid of four filters."""
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.train.create_global_step()
        inputs = tf1.placeholder(tf.float32, shape or features.shape)
        settings = aspp.Aspp(num_filters=4, **options)
        outputs = aspp.pyramid(inputs, settings, style or _style(), output_stride)
        values = tiny_networks.lively(session)
        return session.run(outputs, {inputs: features}), values


def _slow_layer(image, values, scope, rate=1, activation=lambda x: np.maximum(x, 0)):
    """Convolution with gaps between the taps, batch norm, activation: by definition."""
    name = f'{scope}/weights'
    is_depthwise = name not in values
    weights = values[f'{scope}/depthwise_weights' if is_depthwise else name].astype(np.float64)
    kernel, margin = weights.shape[0], weights.shape[0] // 2 * rate
    height, width = image.shape[1:3]
    padded = np.pad(image, [(0, 0), (margin, margin), (margin, margin), (0, 0)])
    total = 0.0
    for i in range(kernel):
        for j in range(kernel):
            part = padded[:, i * rate : i * rate + height, j * rate : j * rate + width]
            total = total + (part * weights[i, j, :, 0] if is_depthwise else part @ weights[i, j])
    norm = {
        leaf: values[f'{scope}/BatchNorm/{leaf}']
        for leaf in ('gamma', 'beta', 'moving_mean', 'moving_variance')
    }
    total = (total - norm['moving_mean']) / np.sqrt(norm['moving_variance'] + 1e-5)
    return activation(total * norm['gamma'] + norm['beta'])


def _separable(image, values, scope, rate):
    filtered = _slow_layer(image, values, f'{scope}_depthwise', rate)
    return _slow_layer(filtered, values, f'{scope}_pointwise')


def _whole_image(values, activation=lambda x: np.maximum(x, 0)):
    means = FEATURES.mean((1, 2), keepdims=True)
    image = _slow_layer(means, values, 'image_pooling', activation=activation)
    return np.broadcast_to(image, [2, 5, 7, 4])


@pytest.mark.parametrize('separable', [True, False])
def test_projected_branches_against_definition(separable):
    outputs, values = _pyramid({'atrous_rates': (1, 2), 'separable': separable})
    layer = _separable if separable else _slow_layer
    branches = [
        _whole_image(values),
        _slow_layer(FEATURES, values, 'aspp0'),
        layer(FEATURES, values, 'aspp1', 1),
        layer(FEATURES, values, 'aspp2', 2),
    ]
    expected = _slow_layer(np.concatenate(branches, 3), values, 'concat_projection')
    np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-5)


def test_branches_without_projection_lie_side_by_side():
    outputs, values = _pyramid({'atrous_rates': (3,), 'concat_projection': False})
    branches = [
        _whole_image(values),
        _slow_layer(FEATURES, values, 'aspp0'),
        _separable(FEATURES, values, 'aspp1', 3),
    ]
    np.testing.assert_allclose(outputs, np.concatenate(branches, 3), rtol=1e-4, atol=1e-5)
    assert not any('concat_projection' in name for name in values)


def test_without_the_image_level_there_is_no_such_layer():
    outputs, values = _pyramid({'image_level_feature': False, 'concat_projection': False})
    np.testing.assert_allclose(
        outputs, _slow_layer(FEATURES, values, 'aspp0'), rtol=1e-4, atol=1e-5
    )
    assert all(name.startswith('aspp0/') for name in values)


@pytest.mark.parametrize(
    'quantized, gate',
    [
        (False, lambda x: 1 / (1 + np.exp(-x))),
        (True, lambda x: np.clip(x + 3, 0, 6) * 0.16667),
    ],
)
@pytest.mark.parametrize('crop', [None, (65, 97)])  # the latter: a window of 5 x 7, all there is
def test_squeeze_and_excitation_is_a_gate(quantized, gate, crop):
    options = {'squeeze_and_excitation': True, 'quantized_gate': quantized, 'pooling_crop': crop}
    outputs, values = _pyramid({**options, 'concat_projection': False})
    branch = _slow_layer(FEATURES, values, 'aspp0')
    expected = branch * _whole_image(values, gate)
    np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-5)
    assert 0 < outputs.max() <= branch.max()


def test_a_cropped_pool_slides_and_is_resized_back():
    # Windows of 3 x 4 features at output stride 8, two rows and one column apart.
    options = {
        'pooling_crop': (17, 25),
        'pooling_stride': (2, 1),
        'squeeze_and_excitation': True,
        'concat_projection': False,
    }
    outputs, values = _pyramid(options, output_stride=8)
    pools = np.zeros([2, 2, 4, 3])
    for i in range(2):
        for j in range(4):
            pools[:, i, j] = FEATURES[:, 2 * i : 2 * i + 3, j : j + 4].mean((1, 2))
    gates = _slow_layer(pools, values, 'image_pooling', activation=lambda x: 1 / (1 + np.exp(-x)))
    factor = tiny_networks.align_corners(gates, 5, 7)
    expected = _slow_layer(FEATURES, values, 'aspp0') * factor
    np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-5)


@settings(max_examples=8, deadline=None)
@given(
    st.integers(1, 9), st.integers(1, 9), st.integers(1, 12), st.integers(1, 12), st.integers(1, 3)
)
def test_a_size_known_only_at_run_time_changes_nothing(height, width, down, across, stride):
    features = FEATURES[:, :1, :1] + np.random.RandomState(height).rand(2, height, width, 3)
    options = {'pooling_crop': (down, across), 'pooling_stride': (stride, stride)}
    known, _ = _pyramid(options, features.astype(np.float32), output_stride=1)
    shape = [None, None, None, 3]
    unknown, _ = _pyramid(options, features.astype(np.float32), shape, output_stride=1)
    np.testing.assert_allclose(unknown, known, rtol=1e-4, atol=1e-5)


def test_dropout_is_of_training_and_of_the_projection():
    options = {'dropout_keep_prob': 0.5}
    frozen = _style(is_training=True, fine_tune=False)
    trained, _ = _pyramid(options, style=frozen)
    evaluated, _ = _pyramid(options)
    kept = trained != 0
    np.testing.assert_allclose(trained[kept], 2 * evaluated[kept], rtol=1e-5)
    share = kept.sum() / (evaluated != 0).sum()
    assert 0.3 < share < 0.7


def test_bounded_activations():
    features = FEATURES * 100
    outputs, _ = _pyramid({}, features, style=_style(bounded=True))
    assert outputs.max() == 6
    assert _pyramid({}, features)[0].max() > 6


def test_only_depthwise_weights_are_not_penalised():
    with tf.Graph().as_default():
        aspp.pyramid(tf.constant(FEATURES), aspp.Aspp((6,)), _style(), 16)
        penalised = len(tf1.losses.get_regularization_losses())
        weights = [name for name in tiny_networks.variable_names() if name.endswith('/weights')]
    assert penalised == len(weights) == 4


def test_from_config():
    config = tiny_networks.config(
        'aspp { atrous_rates: [6, 12] num_filters: 128 separable_convolution: false '
        'image_pooling_crop_height: 769 image_pooling_crop_width: 513 '
        'image_pooling_stride_height: 4 image_pooling_stride_width: 5 dropout_keep_prob: 0.7 }'
    )
    assert aspp.Aspp.from_config(config.aspp) == aspp.Aspp(
        atrous_rates=(6, 12),
        separable=False,
        num_filters=128,
        pooling_crop=(769, 513),
        pooling_stride=(4, 5),
        dropout_keep_prob=0.7,
    )
    assert aspp.Aspp.from_config(tiny_networks.config('').aspp) == aspp.Aspp()
