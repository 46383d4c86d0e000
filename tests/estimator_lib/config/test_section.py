"""Sections: messages of a config with their paths."""

import pytest

from estimator_lib import config as config_lib
from estimator_lib import errors
from estimator_lib.config.section import Section

TEXT = """
    train_config {
      batch_size: 8
      optimizer { sgd_optimizer { learning_rate { constant_learning_rate {} } } }
    }
    train_input_reader { label_map_path: "a" sample_from_datasets_weights: [0.5, 0.5] }
    eval_input_reader { name: "b" }
    eval_input_reader { name: "c" }
    eval_config { super_categories { key: "z" value: "y" } super_categories { key: "a" value: "" } }
"""


@pytest.fixture(scope='module', name='section')
def section_fixture():
    return Section(config_lib.parse_pipeline_config(TEXT, 'text'))


def test_paths_grow_with_the_fields(section):
    training = section.child('train_config')
    assert training.message.batch_size == 8
    assert training.at('batch_size') == 'train_config.batch_size'
    assert section.at('train_config.batch_size') == 'train_config.batch_size'
    readers = section.children('eval_input_reader')
    assert [(reader.message.name, reader.path) for reader in readers] == [
        ('b', 'eval_input_reader.0'),
        ('c', 'eval_input_reader.1'),
    ]
    categories = section.children('eval_config.super_categories')
    assert [part.path for part in categories] == [
        'eval_config.super_categories.a',
        'eval_config.super_categories.z',
    ]


def test_the_member_of_a_oneof(section):
    optimizer = section.child('train_config.optimizer')
    assert optimizer.chosen('optimizer').path == 'train_config.optimizer.sgd_optimizer'
    assert section.child('model').chosen('model') is None


@pytest.mark.parametrize('call', [Section.at, Section.child, Section.children, Section.problem])
def test_a_path_of_no_field_is_a_fault(section, call):
    with pytest.raises(AttributeError, match='batch_sise'):
        call(section, 'train_config.batch_sise')


@pytest.mark.parametrize(
    ('field', 'shown'),
    [
        ('train_config.batch_size', '8'),
        ('train_config.sync_replicas', 'false'),
        ('train_input_reader.label_map_path', "'a'"),
        ('train_input_reader.cache', 'NONE'),
        ('train_input_reader.sample_from_datasets_weights', '2 values'),
        ('train_config.optimizer.moving_average_decay', '0.9999'),
    ],
)
def test_an_expectation_goes_with_the_value(section, field, shown):
    problem = section.problem(field, expected='another one')
    assert str(problem) == f'{field}: {shown}; expected another one.'


def test_a_problem_of_a_message_and_an_error(section):
    part = section.child('eval_config')
    assert str(part.problem('', 'empty.')) == 'eval_config: empty.'
    error = part.error('num_examples', 'too many.')
    assert isinstance(error, errors.ConfigError)
    assert str(error) == 'eval_config.num_examples: too many.'
