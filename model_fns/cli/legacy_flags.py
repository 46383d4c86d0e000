"""Replacements for the flags of other trainers.

A job script of the TF1 Object Detection API, of TF-Slim's image classification or of DeepLab gets
one line with the replacement for each of its flags. The replacements are in `legacy_flags.ini`.
"""

from __future__ import annotations

import configparser
import functools
import pathlib
import types
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

_TITLE = 'flags of another program; expected instead:'
_FILE = pathlib.Path(__file__).with_suffix('.ini')
# Flags of this program too, which takes a name there: anything else is of another program.
_NUMBERS = {'task'}
_NONE: Mapping[str, bool] = types.MappingProxyType({})


class Replacements(NamedTuple):
    """Replacements by the names of the flags.

    Attributes:
        flags: flags of this program that mean the same.
        fields: fields of the config that mean the same, separated by blanks; `[]` ends a repeated
            one.
        values: by value, values of fields that have another name here.
        sentences: of other replacements.
    """

    flags: Mapping[str, str]
    fields: Mapping[str, str]
    values: Mapping[str, Mapping[str, str]]
    sentences: Mapping[str, str]

    def names(self) -> Set[str]:
        """Return the names of all flags of other programs."""
        return {*self.flags, *self.fields, *self.sentences}


@functools.cache
def replacements() -> Replacements:
    """Read the file of replacements."""
    parser = configparser.ConfigParser(
        delimiters=['='], interpolation=configparser.ExtendedInterpolation()
    )
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(_FILE.read_text(encoding='utf-8'))
    flags, fields, values, sentences = (
        {name: text for names, text in _texts(parser[section]) for name in names.split(', ')}
        for section in ('flags', 'fields', 'values', 'sentences')
    )
    pairs = {name: dict(pair.split(':') for pair in text.split()) for name, text in values.items()}
    return Replacements(flags, fields, pairs, sentences)


def _texts(section: Mapping[str, str]) -> List[Tuple[str, str]]:
    """Return the texts of a section, each in one line; `_` begins the names of parts of texts."""
    return [
        (names, ' '.join(text.split()))
        for names, text in section.items()
        if not names.startswith('_')
    ]


def answer(arguments: Sequence[str], own: Mapping[str, bool] = _NONE) -> Optional[str]:
    """Return the replacements for the flags of other trainers.

    Args:
        arguments: the command line, without the program.
        own: the flags of this program, and whether its mode reads them.

    Returns:
        A line for each such flag that the mode does not read; None where all are of this program.
    """
    answers: Dict[str, str] = {}
    is_of_another = False
    for flag, name, value in _flags(arguments):
        is_foreign = name in _NUMBERS or name not in own
        is_of_another |= is_foreign
        if is_foreign or not own[name]:
            answers.setdefault(name, f'  {flag}: {_replacement(name, value)}')
    return '\n'.join([_TITLE, *answers.values()]) if is_of_another else None


def replacement(name: str, value: str) -> str:
    """Return the replacement for a flag with a value; empty where it is of no other program."""
    return _replacement(name, value) if name in replacements().names() else ''


def _flags(arguments: Sequence[str]) -> List[Tuple[str, str, str]]:
    """Find the flags of other programs on a command line: (as written, name, value or empty)."""
    flags, known = [], replacements().names()
    for place, argument in enumerate(arguments):
        if argument == '--':
            break
        if not argument.startswith('-'):
            continue
        name, _, value = argument.lstrip('-').partition('=')
        following = arguments[place + 1] if place + 1 < len(arguments) else '-'
        if '=' not in argument and not following.startswith('-'):
            value = following
        if name not in known and name.startswith('no') and name[2:] in known:
            name, value = name[2:], 'false'
        if name in known and (name not in _NUMBERS or value == 'false' or not value.isalpha()):
            flags.append((argument, name, value))
    return flags


def _replacement(name: str, value: str) -> str:
    """Return the replacement for a flag, with its value if it has one."""
    table = replacements()
    if name in table.sentences:
        return table.sentences[name]
    if name in table.flags:
        return f'{table.flags[name]}={value or "..."}'
    fields = table.fields[name].split()
    value = table.values.get(name, {}).get(value, value)
    if len(fields) > 1 or fields[0].endswith('[]'):
        value = ''
    settings = [
        f'--set {field[:-2]}=[...]' if field.endswith('[]') else f'--set {field}={value or "..."}'
        for field in fields
    ]
    return f'{" ".join(settings)} (or the same in the config)'
