"""Errors that a user can fix: one plain sentence each, exit status 2, no traceback."""

from __future__ import annotations

import difflib
import os
import re
from typing import Any, FrozenSet, Iterable, List, Optional, Sequence

# Texts in place of paths, in published configs and in those that a script has to complete.
PLACEHOLDER = 'PATH_TO_BE_CONFIGURED'  # of a folder in published configs
_PLACEHOLDERS = (PLACEHOLDER, '${')
_NAMED_PLACEHOLDER = re.compile(r"[^\s'\"]*(?:PATH_TO_BE_CONFIGURED|\$\{)[^\s'\"]*")
_DATASETS = re.compile(
    r'Error in user-defined function passed to \S+ transformation with iterator: \S+: '
)
_OUT_OF_MEMORY = re.compile(
    r'[^\n]*(OOM when|out of memory|bad_alloc|MemoryError|failed to allocate|unable to allocate)'
    r'((?!\[\[)[^\n])*',
    re.IGNORECASE,
)


class UserError(Exception):
    """Error in the user's input: a config, a flag, data, a checkpoint, a cluster description.

    The message names the problem, its place, the expected value and the nearest valid one. The
    front door prints it and exits with status 2.
    """


class ConfigError(UserError, ValueError):
    """Error in a pipeline config that does not parse, or cannot be used.

    Args:
        message: the message.
        problems: the single problems of a message that lists several.

    Attributes:
        problems: the problems, or the message as the only one.
    """

    def __init__(self, message: str, problems: Sequence[str] = ()):
        super().__init__(message)
        self.problems = tuple(problems) or (message,)


class DataError(UserError):
    """Error in records, images, labels or label maps."""


class CheckpointError(UserError):
    """Error for a checkpoint that does not exist, or does not fit the model."""


class ClusterError(UserError):
    """Error for a `TF_CONFIG` without a valid cluster, or a cluster that cannot be reached."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Build the end of an error message about an unknown name.

    Args:
        name: the unknown name.
        known: the valid names.

    Returns:
        `; did you mean 'x'?` with the nearest known name, followed by all known names; for a long
        list only the nearest ones.
    """
    known = sorted(known)
    listed = known if len(known) <= 40 else _alike(name, known)[:3]
    return nearest_hint(name, known) + (f' Known: {", ".join(listed)}.' if listed else '')


def nearest_hint(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` with the nearest known name, or a full stop."""
    near = nearest(name, known)
    return f'; did you mean {near!r}?' if near else '.'


def nearest(name: str, known: Iterable[str]) -> Optional[str]:
    """Return the known name that `name` probably stands for; None if none is similar."""
    return next(iter(_alike(name, known)), None)


def nearest_first(name: str, known: Iterable[str]) -> List[str]:
    """Sort the known names by their similarity to `name`, ignoring case."""
    return sorted(sorted(known), key=lambda other: -_likeness(name, other))


def _alike(name: str, known: Iterable[str]) -> List[str]:
    # 0.6 is the default cutoff of `difflib.get_close_matches`.
    return [other for other in nearest_first(name, known) if _likeness(name, other) >= 0.6]


def _likeness(name: str, other: str) -> float:
    return difflib.SequenceMatcher(None, name.lower(), other.lower()).ratio()


def first_line(error: Exception) -> str:
    """Return the first line of an error's message; its type if the message is empty."""
    return (str(error) or type(error).__name__).splitlines()[0]


def _without_datasets(message: str) -> str:
    """Leave out the datasets that an error passed, which TensorFlow 2.16 and later name first."""
    return _DATASETS.sub('', message)


def plain_message(error: Any) -> str:
    """Return the cause in the message of a `tf.errors.OpError`, without nodes and stack traces."""
    message = _without_datasets(error.message)
    lines = [line.strip() for line in message.split('\n') if line.strip()] or ['']
    # The lines before the cause are places. The cause names its node, or its node follows.
    causes = [line for line in lines if '[[{{node' in line and not line.startswith('[[')]
    nodes = [index for index, line in enumerate(lines) if index and line.startswith('[[{{node')]
    text = causes[0] if causes else lines[nodes[0] - 1 if nodes else -1]
    text = re.sub(r'\s*\[\[\{\{node.*', '', text)
    if text.startswith('assertion failed:'):
        text = text[len('assertion failed:') :].replace('[', '').replace(']', '').strip()
    return text[:300].rstrip('.')


def failure_reason(error: Any) -> str:
    """Return the cause of a `tf.errors.OpError` of any kind of session in one line.

    Messages of graphs begin with "Graph execution error:" and places, and name a node; others have
    their cause in the first line.
    """
    return plain_message(error) if '[[{{node' in error.message else first_line(error).rstrip('.')


def out_of_memory(error: Exception, cause: str) -> Optional[UserError]:
    """Convert an error about a lack of memory to a `UserError`; return None for any other.

    Args:
        error: an error of TensorFlow or Python. (`ResourceExhaustedError` may also be a full disk.)
        cause: the setting that takes the memory, and can be lowered.
    """
    text = _without_datasets(f'{type(error).__name__}: {error}')
    match = _OUT_OF_MEMORY.search(text)
    if match is None:
        return None
    what = match.group().strip()[:200]
    return UserError(f'out of memory ({what}); lower {cause}, or take a machine with more memory.')


def placeholder_problem(value: str) -> str:
    """Describe a path that is an unfilled placeholder; return '' for any other path."""
    if any(mark in value for mark in _PLACEHOLDERS):
        return f'{value!r} is a placeholder; expected a path of yours.'
    return ''


def placeholders(message: str) -> FrozenSet[str]:
    """Return the unfilled placeholders that a message names."""
    return frozenset(_NAMED_PLACEHOLDER.findall(message))


def refuse_placeholder(flag: str, value: Optional[str]) -> None:
    """Refuse a path that is an unfilled placeholder.

    Raises:
        UserError: the path is a placeholder; the message names the flag.
    """
    problem = placeholder_problem(value or '')
    if problem:
        raise UserError(f'{flag}: {problem}')


def shortened(names: Sequence[str], most: int = 8) -> str:
    """Join the first `most` names for a sentence, and say how many more there are."""
    rest = f' and {len(names) - most} more' if len(names) > most else ''
    return ', '.join(names[:most]) + rest


def relative_to(path: str) -> str:
    """Return the end of a message about a missing path: the working folder of a relative one.

    Example:
        `data/train.json` gives ` (in the working folder /home/me)`, `/data/train.json` nothing.
    """
    if os.path.isabs(path) or '://' in path:
        return ''
    try:
        return f' (in the working folder {os.getcwd()})'
    except OSError:  # it has been deleted
        return ''
