"""Image files by the names that annotations give them."""

from __future__ import annotations

import collections
import itertools
import os
import posixpath
from typing import Dict, Iterable, List, Mapping, NamedTuple, Optional

from estimator_lib import texts
from model_fns.datasets.files import folder_files


class Located(NamedTuple):
    """Result of `locate`.

    Attributes:
        paths: of the images by their names; None for a name that is no path in the folder.
        notes: a line on the images whose path differs from their name.
    """

    paths: Mapping[str, Optional[str]]
    notes: List[str]


def locate(folder: str, names: Iterable[str]) -> Located:
    r"""Find the files of images, also where annotations name them by the paths of another machine.

    A name is a path relative to the folder. Where there is no such file, an image of the same base
    name is taken, in the folder or below it. Of several, the one with the most last folders in
    common is taken. An image that another name takes, or one of several equally near ones, is never
    guessed.

    With `photos/a.jpg` and `photos/x/b.jpg`, the folder `photos` and the names `C:\data\a.jpg` and
    `y/b.jpg`, the paths are `photos/a.jpg` and `photos/x/b.jpg`.

    Args:
        folder: that the names are relative to.
        names: of images, with `/` or `\` between folders.

    Raises:
        errors.DataError: there is no such folder.
    """
    plain = {name: posixpath.normpath(name.replace('\\', '/')) for name in names}
    present = set(folder_files.list_names(folder))
    missing = {name: path for name, path in plain.items() if path not in present}
    # Folders in the folder are listed only where they are needed: it is slow for many files.
    below = _list_below(folder) if missing else {}
    missing = {name: path for name, path in missing.items() if path not in _same_name(path, below)}
    taken = {path for name, path in plain.items() if name not in missing}
    nearest = {name: _nearest(path, below) for name, path in missing.items()}
    counts = collections.Counter(nearest.values())
    guessed = {
        name: path
        for name, path in nearest.items()
        if path and path not in taken and counts[path] == 1
    }
    paths = {
        name: os.path.join(folder, guessed.get(name, path))
        if name in guessed or not leaves_folder(name)
        else None
        for name, path in plain.items()
    }
    return Located(paths, _note(guessed, folder))


def leaves_folder(path: str) -> bool:
    """Return whether a path is absolute, of another file system, or climbs out of its folder."""
    normal = posixpath.normpath(path.replace('\\', '/'))
    return (
        # A colon in the first two characters is a drive of Windows.
        normal.startswith(('/', '../')) or normal in ('.', '..') or '://' in path or ':' in path[:2]
    )


def _list_below(folder: str) -> Dict[str, List[str]]:
    """Return the relative paths of the images in a folder and below it, by base name and stem."""
    below: Dict[str, List[str]] = {}
    for path, names in folder_files.walk(folder):
        for name in filter(folder_files.is_image, names):
            relative = os.path.relpath(os.path.join(path, name), folder).replace(os.sep, '/')
            for key in (name, os.path.splitext(name)[0]):
                below.setdefault(key, []).append(relative)
    return below


def _same_name(path: str, below: Mapping[str, List[str]]) -> List[str]:
    return below.get(posixpath.basename(path), [])


def _nearest(path: str, below: Mapping[str, List[str]]) -> Optional[str]:
    """Return the one image of a base name or stem, see `locate`; None without one."""
    by_count: Dict[int, List[str]] = {}
    for candidate in _same_name(path, below):
        count = _count_common(posixpath.dirname(candidate), posixpath.dirname(path))
        by_count.setdefault(count, []).append(candidate)
    best = by_count[max(by_count)] if by_count else []
    return best[0] if len(best) == 1 else None


def _count_common(folder: str, other: str) -> int:
    """Count the equal folders at the ends of two paths."""
    pairs = zip(reversed(folder.split('/')), reversed(other.split('/')))
    return len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)))


def _note(guessed: Mapping[str, str], folder: str) -> List[str]:
    if not guessed:
        return []
    name, path = next(iter(guessed.items()))
    count = f'{texts.counted(len(guessed), "image")} {"is" if len(guessed) == 1 else "are"}'
    return [
        f'{count} found by the base name, the first: {name!r:.200} is {os.path.join(folder, path)}.'
    ]
