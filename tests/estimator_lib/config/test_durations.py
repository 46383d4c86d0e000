"""Durations in any unit become steps, by one function."""

import pytest
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.config import apply_overrides, apply_settings, durations, schema, validation
from protos import duration_pb2, field_rules, pipeline_pb2

Config = pipeline_pb2.TrainEvalPipelineConfig
COSINE = 'optimizer { sgd_optimizer { learning_rate { cosine_decay_learning_rate { %s } } } }'


def config_of(train_config):
    return text_format.Parse(f'train_config {{ batch_size: 4 {train_config} }}', Config())


def resolved(train_config, examples=10):
    return durations.resolve(config_of(train_config), lambda: examples).train_config


def refuse_to_count():
    raise AssertionError('nothing is in epochs')


@pytest.mark.parametrize(
    ('text', 'steps'),
    [
        ('steps: 7', 7),
        ('epochs: 3', 8),  # 30 examples are 7.5 steps
        ('epochs: 0.1', 1),  # 0.25 steps
        ('epochs: 0', 0),
        ('examples: 41', 10),
        ('examples: 42', 11),
        ('percent: 12.5', 25),
        ('percent: 0.1', 1),
    ],
)
def test_each_unit_by_hand(text, steps):
    units = durations.Units(batch_size=4, num_steps=200, count_examples=lambda: 10)
    duration = text_format.Parse(text, duration_pb2.Duration())
    assert durations.to_steps(duration, units, 'x') == steps


def test_parts_of_the_run_follow_its_length():
    schedule = COSINE % 'warmup { percent: 5 } total { percent: 90 }'
    train_config = resolved(
        f'{schedule} length {{ epochs: 40 }} progress {{ every {{ epochs: 1 }} }}'
    )
    cosine = train_config.optimizer.sgd_optimizer.learning_rate.cosine_decay_learning_rate
    assert train_config.num_steps == 100
    assert (cosine.warmup_steps, cosine.total_steps) == (5, 90)
    assert train_config.progress.every_n_steps == 3
    assert not any(durations.find(train_config))


def test_lists_of_durations():
    config = config_of(
        'num_steps: 50 optimizer { sgd_optimizer { learning_rate {'
        ' manual_step_learning_rate { schedule { at { percent: 50 } } schedule { step: 40 } } } } }'
    )
    rate = durations.resolve(config, refuse_to_count).train_config.optimizer.sgd_optimizer
    changes = rate.learning_rate.manual_step_learning_rate.schedule
    assert [change.step for change in changes] == [25, 40]
    deeplab = (
        'num_steps: 50 optimizer { sgd_optimizer { learning_rate { deeplab_learning_rate {'
        ' boundaries_at { percent: 50 } boundaries_at { examples: 160 } %s} } } }'
    )
    rate = resolved(deeplab % '').optimizer.sgd_optimizer.learning_rate
    assert list(rate.deeplab_learning_rate.boundaries) == [25, 40]
    with pytest.raises(errors.ConfigError, match='boundaries_at: boundaries is set too'):
        resolved(deeplab % 'boundaries: 5 ')


def test_a_config_in_steps_is_unchanged_and_counts_nothing():
    config = config_of('num_steps: 5 checkpoints { save_every_n_steps: 2 }')
    assert durations.resolve(config, refuse_to_count) == config
    in_epochs = config_of('length { epochs: 2 }')
    once = durations.resolve(in_epochs, lambda: 10)
    assert in_epochs.train_config.length.epochs == 2
    assert durations.resolve(once, refuse_to_count) == once


def test_the_later_of_two_ways_to_say_a_duration_wins():
    config = apply_settings(config_of('length { epochs: 2 }'), ['train_config.num_steps=9'])
    assert durations.resolve(config, refuse_to_count).train_config.num_steps == 9
    config = apply_overrides(config, ['train_config { length { examples: 8 } }'])
    assert durations.resolve(config, refuse_to_count).train_config.num_steps == 2


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('length {}', 'train_config.length: empty; expected one of steps, epochs'),
        ('length { percent: 50 }', 'length.percent: 50 % .* is this length itself'),
        ('progress { every { percent: 5 } }', 'every.percent: 5 % .* which has no end'),
        ('length { epochs: -1 }', 'length.epochs: -1.0; expected a number of at least 0'),
        ('length { epochs: nan }', 'length.epochs: nan; expected'),
        (
            'num_steps: 9 progress { profile_at { percent: 101 } }',
            'profile_at.percent: 101.0; expected a number from 0 to 100',
        ),
        ('length { examples: 9000000000000 }', 'length: 2250000000000 steps; expected at most'),
    ],
)
def test_durations_without_a_meaning(text, expected):
    with pytest.raises(errors.ConfigError, match=expected):
        resolved(text)


def test_training_refuses_what_is_not_in_steps():
    with pytest.raises(errors.ConfigError, match=r'train_config.length: a duration that is not'):
        validation.validate(config_of('length { epochs: 2 }'), None)


def test_each_duration_names_a_field_for_its_steps_that_excludes_it():
    fields = [
        field
        for message in schema.reachable_messages(Config.DESCRIPTOR)
        for field in message.fields
        if field.message_type == duration_pb2.Duration.DESCRIPTOR
    ]
    assert len(fields) > 20
    for field in fields:
        target = field.containing_type.fields_by_name[field_rules.get_rule(field).in_steps]
        assert schema.is_repeated(field) == schema.is_repeated(target), field.full_name
        assert schema.is_repeated(field) or field.containing_oneof is target.containing_oneof
