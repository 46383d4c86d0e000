"""Parts of a detector's config that do not fit each other."""

import pytest

import model_fns
from estimator_lib import config as config_lib
from estimator_lib import errors
from estimator_lib.config import message_checks
from estimator_lib.config.section import Section
from model_fns.detection.boxes import box_coders, rotated_coder
from model_fns.detection.config_rules import checks, kinds
from protos import box_coding_pb2

_TYPE = 'train_config.fine_tune_checkpoint_type'

HYPERPARAMS = 'conv_hyperparams { initializer { truncated_normal_initializer {} } }'
GOOD = f"""
model {{
  ssd {{
    num_classes: 3
    image_resizer {{ fixed_shape_resizer {{}} }}
    feature_extractor {{ type: 'ssd_mobilenet_v1' {HYPERPARAMS} }}
    box_coder {{ faster_rcnn_box_coder {{}} }}
    matcher {{ argmax_matcher {{}} }}
    similarity_calculator {{ iou_similarity {{}} }}
    box_predictor {{ convolutional_box_predictor {{ {HYPERPARAMS} }} }}
    anchor_generator {{ ssd_anchor_generator {{ aspect_ratios: 1 aspect_ratios: 2 }} }}
    loss {{
      localization_loss {{ weighted_smooth_l1 {{}} }}
      classification_loss {{ weighted_sigmoid {{}} }}
    }}
    post_processing {{ score_converter: SIGMOID }}
  }}
}}
train_config {{
  num_steps: 100
  optimizer {{
    sgd_optimizer {{ learning_rate {{ constant_learning_rate {{ learning_rate: 0.1 }} }} }}
    use_moving_average: false
  }}
}}
train_input_reader {{ tf_record_input_reader {{ input_path: 'train-*' }} }}
eval_input_reader {{ tf_record_input_reader {{ input_path: 'eval-*' }} }}
"""
SSD = 'model.ssd.'
NMS = 'post_processing.batch_non_max_suppression.'
ARGMAX = 'matcher.argmax_matcher.'
SHARED = f'box_predictor={{ weight_shared_convolutional_box_predictor {{ {HYPERPARAMS} }} }}'
TOWERS = 'box_predictor.weight_shared_convolutional_box_predictor.'
ANCHORS = 'anchor_generator.ssd_anchor_generator.'
MULTISCALE = 'anchor_generator={ multiscale_anchor_generator { aspect_ratios: 1 } }'
LEVELS = 'anchor_generator.multiscale_anchor_generator.'
RESIZER = 'image_resizer.keep_aspect_ratio_resizer.'


def changed(*settings):
    return config_lib.apply_settings(config_lib.parse_pipeline_config(GOOD, 'good'), settings)


def of_model(*settings):
    return changed(*(SSD + setting for setting in settings))


def test_a_good_config_has_no_problems_and_no_warnings():
    assert model_fns.validate(changed()) == []


