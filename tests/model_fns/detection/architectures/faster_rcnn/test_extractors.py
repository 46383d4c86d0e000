"""Backbones in two stages: their variables, and where these are in checkpoints."""

import json

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import config as config_lib
from estimator_lib import errors
from estimator_lib.config.section import Section
from model_fns import layers
from model_fns.backbones import registry
from model_fns.detection.architectures.faster_rcnn import extractors
from protos import faster_rcnn_pb2
from tests import tiny_two_stage
from tests.conftest import shared_folder

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1

# Size of the first stage's map of an image of 100 x 130 pixels and its channels, side of the pooled
# crops, channels of the second stage.
PUBLISHED = {
    'faster_rcnn_resnet50_coco': ((7, 9), 1024, 7, 2048),
    'faster_rcnn_inception_v2_coco': ((7, 9), 576, 7, 1024),
    'faster_rcnn_inception_resnet_v2_atrous_coco': ((13, 17), 1088, 17, 1536),
    'faster_rcnn_nas_coco': ((7, 8), 4032, 17, 4032),  # its first layer pads nothing
}


def built(name, stride, side, channels, is_training=False, trains=False):
    """Return (shapes of variables and whether they are trained by name, features, box features)."""
    made = extractors.EXTRACTORS.get(name)
    with tf.Graph().as_default() as graph:
        (features,) = made.features(
            tf1.placeholder(tf.float32, [1, 100, 130, 3]), stride, is_training, trains
        )
        crops = tf1.placeholder(tf.float32, [8, side, side, channels])
        of_boxes = made.box_features(crops, is_training, trains)
        trained = {variable.op.name for variable in tf1.trainable_variables()}
        variables = {
            variable.op.name: (tuple(variable.shape), variable.op.name in trained)
            for variable in tf1.global_variables()
        }
        losses = graph.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)
        updates = graph.get_collection(tf1.GraphKeys.UPDATE_OPS)
    return variables, features.shape, of_boxes.shape, len(losses), len(updates)


@pytest.mark.parametrize(
    'config',
    [
        # `test_build.py` has those of the others, with their heads.
        pytest.param(name, marks=pytest.mark.published if 'inception' in name else ())
        for name in sorted(PUBLISHED)
    ],
)
def test_variables_are_the_published_ones(config, shared):
    grid, channels, side, out = PUBLISHED[config]
    expected = json.loads((shared / 'spec' / 'variables' / f'{config}.json').read_text())
    stride = 8 if 'atrous' in config else 16
    variables, features, of_boxes, losses, updates = built(
        expected['feature_extractor'], stride, side, channels, is_training=True
    )
    scopes = (extractors.FIRST_SCOPE, extractors.SECOND_SCOPE)
    assert variables == {
        name: (tuple(shape), trained)
        for name, shape, trained in expected['variables']
        if name.startswith(scopes)
    }
    assert features == [1, *grid, channels]
    assert of_boxes[-1] == out
    assert (losses, updates) == (
        expected['n_regularization_losses'],
        expected['n_update_ops'],
    )


def test_sizes_of_the_second_stage():
    assert built('faster_rcnn_resnet50', 8, 7, 1024)[2] == [8, 7, 7, 2048]
    assert built('faster_rcnn_inception_v2', 16, 7, 576)[2] == [8, 4, 4, 1024]


def test_the_second_stage_of_inception_resnet_pads_in_tensorflow_2_only():
    for name, side in (('', 8), ('_keras', 9)):
        name = f'faster_rcnn_inception_resnet_v2{name}'
        made = extractors.EXTRACTORS.get(name)
        with tf.Graph().as_default():
            crops = tf1.placeholder(tf.float32, [4, 17, 17, 1088])
            assert made.box_features(crops, False, False).shape == [4, side, side, 1536]


def test_the_inception_resnet_of_tensorflow_2_has_one_stride():
    config = faster_rcnn_pb2.FasterRcnnFeatureExtractor(
        type='faster_rcnn_inception_resnet_v2_keras', first_stage_features_stride=8
    )
    with pytest.raises(errors.ConfigError, match='stride: 8; expected 16'):
        extractors.find(Section(config, 'here'))


def test_the_resnets_of_tensorflow_2_stride_in_both_stages_and_have_nothing_in_vain():
    variables, features, of_boxes, losses, _ = built(
        'faster_rcnn_resnet50_keras', 16, 7, 1024, is_training=True
    )
    assert (list(features), list(of_boxes)) == ([1, 7, 9, 1024], [8, 4, 4, 2048])
    scopes = ('KerasFirstStageFeatureExtractor/', 'KerasSecondStageFeatureExtractor/')
    assert all(name.startswith(scopes) for name in variables)
    assert [name for name in variables if name.startswith(scopes[0]) and 'block4' in name] == []
    # 53 convolutions, with a batch norm of four variables each, and no regularizer.
    assert (len(variables), losses) == (5 * 53, 0)


