"""The engine's own rules: without a task's, they say nothing of its fields."""

import pytest

from estimator_lib import config as config_lib
from estimator_lib import errors
from estimator_lib.config import schema
from estimator_lib.config.engine_rules import ENGINE
from protos import pipeline_pb2

# The messages of which a task may know fields that the engine does not.
SHARED = {'TrainConfig', 'InputReader', 'EvalConfig', 'DetectionModel'}
# What tasks know of a message that is the engine's else.
OF_TASKS = 'TrainEvalPipelineConfig.graph_rewriter'


def test_each_field_of_the_engines_messages_has_one_kind_of_support():
    queue, seen, wrong = [pipeline_pb2.TrainEvalPipelineConfig.DESCRIPTOR], set(), {}
    while queue:
        message = queue.pop()
        name = schema.short_name(message)
        seen.add(name)
        for field in message.fields:
            support = ENGINE.support(name, field.name)
            if f'{name}.{field.name}' == OF_TASKS:
                assert support == []
            elif len(support) != 1 and name not in SHARED:
                wrong[f'{name}.{field.name}'] = support
            if support == ['supported'] and schema.is_message(field):
                queue += [field.message_type] if field.message_type.name not in seen else []
    assert wrong == {}
    assert SHARED | {'Optimizer', 'LearningRate', 'BestExport'} <= seen


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
