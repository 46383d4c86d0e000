"""Which variables patterns and scopes choose, and what they say."""

import logging

import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.optimization import trained_variables

NAMES = {
    'Net/conv1/weights': [3, 3],
    'Net/conv1/biases': [3],
    'Net/conv2/weights': [10],
    'Head/logits/weights': [2, 100],
    'HeadTwo/weights': [1],
}


@pytest.fixture(scope='module')
def variables():
    with tf.Graph().as_default():
        return [tf.compat.v1.get_variable(name, shape) for name, shape in NAMES.items()]


def names(variables):
    return [variable.op.name for variable in variables]


def test_everything_by_default(variables, caplog):
    with caplog.at_level(logging.INFO, 'estimator_lib'):
        assert names(trained_variables.select(variables)) == list(NAMES)
    assert caplog.messages == ['parameters: 223 in 5 variables, all trained']


def test_the_parts_of_a_variable_count_as_one(caplog):
    with tf.Graph().as_default(), caplog.at_level(logging.INFO, 'estimator_lib'):
        partitioner = tf.compat.v1.fixed_size_partitioner(2)
        parts = list(tf.compat.v1.get_variable('weights', [4, 3], partitioner=partitioner))
        assert trained_variables.select(parts) == parts
    assert len(parts) == 2
    assert caplog.messages == ['parameters: 12 in 1 variables, all trained']


def test_freeze(variables):
    selected = trained_variables.select(variables, freeze_patterns=['Net/.*/weights', 'HeadTwo'])
    assert names(selected) == ['Net/conv1/biases', 'Head/logits/weights']


def test_update(variables):
    selected = trained_variables.select(variables, update_patterns=['.*biases', 'Head/'])
    assert names(selected) == ['Net/conv1/biases', 'Head/logits/weights']


def test_scopes_are_beginnings_not_patterns(variables):
    selected = trained_variables.select(variables, trainable_scopes=['Head'])
    assert names(selected) == ['Head/logits/weights', 'HeadTwo/weights']
    with pytest.raises(errors.ConfigError, match='trainable_scopes'):
        trained_variables.select(variables, trainable_scopes=['Ne.'])


def test_all_three_together(variables):
    selected = trained_variables.select(
        variables,
        trainable_scopes=['Net'],
        update_patterns=['.*conv1', '.*Head'],
        freeze_patterns=['.*/biases'],
    )
    assert names(selected) == ['Net/conv1/weights']


def test_everything_may_be_frozen(variables, caplog):
    assert trained_variables.select(variables, freeze_patterns=['.*']) == []
    assert 'No variable is trained' in caplog.text


def test_log_counts_variables_and_parameters(variables, caplog):
    with caplog.at_level(logging.INFO, 'estimator_lib'):
        trained_variables.select(variables, freeze_patterns=['Net/conv1', 'Head/'])
    rows = [line.split() for line in caplog.messages[0].splitlines()[1:]]
    assert rows == [
        ['freeze_variables', "'Net/conv1'", '2', '12'],
        ['freeze_variables', "'Head/'", '1', '200'],
        ['all', '5', '223'],
        ['trained', '2', '11'],
    ]


def test_a_pattern_that_matches_nothing_names_the_nearest(variables):
    with pytest.raises(errors.ConfigError) as caught:
        trained_variables.select(variables, freeze_patterns=['Net/conv1', 'Net/convl/weight'])
    message = str(caught.value)
    assert "freeze_variables: 'Net/convl/weight' matches none of 5 variables" in message
    assert "'Net/conv1/weights'" in message


def test_a_pattern_is_found_anywhere_in_a_name(variables):
    trained = trained_variables.select(variables, update_patterns=['conv1'])
    assert len(trained) == 2
    assert all('conv1' in variable.name for variable in trained)
    assert not any(variable.name.startswith('conv1') for variable in trained)


def test_a_pattern_far_from_every_name_lists_where_names_begin(variables):
    with pytest.raises(errors.ConfigError, match="'Head', 'HeadTwo', 'Net'"):
        trained_variables.select(variables, freeze_patterns=['qqqqqqqqqq'])


def test_a_pattern_that_does_not_compile(variables):
    with pytest.raises(errors.ConfigError, match=r"'\(' is no regular expression"):
        trained_variables.select(variables, freeze_patterns=['('])
