"""Names in folders, also where a stranger's file has a name that is not UTF-8."""

from __future__ import annotations

import os
import re
from typing import List, Optional

import tensorflow as tf

from estimator_lib import errors


def list_names(folder: str) -> List[str]:
    """List the names in a folder; empty if there is none.

    `tf.io.gfile.listdir` fails where one name is not UTF-8. Such a file is none of a run, and is
    left out.
    """
    if not tf.io.gfile.isdir(folder or '.'):
        return []
    if '://' in folder:
        # Object stores list folders with a slash at the end.
        return [name.rstrip('/') for name in tf.io.gfile.listdir(folder)]
    return [name for name in os.listdir(folder or '.') if is_text(name)]


def match(pattern: str) -> List[str]:
    """List the paths that a pattern matches, sorted.

    Raises:
        errors.DataError: the name of a match is not UTF-8.
    """
    try:
        return sorted(tf.io.gfile.glob(pattern))
    except UnicodeDecodeError as error:
        raise errors.DataError(
            f'{pattern}: the name {error.object!r:.200} is not UTF-8; expected characters: rename '
            'the file.'
        ) from None


def cache_folder(name: str) -> str:
    """Return the folder of a user for files that can be made or loaded again.

    Args:
        name: of the part of the project.

    Raises:
        errors.UserError: the user has no home, as in a container with a number for a user.
    """
    cache: Optional[str] = os.environ.get('XDG_CACHE_HOME')
    home = os.path.expanduser('~')
    if not cache and not os.path.isabs(home):
        raise errors.UserError(
            f'the user of this process has no home folder (~ is {home!r}); set the environment '
            'variable XDG_CACHE_HOME to a folder that can be written to.'
        )
    return os.path.join(cache or os.path.join(home, '.cache'), name)


def is_text(name: str) -> bool:
    """Return whether a name is UTF-8; Python has other bytes as surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_file_name(text: str) -> str:
    """Return a text as a name of a file on any system: `a/b` is `a_b`, and never empty."""
    name = re.sub(r'[\x00-\x1f<>:"/\\|?*]', '_', text).strip(' .')
    return name or '_'
