"""Options of a run, and the flags that they are made of."""

import dataclasses
import typing

import pytest

import run_train_eval
from model_fns.cli import flag_definitions, flag_parsing
from model_fns.cli.run_options import RunOptions

# Flags that `run_train_eval.py` obeys itself.
OF_HELP_AND_LOG = {
    'help', 'helpfull', 'helpshort', 'logtostderr', 'alsologtostderr', 'verbosity'
}  # fmt: skip


def options_of(*arguments):
    return run_train_eval.run_options(flag_parsing.parse_flags(['run_train_eval.py', *arguments]))


def test_every_flag_that_a_mode_reads_is_an_option():
    names = {field.name for field in dataclasses.fields(RunOptions)} - {'model_dirs'}
    assert names == set(flag_definitions.flag_modes()) - OF_HELP_AND_LOG


def test_the_last_model_dir_counts_and_all_are_kept_for_comparisons():
    options = options_of('--model_dir=a', '--model_dir=b')
    assert (options.model_dir, options.model_dirs) == ('b', ('a', 'b'))
    assert options_of().model_dir is None and options_of().model_dirs == ()


def test_the_defaults_are_those_of_the_flags():
    assert options_of() == RunOptions()


def test_values_have_the_types_of_their_options():
    options = options_of(
        '--mode=predict', '--model_dir=a', '--set=a=1', '--set=b=2', '--score_threshold=0.25',
        '--tile=64', '--raw',
    )  # fmt: skip
    assert options == RunOptions(
        mode='predict', model_dir='a', model_dirs=('a',), set=('a=1', 'b=2'), score_threshold=0.25,
        tile=64, raw=True,
    )  # fmt: skip
    types = typing.get_type_hints(RunOptions)
    for name in ('mode', 'model_dir', 'score_threshold', 'tile', 'raw', 'overlap'):
        expected = typing.get_args(types[name]) or (types[name],)
        assert type(getattr(options, name)) in expected, name


def test_options_of_an_int8_file():
    given = '--keep_float=net/a;b', '--keep_float=c', '--max_loss=0'
    options = options_of('--mode=export', *given)
    assert options.keep_float == ('net/a;b', 'c') and options.max_loss == 0.0
    assert not options.has_default('max_loss') and not options.has_default('keep_float')


def test_options_do_not_change():
    options = RunOptions(mode='train')
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.mode = 'evaluate'
    assert hash(options) == hash(RunOptions(mode='train'))


def test_a_default_is_told_from_another_value():
    options = RunOptions(eval_timeout=7, quantize='none')
    assert options.has_default('max_eval_retries') and options.has_default('set')
    assert not options.has_default('eval_timeout') and not options.has_default('quantize')


def test_an_empty_option_asks_for_nothing():
    options = options_of('--mode=export', '--format=tflite', '--signature_name=', '--model_dir=')
    assert options.has_default('signature_name')
    assert options.has_default('model_dir')
    assert not options.has_default('format')
    assert not RunOptions(warmup_requests=3).has_default('warmup_requests')
