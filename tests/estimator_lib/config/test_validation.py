"""Tests of the errors and warnings of validation."""

import logging

import pytest

import model_fns
from estimator_lib import config as config_lib
from estimator_lib import environment, errors
from estimator_lib.config import validation

GOOD = """
model { classification { num_classes: 10 backbone { name: 'mobilenet_v1' } } }
train_config {
  num_steps: 100
  optimizer {
    sgd_optimizer { learning_rate { constant_learning_rate { learning_rate: 0.1 } } }
    use_moving_average: false
  }
}
train_input_reader { tf_record_input_reader { input_path: 'train-*' } }
eval_input_reader { tf_record_input_reader { input_path: 'eval-*' } }
"""
INPUTS = 'train_input_reader.tf_record_input_reader.input_path'


def changed(*settings):
    return config_lib.apply_settings(config_lib.parse_pipeline_config(GOOD, 'good'), settings)


def find_problems(config, mode='train_and_evaluate'):
    with pytest.raises(errors.ConfigError) as caught:
        model_fns.validate(config, mode)
    return str(caught.value)


@pytest.mark.parametrize('mode', environment.MODES)
def test_a_good_config_has_no_problems_and_no_warnings(mode):
    assert model_fns.validate(changed(), mode) == []


@pytest.mark.parametrize(
    ('settings', 'expected'),
    [
        # Missing.
        (
            ['model={}'],
            'model: is empty; expected one of: center_net, classification, external, faster_rcnn, '
            'segmentation, ssd.',
        ),
        (
            ['model.classification.num_classes=0'],
            'num_classes: 0; expected at least 1 and at most 1000000.',
        ),
        (
            ['model.classification={ num_classes: 2 }'],
            'classification.backbone.name: not set',
        ),
        (
            ['train_config.optimizer={}'],
            'train_config.optimizer: not set; expected one of: ',
        ),
        ([f'{INPUTS}=[]'], f'{INPUTS}: not set; expected TFRecord files'),
        ([f'{INPUTS}=["a", ""]'], f'{INPUTS}.1: an empty path.'),
        (['train_config.early_stopping={}'], 'train_config.early_stopping.metric: not set'),
        (['export_config.best={}'], 'export_config.best.metric: not set'),
        (
            ['train_config.gradient_multipliers={ multiplier: 2 }'],
            'train_config.gradient_multipliers.0.variable_pattern: not set',
        ),
        # Out of range.
        (['train_config.batch_size=0'], 'batch_size: 0; expected at least 1 and at most 1000000.'),
        (['eval_config.batch_size=0'], 'batch_size: 0; expected at least 1 and at most 1000000.'),
        (['train_config.gradient_clipping_by_norm=-1'], ': -1; expected at least 0.'),
        (['train_config.gradient_clipping_by_norm=nan'], ': nan; expected a finite number.'),
        (['train_config.gradient_clipping_by_norm=inf'], ': inf; expected a finite number.'),
        (['train_config.keep_checkpoint_every_n_hours=0'], ': 0; expected more than 0.'),
        (
            ['train_config.checkpoints.save_every_n_steps=0'],
            'train_config.checkpoints.save_every_n_steps: 0; expected at least 1.',
        ),
        (
            ['train_config.optimizer.moving_average_decay=1'],
            ': 1; expected at least 0 and less than 1.',
        ),
        (
            ['model.classification.dropout_keep_prob=0'],
            ': 0; expected more than 0 and at most 1.',
        ),
        (['model.classification.label_smoothing=1'], ': 1; expected at least 0 and less than 1.'),
        (
            ['train_input_reader.sample_from_datasets_weights=[-1]'],
            'train_input_reader.sample_from_datasets_weights.0: -1; expected at least 0.',
        ),
        # Values that cannot be.
        (
            ['train_config.freeze_variables=["ok", "("]'],
            "train_config.freeze_variables.1: '(' is not a regular expression: missing )",
        ),
        (['train_config.update_trainable_variables=""'], 'an empty pattern'),
        (
            ['train_config.gradient_multipliers={ variable_pattern: "*" }'],
            "variable_pattern: '*' is not a regular expression",
        ),
        (
            ['train_config.fine_tune_checkpoint=PATH_TO_BE_CONFIGURED/model.ckpt'],
            'is a placeholder; expected a path of yours.',
        ),
        (
            ['train_config.fine_tune_checkpoint=gs://${BUCKET}/model.ckpt'],
            "fine_tune_checkpoint: 'gs://${BUCKET}/model.ckpt' is a placeholder; expected a path",
        ),
        (
            ['train_config.fine_tune_checkpoint_type=full'],
            "'full'; expected one of classification, detection, segmentation",
        ),
        # Contradictions.
        (
            [f'{INPUTS}=["a", "b"]', 'train_input_reader.sample_from_datasets_weights=[1]'],
            'sample_from_datasets_weights: 1 values for 2 input_path; expected one for each.',
        ),
        (
            ['train_input_reader.sample_from_datasets_weights=[0]'],
            'sample_from_datasets_weights: all are 0',
        ),
        (
            [f'{INPUTS}=["a", "b"]', 'train_input_reader.examples_per_batch=[32]'],
            'examples_per_batch: 1 values for 2 input_path',
        ),
        (
            [f'{INPUTS}=["a", "b"]', 'train_input_reader.examples_per_batch=[3, 4]'],
            'examples_per_batch: 3 + 4 = 7; expected a sum of 32, train_config.batch_size.',
        ),
        (
            [
                'train_input_reader.examples_per_batch=[32]',
                'train_input_reader.sample_from_datasets_weights=[1]',
            ],
            'it excludes sample_from_datasets_weights',
        ),
        (
            ['train_config.early_stopping.metric=loss', 'eval_config.schedule.enabled=false'],
            'train_config.early_stopping: it goes by evaluations, and eval_config.schedule.enabled',
        ),
        (
            ['export_config.best.metric=loss', 'eval_input_reader=[]'],
            'export_config.best: it goes by evaluations, and there is no eval_input_reader.',
        ),
        (
            ['eval_config.use_moving_averages=true'],
            'eval_config.use_moving_averages: true, but train_config.optimizer.use_moving_average',
        ),
        (
            [
                'eval_input_reader.0.name=a',
                'eval_input_reader.1.name=a',
                'eval_input_reader.1.tf_record_input_reader.input_path=b',
            ],
            "eval_input_reader: 2 are named 'a'; expected one.",
        ),
        # Not available.
        (['model.experimental_model={}'], 'model.experimental_model: not supported: experimental '),
        (
            ['train_config.use_multiclass_scores=true'],
            'train_config.use_multiclass_scores: not supported: ',
        ),
    ],
)
def test_one_problem_is_one_line(settings, expected):
    text = find_problems(changed(*settings))
    assert expected in text and '\n' not in text


