"""What messages must have, choose, and keep in order."""

import pytest

from estimator_lib import config as config_lib
from estimator_lib.config import required
from estimator_lib.config.engine_rules import ENGINE
from estimator_lib.config.rules import AT_LEAST_1, ConfigRules

# A rule of each kind, on messages of the engine.
RULES = ENGINE + ConfigRules(
    ranges={'CheckpointConfig.keep_max': AT_LEAST_1},
    required={
        'TrainConfig': ('checkpoints', 'freeze_variables', 'fine_tune_checkpoint', 'optimizer'),
        'CheckpointConfig': ('keep_max',),
    },
    choices=('optimizer', 'cadence'),
    ordered={'EvaluationSchedule': (('throttle_seconds', 'start_delay_seconds'),)},
)
KINDS = 'rms_prop_optimizer, momentum_optimizer, adam_optimizer'
GOOD = (
    'train_config { freeze_variables: "a" fine_tune_checkpoint: "b" %s '
    'optimizer { sgd_optimizer {} } }'
)


def problems(text):
    config = config_lib.parse_pipeline_config(text, 'text')
    return {problem.path: problem.text for problem in required.check_parts(RULES, config)}


def test_what_is_not_there_is_not_asked_for():
    assert problems('') == problems('eval_config {}') == {}


def test_missing_fields():
    found = problems('train_config {}')
    assert found.pop('train_config.optimizer').startswith(f'is missing; expected one of: {KINDS}')
    assert found == {
        'train_config.checkpoints': (
            'is missing; expected one of: save_every_n_steps, save_every_n_seconds.'
        ),
        'train_config.freeze_variables': 'empty; expected at least one.',
        'train_config.fine_tune_checkpoint': 'not set.',
    }


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('checkpoints { keep_max: 3 save_every_n_steps: 4 }', {}),
        (
            'checkpoints { save_every_n_steps: 4 }',
            {'train_config.checkpoints.keep_max': 'not set; expected at least 1.'},
        ),
        (
            'checkpoints { keep_max: 3 }',
            {
                'train_config.checkpoints': (
                    'empty; expected one of: save_every_n_steps, save_every_n_seconds.'
                )
            },
        ),
    ],
)
def test_messages_that_are_there(text, expected):
    assert problems(GOOD % text) == expected


def test_an_empty_text_is_missing_too():
    text = GOOD.replace('"b"', '""') % 'checkpoints { keep_max: 3 save_every_n_steps: 4 }'
    assert problems(text) == {'train_config.fine_tune_checkpoint': 'not set.'}


def test_numbers_out_of_order_name_both():
    text = 'eval_config { schedule { throttle_seconds: 20 start_delay_seconds: 10 } }'
    path = 'eval_config.schedule.throttle_seconds'
    assert problems(text) == {path: '20; expected at most 10, start_delay_seconds.'}
    assert problems(text.replace('20', '10')) == {}