@pytest.mark.parametrize(
    'settings',
    [
        # Sizes that depend on the image.
        ['image_resizer={ keep_aspect_ratio_resizer {} }'],
        ['image_resizer={ identity_resizer {} }'],
        ['image_resizer={ conditional_shape_resizer {} }'],
        ['image_resizer={ pad_to_multiple_resizer {} }'],
        # One that does not.
        ['image_resizer={ keep_aspect_ratio_resizer { pad_to_max_dimension: true } }'],
        [
            'image_resizer={ keep_aspect_ratio_resizer { pad_to_max_dimension: true '
            'per_channel_pad_value: [1, 2, 3] } }'
        ],
        # Similarities below 0.
        [
            'similarity_calculator={ neg_sq_dist_similarity {} }',
            f'{ARGMAX}matched_threshold=-1',
            f'{ARGMAX}unmatched_threshold=-2',
        ],
        [f'{ARGMAX}ignore_thresholds=true', f'{ARGMAX}unmatched_threshold=3'],
        ['matcher={ bipartite_matcher {} }'],
        # Codes of three numbers.
        [
            'box_coder={ square_box_coder {} }',
            'box_predictor.convolutional_box_predictor.box_code_size=3',
        ],
        ['box_coder={ square_box_coder {} }'],
        [MULTISCALE],
        [MULTISCALE, 'feature_extractor.fpn.max_level=6', f'{LEVELS}max_level=6'],
        [f'{ANCHORS}scales=[0.1, 0.5]', f'{ANCHORS}num_layers=2'],
        [f'{ANCHORS}scales=[0.1, 0.5]'],
        [f'{ANCHORS}height_stride={list(range(1, 7))}', f'{ANCHORS}width_stride={[8] * 6}'],
        # Three anchors in every cell.
        [SHARED],
        [SHARED, f'{ANCHORS}aspect_ratios=[1]', f'{ANCHORS}num_layers=1'],
        [f'{NMS}soft_nms_sigma=0.5'],
        [f'{NMS}use_combined_nms=true', f'{NMS}change_coordinate_frame=false'],
        [f'{NMS}use_class_agnostic_nms=true', f'{NMS}max_classes_per_detection=2'],
        [f'{NMS}score_threshold=3', 'post_processing.score_converter=IDENTITY'],
        ['loss.random_example_sampler={}', 'loss.hard_example_miner={}'],
    ],
)
def test_what_fits_is_accepted(settings):
    assert model_fns.validate(of_model(*settings)) == []


@pytest.mark.parametrize(
    ('settings', 'path', 'text'),
    [
        (
            [f'{RESIZER}pad_to_max_dimension=true', f'{RESIZER}per_channel_pad_value=[1, 2]'],
            f'{RESIZER}per_channel_pad_value',
            '2 values; expected 3, or none.',
        ),
        # Thresholds.
        (
            [f'{ARGMAX}negatives_lower_than_unmatched=false'],
            f'{ARGMAX}negatives_lower_than_unmatched',
            'false, but with equal thresholds',
        ),
        # Codes.
        (
            ['box_predictor.convolutional_box_predictor.box_code_size=7'],
            'box_predictor.convolutional_box_predictor.box_code_size',
            '7; expected 4, that of faster_rcnn_box_coder.',
        ),
        (
            ['box_coder={ square_box_coder {} }', SHARED, f'{TOWERS}box_code_size=4'],
            f'{TOWERS}box_code_size',
            '4; expected 3, that of square_box_coder.',
        ),
        # Anchors.
        (
            [f'{ANCHORS}scales=[0.1, 0.5]', f'{ANCHORS}num_layers=3'],
            f'{ANCHORS}scales',
            '2 values; expected 3, num_layers.',
        ),
        (
            [f'{ANCHORS}height_offset=[1, 2]', f'{ANCHORS}width_offset={[8] * 6}'],
            f'{ANCHORS}height_offset',
            '2 values; expected 6, one for each feature map.',
        ),
        (
            [f'{ANCHORS}width_stride={[8] * 6}'],
            f'{ANCHORS}height_stride',
            '0 values; expected 6, one for each feature map.',
        ),
        (
            [SHARED, f'{ANCHORS}aspect_ratios=[1]'],
            f'{ANCHORS}reduce_boxes_in_lowest_layer',
            'true: cells have 3 anchors on the first feature map, 2 on the others, and ',
        ),
        (
            [MULTISCALE, 'feature_extractor.fpn.max_level=6'],
            f'{LEVELS}max_level',
            '7; expected 6, that of feature_extractor.fpn.',
        ),
        (
            [MULTISCALE, 'feature_extractor.bifpn.min_level=2'],
            f'{LEVELS}min_level',
            '3; expected 2, that of feature_extractor.bifpn.',
        ),
        (
            [
                'anchor_generator={ flexible_grid_anchor_generator { anchor_grid { base_sizes: 8 '
                'aspect_ratios: [1, 2] height_stride: 8 width_stride: 8 } } }'
            ],
            'anchor_generator.flexible_grid_anchor_generator.anchor_grid.0.aspect_ratios',
            '2 values; expected 1, one for each of base_sizes.',
        ),
        (
            [f'{ANCHORS}aspect_ratios=[]', f'{ANCHORS}interpolated_scale_aspect_ratio=0'],
            f'{ANCHORS}aspect_ratios',
            'empty; expected at least one, or interpolated_scale_aspect_ratio above 0, for there ',
        ),
        # Losses.
        # Matchers.
        (
            ['matcher={ atss_matcher {} }', 'similarity_calculator={ ioa_similarity {} }'],
            'similarity_calculator.ioa_similarity',
            'atss_matcher compares overlaps; expected iou_similarity.',
        ),
        (
            [MULTISCALE, f'{LEVELS}layout=TORCHVISION', f'{LEVELS}aspect_ratios=[0.5, 1]'],
            f'{LEVELS}aspect_ratios',
            '[0.5, 1.0]; expected [1.0, 0.5]: weights of torchvision have the anchors of a cell',
        ),
        (
            ['matcher={ dynamic_matcher {} }', 'loss.classification_loss={ weighted_softmax {} }'],
            'loss.classification_loss',
            'weighted_softmax; dynamic_matcher takes scores of the classes by a sigmoid: expected',
        ),
        # Suppression.
        (
            [f'{NMS}score_threshold=3'],
            f'{NMS}score_threshold',
            '3; expected at least 0 and at most',
        ),
        # Missing.
    ],
)
def test_one_problem_is_one_line(settings, path, text):
    with pytest.raises(errors.ConfigError) as caught:
        model_fns.validate(of_model(*settings), 'export')
    message = str(caught.value)
    assert message.startswith(SSD + path) and text in message and '\n' not in message


