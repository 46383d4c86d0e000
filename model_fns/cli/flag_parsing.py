"""Parsing of the front door's command line, and its refusals.

It imports no TensorFlow, so that the front door refuses bad flags at once.
"""

from __future__ import annotations

import re
from typing import Mapping, Sequence

from absl import flags

from estimator_lib import errors
from model_fns.cli import flag_definitions, legacy_flags
from model_fns.cli.run_options import RunOptions

# Replacements for flags that a mode does not read.
_INSTEAD = {
    'checkpoint_path': 'training starts from it with --set train_config.fine_tune_checkpoint={}',
}


def parse_flags(arguments: Sequence[str]) -> flags.FlagValues:
    """Parse the flags of a command line.

    Raises:
        errors.UserError: an unknown flag, a value of the wrong kind, an argument that is not a
            flag, or a flag that the mode does not read.
    """
    values = flag_definitions.define_flags()
    try:
        rest = values(list(arguments))[1:]
    except flags.Error as error:
        answer = legacy_flags.answer(arguments[1:], _own_flags(arguments))
        raise errors.UserError(answer or _unusable(error)) from None
    if rest:
        raise errors.UserError(f'{rest[0]!r} is not a flag; flags are written --name=value.')
    for name in ('logtostderr', 'alsologtostderr'):
        if not values[name].value:
            raise errors.UserError(
                f'--no{name}: the log goes to standard error; to have it in a file: 2> FILE.'
            )
    _refuse_flags_of_other_modes(values)
    return values


def _own_flags(arguments: Sequence[str]) -> Mapping[str, bool]:
    """Return whether the mode of a command line that cannot be parsed reads each flag, by name."""
    given = re.findall(r'^--?mode[=\n](.*)$', '\n'.join(arguments), re.MULTILINE)
    mode = given[-1] if given else RunOptions.mode
    modes = flag_definitions.flag_modes()
    return {name: read_by is None or mode in read_by for name, read_by in modes.items()}


def _refuse_flags_of_other_modes(values: flags.FlagValues) -> None:
    for name, modes in flag_definitions.flag_modes().items():
        if modes is None or values.mode in modes or not _is_set(values[name]):
            continue
        value = values[name].value
        # Flags of benchmarks mean the same in training, where other programs have them.
        instead = _INSTEAD.get(name, '').format(value) or legacy_flags.replacement(name, str(value))
        raise errors.UserError(
            f'--{name} is not read by --mode={values.mode}; expected --mode={" or ".join(modes)}'
            + (f'; {instead}' if instead else '.')
        )


def _is_set(flag: flags.Flag) -> bool:
    """Return whether a flag is present, without turning it off (`--run_once=false`)."""
    is_off = flag.value == '' or (not flag.value and flag.value == flag.default)
    return bool(flag.present) and not is_off


def _unusable(error: flags.Error) -> str:
    text = ' '.join(str(error).split())
    # The words of Python's `int` tell a user nothing.
    text = re.sub(r'invalid literal for int\(\).*', 'expected a whole number', text)
    return f'{text} (--help lists the flags)'
