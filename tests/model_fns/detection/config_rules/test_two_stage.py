"""Which configs of two-stage detectors are accepted, and what is said of the others."""

import collections

import pytest

import model_fns
from estimator_lib import config as config_lib
from estimator_lib import errors
from tests import tiny_two_stage
from tests.model_fns.detection.test_rules import configs, refused_paths

HEAD = 'second_stage_box_predictor.mask_rcnn_box_predictor'


def named(config):
    return f'model.faster_rcnn.{config}'


def test_published_configs(shared):
    seen = collections.Counter()
    for name, config in configs().items():
        folder, _, _ = name.partition('/')
        if not config.model.HasField('faster_rcnn'):
            continue
        seen[folder] += 1
        assert not refused_paths(config, 'export'), name
    assert seen == {'tf1': 23, 'tf2': 5}


def problem(*settings, stages=2):
    text = tiny_two_stage.MODEL.format(stages=stages)
    settings = [f'model.faster_rcnn.{setting}' for setting in settings]
    config = config_lib.parse_pipeline_config(text, 'text', settings=settings)
    with pytest.raises(errors.ConfigError) as caught:
        model_fns.validate(config, mode=None)
    return str(caught.value)


ANCHORS = 'first_stage_anchor_generator={ %s }'


@pytest.mark.parametrize(
    ('setting', 'text'),
    [
        ('number_of_stages=3', 'number_of_stages: 3; the third stage predicts masks: expected pre'),
        ('number_of_stages=4', 'number_of_stages: 4; expected at least 1 and at most 3.'),
        (
            'feature_extractor.first_stage_features_stride=12',
            'feature_extractor.first_stage_features_stride: 12; expected 8 or 16.',
        ),
        (
            'feature_extractor.type=faster_rcnn_resnet51',
            "feature_extractor.type: unknown feature extractor 'faster_rcnn_resnet51'",
        ),
        (
            'feature_extractor={ type: "faster_rcnn_nas" first_stage_features_stride: 8 }',
            'feature_extractor.first_stage_features_stride: 8; expected 16.',
        ),
        (
            ANCHORS % 'ssd_anchor_generator {}',
            'first_stage_anchor_generator.ssd_anchor_generator: its anchors are normalized; exp',
        ),
        (
            ANCHORS % 'multiscale_anchor_generator { min_level: 4 max_level: 4 aspect_ratios: 1 }',
            'first_stage_anchor_generator.multiscale_anchor_generator.normalize_coordinates: true',
        ),
        (
            ANCHORS % 'multiscale_anchor_generator { min_level: 3 max_level: 4 aspect_ratios: 1 '
            'normalize_coordinates: false }',
            'first_stage_anchor_generator.multiscale_anchor_generator: anchors for 2 feature maps',
        ),
        (
            'first_stage_box_predictor_conv_hyperparams.op=FC',
            'first_stage_box_predictor_conv_hyperparams.op: FC; the layers are convolutions: expe',
        ),
        (
            'second_stage_box_predictor.mask_rcnn_box_predictor.fc_hyperparams.op=CONV',
            'second_stage_box_predictor.mask_rcnn_box_predictor.fc_hyperparams.op: CONV; the laye',
        ),
        (
            'second_stage_box_predictor.mask_rcnn_box_predictor.box_code_size=5',
            'second_stage_box_predictor.mask_rcnn_box_predictor.box_code_size: 5; with box_type: ',
        ),
        (
            'second_stage_batch_size=64',
            'second_stage_batch_size: 64; expected at most 8, first_stage_max_proposals.',
        ),
        (
            'maxpool_kernel_size=8',
            'maxpool_kernel_size: 8; expected at most 7, initial_crop_size.',
        ),
        ('maxpool_kernel_size=0', 'maxpool_kernel_size: 0; expected at least 1 and at most 1000.'),
        (
            'second_stage_classification_loss={ bootstrapped_sigmoid { alpha: 0.5 } }',
            'second_stage_classification_loss.bootstrapped_sigmoid: the published program takes s',
        ),
        (
            'second_stage_post_processing.batch_non_max_suppression.score_threshold=2',
            'second_stage_post_processing.batch_non_max_suppression.score_threshold: 2; expected ',
        ),
        ('inplace_batchnorm_update=true', 'inplace_batchnorm_update: not supported: statistics '),
        (
            'context_config.use_self_attention=true',
            'context_config.use_self_attention: not supported: proposals attend to features of ',
        ),
        (
            'context_config.use_long_term_attention=false',
            'context_config.use_long_term_attention: not supported: without it there is no att',
        ),
        (
            'context_config.num_attention_heads=2',
            'context_config.num_attention_heads: not supported: the published models have one;',
        ),
        (
            'context_config.num_attention_layers=0',
            'context_config.num_attention_layers: not supported: the published models have one',
        ),
        (
            'context_config.attention_position=ATTENTION_DEFAULT',
            'context_config.attention_position: not supported: with it there is no attention; ',
        ),
        (
            'context_config.attention_temperature=0',
            'context_config.attention_temperature: 0; expected more than 0.',
        ),
        ('first_stage_nms_iou_threshold=1.5', 'first_stage_nms_iou_threshold: 1.5; expected at'),
    ],
)
def test_problems(setting, text):
    found = problem(setting)
    assert found.startswith(named(text)), found
    assert '\n' not in found


def test_a_head_of_another_kind_of_detector_is_refused():
    assert problem('second_stage_box_predictor={ convolutional_box_predictor {} }').startswith(
        named('second_stage_box_predictor.convolutional_box_predictor: not supported: the head of')
    )


def of_masks(*settings):
    text = tiny_two_stage.MASKS.format(stages=3)
    return config_lib.parse_pipeline_config(text, 'text', settings=settings)


@pytest.mark.parametrize(
    ('setting', 'text'),
    [
        ('mask_height=0', 'mask_height: 0; expected at least 1 and at most 1000.'),
        ('mask_prediction_conv_depth=-1', 'mask_prediction_conv_depth: -1; expected at least 0'),
        ('predict_keypoints=true', 'predict_keypoints: not supported: the published program doe'),
    ],
)
def test_problems_of_masks(setting, text):
    config = of_masks(f'model.faster_rcnn.{HEAD}.{setting}')
    with pytest.raises(errors.ConfigError) as caught:
        model_fns.validate(config, mode=None)
    assert str(caught.value).startswith(named(f'{HEAD}.{text}'))
