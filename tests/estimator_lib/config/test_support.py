"""Field support, applied to configs."""

import pytest

from estimator_lib import config as config_lib
from estimator_lib import errors
from estimator_lib.config import support
from estimator_lib.config.rules import ConfigRules
from estimator_lib.config.section import Section
from tests.estimator_lib.config import ruled_schema

FINDER = ConfigRules(models=frozenset({'finder'}))
OTHER = ConfigRules(models=frozenset({'other'}))


def unsupported(text, rules=FINDER):
    config = ruled_schema.parse(text)
    return {problem.path: problem.text for problem in support.unsupported(rules, Section(config))}


def ignored(text, rules=FINDER):
    return list(support.ignored(rules, ruled_schema.parse(text)))


def test_set_fields_are_found_in_lists_oneofs_and_maps():
    config = config_lib.parse_pipeline_config(
        'train_config { optimizer { sgd_optimizer { learning_rate { '
        'constant_learning_rate { learning_rate: 0 } } } } }'
        'eval_input_reader { name: "a" } eval_input_reader { name: "b" }',
        'text',
    )
    paths = [path for path, *_ in support.set_fields(ConfigRules(), Section(config))]
    constant = 'train_config.optimizer.sgd_optimizer.learning_rate.constant_learning_rate'
    assert f'{constant}.learning_rate' in paths
    assert 'eval_input_reader.1.name' in paths
    assert 'eval_config' not in paths


def test_an_unsupported_message_is_named_once():
    assert unsupported('nets { head { other: true } }') == {
        'nets.0.head': 'not supported: there is one head.'
    }


def test_an_unsupported_field_at_its_default_asks_for_nothing():
    assert unsupported('net { square: false }') == {}
    assert unsupported('net { square: true }') == {'net.square': 'not supported: all are.'}


def test_some_values_are_supported():
    assert unsupported('bits: 8') == {}
    # The default is no exception here.
    for value in (4, 0):
        assert unsupported(f'bits: {value}') == {'bits': 'not supported: eight alone.'}


@pytest.mark.parametrize(
    ('rules', 'expected'),
    [
        (FINDER, {}),
        (OTHER, {'sequences': 'not supported: one by one.'}),
        (ConfigRules(), {}),
        (ConfigRules(unlisted='nobody reads it'), {}),
    ],
)
def test_values_that_some_models_support(rules, expected):
    assert unsupported('sequences: true', rules) == expected
    assert unsupported('sequences: false', rules) == {}


def test_fields_of_some_models():
    text = 'boxes: 3 finder { square: true }'
    assert list(unsupported(text)) == ['finder.square'] and ignored(text) == []
    assert unsupported(text, OTHER) == {}
    assert ignored(text, OTHER) == ['boxes has no effect: there are none.']


def test_without_rules_of_a_task_its_fields_are_not_looked_at():
    text = 'boxes: 3 finder { square: true }'
    assert unsupported(text, ConfigRules()) == {} and ignored(text, ConfigRules()) == []
    config = Section(ruled_schema.parse(text))
    assert list(support.set_messages(ConfigRules(), config)) == [config]


def test_fields_of_tasks_that_a_task_does_not_list():
    text = 'boxes: 3 finder { square: true }'
    none = ConfigRules(unlisted='nobody reads it')
    assert unsupported(text, none) == {
        'boxes': 'not supported: nobody reads it.',
        'finder': 'not supported: nobody reads it.',
    }
    lists = none + ConfigRules(supported={'RuledConfig': frozenset({'boxes', 'finder'})})
    assert list(unsupported(text, lists)) == ['finder.square']


def test_parts_of_a_config_are_refused_with_their_path():
    part = ruled_schema.parse('net { head {} square: true }').net
    with pytest.raises(errors.ConfigError) as caught:
        support.refuse(FINDER, Section(part, 'model.net'))
    assert str(caught.value).splitlines() == [
        'the pipeline config has 2 problems:',
        '  model.net.head: not supported: there is one head.',
        '  model.net.square: not supported: all are.',
    ]
    support.refuse(FINDER, Section(ruled_schema.parse('')))


def test_ignored_fields_are_named_with_the_reason():
    assert ignored('net { queue: 3 }') == ['net.queue has no effect: there is none.']
    assert ignored('net { queue: 5 }') == []  # Its default.
