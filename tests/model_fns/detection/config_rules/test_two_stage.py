"""Which configs of two-stage detectors are accepted, and what is said of the others."""

import pytest

import model_fns
from estimator_lib import config as config_lib
from estimator_lib import errors
from tests import tiny_two_stage

HEAD = 'second_stage_box_predictor.mask_rcnn_box_predictor'


def named(config):
    return f'model.faster_rcnn.{config}'


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
        ('number_of_stages=3', 'number_of_stages: 3; the third stage predicts masks or keypoint'),
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
        (
            'second_stage_post_processing.batch_non_max_suppression.score_threshold=2',
            'second_stage_post_processing.batch_non_max_suppression.score_threshold: 2; expected',
        ),
        (
            'second_stage_classification_loss={ bootstrapped_sigmoid { alpha: 0.5 } }',
            'second_stage_classification_loss.bootstrapped_sigmoid: the published program takes s',
        ),
    ],
)
def test_problems(setting, text):
    found = problem(setting)
    assert found.startswith(named(text)), found
    assert '\n' not in found


def of_masks(*settings):
    text = tiny_two_stage.MASKS.format(stages=3)
    return config_lib.parse_pipeline_config(text, 'text', settings=settings)


@pytest.mark.parametrize(
    ('setting', 'text'),
    [
        ('predict_keypoints=true', 'keypoint_head: is missing; expected the number of keypoints '),
    ],
)
def test_problems_of_masks(setting, text):
    config = of_masks(f'model.faster_rcnn.{HEAD}.{setting}')
    with pytest.raises(errors.ConfigError) as caught:
        model_fns.validate(config, mode=None)
    assert str(caught.value).startswith(named(f'{HEAD}.{text}'))


def test_thresholds_of_a_stage_that_is_left_out_are_not_compared():
    text = tiny_two_stage.MODEL.format(stages=1)
    setting = (
        'model.faster_rcnn.second_stage_post_processing={ score_converter: SOFTMAX '
        'batch_non_max_suppression { score_threshold: 2 } }'
    )
    config = config_lib.parse_pipeline_config(text, 'text', settings=[setting])
    assert model_fns.validate(config, mode=None) == []


def test_what_the_second_stage_needs_is_not_asked_for_with_one():
    text = tiny_two_stage.MODEL.format(stages=1)
    config = config_lib.parse_pipeline_config(text, 'text')
    for field in ('initial_crop_size', 'second_stage_box_predictor'):
        config.model.faster_rcnn.ClearField(field)
    assert model_fns.validate(config, mode=None) == []
    config.model.faster_rcnn.number_of_stages = 2
    with pytest.raises(errors.ConfigError) as caught:
        model_fns.validate(config, mode=None)
    assert [line.split(':')[0].strip() for line in str(caught.value).splitlines()[1:]] == [
        named('second_stage_box_predictor'),
        named('initial_crop_size'),
    ]


@pytest.mark.parametrize(
    ('miner', 'ignored'),
    [
        ('min_negatives_per_image: 3', ['min_negatives_per_image']),
        ('max_negatives_per_positive: 1', ['max_negatives_per_positive']),
        ('max_negatives_per_positive: 0 min_negatives_per_image: 0', []),  # Their defaults.
    ],
)
def test_mined_proposals_need_not_fill_a_batch(miner, ignored):
    text = tiny_two_stage.MODEL.format(stages=2)
    settings = [
        'model.faster_rcnn.second_stage_batch_size=64',
        f'model.faster_rcnn.hard_example_miner={{ {miner} }}',
    ]
    config = config_lib.parse_pipeline_config(text, 'text', settings=settings)
    assert model_fns.validate(config, mode=None) == [
        named(
            f'hard_example_miner.{field} has no effect: proposals are mined by their losses alone.'
        )
        for field in ignored
    ]