def test_a_pyramid_has_maps_of_its_levels_and_layers_of_boxes():
    config = config_lib.parse_pipeline_config(tiny_two_stage.PYRAMID.format(stages=2), 'text')
    made = extractors.find(Section(config).child('model.faster_rcnn.feature_extractor'))
    with tf.Graph().as_default() as graph:
        images = tf1.placeholder(tf.float32, [1, 100, 130, 3])
        maps = made.features(images, 16, is_training=True, trains_batch_norm=False)
        of_boxes = made.box_features(tf.zeros([3, 2, 2, 8]), True, False)
        names = {variable.op.name for variable in tf1.global_variables()}
        updates = graph.get_collection(tf1.GraphKeys.UPDATE_OPS)
    assert [list(one.shape) for one in maps] == [
        # Of 128 x 160 pixels, multiples of 32.
        [1, *size, 8]
        for size in ((16, 20), (8, 10), (4, 5), (2, 3))
    ]
    assert list(of_boxes.shape) == [3, 1, 1, 1024]
    second = {name for name in names if name.startswith('KerasSecondStageFeatureExtractor/')}
    # Two layers with biases, and batch norm of four variables between them.
    assert len(second) == 2 * 2 + 4
    # 53 layers of the backbone with batch norm; 3 without on the way down; 2 smoothed, 1 on top.
    assert len(names - second) == 5 * 53 + 2 * 3 + 5 * 3
    assert updates == []  # batch_norm_trainable was not asked for


def test_a_pyramid_of_mobilenet_has_level_2_too():
    settings = (
        'model.faster_rcnn.feature_extractor.type=faster_rcnn_mobilenet_v1_025_fpn_keras',
        'model.faster_rcnn.feature_extractor.fpn.min_level=2',
    )
    text = tiny_two_stage.PYRAMID.format(stages=2)
    config = config_lib.parse_pipeline_config(text, 'text', settings=settings)
    made = extractors.find(Section(config).child('model.faster_rcnn.feature_extractor'))
    with tf.Graph().as_default():
        maps = made.features(tf1.placeholder(tf.float32, [1, 96, 128, 3]), 16, False, False)
        names = {variable.op.name for variable in tf1.global_variables()}
    assert [list(one.shape) for one in maps] == [
        [1, *size, 8] for size in ((24, 32), (12, 16), (6, 8), (3, 4), (2, 2))
    ]
    start = 'KerasFirstStageFeatureExtractor/MobilenetV1/'
    assert all(name.startswith(start) for name in names)
    assert f'{start}Conv2d_13_pointwise/weights' in names
    assert f'{start}fpn/projection_4/weights' in names


@pytest.mark.parametrize('name', ['resnet_v1_5_18', 'convnext_tiny'])
def test_networks_of_today_have_a_pyramid_and_keep_their_style(name):
    made = extractors.EXTRACTORS.get(f'faster_rcnn_{name}_fpn_keras')
    configured = layers.LayerStyle(
        batch_norm=layers.BatchNorm(epsilon=0.5), regularizer=layers.l2(0.25)
    )
    with tf.Graph().as_default() as graph:
        images = tf1.placeholder(tf.float32, [1, 100, 130, 3])
        # Padded to 128 x 160.
        maps = made.features(images, 16, True, False, configured)
        names = [variable.op.name for variable in tf1.global_variables()]
        losses = len(graph.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES))
        norms = [op for op in graph.get_operations() if op.type == 'FusedBatchNormV3']
    assert [tuple(one.shape[1:3]) for one in maps] == [(16, 20), (8, 10), (4, 5), (2, 3), (1, 2)]
    start = f'{made.scopes[0]}/{registry.get_network(name).scope}/'
    assert all(each.startswith(start) for each in names)
    weights = [each for each in names if each.endswith('/weights') and '/fpn/' not in each]
    assert losses == len(weights)
    backbone = [op for op in norms if '/fpn/' not in op.name]
    assert len(backbone) == (20 if name == 'resnet_v1_5_18' else 0)
    assert all(op.get_attr('epsilon') == pytest.approx(1e-5) for op in backbone)
    assert not any(op.get_attr('is_training') for op in backbone)


def test_mobilenet_has_separable_layers_in_its_second_stage():
    variables, features, of_boxes, _, updates = built(
        'faster_rcnn_mobilenet_v1_025', 16, 7, 128, is_training=True, trains=True
    )
    assert (features[-1], list(of_boxes)) == (128, [8, 4, 4, 256])
    scope = 'SecondStageFeatureExtractor/MobilenetV1/'
    second = {name[len(scope) :]: one[0] for name, one in variables.items() if scope in name}
    norms = ('beta', 'gamma', 'moving_mean', 'moving_variance')
    assert second == {
        'Conv2d_12_pointwise/depthwise_weights': (3, 3, 128, 1),
        'Conv2d_12_pointwise/pointwise_weights': (1, 1, 128, 256),
        'Conv2d_13_pointwise/depthwise_weights': (3, 3, 256, 1),
        'Conv2d_13_pointwise/pointwise_weights': (1, 1, 256, 256),
        **{f'Conv2d_12_pointwise/BatchNorm/{name}': (256,) for name in norms},
        **{f'Conv2d_13_pointwise/BatchNorm/{name}': (256,) for name in norms},
    }
    # 23 layers of the first stage and 2 of the second, two statistics each.
    assert updates == 2 * (23 + 2)


