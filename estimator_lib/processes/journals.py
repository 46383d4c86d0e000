"""Journal of a long job, by which the same command continues after a signal or an error."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
from typing import Any, List, Optional, Sequence, TextIO, Tuple, Type

log = logging.getLogger('estimator_lib')

# Size and time of change of a file.
Stamp = Optional[List[int]]


class Journal:
    """Lines of JSON about the finished parts of the job in the block, which is a context.

    The file is removed where the block ends well.

    Args:
        path: of the file on this machine; None: no journal is kept.
        identity: what must be equal for a later start to continue, in types of JSON.
        keeps: whether the entries stay in the file; else the job adds them again.
        kept_after: the errors that leave the file.

    Attributes:
        entries: those of an earlier start of the same job.
    """

    def __init__(
        self,
        path: Optional[str],
        identity: Any = None,
        keeps: bool = True,
        kept_after: Tuple[Type[BaseException], ...] = (BaseException,),
    ):
        self._path = path
        self._identity = identity
        self._keeps = keeps
        self._kept_after = kept_after
        self.entries: List[Any] = []
        self._lock = threading.Lock()
        self._file: Optional[TextIO] = None
        self._count = 0

    def __enter__(self) -> Journal:
        if self._path is not None:
            self.entries = _read(self._path, self._identity)
            self._file = open(self._path, 'w', encoding='utf-8')
            for line in (self._identity, *(self.entries if self._keeps else ())):
                self._write(line)
        return self

    def __exit__(self, error_type, error, traceback) -> None:
        if self._file is None or self._path is None:
            return
        self._file.close()
        count = self._count - 1  # without the identity
        if error_type is None or not issubclass(error_type, self._kept_after) or count < 1:
            os.remove(self._path)
        else:
            log.warning('%d are done (%s): the same command continues', count, self._path)

    def add(self, entry: Any) -> None:
        """Add a finished part, in types of JSON; may be called from any thread."""
        with self._lock:
            self._write(entry)

    def _write(self, line: Any) -> None:
        if self._file is not None:
            self._file.write(json.dumps(line) + '\n')
            # To the system, which keeps it when the process is killed. A sync to the disk, for a
            # loss of power, would take milliseconds for each line.
            self._file.flush()
            self._count += 1


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
    # Through JSON, which makes lists of tuples and texts of keys.
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
    """Return the identity of a job, for `Journal`.

    Args:
        values: that must be equal, of types whose `repr` tells them apart.
        paths: of files that must not change, and of folders whose files must not.
    """
    stamps = {}
    for path in paths:
        stamps[path] = stamp(path)
        for folder, _, names in os.walk(path):
            # Hidden files, which file managers create, must not make another job of this one.
            for name in sorted(name for name in names if not name.startswith('.')):
                file = os.path.join(folder, name)
                stamps[file] = stamp(file)
    return [hashlib.sha256(repr(part).encode()).hexdigest() for part in (values, stamps)]