def test_attention_needs_its_features():
    text = tiny_two_stage.CONTEXT.format(stages=2)
    readers = 'train_input_reader { tf_record_input_reader { input_path: "a" } }'
    config = config_lib.parse_pipeline_config(text + readers, 'text')
    with pytest.raises(errors.ConfigError) as caught:
        model_fns.validate(config, mode=None)
    assert str(caught.value) == (
        'train_input_reader.load_context_features: false; expected true: '
        'model.faster_rcnn.context_config attends to these features.'
    )
    config.train_input_reader.load_context_features = True
    model_fns.validate(config, mode=None)
    config.model.faster_rcnn.ClearField('context_config')
    assert model_fns.validate(config, mode=None) == [
        'train_input_reader.load_context_features has no effect: the model has no context_config.'
    ]


def test_attention_needs_features_of_boxes():
    needed = named(
        'context_config: it needs number_of_stages: 2, because masks and keypoints do not '
        'attend to other images.'
    )
    assert problem('context_config={}', stages=1) == needed
    text = tiny_two_stage.MASKS.format(stages=3)
    setting = 'model.faster_rcnn.context_config={ context_feature_length: 5 }'
    config = config_lib.parse_pipeline_config(text, 'text', settings=[setting])
    with pytest.raises(errors.ConfigError) as caught:
        model_fns.validate(config, mode=None)
    assert needed in str(caught.value)
    assert problem(POSITION_SENSITIVE % '', 'context_config={}') == named(
        'context_config: it excludes second_stage_box_predictor.rfcn_box_predictor, because it has '
        'no features of boxes; set one.'
    )


POSITION_SENSITIVE = """second_stage_box_predictor={ rfcn_box_predictor {
  conv_hyperparams { initializer { truncated_normal_initializer {} } } %s
} }"""


def test_bins_divide_the_crop():
    found = problem(POSITION_SENSITIVE % 'crop_height: 16')
    assert found == named(
        'second_stage_box_predictor.rfcn_box_predictor.crop_height: 16; expected a multiple of 3, '
        'num_spatial_bins_height, like 15.'
    )


def test_crops_have_no_effect_on_position_sensitive_heads():
    settings = [f'model.faster_rcnn.{POSITION_SENSITIVE % ""}']
    text = tiny_two_stage.MODEL.format(stages=2)
    config = config_lib.parse_pipeline_config(text, 'text', settings=settings)
    warnings = model_fns.validate(config, mode=None)
    assert [one.partition(' has no effect')[0] for one in warnings] == [
        named(field) for field in ('initial_crop_size', 'maxpool_kernel_size', 'maxpool_stride')
    ]


def test_masks_are_predicted_by_convolutions():
    config = of_masks()
    config.model.faster_rcnn.second_stage_box_predictor.mask_rcnn_box_predictor.ClearField(
        'conv_hyperparams'
    )
    with pytest.raises(errors.ConfigError) as caught:
        model_fns.validate(config, mode=None)
    assert str(caught.value) == named(
        f'{HEAD}.conv_hyperparams: is missing; masks are predicted by convolutions.'
    )


def test_masks_are_read_where_they_are_learned():
    config = of_masks()
    assert model_fns.validate(config, mode=None) == []
    config.eval_input_reader.add()
    with pytest.raises(errors.ConfigError) as caught:
        model_fns.validate(config, mode=None)
    assert str(caught.value) == (
        'eval_input_reader.0.load_instance_masks: false; the model learns masks '
        '(number_of_stages: 3): expected true, and records with image/object/mask.'
    )


def test_masks_that_no_stage_predicts():
    config = of_masks('model.faster_rcnn.number_of_stages=2')
    warnings = model_fns.validate(config, mode=None)
    expected = [
        named(f'{HEAD}.{field} has no effect without number_of_stages: 3.')
        for field in (
            'conv_hyperparams',
            'predict_instance_masks',
            'mask_prediction_conv_depth',
            'mask_height',
            'mask_width',
        )
    ]
    expected.append(named('output_reframed_masks has no effect without number_of_stages: 3.'))
    assert sorted(warnings) == sorted(expected)


