"""Which configs of CenterNets are accepted, and what is said of the others."""

import pytest

import model_fns
from estimator_lib import config as config_lib
from estimator_lib import errors
from estimator_lib.config import message_checks
from estimator_lib.config.section import Section
from model_fns.detection import rules
from tests import tiny_center_net

KEYPOINTS = (
    'keypoint_estimation_task={ task_name: "pose" keypoint_class_name: "person" loss { '
    'localization_loss { l1_localization_loss {} } '
    'classification_loss { penalty_reduced_logistic_focal_loss {} } } }'
)
TASK = 'keypoint_estimation_task.0'


def problem(*settings):
    settings = [f'model.center_net.{setting}' for setting in settings]
    config = config_lib.parse_pipeline_config(tiny_center_net.MODEL, 'text', settings=settings)
    with pytest.raises(errors.ConfigError) as caught:
        model_fns.validate(config, mode=None)
    return str(caught.value)


@pytest.mark.parametrize(
    ('setting', 'text'),
    [
        ('feature_extractor.channel_means=1', 'channel_means: 1 values; expected 3, or none.'),
        ('feature_extractor.type=hourglass_11', "unknown feature extractor 'hourglass_11'"),
        ('feature_extractor.use_separable_conv=true', 'use_separable_conv: hourglass_10 has none'),
        (
            'image_resizer={ identity_resizer {} }',
            'image_resizer.identity_resizer: inputs of any size, and the feature extractor needs',
        ),
        (
            'image_resizer={ fixed_shape_resizer { height: 60 width: 64 } }',
            'fixed_shape_resizer.height: 60; expected a multiple of 8, 64 say.',
        ),
        (
            'object_detection_task.localization_loss={ weighted_l2 {} }',
            'localization_loss.weighted_l2: not for single cells; expected l1_localization_loss or',
        ),
        (
            'object_center_params.classification_loss={ weighted_sigmoid {} }',
            'classification_loss.weighted_sigmoid: not supported: the loss of heat maps is ',
        ),
        (
            'object_center_params.center_head_params={ num_filters: [8, 8] kernel_sizes: [3] }',
            'center_head_params.kernel_sizes: 1 values; expected 2, one for each of num_filters.',
        ),
        (
            'post_processing.score_converter=SIGMOID',
            'post_processing.score_converter: SIGMOID; peaks have scores already: expected IDENT',
        ),
    ],
)
def test_one_problem_is_one_sentence(setting, text):
    found = problem(setting)
    assert text in found and '\n' not in found


@pytest.mark.parametrize(
    ('setting', 'text'),
    [
        (f'{TASK}.task_name=a/b', "0.task_name: 'a/b'; expected letters, digits,"),
        (
            f'{TASK}.candidate_ranking_mode=nearest',
            'candidate_ranking_mode: unknown ranking of ca',
        ),
        (f'{TASK}.loss.hard_example_miner={{}}', 'hard_example_miner: it is of anchors, and there'),
        (
            f'{TASK}.loss.localization_loss={{ weighted_giou {{}} }}',
            f'{TASK}.loss.localization_loss.weighted_giou: not for single cells; expected l1_local',
        ),
        (
            f'{TASK}.keypoint_label_to_std.nose=0',
            'keypoint_label_to_std: nose: 0; expected more than 0.',
        ),
    ],
)
def test_problems_of_keypoints(setting, text):
    found = problem(KEYPOINTS, 'keypoint_label_map_path=/data/keypoints.pbtxt', setting)
    assert text in found and '\n' not in found


def test_keypoint_tasks_have_names_and_classes_of_their_own():
    one = KEYPOINTS.partition('=')[2]
    found = problem(f'keypoint_estimation_task=[{one}, {one}]', 'keypoint_label_map_path=/a')
    assert "1.task_name: 'pose' is that of another task" in found
    assert "1.keypoint_class_name: 'person' is that of another task" in found


def with_readers(*settings):
    text = tiny_center_net.config_text('/data')
    return config_lib.parse_pipeline_config(text, 'text', settings=settings)


def test_readers_have_to_read_keypoints():
    config = with_readers(
        f'model.center_net.{KEYPOINTS}', 'model.center_net.keypoint_label_map_path=/data/a.pbtxt'
    )
    with pytest.raises(errors.ConfigError) as caught:
        model_fns.validate(config)
    for path in ('train_input_reader', 'eval_input_reader.0'):
        assert f'{path}.num_keypoints: missing; the model learns keypoints' in str(caught.value)


def test_a_centernet_is_not_quantized():
    config = with_readers('graph_rewriter={ quantization { delay: 3 } }')
    with pytest.raises(errors.ConfigError, match='CenterNets are not quantized, as no published'):
        model_fns.validate(config)


@pytest.mark.parametrize(
    ('settings', 'text'),
    [
        (['keypoint_label_map_path=/a'], 'keypoint_label_map_path has no effect without keypoint_'),
        (
            ['object_center_params.classification_loss={ penalty_reduced_logistic_focal_loss {} }'],
            'penalty_reduced_logistic_focal_loss.alpha: 0, as published where nothing is said',
        ),
        (['compute_heatmap_sparse=true'], 'compute_heatmap_sparse'),
        (
            ['feature_extractor={ type: "mobilenet_v2" }'],
            'feature_extractor.batch_norm_decay: the published moving statistics of MobileNets fol',
        ),
        (
            ['feature_extractor={ type: "mobilenet_v2_fpn_sep_conv" batch_norm_decay: 0.9 }'],
            'as published mobilenet_v2_fpn_sep_conv has separable convolutions only with use_separ',
        ),
    ],
)
def test_what_is_probably_not_meant_is_said(settings, text):
    config = with_readers(*(f'model.center_net.{one}' for one in settings))
    assert any(text in warning for warning in model_fns.validate(config))


def test_ignored_boxes_are_background():
    (warning,) = model_fns.validate(with_readers('train_input_reader.ignored_boxes=CROWD'))
    assert warning.startswith('train_input_reader.ignored_boxes: a CenterNet does not learn them')


def test_nothing_is_said_of_a_good_one():
    assert model_fns.validate(with_readers()) == []


@pytest.mark.parametrize('step', ['mixup', 'mosaic'])
def test_combined_images_have_no_common_list_of_classes(step):
    text = f'train_config {{ data_augmentation_options {{ {step} {{}} }} }}'
    config = config_lib.parse_pipeline_config(tiny_center_net.MODEL + text, 'text')

    def problems():
        found = message_checks.find_problems(rules.select_rules(config.model), Section(config))
        return [problem.path for problem in found]

    assert problems() == []
    config.model.center_net.object_center_params.use_labeled_classes = True
    assert problems() == [f'train_config.data_augmentation_options.0.{step}']
