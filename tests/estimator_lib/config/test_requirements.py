"""Fields that have an effect only together with another one."""

import pytest
from google.protobuf import text_format

from estimator_lib.config import requirements, rules, validation
from estimator_lib.config.engine_rules import ENGINE
from protos import pipeline_pb2

RULES = ENGINE + rules.ConfigRules(
    supported={
        'DetectionModel': rules.names('segmentation'),
        **dict.fromkeys(rules.names('Segmentation SegmentationDecoder'), rules.ALL),
    },
    requires={
        'Segmentation.merge_method': 'image_pyramid > 1',
        'Segmentation.crop_width': 'crop_height < 100',
        'Segmentation.num_classes': 'decoder',
        'SegmentationDecoder.sum_merge': 'num_filters: 8|16',
        'SegmentationDecoder.num_filters': 'train_config.batch_size > 2 or sum_merge',
    },
)


RATE = 'optimizer.sgd_optimizer.learning_rate'


def optimizer(rate, fields=''):
    return f'optimizer {{ sgd_optimizer {{ learning_rate {{ {rate} }} }} {fields} }}'


def unmet(text, of=RULES):
    config = text_format.Parse(text, pipeline_pb2.TrainEvalPipelineConfig())
    return list(requirements.unmet(of, config))


@pytest.mark.parametrize(
    'fields, expected',
    [
        ('merge_method: MERGE_AVERAGE', 'merge_method: more than 1 entry in image_pyramid'),
        (
            'merge_method: MERGE_AVERAGE image_pyramid: 1',
            'merge_method: more than 1 entry in image_pyramid',
        ),
        ('merge_method: MERGE_AVERAGE image_pyramid: [0.5, 1]', ''),
        ('merge_method: MERGE_MAX', ''),  # Its default.
        ('crop_width: 9 crop_height: 100', 'crop_width: crop_height below 100'),
        ('crop_width: 9 crop_height: 99', ''),
        ('num_classes: 3', 'num_classes: decoder'),
        ('num_classes: 3 decoder {}', ''),
        ('decoder { sum_merge: true }', 'decoder.sum_merge: num_filters: 8 or 16'),
        ('decoder { sum_merge: true num_filters: 16 }', ''),
        ('decoder { num_filters: 8 }', 'decoder.num_filters: train_config.batch_size above 2 or '
         'sum_merge'),
    ],
)  # fmt: skip
def test_a_field_that_lacks_what_it_needs(fields, expected):
    found = unmet(f'model {{ segmentation {{ {fields} }} }} train_config {{ batch_size: 2 }}')
    path, _, needed = expected.partition(': ')
    sentence = f'model.segmentation.{path} has no effect without {needed}.'
    assert found == ([sentence] if expected else [])


def test_a_path_leads_through_the_whole_config():
    text = 'model { segmentation { decoder { num_filters: 8 } } } train_config { batch_size: %d }'
    assert len(unmet(text % 2)) == 1 and unmet(text % 3) == []


def test_what_is_not_supported_is_said_elsewhere():
    assert unmet('model { segmentation { merge_method: MERGE_AVERAGE } }', ENGINE) == []


@pytest.mark.parametrize('condition', ['', 'a b', 'a: ', 'a >', 'a or ', 'a > b'])
def test_what_is_no_condition(condition):
    of = rules.ConfigRules(
        supported={'TrainEvalPipelineConfig': rules.ALL, 'TrainConfig': rules.ALL},
        requires={'TrainConfig.num_steps': condition or 'a  b'},
    )
    with pytest.raises(ValueError, match='is no condition'):
        unmet('train_config { num_steps: 3 }', of)


@pytest.mark.parametrize(
    'condition, wrong',
    [
        ('num_step', 'num_step is no field'),
        ('model.segmentatoin.aspp', 'segmentatoin'),
        ('loop: TF_FUNCTOIN', 'TF_FUNCTOIN is no value of loop'),
    ],
)
def test_names_that_the_schema_does_not_have(condition, wrong):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    with pytest.raises((ValueError, AttributeError), match=wrong):
        requirements.check_names(condition, config.train_config, config)


@pytest.mark.parametrize(
    'fields, expected',
    [
        ('checkpoint_include_scopes: "a"', 'checkpoint_include_scopes|fine_tune_checkpoint'),
        ('checkpoint_names { variable: "a" name: "b" }', 'checkpoint_names|fine_tune_checkpoint'),
        ('min_restored_fraction: 0.5', 'min_restored_fraction|fine_tune_checkpoint'),
        ('gradient_clipping: NORM_PER_VARIABLE', 'gradient_clipping|gradient_clipping_by_norm'),
        ('max_skipped_steps: 3', 'max_skipped_steps|non_finite_loss_policy: SKIP_STEP'),
        ('max_skipped_steps: 3 non_finite_loss_policy: SKIP_STEP', ''),
        ('steps_per_call: 3', 'steps_per_call|loop: TF_FUNCTION'),
        ('loss_scale: 8', 'loss_scale|use_bfloat16'),
        (
            'summarize_gradients: true progress { summary_every_n_steps: 0 }',
            'summarize_gradients|progress.summary_every_n_steps',
        ),
        ('summarize_gradients: true', ''),
        (
            optimizer(
                'constant_learning_rate {}', 'use_moving_average: false moving_average_decay: 0.9'
            ),
            'optimizer.moving_average_decay|use_moving_average',
        ),
        (
            optimizer('manual_step_learning_rate { warmup: true }'),
            f'{RATE}.manual_step_learning_rate.warmup|schedule',
        ),
        (
            optimizer('manual_step_learning_rate { warmup: true schedule { step: 3 } }'),
            '',
        ),
        (
            optimizer('exponential_decay_learning_rate { burnin_learning_rate: 0.1 }'),
            f'{RATE}.exponential_decay_learning_rate.burnin_learning_rate|burnin_steps',
        ),
    ],
)
def test_fields_of_training(fields, expected):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    text_format.Parse(f'train_config {{ {fields} }}', config)
    field, _, needed = expected.partition('|')
    sentence = f'train_config.{field} has no effect without {needed}.'
    found = validation.validate(config, None)
    assert found == ([sentence] if expected else [])
