"""Paths without the characters of patterns, as TensorFlow needs them for checkpoints.

TensorFlow takes the path of a checkpoint for a pattern, both when it looks for its files and when
it deletes an old one: it finds nothing in a folder `run[1]`, and a run in `run*` would delete the
checkpoints of `run2`.
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
    """Another path to the same place, of this machine, that TensorFlow takes as it is.

    Args:
        path: of a folder, or of something in one. Double slashes are taken out; where a folder's
            name has a character of patterns, a link to that folder takes its place, which is in the
            folder for temporary files and the same in each process of a user.
        create: whether to make such a folder when it is not there.
    """
    if '://' in path or not path:
        return path
    path = os.path.normpath(path)
    parts = path.split(os.sep)
    count = max((n for n, part in enumerate(parts, 1) if _OF_PATTERNS.search(part)), default=0)
    folder = os.sep.join(parts[:count])
    if create and folder:
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError:  # which is reported where it is written to
            return path
    return os.path.join(_make_link(folder), *parts[count:]) if os.path.isdir(folder) else path


def _make_link(folder: str) -> str:
    target = os.path.realpath(folder)
    links = os.path.join(tempfile.gettempdir(), f'model_dirs-{os.getuid()}')
    os.makedirs(links, mode=0o700, exist_ok=True)
    # Another user's links could lead anywhere.
    if os.path.islink(links) or os.stat(links).st_uid != os.getuid():
        raise errors.UserError(
            f'{folder}: its name has characters of patterns, and a link without them cannot be in '
            f'{links}, which belongs to another user; expected: another name, or another TMPDIR.'
        )
    name = _OF_PATTERNS.sub('_', os.path.basename(target))
    link = os.path.join(links, f'{name}-{hashlib.sha256(target.encode()).hexdigest()[:16]}')
    with contextlib.suppress(FileExistsError):
        os.symlink(target, link)
    return link