def of_keypoints(*settings):
    text = tiny_two_stage.KEYPOINTS.format(stages=3)
    return config_lib.parse_pipeline_config(text, 'text', settings=settings)


def test_keypoints_are_read_where_they_are_learned():
    config = of_keypoints()
    assert model_fns.validate(config, mode=None) == []
    config.train_input_reader.num_keypoints = 4
    with pytest.raises(errors.ConfigError) as caught:
        model_fns.validate(config, mode=None)
    assert str(caught.value) == (
        'train_input_reader.num_keypoints: 4; the model learns keypoints (number_of_stages: 3): '
        f'expected 3, that of {named(HEAD)}.keypoint_head, and records with '
        'image/object/keypoint.'
    )


def test_what_masks_have_is_not_for_keypoints():
    config = of_keypoints(f'model.faster_rcnn.{HEAD}.mask_height=14')
    assert model_fns.validate(config, mode=None) == [
        named(f'{HEAD}.mask_height has no effect without predict_instance_masks: true.')
    ]
    config = of_keypoints('model.faster_rcnn.output_reframed_masks=true')
    with pytest.raises(errors.ConfigError, match='output_reframed_masks: true; the model predict'):
        model_fns.validate(config, mode=None)


def test_a_head_of_keypoints_that_is_not_asked_for():
    config = of_keypoints(f'model.faster_rcnn.{HEAD}.predict_keypoints=false')
    config.model.faster_rcnn.number_of_stages = 2
    assert model_fns.validate(config, mode=None) == [
        named(f'{HEAD}.keypoint_head has no effect without predict_keypoints.'),
        named(f'{HEAD}.predict_keypoints has no effect without number_of_stages: 3.'),
    ]


EXTRACTOR = 'model.faster_rcnn.feature_extractor'
HYPERPARAMS = '{ initializer { variance_scaling_initializer {} } batch_norm { decay: 0.9 } }'


def warnings_of(*settings):
    text = tiny_two_stage.MODEL.format(stages=2)
    config = config_lib.parse_pipeline_config(text, 'text', settings=settings)
    return model_fns.validate(config, mode=None)


def test_hyperparams_of_the_backbone():
    override = 'override_base_feature_extractor_hyperparams'
    found = problem(f'feature_extractor.{override}=true')
    assert found == named(
        f'feature_extractor.{override}: it needs conv_hyperparams, because all layers '
        'of the backbone get them.'
    )
    (warning,) = warnings_of(f'{EXTRACTOR}.conv_hyperparams={HYPERPARAMS}')
    assert warning == (f'{EXTRACTOR}.conv_hyperparams has no effect without {override}: true.')
    both = f'{EXTRACTOR}.conv_hyperparams={HYPERPARAMS}', f'{EXTRACTOR}.{override}=true'
    assert warnings_of(*both) == []


def test_statistics_that_a_short_run_does_not_reach():
    (warning,) = warnings_of('train_config.num_steps=300')
    assert warning.startswith(f'{EXTRACTOR}.batch_norm_trainable: the published moving statistics')
    assert (
        warnings_of('train_config.num_steps=300', f'{EXTRACTOR}.batch_norm_trainable=false') == []
    )
    fine_tuned = 'train_config.fine_tune_checkpoint="/model.ckpt"'
    assert warnings_of('train_config.num_steps=300', fine_tuned) == []
    assert warnings_of('train_config.num_steps=20000') == []


def of_pyramid(*settings):
    text = tiny_two_stage.PYRAMID.format(stages=2)
    settings = [named(setting) for setting in settings]
    config = config_lib.parse_pipeline_config(text, 'text', settings=settings)
    return model_fns.validate(config, mode=None)


