import numpy as np
import pytest
import tensorflow as tf

from model_fns.backbones import efficientnet, registry
from model_fns.backbones.modern import efficientnet_v2
from tests.model_fns.backbones import recorded_backbones, slow_layers

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1


def test_the_parameter_count_of_the_published_program():
    count = recorded_backbones.count_parameters('efficientnetv2_b0', num_classes=1000)
    assert count / 1e6 == pytest.approx(7.14, abs=0.005)


def test_sizes_by_hand():
    sizes = efficientnet_v2.SIZES
    counts = {
        name: [
            sum(f'stack_{stack}/' in block.name for block in efficientnet.list_blocks(size))
            for stack in range(len(size.stacks))
        ]
        for name, size in sizes.items()
    }
    assert counts['efficientnetv2_s'] == [2, 4, 4, 6, 9, 15]
    assert counts['efficientnetv2_m'] == [3, 5, 5, 7, 14, 18, 5]
    # 1, 2, 2, 3, 5 and 8 blocks times 1.2, rounded up.
    assert counts['efficientnetv2_b2'] == [2, 3, 3, 4, 6, 10]
    assert efficientnet.feature_maps(sizes['efficientnetv2_s']) == {
        2: 'stack_0/block_1',
        4: 'stack_1/block_3',
        8: 'stack_2/block_3',
        16: 'stack_4/block_8',
        32: 'stack_5/block_14',
    }


def test_channels_are_rounded_down_by_any_share():
    network = registry.get_network('efficientnetv2_b3')
    options = registry.Options(final_endpoint='stack_0/block_0')
    with tf.Graph().as_default():
        images = tf1.placeholder(tf.float32, [1, 32, 32, 3])
        points = network.features(images, network.style(False, options), options)
    # 32 and 16 channels times 1.2: the first EfficientNet would round 19.2 up to 24.
    assert [int(point.shape[-1]) for point in points.values()] == [40, 16]


def test_pixels():
    # S and M are trained on [-1, 1], the others on the colors of ImageNet.
    gray = tf.constant([127.5] * 3)
    np.testing.assert_allclose(registry.get_network('efficientnetv2_s').normalization(gray), 0.0)
    color = registry.get_network('efficientnetv2_b0').normalization(gray).numpy()
    assert color[0] == pytest.approx((0.5 - 0.485) / 0.229, rel=1e-5)


@pytest.mark.parametrize('expansion', [1, 4])
def test_a_fused_block_by_its_definition(expansion):
    random = np.random.RandomState(0)
    image = random.normal(size=[1, 5, 6, 8]).astype(np.float32)
    stack = efficientnet.Stack(8, 1, 3, stride=1, expansion=expansion, fused=True)
    size = efficientnet.Size(1.0, 1.0, 32, 1.0, stacks=(stack,), stem_channels=8, scope='net')
    with tf.Graph().as_default(), tf1.Session() as session:
        options = registry.Options()
        style = efficientnet.efficientnet_style(False, options)
        points = efficientnet.efficientnet_features(tf.constant(image), style, options, size)
        variables = tf1.global_variables()
        values = {
            variable.op.name: random.uniform(0.5, 1.5, variable.shape)
            - (1.0 if 'weights' in variable.op.name else 0.0)
            for variable in variables
        }
        feed = {variable.initializer.inputs[1]: values[variable.op.name] for variable in variables}
        session.run([variable.initializer for variable in variables], feed)
        stem, actual = session.run([points['stem'], points['stack_0/block_0']])

    def convolve(inputs, name):
        scope = f'net/stack_0/block_0/{name}'
        convolved = slow_layers.conv2d(inputs, values[f'{scope}/weights'])
        return slow_layers.batch_norm(convolved, values, f'{scope}/BatchNorm', 1e-3)

    def swish(inputs):
        return inputs / (1.0 + np.exp(-inputs))

    if expansion == 1:
        expected = stem + swish(convolve(stem, 'project'))
    else:
        expected = stem + convolve(swish(convolve(stem, 'expand')), 'project')
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)
