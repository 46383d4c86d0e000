"""Detection of a run folder that is deleted or moved while the run writes to it."""

from __future__ import annotations

import contextlib
import os
import weakref
from typing import Iterator, Optional

from estimator_lib import errors

LOCK_FILE = 'run.lock'  # of the run that trains in the folder


class RunFolder:
    """Folder of a run, whose removal is detected.

    The folder is kept open, so that the system does not give its inode number to another folder.
    Then a deleted folder differs from a new one at the same path, which a writer of events or
    checkpoints has created. A folder that is missing at first, or not local, never counts as gone.

    Args:
        path: the path of the folder.
    """

    def __init__(self, path: str):
        self._path = path
        self._file: Optional[int] = None
        with contextlib.suppress(OSError):
            # It fails for `gs://` and other remote paths, which have no inodes.
            self._file = os.open(path, os.O_RDONLY)
            weakref.finalize(self, os.close, self._file)

    @property
    def is_same(self) -> bool:
        """True if the path still leads to the folder."""
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
        """True if the folder was deleted or moved: its path is missing or a new folder.

        A new folder does not have the lock file of the run. Some network file systems change inode
        numbers; there the lock shows that the folder is still the same.
        """
        return not self.is_same and not os.path.exists(os.path.join(self._path, LOCK_FILE))


def removal_error(path: str) -> errors.UserError:
    """Return the error for a run folder that is gone."""
    return errors.UserError(
        f'the folder {path} is gone: it was deleted or moved while this run used it; restore it to '
        'continue from its last checkpoint, or start the run again.'
    )


@contextlib.contextmanager
def explained_removal(path: str) -> Iterator[None]:
    """Convert any error inside to one plain sentence if the folder of the run is gone.

    Args:
        path: the path of the folder.

    Raises:
        errors.UserError: the folder is gone.
    """
    folder = RunFolder(path)
    try:
        yield
    except Exception as error:
        if folder.is_gone:
            raise removal_error(path) from error
        raise