@pytest.mark.parametrize('part', ['model', 'train_config', 'train_input_reader'])
def test_a_missing_part_is_named(part):
    config = changed()
    config.ClearField(part)
    assert find_problems(config).startswith(f'{part}: is missing; ')


def test_all_problems_are_listed():
    lines = find_problems(
        changed(
            'train_config.batch_size=0',
            'train_config.freeze_variables=(',
            'model.experimental_model={}',
        )
    ).splitlines()
    assert lines[0] == 'the pipeline config has 3 problems:'
    assert [line.split(':')[0].strip() for line in lines[1:]] == [
        'model.experimental_model',
        'train_config.batch_size',
        'train_config.freeze_variables.0',
    ]


def test_only_what_a_mode_uses_is_looked_at():
    config = changed('train_config.batch_size=0', 'train_config.use_multiclass_scores=true')
    config.ClearField('train_input_reader')
    assert model_fns.validate(config, 'export') == []
    assert model_fns.validate(config, 'evaluate') == []
    assert '3 problems' in find_problems(config, 'train')


def test_an_evaluation_looks_at_its_readers():
    config = changed('eval_input_reader.0.tf_record_input_reader.input_path=[]')
    assert 'eval_input_reader.0' in find_problems(config, 'evaluate')
    assert model_fns.validate(config, 'train') == []