def test_all_problems_are_in_one_error():
    settings = [
        'num_classes=0',
        'mask_head_config={}',
        'matcher={}',
        f'{RESIZER}per_channel_pad_value=[1, 2]',
        f'{NMS}iou_threshold=2',
    ]
    with pytest.raises(errors.ConfigError) as caught:
        model_fns.validate(of_model(*settings))
    lines = str(caught.value).splitlines()
    assert lines[0] == 'the pipeline config has 5 problems:'
    assert {line.split(':')[0].strip() for line in lines[1:]} == {
        'model.ssd.num_classes',
        'model.ssd.mask_head_config',
        'model.ssd.matcher',
        'model.ssd.image_resizer.keep_aspect_ratio_resizer.per_channel_pad_value',
        'model.ssd.post_processing.batch_non_max_suppression.iou_threshold',
    }


@pytest.mark.parametrize(
    ('settings', 'expected'),
    [
        (
            ['model.ssd.anchor_generator={ grid_anchor_generator { scales: 1 aspect_ratios: 1 } }'],
            'model.ssd.anchor_generator.grid_anchor_generator: anchors are in pixels',
        ),
        (
            [SSD + MULTISCALE, f'{SSD}{LEVELS}normalize_coordinates=false'],
            'model.ssd.anchor_generator.multiscale_anchor_generator.normalize_coordinates: anch',
        ),
        (
            ['train_input_reader.load_instance_masks=true'],
            'train_input_reader.load_instance_masks: it is for pictures of the groundtruth only',
        ),
        (
            ['train_input_reader.num_keypoints=3'],
            'train_input_reader.num_keypoints: it is for pictures of the groundtruth only',
        ),
        (
            ['eval_config.recall_lower_bound=0.3'],
            'eval_config.recall_lower_bound has no effect without precision_at_recall_detection_',
        ),
        (
            [
                'eval_config.metrics_set=pascal_voc_detection_metrics',
                'eval_config.super_categories.a=b',
            ],
            'eval_config.super_categories has no effect without coco_detection_metrics',
        ),
        (
            [
                'train_config.load_all_detection_checkpoint_vars=true',
                'train_config.fine_tune_checkpoint=a',
            ],
            'train_config.load_all_detection_checkpoint_vars has no effect with a fine_tune_',
        ),
        (
            ['train_config.load_all_detection_checkpoint_vars=true'],
            'train_config.load_all_detection_checkpoint_vars has no effect without fine_tune_',
        ),
        (
            ['eval_input_reader.0.ignored_boxes=CROWD'],
            'eval_input_reader.0.ignored_boxes has no effect: it is about training',
        ),
        (
            ['model.ssd.implicit_example_weight=2'],
            'model.ssd.implicit_example_weight has no effect',
        ),
        (
            [
                'model.ssd.loss.localization_loss={ weighted_giou {} }',
                'model.ssd.normalize_loc_loss_by_codesize=true',
            ],
            'model.ssd.normalize_loc_loss_by_codesize: weighted_giou is one number for a box',
        ),
    ],
)
def test_what_is_probably_not_meant_is_said(settings, expected):
    warnings = model_fns.validate(changed(*settings))
    assert len(warnings) == 1 and warnings[0].startswith(expected)