def test_mobilenet_has_larger_maps_of_the_same_variables():
    coarse, fine = (built('faster_rcnn_mobilenet_v1_025', stride, 7, 128) for stride in (16, 8))
    assert fine[0] == coarse[0]
    assert [-(-side // 2) for side in fine[1][1:3]] == list(coarse[1][1:3])


class TestPreprocessing:
    IMAGE = np.full([1, 2, 2, 3], 51.0, np.float32)

    def test_means_are_those_of_colors(self):
        made = extractors.EXTRACTORS.get('faster_rcnn_resnet50')
        np.testing.assert_allclose(
            made.preprocess(tf.constant(self.IMAGE))[0, 0, 0], [-72.68, -65.779, -52.939], rtol=1e-5
        )
        gray = tf.constant(self.IMAGE[..., :1])
        np.testing.assert_array_equal(made.preprocess(gray), gray)

    def test_others_take_minus_one_to_one(self):
        made = extractors.EXTRACTORS.get('faster_rcnn_inception_v2')
        np.testing.assert_allclose(made.preprocess(tf.constant(self.IMAGE)), -0.6, rtol=1e-5)


class TestRestoring:
    NAMES = (
        'FirstStageFeatureExtractor/resnet_v1_50/conv1/weights',
        'FirstStageFeatureExtractor/resnet_v1_50/block4/unit_1/weights',
        'SecondStageFeatureExtractor/resnet_v1_50/block4/unit_1/weights',
        'Conv/weights',
        'SecondStageBoxPredictor/ClassPredictor/weights',
    )

    def restored(self, kind, names=NAMES, extractor='faster_rcnn_resnet50'):
        made = extractors.EXTRACTORS.get(extractor)
        return made.restore_map({name: name for name in names}, kind)

    def test_of_a_detector(self):
        assert self.restored('detection') == {name: name for name in self.NAMES[:3]}

    def test_of_a_classifier(self):
        assert self.restored('classification') == {
            'resnet_v1_50/conv1/weights': self.NAMES[0],
            'resnet_v1_50/block4/unit_1/weights': self.NAMES[2],
        }

    def test_no_classifier_of_the_first_generation_is_of_a_pyramid(self):
        made = extractors.EXTRACTORS.get('faster_rcnn_resnet50_fpn_keras')
        said = made.foreign_checkpoint(['resnet_v1_50/conv1/weights'])
        assert said.endswith('expected a checkpoint of faster_rcnn_resnet50_fpn_keras.')
        assert made.foreign_checkpoint(['KerasFirstStageFeatureExtractor/resnet_v1_50/a']) == ''

    def test_a_classifier_of_the_first_generation_differs_for_residual_networks_only(self):
        made = extractors.EXTRACTORS.get('faster_rcnn_inception_resnet_v2_keras')
        assert made.foreign_checkpoint(['InceptionResnetV2/Conv2d_1a_3x3/weights']) == ''
        said = made.foreign_checkpoint(['FirstStageFeatureExtractor/InceptionResnetV2/a'])
        assert said.endswith('or the type faster_rcnn_inception_resnet_v2.')

    def test_the_last_blocks_of_inception_resnet(self):
        first = 'FirstStageFeatureExtractor/InceptionResnetV2/Repeat/block35_1/weights'
        second = 'SecondStageFeatureExtractor/InceptionResnetV2/Repeat/block8_1/weights'
        names, extractor = (first, second), 'faster_rcnn_inception_resnet_v2'
        assert self.restored('classification', names, extractor) == {
            'InceptionResnetV2/Repeat/block35_1/weights': first,
            'InceptionResnetV2/Repeat_2/block8_1/weights': second,
        }
        assert set(self.restored('detection', names, extractor)) == {first, second}

    def test_a_classifier_of_cells_gives_its_averages(self):
        first = 'FirstStageFeatureExtractor/cell_0/beginning_bn/gamma'
        second = 'SecondStageFeatureExtractor/cell_12/beginning_bn/gamma'
        names, end = (first, second), '/ExponentialMovingAverage'
        assert self.restored('classification', names, 'faster_rcnn_nas') == {
            f'cell_0/beginning_bn/gamma{end}': first,
            f'cell_12/beginning_bn/gamma{end}': second,
        }
        assert set(self.restored('detection', names, 'faster_rcnn_nas')) == {first, second}


def test_names_of_all_published_types_that_there_are(shared):
    lists = (shared_folder() / 'spec' / 'variables').glob('*rcnn*.json')
    types = {json.loads(path.read_text())['feature_extractor'] for path in lists}
    assert types - set(extractors.EXTRACTORS) == set()
