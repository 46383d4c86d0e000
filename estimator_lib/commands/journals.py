"""Journal of a long job, by which the same command continues after a signal or an error."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import threading
from typing import Any, Iterator, List, Optional, Sequence, TextIO, Type

log = logging.getLogger('estimator_lib')

# Size and time of change of a file.
Stamp = Optional[List[int]]


class Journal:
    """Lines of JSON about the finished parts of a job.

    Args:
        path: of the file on this machine; None: no journal is kept.
        identity: what must be equal for a later start to continue, in types of JSON.
        keeps: whether the entries stay in the file; else the job adds them again.

    Attributes:
        entries: those of an earlier start of the same job.
    """

    def __init__(self, path: Optional[str], identity: Any = None, keeps: bool = True):
        self.path = path
        self.entries: List[Any] = []
        self._lock = threading.Lock()
        self._file: Optional[TextIO] = None
        self._count = 0
        if path is not None:
            self.entries = _read(path, identity)
            self._file = open(path, 'w', encoding='utf-8')  # noqa: SIM115 - closed by `open_journal`
            for line in (identity, *(self.entries if keeps else ())):
                self._write(line)

    def add(self, entry: Any) -> None:
        """Add a finished part, in types of JSON; may be called from any thread."""
        with self._lock:
            self._write(entry)

    def close(self, is_done: bool) -> None:
        """Close the file, and remove it at the end of the job."""
        if self._file is None or self.path is None:
            return
        self._file.close()
        if is_done or self._count <= 1:
            os.remove(self.path)
        else:
            count = self._count - 1
            log.warning('%d are done (%s): the same command continues', count, self.path)

    def _write(self, line: Any) -> None:
        if self._file is not None:
            self._file.write(json.dumps(line) + '\n')
            self._file.flush()
            self._count += 1


@contextlib.contextmanager
def open_journal(
    path: Optional[str],
    identity: Any = None,
    keeps: bool = True,
    kept_after: Sequence[Type[BaseException]] = (BaseException,),
) -> Iterator[Journal]:
    """Open the journal of the job in the block; it is removed where the block ends well.

    Args:
        path: see `Journal`.
        identity: see `Journal`.
        keeps: see `Journal`.
        kept_after: the errors that leave the file.
    """
    journal = Journal(path, identity, keeps)
    try:
        yield journal
    except BaseException as error:
        journal.close(is_done=not isinstance(error, tuple(kept_after)))
        raise
    journal.close(is_done=True)


def _read(path: str, identity: Any) -> List[Any]:
    """Read the entries of the same job; a line that a kill has cut ends them."""
    lines: List[Any] = []
    try:
        with open(path, encoding='utf-8') as file:
            for line in file:
                lines.append(json.loads(line))
    except FileNotFoundError:
        return []
    except (ValueError, RecursionError):
        pass
    if lines[:1] != [json.loads(json.dumps(identity))]:
        return []
    return lines[1:]


def stamp(path: str) -> Stamp:
    """Return size and time of change of a file; None where there is none."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return [status.st_size, status.st_mtime_ns]


def identify(values: Any, paths: Sequence[str]) -> List[str]:
    """Return the identity of a job, for `open_journal`.

    Args:
        values: that must be equal, of types whose `repr` tells them apart.
        paths: of files that must not change, and of folders whose files must not.
    """
    stamps = {}
    for path in paths:
        stamps[path] = stamp(path)
        for folder, _, names in os.walk(path):
            for name in sorted(name for name in names if not name.startswith('.')):
                file = os.path.join(folder, name)
                stamps[file] = stamp(file)
    return [hashlib.sha256(repr(part).encode()).hexdigest() for part in (values, stamps)]
