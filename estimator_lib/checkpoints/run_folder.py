"""Folder of a run that somebody deletes or moves while the run writes to it."""

from __future__ import annotations

import contextlib
import os
import weakref
from typing import Iterator, Optional

from estimator_lib import errors

LOCK_FILE = 'run.lock'  # of the run that trains in the folder


class RunFolder:
    """Folder that is to stay where it is.

    It is kept open: the system then gives its number to no other folder. So a folder that has been
    deleted is told from a new one at the same path, which a writer of events or of checkpoints has
    made. Folders that are not there at first, and those that are not local, count as staying.

    Args:
        path: of the folder.
    """

    def __init__(self, path: str):
        self._path = path
        self._file: Optional[int] = None
        with contextlib.suppress(OSError):
            self._file = os.open(path, os.O_RDONLY)
            weakref.finalize(self, os.close, self._file)

    @property
    def is_same(self) -> bool:
        """Return whether the path leads to it."""
        if self._file is None:
            return True
        try:
            return os.path.samestat(os.fstat(self._file), os.stat(self._path))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # of a file system that does not answer now
            return True

    @property
    def is_gone(self) -> bool:
        """Return whether it was deleted or moved: the path leads to nothing or to a new folder.

        A new folder has no lock of the run. Where numbers of folders change by themselves, as on
        some network file systems, the lock tells that the folder is still the same.
        """
        return not self.is_same and not os.path.exists(os.path.join(self._path, LOCK_FILE))


def removal_error(path: str) -> errors.UserError:
    """Return what to raise where the folder of a run is gone."""
    return errors.UserError(
        f'the folder {path} is gone: it was deleted or moved while this run used it; restore it to '
        'continue from its last checkpoint, or start the run again.'
    )


@contextlib.contextmanager
def explained_removal(path: str) -> Iterator[None]:
    """Turn any error inside into one plain sentence where the folder of the run is gone.

    Args:
        path: of the folder.

    Raises:
        errors.UserError: in place of such an error.
    """
    folder = RunFolder(path)
    try:
        yield
    except Exception as error:
        if folder.is_gone:
            raise removal_error(path) from error
        raise