@pytest.mark.parametrize(
    'settings',
    [
        ['eval_config.super_categories.a=b'],
        [
            'eval_config.metrics_set=precision_at_recall_detection_metrics',
            'eval_config.recall_lower_bound=0.3',
        ],
        [
            'train_config.load_all_detection_checkpoint_vars=true',
            'train_config.fine_tune_checkpoint=a',
            'train_config.fine_tune_checkpoint_type=detection',
        ],
        [
            'train_config.load_all_detection_checkpoint_vars=true',
            'train_config.fine_tune_checkpoint=a',
            'train_config.from_detection_checkpoint=true',
        ],
    ],
)
def test_what_has_its_effect_is_not_doubted(settings):
    assert model_fns.validate(changed(*settings)) == []


@pytest.mark.parametrize('kind', ['classification', 'detection', 'full', 'fine_tune'])
def test_a_detector_takes_four_types_of_checkpoints(kind):
    checkpoint = 'train_config.fine_tune_checkpoint=a'
    assert model_fns.validate(changed(checkpoint, f'{_TYPE}={kind}')) == []


def test_a_detector_takes_no_other_type_of_checkpoints():
    with pytest.raises(errors.ConfigError) as caught:
        model_fns.validate(changed('train_config.fine_tune_checkpoint=a', f'{_TYPE}=whole'))
    assert str(caught.value) == (
        "train_config.fine_tune_checkpoint_type: 'whole'; expected one of classification, "
        'detection, full, fine_tune, or nothing for classification.'
    )


@pytest.mark.parametrize('name', checks._CODE_SIZES)
def test_sizes_of_codes_are_those_of_the_coders(name):
    config = box_coding_pb2.BoxCoder(**{name: {}})
    build = rotated_coder if name.startswith('rotated') else box_coders
    assert build.build_box_coder(Section(config, 'here')).code_size == checks._CODE_SIZES[name]


def labeled_problems(config):
    found = message_checks.find_problems(kinds.SINGLE_SHOT, Section(config))
    return [problem for problem in found if problem.path.endswith('labeled_classes')]


@pytest.mark.parametrize('loss', ['weighted_sigmoid', 'quality_focal'])
def test_images_of_which_not_all_classes_were_looked_for_need_sigmoids(loss):
    labeled = 'train_input_reader.labeled_classes=["cat"]'
    label_map = 'train_input_reader.label_map_path=a.pbtxt'
    chosen = f'model.ssd.loss.classification_loss={{ {loss} {{}} }}'
    assert not labeled_problems(changed(labeled, label_map, chosen))
    softmax = 'model.ssd.loss.classification_loss={ weighted_softmax {} }'
    (problem,) = labeled_problems(changed(labeled, label_map, softmax))
    assert 'weighted_sigmoid, weighted_sigmoid_focal' in problem.text