GRID = (
    'first_stage_anchor_generator={ grid_anchor_generator { scales: 1 aspect_ratios: 1 } }',
    'first_stage_anchor_generator.grid_anchor_generator: anchors for 1 feature maps; the first '
    'stage has 4, the levels of feature_extractor.fpn.',
)


@pytest.mark.parametrize(
    ('setting', 'text'),
    [
        GRID,
        (
            'feature_extractor.fpn.max_level=7',
            'first_stage_anchor_generator.multiscale_anchor_generator.max_level: 6; expected 7, '
            'that of feature_extractor.fpn.',
        ),
        (
            'feature_extractor={ type: "faster_rcnn_resnet50_fpn_keras" fpn { min_level: 3 '
            'max_level: 6 } }',
            'feature_extractor.conv_hyperparams: is missing; the convolutions of the feature '
            'pyramid have them.',
        ),
        (
            'first_stage_box_predictor_conv_hyperparams.batch_norm={}',
            'first_stage_box_predictor_conv_hyperparams.batch_norm: the first stage has one layer '
            'for all levels of the feature pyramid, and statistics of one: leave it out.',
        ),
        (
            POSITION_SENSITIVE % '',
            'second_stage_box_predictor.rfcn_box_predictor: its maps are of one level, and the '
            'feature pyramid has several: expected mask_rcnn_box_predictor.',
        ),
    ],
)
def test_what_a_pyramid_needs(setting, text):
    with pytest.raises(errors.ConfigError) as caught:
        of_pyramid(setting)
    assert str(caught.value) == named(text)


def test_crops_of_masks_are_those_of_classes_without_a_pyramid():
    assert model_fns.validate(of_masks(named('instance_crop_size=7')), mode=None) == [
        named(
            'instance_crop_size has no effect: faster_rcnn_mobilenet_v1_025 has no feature '
            'pyramid, and masks and keypoints have the features of classes, of initial_crop_size.'
        )
    ]


def test_levels_are_of_types_that_have_a_pyramid():
    assert problem('feature_extractor.fpn={}') == named(
        'feature_extractor.fpn: faster_rcnn_mobilenet_v1_025 has no feature pyramid: leave it out, '
        'or expected a type that has one, like faster_rcnn_resnet50_fpn_keras.'
    )


def test_hyperparams_of_a_pyramid_are_honored_without_the_backbone():
    assert of_pyramid() == []
    override = 'feature_extractor.override_base_feature_extractor_hyperparams=false'
    assert of_pyramid(override) == []
    (warning,) = of_pyramid('feature_extractor.first_stage_features_stride=8')
    assert warning == named(
        'feature_extractor.first_stage_features_stride has no effect: '
        'faster_rcnn_resnet50_fpn_keras has the strides of the levels of fpn.'
    )


def test_images_are_padded_to_a_multiple_below_a_pyramid_alone():
    setting = 'feature_extractor.pad_to_multiple=64'
    assert of_pyramid(setting) == []
    assert warnings_of(named(setting)) == [
        named(
            'feature_extractor.pad_to_multiple has no effect: faster_rcnn_mobilenet_v1_025 has no '
            'feature pyramid, and takes images of any size.'
        )
    ]


def test_anchors_of_torchvision_are_not_clipped():
    anchors = ANCHORS % (
        'multiscale_anchor_generator { min_level: 4 max_level: 4 layout: TORCHVISION '
        'aspect_ratios: 1 normalize_coordinates: false }'
    )
    assert 'leave out clip_anchors_to_image' in problem(anchors, 'clip_anchors_to_image=true')


def test_the_last_level_of_torchvision_is_a_pool_of_another():
    extractor = (
        'feature_extractor={ type: "faster_rcnn_resnet_v1_5_18_fpn_keras" '
        'fpn { min_level: 2 max_level: 2 layout: TORCHVISION } }'
    )
    assert 'fpn.max_level: 2; expected at least 3: with layout' in problem(extractor)
