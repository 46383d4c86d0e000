"""The errors that are a user's to mend: one plain sentence each, exit status 2, no traceback."""

from __future__ import annotations

import difflib
from typing import Iterable, Sequence


class UserError(Exception):
    """What was given is wrong: a config, a flag, data, a checkpoint, a cluster description.

    The message says what is wrong, where, what was expected and the nearest valid thing. The front
    door prints it and exits with status 2.
    """


class ConfigError(UserError):
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
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    hint = f'; did you mean {near[0]!r}?' if near else '.'
    listed = known if len(known) <= 40 else near
    return hint + (f' Known: {", ".join(listed)}.' if listed else '')


def first_line(error: Exception) -> str:
    """What an error says in its first line; its type where it says nothing."""
    return (str(error) or type(error).__name__).splitlines()[0]


def shortened(names: Sequence[str], most: int = 8) -> str:
    """A list for a sentence: the first `most` names, and how many more there are."""
    rest = f' and {len(names) - most} more' if len(names) > most else ''
    return ', '.join(names[:most]) + rest
