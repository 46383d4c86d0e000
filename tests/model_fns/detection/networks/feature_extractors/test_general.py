import pytest
import tensorflow as tf

from estimator_lib import errors
from model_fns import layers
from model_fns.detection.networks.feature_extractors import extractor, general

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1

# Of each family, the smallest.
SMALLEST = ('resnet_v1_5_18', 'efficientnetv2_b0', 'convnext_tiny')
STYLE = layers.LayerStyle(
    activation=tf.nn.relu6, batch_norm=layers.BatchNorm(scale=True), regularizer=layers.l2(0.5)
)


def build(name, side=128, **settings):
    settings = {'style': STYLE, 'depth_multiplier': 0.1, 'min_depth': 8, **settings}
    made = extractor.get_extractor(name)(extractor.Settings(type_name=name, **settings))
    with tf.Graph().as_default() as graph:
        maps = made.extract(tf1.placeholder(tf.float32, [1, side, side, 3]))
    return made, graph, maps


@pytest.mark.parametrize('name', SMALLEST)
def test_a_stack_on_two_taps(name):
    # A side that is no multiple of 32 is rounded up.
    made, graph, maps = build(f'ssd_{name}', side=130)
    assert [int(one.shape[1]) for one in maps] == [9, 5, 3, 2, 1, 1]
    names = [v.op.name for v in graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES)]
    assert all(each.startswith(f'FeatureExtractor/{made.network.scope}/') for each in names)
    tap = made.network.feature_maps[32].replace('/', '_')
    assert any(f'/{tap}_2_Conv2d_2_3x3_s2_' in each for each in names)


@pytest.mark.parametrize('name', SMALLEST)
def test_a_pyramid(name):
    _, graph, maps = build(f'ssd_{name}_fpn', side=130)
    assert [int(one.shape[1]) for one in maps] == [17, 9, 5, 3, 2]
    assert len({int(one.shape[-1]) for one in maps}) == 1
    names = [v.op.name for v in graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES)]
    assert any('/bottom_up_block5/' in each for each in names)


def test_every_network_has_both_types():
    types = extractor.extractor_types()
    for name in general.NETWORKS:
        assert {f'ssd_{name}', f'ssd_{name}_fpn'} <= set(types)


def test_hyperparameters_replace_the_regularizer_only():
    made, _, _ = build('ssd_convnext_tiny', override_base=True)
    style = made.base_style()
    assert style.batch_norm is None and style.activation is None
    assert style.regularizer == STYLE.regularizer
    made, _, _ = build('ssd_resnet_v1_5_18', frozen=True)
    style = made.base_style()
    assert style.regularizer == layers.l2(1e-4)
    assert not style.batch_norm.train and style.batch_norm.epsilon == 1e-5


def test_only_networks_that_drop_branches_have_a_probability():
    made, _, _ = build('ssd_convnext_tiny', drop_path_keep_prob=0.5)
    assert made.settings.drop_path_keep_prob == 0.5
    with pytest.raises(errors.ConfigError, match='drop_path_keep_prob: not honored'):
        build('ssd_resnet_v1_5_18', drop_path_keep_prob=0.5)
