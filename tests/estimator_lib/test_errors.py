"""Errors that are a user's to mend, and the names that they suggest."""

import pytest
import tensorflow as tf

from estimator_lib import errors

KNOWN = ['batch_size', 'num_steps', 'optimizer']


def test_an_error_of_a_config_is_a_value_error():
    with pytest.raises(ValueError, match='^x$'):
        raise errors.ConfigError('x')
    assert issubclass(errors.ConfigError, errors.UserError)


def test_nearest_names():
    assert errors.nearest_first('Batchsize', KNOWN)[0] == 'batch_size'
    assert errors.nearest('OPTIMZER', KNOWN) == 'optimizer'
    assert errors.nearest('xyz', KNOWN) is None
    assert errors.nearest('x', []) is None


def test_ends_of_sentences():
    assert errors.nearest_hint('Num_Step', KNOWN) == "; did you mean 'num_steps'?"
    assert errors.nearest_hint('xyz', KNOWN) == '.'
    expected = "; did you mean 'num_steps'? Known: batch_size, num_steps, optimizer."
    assert errors.did_you_mean('num_step', reversed(KNOWN)) == expected
    assert errors.did_you_mean('x', []) == '.'


def test_of_a_long_list_only_the_nearest_are_listed():
    known = [f'part_{index}' for index in range(41)]
    assert errors.did_you_mean('part_7', known) == (
        "; did you mean 'part_7'? Known: part_7, part_17, part_27."
    )
    assert errors.did_you_mean('xyz', known) == '.'


@pytest.mark.parametrize(
    'error, line',
    [
        (ValueError('one\ntwo'), 'one'),
        (ValueError(''), 'ValueError'),
        (KeyError('name'), "'name'"),
    ],
)
def test_first_line(error, line):
    assert errors.first_line(error) == line


@pytest.mark.parametrize(
    'error, what',
    [
        (
            ValueError('a\nOOM when allocating tensor [[{{node x}}]]\nb'),
            'OOM when allocating tensor',
        ),
        (
            RuntimeError(
                'Error in user-defined function passed to MapDataset:7 transformation with '
                'iterator: Root::Map: OOM when allocating tensor'
            ),
            'RuntimeError: OOM when allocating tensor',
        ),
        (MemoryError('Unable to allocate 5 TiB'), 'MemoryError: Unable to allocate 5 TiB'),
        (RuntimeError('std::bad_alloc'), 'RuntimeError: std::bad_alloc'),
    ],
)
def test_out_of_memory_says_what_was_wanted_and_what_to_lower(error, what):
    message = str(errors.out_of_memory(error, 'batch_size'))
    assert message == (
        f'out of memory ({what}); lower batch_size, or take a machine with more memory.'
    )


@pytest.mark.parametrize('text', ['No space left on device', 'quota exceeded', ''])
def test_other_resources_are_no_memory(text):
    assert errors.out_of_memory(OSError(text), 'batch_size') is None


def test_shortened():
    assert errors.shortened([]) == ''
    assert errors.shortened(['a', 'b'], most=2) == 'a, b'
    assert errors.shortened(['a', 'b', 'c', 'd'], most=2) == 'a, b and 2 more'
    assert errors.shortened([str(i) for i in range(9)]) == '0, 1, 2, 3, 4, 5, 6, 7 and 1 more'


@pytest.mark.parametrize('value', ['gs://${BUCKET}/run', 'PATH_TO_BE_CONFIGURED/a.record'])
def test_paths_that_nobody_filled_in_are_refused(value):
    with pytest.raises(errors.UserError, match='^--model_dir: .* is a placeholder; expected a pa'):
        errors.refuse_placeholder('--model_dir', value)


def test_other_paths_are_none():
    for value in (None, '', 'gs://bucket/$run', 'a{b}'):
        errors.refuse_placeholder('--model_dir', value)


def test_did_you_mean_gives_the_nearest_and_all_that_are_known():
    assert (
        errors.did_you_mean('batchsize', ['seed', 'batch_size'])
        == "; did you mean 'batch_size'? Known: batch_size, seed."
    )
    assert errors.did_you_mean('zzz', ['b', 'a']) == '. Known: a, b.'


def test_did_you_mean_does_not_list_many():
    many = [f'name{index}' for index in range(41)]
    assert errors.did_you_mean('zzz', many) == '.'
    assert errors.did_you_mean('nam', ['name', *many]).startswith(
        "; did you mean 'name'? Known: na"
    )


@pytest.mark.parametrize(
    'kind', [errors.ConfigError, errors.DataError, errors.CheckpointError, errors.ClusterError]
)
def test_all_are_for_the_user(kind):
    assert issubclass(kind, errors.UserError)


@pytest.mark.parametrize(
    'passed',
    [
        '',
        'Error in user-defined function passed to ParallelMapDatasetV2:59 transformation with '
        'iterator: Iterator::Root::Prefetch::ParallelMapV2: ',
    ],
    ids=['2.15', 'later'],
)
def test_the_cause_of_an_error_in_a_dataset(passed):
    message = (
        f'{passed}assertion failed: [id is] [999]\n\t [[{{{{node Assert}}}}]] [Op:IteratorGetNext]'
    )
    error = tf.errors.InvalidArgumentError(None, None, message)
    assert errors.plain_message(error) == 'id is 999'
    twice = tf.errors.InvalidArgumentError(None, None, passed + message)
    assert errors.plain_message(twice) == 'id is 999'


@pytest.mark.parametrize(
    'message, reason',
    [
        ('too dark\nand more', 'too dark'),
        (
            "Graph execution error:\n\nDetected at node 'PyFunc' defined at:\n  File a\n"
            "Node: 'PyFunc'\nValueError: 3 sides.\n\n\t [[{{node PyFunc}}]]\n",
            'ValueError: 3 sides',
        ),
    ],
)
def test_the_reason_of_a_graph_that_fails(message, reason):
    assert errors.failure_reason(tf.errors.UnknownError(None, None, message)) == reason
