"""The errors that are a user's to mend: one plain sentence each, exit status 2, no traceback."""

from __future__ import annotations

import difflib
import re
from typing import Any, Iterable, List, Optional, Sequence

# What published configs, and those that a script is to fill, have in place of a path.
_PLACEHOLDERS = ('PATH_TO_BE_CONFIGURED', '${')
_OUT_OF_MEMORY = re.compile(
    r'[^\n]*(OOM when|out of memory|bad_alloc|MemoryError|failed to allocate|unable to allocate)'
    r'((?!\[\[)[^\n])*',
    re.IGNORECASE,
)


class UserError(Exception):
    """What was given is wrong: a config, a flag, data, a checkpoint, a cluster description.

    The message says what is wrong, where, what was expected and the nearest valid thing. The front
    door prints it and exits with status 2.
    """


class ConfigError(UserError, ValueError):
    """A pipeline config that does not parse, or asks for what is not there."""


class DataError(UserError):
    """Records, images, labels or label maps that cannot be used as they are."""


class CheckpointError(UserError):
    """A checkpoint that does not exist, or does not fit the model."""


class ClusterError(UserError):
    """A `TF_CONFIG` that does not describe a cluster, or a cluster that cannot be reached."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of an error message about an unknown name.

    Args:
        name: what was given.
        known: the valid names.

    Returns:
        `; did you mean 'x'?` with the nearest known name, followed by all known names; for a long
        list only the nearest ones.
    """
    known = sorted(known)
    listed = known if len(known) <= 40 else _alike(name, known)[:3]
    return nearest_hint(name, known) + (f' Known: {", ".join(listed)}.' if listed else '')


def nearest_hint(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` with the nearest known name, or a full stop."""
    near = nearest(name, known)
    return f'; did you mean {near!r}?' if near else '.'


def nearest(name: str, known: Iterable[str]) -> Optional[str]:
    """The known name that `name` probably stands for; None where none is like it."""
    return next(iter(_alike(name, known)), None)


def nearest_first(name: str, known: Iterable[str]) -> List[str]:
    """The known names, the ones most like `name` first, whatever the case of their letters."""
    return sorted(sorted(known), key=lambda other: -_likeness(name, other))


def _alike(name: str, known: Iterable[str]) -> List[str]:
    return [other for other in nearest_first(name, known) if _likeness(name, other) >= 0.6]


def _likeness(name: str, other: str) -> float:
    return difflib.SequenceMatcher(None, name.lower(), other.lower()).ratio()


def first_line(error: Exception) -> str:
    """What an error says in its first line; its type where it says nothing."""
    return (str(error) or type(error).__name__).splitlines()[0]


def plain_message(error: Any) -> str:
    """Returns the cause in the message of a `tf.errors.OpError`, without nodes and stack traces."""
    lines = [line.strip() for line in error.message.split('\n') if line.strip()] or ['']
    # The cause comes last, and names its node, or its node follows; what precedes are places.
    causes = [line for line in lines if '[[{{node' in line and not line.startswith('[[')]
    nodes = [index for index, line in enumerate(lines) if index and line.startswith('[[{{node')]
    text = causes[0] if causes else lines[nodes[0] - 1 if nodes else -1]
    text = re.sub(r'\s*\[\[\{\{node.*', '', text)
    if text.startswith('assertion failed:'):
        text = text[len('assertion failed:') :].replace('[', '').replace(']', '').strip()
    return text[:300].rstrip('.')


def out_of_memory(error: Exception, cause: str) -> Optional[UserError]:
    """What to raise in place of an error which says that memory ran out; None for any other.

    Args:
        error: of TensorFlow (a full disk is a `ResourceExhaustedError` as well) or Python.
        cause: what takes the memory, and can be less.
    """
    found = _OUT_OF_MEMORY.search(f'{type(error).__name__}: {error}')
    if found is None:
        return None
    what = found.group().strip()[:200]
    return UserError(f'out of memory ({what}); lower {cause}, or take a machine with more memory.')


def placeholder_problem(value: str) -> str:
    """What is wrong with a path that somebody, or a script, was to fill in; empty for any other."""
    if any(mark in value for mark in _PLACEHOLDERS):
        return f'{value!r} is a placeholder; expected a path of yours.'
    return ''


def refuse_placeholder(flag: str, value: Optional[str]) -> None:
    """Refuses such a path.

    Raises:
        UserError: it is one; the message names the flag.
    """
    problem = placeholder_problem(value or '')
    if problem:
        raise UserError(f'{flag}: {problem}')


def shortened(names: Sequence[str], most: int = 8) -> str:
    """A list for a sentence: the first `most` names, and how many more there are."""
    rest = f' and {len(names) - most} more' if len(names) > most else ''
    return ', '.join(names[:most]) + rest
