"""What is wrong with optimizers and schedules."""

import json

import pytest
from google.protobuf import text_format

from estimator_lib.config import message_checks
from estimator_lib.config import schedule_checks as checks
from estimator_lib.config.rules import ConfigRules
from estimator_lib.config.section import Section
from protos import optimizer_pb2, train_pb2


def problems(schedule, num_steps=100):
    optimizer = text_format.Parse(
        f'adam_optimizer {{ learning_rate {{ {schedule} }} }}', optimizer_pb2.Optimizer()
    )
    section = Section(optimizer, 'train_config.optimizer')
    found = checks.check_optimizer(optimizer, num_steps)
    return [*map(str, found), *map(str, message_checks.find_problems(ConfigRules(), section))]


def test_an_empty_optimizer_lists_the_optimizers():
    (problem,) = checks.check_optimizer(optimizer_pb2.Optimizer(), 0)
    assert problem.path == 'train_config.optimizer'
    assert 'momentum_optimizer' in problem.text and 'ftrl_optimizer' in problem.text


def test_an_empty_learning_rate_lists_the_schedules():
    (text,) = problems('')
    assert text.startswith('train_config.optimizer.adam_optimizer.learning_rate: not set; ')
    assert 'cosine_decay_learning_rate' in text and 'deeplab_learning_rate' in text


@pytest.mark.parametrize(
    'schedule',
    [
        'constant_learning_rate {}',
        'exponential_decay_learning_rate {}',
        'manual_step_learning_rate { initial_learning_rate: 0.1 }',
        'manual_step_learning_rate { schedule { step: 1 } schedule { step: 2 } }',
        'cosine_decay_learning_rate {}',
        'cosine_decay_learning_rate { total_steps: 10 warmup_steps: 10 }',
        'polynomial_decay_learning_rate {}',
        'exponential_decay_with_warmup_learning_rate { warmup_learning_rate: 1 }',
        'deeplab_learning_rate {}',
        'deeplab_learning_rate { policy: STEP }',
        'deeplab_learning_rate { policy: MULTI_STEPS boundaries: 5 learning_rates: [2, 1] }',
    ],
)
def test_what_is_fine(schedule):
    assert problems(schedule) == []


@pytest.mark.parametrize(
    ('schedule', 'expected'),
    [
        (
            'deeplab_learning_rate { policy: MULTI_STEPS learning_rates: 1 }',
            'boundaries: empty; expected at',
        ),
        (
            'manual_step_learning_rate { schedule { step: 0 learning_rate: 0.25 } }',
            'schedule.0.step: 0; expected at least 1. The rate of the first steps is '
            'initial_learning_rate: write initial_learning_rate: 0.25 and leave this entry out.',
        ),
        ('manual_step_learning_rate { schedule {} schedule {step: 4} }', 'schedule.0.step: 0'),
        (
            'deeplab_learning_rate { policy: MULTI_STEPS boundaries: 0 learning_rates: [2, 1] }',
            'boundaries: the first step is 0; expected at least 1.',
        ),
        (
            'manual_step_learning_rate { schedule { step: 5 } schedule { step: 5 } }',
            'step 5 after step 5; expected growing steps.',
        ),
        (
            'cosine_decay_learning_rate { total_steps: 5 warmup_steps: 6 }',
            'total_steps: 5; expected at least 6, warmup_steps.',
        ),
        (
            'cosine_decay_learning_rate { learning_rate_base: 1 warmup_learning_rate: 2 }',
            'learning_rate_base: 1; expected at least 2, warmup_learning_rate.',
        ),
        (
            'exponential_decay_with_warmup_learning_rate '
            '{ learning_rate_base: 1 warmup_learning_rate: 2 warmup_steps: 3 }',
            'learning_rate_base: 1; expected at least 2',
        ),
        (
            'deeplab_learning_rate { slow_start_step: 100 }',
            'training_number_of_steps: 100 steps; expected more than slow_start_step, 100.',
        ),
        (
            'deeplab_learning_rate { policy: MULTI_STEPS boundaries: 5 learning_rates: 1 }',
            'learning_rates: 1 rates for 1 boundaries; expected 2.',
        ),
    ],
)
def test_what_is_wrong(schedule, expected):
    (text,) = problems(schedule)
    assert text.startswith('train_config.optimizer.adam_optimizer.learning_rate.')
    assert expected in text


@pytest.mark.parametrize('schedule', ['polynomial_decay_learning_rate', 'deeplab_learning_rate'])
def test_a_schedule_as_long_as_the_run_needs_a_run_with_an_end(schedule):
    (text,) = problems(f'{schedule} {{}}', num_steps=0)
    assert '0 stands for train_config.num_steps, which is 0 too; set one.' in text


