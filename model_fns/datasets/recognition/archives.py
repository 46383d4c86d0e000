"""Archives of data sets: extracted once, below the folder of the run."""

from __future__ import annotations

import os
import posixpath
import shutil
import stat
import uuid
import zipfile

from estimator_lib import errors
from model_fns.datasets.files import named_images

_MOST_RATIO = 200  # of sizes after and before; images hardly shrink, text shrinks by 20
_MOST_FILES = 2_000_000
_FREE = 2**30  # bytes of the disk that stay free


def extract(path: str, folder: str) -> str:
    """Extract a zip file, unless that was done before.

    Args:
        path: of the archive.
        folder: for its files; it gets its name when all of them are there.

    Returns:
        The folder.

    Raises:
        errors.DataError: it is no zip file, a name leaves the folder, or its content is too large.
    """
    if os.path.isdir(folder):
        return folder
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    temporary = f'{folder}.{uuid.uuid4().hex}.tmp'
    try:
        with zipfile.ZipFile(path) as archive:
            check(archive, path, shutil.disk_usage(os.path.dirname(folder)).free - _FREE)
            archive.extractall(temporary)
        os.rename(temporary, folder)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise errors.DataError(f'--data={path} cannot be extracted: {error}.') from None
    except OSError as error:
        raise errors.DataError(f'{folder}: cannot be written: {error}.') from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def check(archive: zipfile.ZipFile, path: str, room: int) -> None:
    """Refuse an archive that would write outside of its folder, or fill the disk.

    The sizes in the directory are checked; `zipfile` reads no more of a file than its directory
    says.

    Args:
        archive: the open archive.
        path: its path, for messages.
        room: bytes that may be written.

    Raises:
        errors.DataError: a name is absolute or climbs, an entry is a link, or the files are too
            many or too large.
    """
    entries = archive.infolist()
    for entry in entries:
        name = entry.filename.replace('\\', '/')
        if named_images.leaves_folder(name) and posixpath.normpath(name) != '.':
            raise errors.DataError(
                f'--data={path}: the name {name!r:.200} leaves the folder of the archive.'
            )
        # zipfile writes a link as a file with its target's name: nothing is there that it names.
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise errors.DataError(f'--data={path}: {name!r:.200} is a link; expected files.')
    # Before anything is written: a small archive may hold petabytes of zeros.
    size = sum(entry.file_size for entry in entries)
    packed = sum(entry.compress_size for entry in entries)
    if len(entries) > _MOST_FILES or size > room or size > _MOST_RATIO * max(packed, 2**20):
        before, after, left = (f'{each / 2**20:,.0f} MiB' for each in (packed, size, max(room, 0)))
        raise errors.DataError(
            f'--data={path}: the archive of {before} would become {len(entries):,} files of '
            f'{after}; there is room for {left}. Extract it yourself where that is right.'
        )
