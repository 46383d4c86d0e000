"""Values by keyword, under the names of published programs."""

import pytest
from google.protobuf import text_format

from estimator_lib import errors
from model_fns.tf2_api import overrides
from protos import pipeline_pb2

RATE = 'train_config {{ optimizer {{ momentum_optimizer {{ learning_rate {{ {} }} }} }} }}'
MANUAL = """manual_step_learning_rate {
  initial_learning_rate: 0.5
  schedule { step: 10 learning_rate: 0.25 } schedule { step: 20 learning_rate: 0.125 }
}"""


def config_of(text):
    return text_format.Parse(text, pipeline_pb2.TrainEvalPipelineConfig())


@pytest.mark.parametrize(
    'schedule, fields',
    [
        ('constant_learning_rate { learning_rate: 0.5 }', {'learning_rate': 1}),
        ('exponential_decay_learning_rate { decay_steps: 3 }', {'initial_learning_rate': 1}),
        ('polynomial_decay_learning_rate { }', {'initial_learning_rate': 1}),
        ('deeplab_learning_rate { }', {'base_learning_rate': 1}),
        (
            'cosine_decay_learning_rate { learning_rate_base: 0.5 warmup_learning_rate: 0.25 }',
            {'learning_rate_base': 1, 'warmup_learning_rate': 0.5},
        ),
        (
            'exponential_decay_with_warmup_learning_rate { learning_rate_base: 0.5 }',
            {'learning_rate_base': 1},
        ),
        (MANUAL, {'initial_learning_rate': 1}),
    ],
)
def test_an_initial_rate(schedule, fields):
    config = overrides.apply(config_of(RATE.format(schedule)), {'learning_rate': 1.0})
    rates = config.train_config.optimizer.momentum_optimizer.learning_rate
    changed = getattr(rates, rates.WhichOneof('learning_rate'))
    set_rates = {
        field.name: value for field, value in changed.ListFields() if 'learning_rate' in field.name
    }
    assert set_rates == fields
    if schedule == MANUAL:
        assert [step.learning_rate for step in changed.schedule] == [0.5, 0.25]


def test_other_values():
    config = overrides.apply(
        config_of(
            'model { ssd { } } eval_input_reader { } eval_input_reader { }'
            'train_config { optimizer { rms_prop_optimizer { } } }'
        ),
        {
            'num_classes': 7,
            'label_map_path': '/maps/pets.pbtxt',
            'train_input_path': ['a-*', 'b'],
            'eval_input_path': 'c,d',
            'eval_with_moving_averages': True,
            'momentum_optimizer_value': 0.5,
            'train_config.batch_size': 3,
            'eval_input_config.shuffle': False,
            'mask_type': 'PNG_MASKS',
            'train_steps': None,
        },
    )
    assert config == config_of(
        """model { ssd { num_classes: 7 } }
        train_config {
          batch_size: 3
          optimizer { rms_prop_optimizer { momentum_optimizer_value: 0.5 } }
        }
        eval_config { use_moving_averages: true }
        train_input_reader {
          label_map_path: "/maps/pets.pbtxt" mask_type: PNG_MASKS
          tf_record_input_reader { input_path: ["a-*", "b"] }
        }
        eval_input_reader {
          label_map_path: "/maps/pets.pbtxt" mask_type: PNG_MASKS shuffle: false
          tf_record_input_reader { input_path: ["c", "d"] }
        }
        eval_input_reader {
          label_map_path: "/maps/pets.pbtxt" mask_type: PNG_MASKS
          tf_record_input_reader { input_path: ["c", "d"] }
        }"""
    )


@pytest.mark.parametrize(
    'values, said',
    [
        ({'learning_rat': 1}, "learning_rat is not an argument .* did you mean 'learning_rate'"),
        ({'learning_rate': 1}, 'has no learning rate; expected a schedule'),
        ({'momentum_optimizer_value': 1}, 'adam_optimizer has no momentum'),
        ({'train_config.batch_sise': 1}, 'batch_sise'),
    ],
)
def test_values_that_a_config_has_no_field_for(values, said):
    config = config_of('train_config { optimizer { adam_optimizer { } } }')
    with pytest.raises(errors.ConfigError, match=said):
        overrides.apply(config, values)


def test_a_rate_that_is_no_number():
    config = config_of(RATE.format('constant_learning_rate { }'))
    with pytest.raises(errors.ConfigError, match="'learning_rate' expects .* got 'fast'"):
        overrides.apply(config, {'learning_rate': 'fast'})