def test_a_run_beyond_its_cosine_is_warned_of():
    config = train_pb2.TrainConfig(num_steps=101)
    rate = config.optimizer.momentum_optimizer.learning_rate
    rate.cosine_decay_learning_rate.total_steps = 100
    rate.cosine_decay_learning_rate.warmup_steps = 10
    (warning,) = checks.find_warnings(config)
    assert 'num_steps is 101' in warning and 'after step 100' in warning
    config.num_steps = 100
    assert list(checks.find_warnings(config)) == []


ENDS = [
    # What the schedule names, and the last number of steps that ends within it; 0: none does.
    ('constant_learning_rate {}', 0, ''),
    ('cosine_decay_learning_rate { warmup_steps: 20 total_steps: 90 }', 89, 'total_steps'),
    ('cosine_decay_learning_rate { warmup_steps: 20 }', 20, 'warmup_steps'),
    (
        'warmup_stable_decay_learning_rate { warmup_steps: 20 cool_down_steps: 30 }',
        49,
        'cool_down_steps',
    ),
    ('warmup_stable_decay_learning_rate { total_steps: 60 cool_down_steps: 9 }', 59, 'total_steps'),
    ('exponential_decay_learning_rate { burnin_steps: 7 }', 7, 'burnin_steps'),
    ('exponential_decay_with_warmup_learning_rate { warmup_steps: 7 }', 7, 'warmup_steps'),
    ('manual_step_learning_rate { schedule { step: 5 } schedule { step: 9 } }', 9, 'schedule'),
    ('manual_step_learning_rate { schedule { step: 9 } warmup: true }', 9, 'schedule'),
    ('manual_step_learning_rate {}', 0, ''),
    ('polynomial_decay_learning_rate { decay_steps: 30 }', 29, 'decay_steps'),
    ('polynomial_decay_learning_rate {}', 0, ''),
    ('deeplab_learning_rate { training_number_of_steps: 30 }', 29, 'training_number_of_steps'),
    ('deeplab_learning_rate { decay_steps: 30 slow_start_step: 5 }', 34, 'decay_steps'),
    ('deeplab_learning_rate { policy: STEP slow_start_step: 5 }', 5, 'slow_start_step'),
    (
        'deeplab_learning_rate { policy: MULTI_STEPS boundaries: 5 learning_rates: [2, 1] }',
        6,
        'boundaries',
    ),
]


@pytest.mark.parametrize(('schedule', 'most', 'field'), ENDS)
def test_a_run_that_ends_within_its_schedule_is_warned_of(schedule, most, field):
    config = train_pb2.TrainConfig()
    text_format.Parse(schedule, config.optimizer.adam_optimizer.learning_rate)
    assert list(checks.find_warnings(config)) == []  # without an end
    for num_steps in (1, most // 2, most) if most else ():
        config.num_steps = num_steps
        (warning,) = checks.find_warnings(config)
        assert f'train_config.num_steps is {num_steps}: training ends ' in warning
        assert warning.endswith('; shorten it with the run.')
    if most:
        assert f'{schedule.split()[0]}.{field})' in warning
    config.num_steps = most + 1
    assert not any('training ends' in warning for warning in checks.find_warnings(config))


def test_a_run_that_ends_within_its_warmup_is_told_so():
    config = train_pb2.TrainConfig(num_steps=20)
    cosine = config.optimizer.adam_optimizer.learning_rate.cosine_decay_learning_rate
    cosine.warmup_steps, cosine.total_steps = 20, 90
    (warning,) = checks.find_warnings(config)
    assert 'ends within the warm-up of the learning rate, 20 steps' in warning
    config.num_steps = 21
    (warning,) = checks.find_warnings(config)
    assert 'ends before the schedule of the learning rate, 90 steps' in warning


def test_what_the_published_code_refuses_is_refused(shared):
    """Compare with the recorded cases whose schedule a config can set."""
    recorded = json.loads((shared / 'golden' / 'learning_rates.json').read_text())
    refused = [case['error'] for case in recorded if 'error' in case]
    ours = {
        # A rate that never changes.
        'ValueError: Empty learning rate schedule.': None,
        'ValueError: First step cannot be zero.': 'manual_step_learning_rate { schedule {} }',
        'ValueError: learning_rate_base must be larger or equal to warmup_learning_rate.': (
            'cosine_decay_learning_rate { learning_rate_base: 1 warmup_learning_rate: 2 }'
        ),
        # There is no name of a policy to get wrong: policies are an enum.
        'ValueError: Unknown learning policy.': None,
    }
    assert set(refused) == set(ours)
    assert all(problems(schedule) for schedule in ours.values() if schedule)
