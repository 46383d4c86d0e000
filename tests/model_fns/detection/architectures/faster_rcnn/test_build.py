"""From a config to a two-stage detector: its variables, its options, what it refuses."""

import json
import re

import pytest
import tensorflow as tf

from estimator_lib import config as config_lib
from estimator_lib import errors
from estimator_lib.config.section import Section
from model_fns import layers
from model_fns.detection import detector, fields
from model_fns.detection.architectures.faster_rcnn import build, model
from tests import tiny_two_stage
from tests.model_fns.detection.test_rules import configs

pytestmark = pytest.mark.usefixtures('no_initial_values')

tf1 = tf.compat.v1

WHERE = 'model.faster_rcnn'


def config_of(*settings, stages=2):
    text = tiny_two_stage.MODEL.format(stages=stages)
    return config_lib.parse_pipeline_config(text, 'text', settings=settings).model


def side_inputs_of(made, config):
    if not made.side_inputs:
        return None
    length = config.context_config.context_feature_length
    return {
        fields.CONTEXT_FEATURES: tf.zeros([1, 3, length]),
        fields.NUM_CONTEXT_FEATURES: tf.constant([2]),
    }


def variables_of(config, size=(96, 128)):
    made = build.build_faster_rcnn(Section(config, WHERE))
    with tf.Graph().as_default():
        images = tf1.placeholder(tf.float32, [1, *size, 3])
        made.predict(images, None, None, True, side_inputs_of(made, config))
        trained = {variable.op.name for variable in tf1.trainable_variables()}
        return {
            variable.op.name: [list(variable.shape), variable.op.name in trained]
            for variable in tf1.global_variables()
        }


@pytest.mark.parametrize(
    'name',
    [
        'faster_rcnn_resnet50_coco',
        'rfcn_resnet101_coco',
        'mask_rcnn_inception_v2_coco',
        'mask_rcnn_resnet50_atrous_coco',
        'mask_rcnn_inception_resnet_v2_atrous_coco',
        *(
            pytest.param(name, marks=pytest.mark.published)
            for name in (
                'faster_rcnn_inception_v2_coco',
                'faster_rcnn_resnet50_fgvc',
                'mask_rcnn_resnet101_atrous_coco',
            )
        ),
    ],
)
def test_variables_are_the_published_ones(name, shared):
    expected = json.loads((shared / 'spec' / 'variables' / f'{name}.json').read_text())
    config = configs()[f'tf1/{name}'].model.faster_rcnn
    config.clip_anchors_to_image = True  # the graph is built for a smaller image
    made = build.build_faster_rcnn(Section(config, WHERE))
    assert variables_of(config) == {
        name: [shape, trained] for name, shape, trained in expected['variables']
    }
    assert sorted(f'Loss/{one}' for one in made.loss_names) == sorted(expected['loss_names'])


def test_one_stage_has_no_variables_of_the_second():
    both = variables_of(config_of().faster_rcnn)
    one = variables_of(config_of(stages=1).faster_rcnn)
    left = {name for name in both if not re.match('SecondStage', name)}
    assert set(one) == left and len(both) > len(one)
    assert {'Conv/weights', 'FirstStageBoxPredictor/ClassPredictor/biases'} <= set(one)


def test_it_is_found_by_its_field():
    made = detector.build_detector(config_of())
    assert isinstance(made, model.FasterRcnnModel)
    assert made.num_classes == 2 and made.tells_classes
    assert made.loss_names == (*model.REGION_LOSSES, *model.BOX_LOSSES)
    alone = detector.build_detector(config_of(stages=1))
    assert alone.loss_names == model.REGION_LOSSES and not alone.tells_classes


def test_a_shared_box_is_one_for_all_classes():
    head = 'model.faster_rcnn.second_stage_box_predictor.mask_rcnn_box_predictor.'
    shared = variables_of(config_of(f'{head}share_box_across_classes=true').faster_rcnn)
    name = 'SecondStageBoxPredictor/BoxEncodingPredictor/weights'
    assert shared[name][0] == [256, 4]
    assert variables_of(config_of().faster_rcnn)[name][0] == [256, 8]


@pytest.mark.parametrize(
    ('setting', 'problem'),
    [
        (
            'feature_extractor.type=faster_rcnn_resnet5',
            'feature_extractor.type: unknown feature ex',
        ),
        (
            'second_stage_batch_size=9',
            'second_stage_batch_size: 9; expected at most 8, first_stage',
        ),
    ],
)
def test_what_is_wrong_is_said_without_validation_too(setting, problem):
    config = config_of(f'model.faster_rcnn.{setting}')
    with pytest.raises(errors.ConfigError) as caught:
        detector.build_detector(config)
    assert f'{WHERE}.{problem}' in str(caught.value)


def test_anchors_that_all_reach_over_the_image():
    settings = (
        'model.faster_rcnn.clip_anchors_to_image=false',
        'model.faster_rcnn.first_stage_anchor_generator.grid_anchor_generator.height=200',
    )
    made = detector.build_detector(config_of(*settings))
    with tf.Graph().as_default(), pytest.raises(errors.ConfigError) as caught:
        made.predict(tf.zeros([1, 64, 64, 3]), None, None, is_training=True)
    assert str(caught.value) == (
        f'{WHERE}.first_stage_anchor_generator: at 64x64 pixels no anchor is inside of the input, '
        'so there is nothing to learn from; expected smaller scales, or '
        'clip_anchors_to_image: true.'
    )


def test_a_two_stage_detector_is_not_quantized():
    with pytest.raises(errors.ConfigError, match='^graph_rewriter: two-stage detectors are not'):
        build.build_faster_rcnn(Section(config_of().faster_rcnn, WHERE), layers.Quantization())


def test_aligned_crops_have_the_strides_of_their_maps():
    def strides(model):
        settings = 'model.faster_rcnn.roi_align={ samples_per_side: 3 }'
        text = model.format(stages=2)
        config = config_lib.parse_pipeline_config(text, 'text', settings=[settings])
        alignment = build._alignment(config.model.faster_rcnn)
        assert alignment.ratio == 3
        return list(alignment.strides)

    assert strides(tiny_two_stage.MODEL) == [16]
    assert strides(tiny_two_stage.PYRAMID) == [8, 16, 32, 64]
    assert build._alignment(config_of().faster_rcnn) is None
