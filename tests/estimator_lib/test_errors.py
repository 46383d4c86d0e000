import pytest

from estimator_lib import errors


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


def test_shortened():
    assert errors.shortened([]) == ''
    assert errors.shortened(['a', 'b'], most=2) == 'a, b'
    assert errors.shortened(['a', 'b', 'c', 'd'], most=2) == 'a, b and 2 more'
    assert errors.shortened([str(i) for i in range(9)]) == '0, 1, 2, 3, 4, 5, 6, 7 and 1 more'


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