def test_counts_of_an_evaluation_choose_sources_and_need_not_fill_a_batch():
    config = changed('eval_input_reader.0.examples_per_batch=[3]')
    assert model_fns.validate(config) == []


def test_an_unknown_mode_is_a_programming_error():
    with pytest.raises(ValueError, match='unknown mode'):
        model_fns.validate(changed(), 'trian')


@pytest.mark.parametrize(
    ('settings', 'expected'),
    [
        (
            ['train_config.batch_queue_capacity=3'],
            'train_config.batch_queue_capacity has no ',
        ),
        (['eval_config.min_score_threshold=0.1'], 'eval_config.min_score_threshold has no effect'),
        (['eval_input_reader=[]'], 'there is no eval_input_reader'),
        (
            ['train_config.checkpoint_exclude_scopes=a'],
            'train_config.checkpoint_exclude_scopes has no effect without fine_tune_checkpoint.',
        ),
        (
            ['train_config.initialize_last_layer=false'],
            'train_config.initialize_last_layer has no effect without fine_tune_checkpoint.',
        ),
    ],
)
def test_warnings_are_returned_and_logged(settings, expected, caplog):
    with caplog.at_level(logging.WARNING):
        warnings = model_fns.validate(changed(*settings))
    assert len(warnings) == 1 and warnings[0].startswith(expected)
    assert expected in caplog.text


def test_early_stopping_without_evaluations_is_doubted():
    warnings = model_fns.validate(changed('train_config.early_stopping.metric=loss'), 'train')
    assert warnings[0].startswith('train_config.early_stopping has no effect')


def test_fine_tuning_options_are_not_doubted_with_a_checkpoint():
    settings = ['train_config.fine_tune_checkpoint=a', 'train_config.checkpoint_exclude_scopes=b']
    assert model_fns.validate(changed(*settings)) == []


def test_validation_leaves_the_config_as_it_is():
    config = changed()
    model_fns.validate(config, 'export')
    assert config == changed()


def test_without_a_tasks_rules_the_engines_fields_are_checked():
    text = 'model { classification { label_smoothing: 7 } } train_config { batch_size: %d }'
    good = config_lib.parse_pipeline_config(text % 1, 'text')
    assert config_lib.validate(good, mode=None) == []
    with pytest.raises(errors.ConfigError) as caught:
        config_lib.validate(config_lib.parse_pipeline_config(text % 0, 'text'), mode=None)
    expected = 'train_config.batch_size: 0; expected at least 1 and at most 1000000.'
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        (
            'train_config { batch_size: 2000000000 }',
            'train_config.batch_size: 2000000000; expected at least 1 and at most 1000000.',
        ),
        (
            'train_input_reader { num_readers: 4294967295 }',
            'train_input_reader.num_readers: 4294967295; expected at least 1 and at most 1000.',
        ),
        (
            'eval_input_reader { max_image_pixels: 5 } eval_input_reader { max_image_pixels: 6 }',
            'eval_input_reader.1.max_image_pixels: 6; eval_input_reader.0.max_image_pixels is 5, '
            'and examples are read in one way; expected it.',
        ),
    ],
)
def test_upper_ends_and_what_readers_share(text, expected):
    with pytest.raises(errors.ConfigError) as caught:
        config_lib.validate(config_lib.parse_pipeline_config(text, 'text'), mode=None)
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('', 178_000_000),
        ('train_input_reader { max_image_pixels: 5 }', 5),
        ('eval_input_reader { max_image_pixels: 6 }', 6),
        ('train_input_reader { } eval_input_reader { max_image_pixels: 6 }', 178_000_000),
    ],
)
def test_the_first_reader_says_how_many_pixels_there_may_be(text, expected):
    config = config_lib.parse_pipeline_config(text, 'limits')
    assert validation.pixel_limit(config) == expected
