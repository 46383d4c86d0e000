from __future__ import annotations

import collections

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from estimator_lib.checkpoints import restore_report

tf1 = tf.compat.v1

Fake = collections.namedtuple('Fake', ['name', 'shape'])


def fake(name, *shape):
    return Fake(name + ':0', tf.TensorShape(shape))


def names(entries):
    return [entry.name for entry in entries]


def test_match_puts_each_variable_in_its_group():
    wanted = {
        'old/a': fake('a', 2, 3),
        'b': fake('b', 4),
        'c': fake('c', 5),
        'd': fake('d', 1),
    }
    shapes = {'old/a': [2, 3], 'b': [7], 'd': [1], 'e': [10], 'e/Momentum': [10], 'global_step': []}
    report = restore_report.match(shapes, wanted, 'model.ckpt', lambda name: name == 'd')
    assert names(report.loaded) == ['a']
    assert report.loaded[0].checkpoint_name == 'old/a'
    assert report.loaded[0].parameters == 6
    assert names(report.mismatched) == ['b']
    assert report.mismatched[0].checkpoint_shape == (7,)
    assert names(report.missing) == ['c']
    assert names(report.excluded) == ['d']
    assert names(report.unused) == ['e']
    assert not report.is_complete


def test_an_excluded_variable_is_not_held_against_the_checkpoint():
    report = restore_report.match({}, {'a': fake('a', 1)}, excluded=lambda name: True)
    assert report.is_complete
    assert names(report.excluded) == ['a']


@given(
    st.dictionaries(st.sampled_from('abcdefgh'), st.integers(1, 2)),
    st.dictionaries(st.sampled_from('abcdefgh'), st.integers(1, 2)),
    st.sets(st.sampled_from('abcdefgh')),
)
def test_each_wanted_variable_is_in_exactly_one_group(in_model, in_checkpoint, excluded):
    report = restore_report.match(
        {name: [size] for name, size in in_checkpoint.items()},
        {name: fake(name, size) for name, size in in_model.items()},
        excluded=excluded.__contains__,
    )
    groups = [report.loaded, report.missing, report.mismatched, report.excluded]
    assert sorted(name for group in groups for name in names(group)) == sorted(in_model)
    assert set(names(report.unused)) == set(in_checkpoint) - set(in_model)
    for name in names(report.loaded):
        assert in_model[name] == in_checkpoint[name] and name not in excluded


@pytest.mark.parametrize(
    'name',
    [
        'global_step',
        'beta1_power',
        'Conv/weights/Momentum',
        'Conv/weights/Adam_1',
        'OptimizeLoss/Conv/weights/RMSProp',
        'Conv/weights/ExponentialMovingAverage',
    ],
)
def test_what_a_run_keeps_is_told_from_the_model(name):
    assert restore_report.is_of_the_run(name)


@pytest.mark.parametrize('name', ['Conv/weights', 'Adam/weights', 'Momentum', 'BatchNorm/beta'])
def test_variables_of_a_model_are_of_the_model(name):
    assert not restore_report.is_of_the_run(name)


def test_a_slot_of_an_unknown_optimizer_is_told_by_its_place():
    assert restore_report.is_of_the_run('Conv/weights/Lion', {'Conv/weights'})
    assert not restore_report.is_of_the_run('Conv/weights/Lion', {'Conv'})


def test_the_table_has_totals_and_aligned_names():
    wanted = {
        'Net/conv/weights': fake('Net/conv/weights', 3, 3, 3, 32),
        'Net/Logits/weights': fake('Net/Logits/weights', 1, 1, 32, 5),
        'Net/Logits/biases': fake('Net/Logits/biases', 5),
    }
    shapes = {
        'Net/conv/weights': [3, 3, 3, 32],
        'Net/Logits/weights': [1, 1, 32, 1001],
        'Net/Logits/biases': [1001],
    }
    table = restore_report.match(shapes, wanted, '/x/model.ckpt').table()
    assert table.splitlines() == [
        'Restore from /x/model.ckpt',
        '                             variables  parameters',
        '  loaded                             1         864',
        '  missing in the checkpoint          0           0',
        '  of another shape                   2         165',
        '  excluded                           0           0',
        '  unused in the checkpoint           0           0',
        'of another shape (2 variables, 165 parameters):',
        '  Net/Logits/weights  model [1, 1, 32, 5]  checkpoint [1, 1, 32, 1001]',
        '  Net/Logits/biases   model [5]            checkpoint [1001]',
    ]


def test_a_long_group_is_cut():
    wanted = {f'v{index:02}': fake(f'v{index:02}', 2) for index in range(25)}
    lines = restore_report.match({}, wanted).table(max_rows=20).splitlines()
    assert lines[-1] == '  +5 more'
    assert lines[-2].split() == ['v19', '[2]']
    assert 'missing in the checkpoint (25 variables, 50 parameters):' in lines


def test_the_table_says_by_which_name_a_variable_was_looked_for():
    report = restore_report.match({}, {'outer/a': fake('a', 1)})
    assert 'a (as outer/a)' in report.table()


def test_differences_part_the_model_from_the_run():
    shapes = {'a': [1], 'a/Adam': [1], 'b': [2], 'c': [3], 'global_step': []}
    wanted = {
        'a': fake('a', 1),
        'a/Momentum': fake('a/Momentum', 1),
        'c': fake('c', 4),
        'd': fake('d', 1),
        'global_step': fake('global_step'),
    }
    of_model, of_run = restore_report.differences(shapes, wanted)
    assert names(of_model.missing) == ['d']
    assert names(of_model.unused) == ['b']
    assert names(of_model.mismatched) == ['c']
    assert names(of_run.missing) == ['a/Momentum']
    assert names(of_run.unused) == ['a/Adam']
    assert not of_run.mismatched
    assert 'missing in the checkpoint (1 variables, 1 parameters):' in of_model.sections()


def test_equal_variables_do_not_differ():
    of_model, of_run = restore_report.differences({'a': [1]}, {'a': fake('a', 1)})
    for report in (of_model, of_run):
        assert report.is_complete and not report.unused
        assert report.sections() == ''


@pytest.mark.parametrize(
    ('wanted', 'found', 'expected'),
    [
        (['Net/a/w', 'Net/b/w'], ['X/Net/a/w', 'X/Net/b/w', 'q/r'], ('', 'X/', 2)),
        (['X/Net/a/w'], ['Net/a/w'], ('X/', '', 1)),
        (['X/Net/a/w', 'X/Net/b/w'], ['Y/Net/a/w', 'Y/Net/b/w'], ('X/', 'Y/', 2)),
        (['a/w'], ['b/v'], None),
        (['w'], ['w2'], None),
        ([], [], None),
    ],
)
def test_common_prefixes(wanted, found, expected):
    assert restore_report.common_prefixes(wanted, found) == expected
