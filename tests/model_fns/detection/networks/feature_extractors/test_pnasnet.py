"""PNASNet-5 for detection: its maps, and where its variables are in a classifier's checkpoint."""

import pytest
import tensorflow as tf

from estimator_lib.config.section import Section
from model_fns.detection.architectures.ssd import build as ssd_build
from tests.model_fns.backbones import recorded_backbones
from tests.test_readme import extractor_config

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1


def test_maps_and_variables():
    config = extractor_config('ssd_pnasnet').model.ssd
    config.feature_extractor.num_layers = 6
    config.feature_extractor.ClearField('fpn')
    config.feature_extractor.depth_multiplier = 1.0
    model = ssd_build.build_ssd(Section(config, 'model.ssd'))
    with tf.Graph().as_default():
        made = model._build_extractor(False)
        maps = made.extract(tf1.placeholder(tf.float32, [1, 64, 96, 3]))
        variables = tf1.global_variables()
        restored = model.restore_map(variables, 'classification')
        own = model.restore_map(variables, 'detection')
    sides = [(4, 6), (2, 3), (1, 2), (1, 1), (1, 1), (1, 1)]
    channels = (2160, 4320, 512, 256, 256, 128)
    assert [tuple(one.shape[1:]) for one in maps] == [
        (*size, depth) for size, depth in zip(sides, channels)
    ]
    # A classifier has all but the added maps and its own logits, as moving averages.
    added = 'SSD_feature_maps/Cell_11_1_Conv2d_2_1x1_256/weights'
    assert f'FeatureExtractor/{added}' in own
    end = '/ExponentialMovingAverage'
    assert all(name.endswith(end) for name in restored)
    names = {name[: -len(end)] for name in restored}
    backbone = {name for name in names if not name.startswith('SSD_feature_maps/')}
    published = {
        name for name, *_ in recorded_backbones.variable_list('pnasnet_large')['variables']
    }
    assert backbone == {name for name in published if not name.startswith(('aux_', 'final_layer/'))}
