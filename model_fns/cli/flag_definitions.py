"""Flags of the front door, and the modes that read them.

A flag is a field of `run_options.RunOptions`; `flags.ini` has its text and its values. Nothing here
imports TensorFlow, so that the front door shows its help and refuses bad flags at once.
"""

from __future__ import annotations

import configparser
import dataclasses
import functools
import pathlib
from typing import Any, Dict, Optional, Sequence, Tuple

from absl import flags

from estimator_lib import environment
from model_fns.cli.run_options import RunOptions

# absl's flags of help and logging, which existing job scripts pass.
_OF_HELP_AND_LOG = (
    ('help', False, 'Shows this.'),
    ('helpfull', False, 'The same as --help.'),
    ('helpshort', False, 'The same as --help.'),
    ('logtostderr', True, 'The log goes to standard error; it always does.'),
    ('alsologtostderr', True, 'The log goes to standard error; it always does.'),
)
_VERBOSITY = "What is logged: -2 errors, -1 warnings too, 0 progress too, 1 TensorFlow's lines too."

# The help lists the flags under the name of the program, not of this module.
flags.disclaim_key_flags()


@functools.cache
def _table() -> configparser.ConfigParser:
    table = configparser.ConfigParser(delimiters=['='], interpolation=None)
    table.read_string(pathlib.Path(__file__).with_name('flags.ini').read_text(encoding='utf-8'))
    return table


def choices(name: str) -> Tuple[str, ...]:
    """Return the values that a flag may have; empty: any."""
    if name == 'mode':
        return environment.MODES
    return tuple(_table()[name].get('choices', '').split())


def flag_modes() -> Dict[str, Optional[Sequence[str]]]:
    """Return the modes that read each flag, by its name; None: all modes."""
    modes = {name: _table()[name].get('modes', '').split() or None for name in _table().sections()}
    return {**modes, **dict.fromkeys((name for name, *_ in _OF_HELP_AND_LOG)), 'verbosity': None}


def define_flags() -> flags.FlagValues:
    """Define the flags of the front door, separate from those of other libraries."""
    values = flags.FlagValues()
    for field in dataclasses.fields(RunOptions):
        if field.name != 'model_dirs':
            _define(values, field, _table()[field.name])
    for name, default, text in _OF_HELP_AND_LOG:
        short = 'h' if name == 'help' else None
        flags.DEFINE_boolean(name, default, text, short_name=short, flag_values=values)
    flags.DEFINE_integer(
        'verbosity', 0, _VERBOSITY, lower_bound=-3, short_name='v', flag_values=values
    )
    return values


def _define(
    values: flags.FlagValues, field: dataclasses.Field, row: configparser.SectionProxy
) -> None:
    """Define the flag of an option."""
    name, kind, text = field.name, str(field.type), ' '.join(row['help'].split())
    default: Any = field.default
    more: Dict[str, Any] = {'flag_values': values}
    # The folders of runs that are compared are given one after the other.
    if 'Tuple' in kind or name == 'model_dir':
        flags.DEFINE_multi_string(name, default if default is None else list(default), text, **more)
    elif kind == 'bool':
        flags.DEFINE_boolean(name, default, text, **more)
    elif 'int' in kind:
        flags.DEFINE_integer(name, default, text, lower_bound=row.getint('least'), **more)
    elif 'float' in kind:
        flags.DEFINE_float(name, default, text, lower_bound=row.getfloat('least'), **more)
    elif choices(name):
        flags.DEFINE_enum(name, default, choices(name), text, **more)
    else:
        flags.DEFINE_string(name, default, text, **more)
    if 'modes' in row:
        values[name].help = f'[{", ".join(row["modes"].split())}] {values[name].help}'
