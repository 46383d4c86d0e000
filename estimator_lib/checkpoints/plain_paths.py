"""Paths without glob characters, which TensorFlow needs for checkpoints.

TensorFlow reads the path of a checkpoint as a glob pattern, both when it searches for files and
when it deletes an old checkpoint. It would find nothing in a folder `run[1]`, and a run in `run*`
would delete the checkpoints of `run2`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile

from estimator_lib import errors

_OF_PATTERNS = re.compile(r'[*?\[\]\\]')


def plain_path(path: str, create: bool = False) -> str:
    """Return a path to the same place without glob characters, valid on this machine.

    Args:
        path: the path of a folder, or of a file in one. Double slashes are removed. If the name of
            a folder has a glob character, a symbolic link replaces the path of that folder. The
            link is in the folder for temporary files, and is the same in all processes of a user.
        create: whether to create such a folder if it does not exist.
    """
    # No link can stand for a folder of a remote file system.
    if '://' in path or not path:
        return path
    path = os.path.normpath(path)
    parts = path.split(os.sep)
    count = max((n for n, part in enumerate(parts, 1) if _OF_PATTERNS.search(part)), default=0)
    folder = os.sep.join(parts[:count])
    if create and folder:
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError:  # The code that writes to the folder reports it.
            return path
    return os.path.join(_make_link(folder), *parts[count:]) if os.path.isdir(folder) else path


def _make_link(folder: str) -> str:
    target = os.path.realpath(folder)
    links = os.path.join(tempfile.gettempdir(), f'model_dirs-{os.getuid()}')
    os.makedirs(links, mode=0o700, exist_ok=True)
    # Do not trust links of another user: they could lead anywhere.
    if os.path.islink(links) or os.stat(links).st_uid != os.getuid():
        raise errors.UserError(
            f'{folder}: its name has characters of patterns, and a link without them cannot be in '
            f'{links}, which belongs to another user; expected: another name, or another TMPDIR.'
        )
    # The name is for people; the hash of the real path tells two folders of one name apart.
    name = _OF_PATTERNS.sub('_', os.path.basename(target))
    link = os.path.join(links, f'{name}-{hashlib.sha256(target.encode()).hexdigest()[:16]}')
    with contextlib.suppress(FileExistsError):
        os.symlink(target, link)
    return link
