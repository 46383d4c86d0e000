"""A file of byte arrays by their keys: one process writes it, others read it.

The file begins with a header of 64 bytes that identifies its content. Each entry has 64 bytes with
its key, size and checksum, followed by its bytes, which begin at a multiple of 64. The file only
grows and is never changed in place, so memory maps of it stay valid. A file with another content is
replaced by a new file of the same name.

A database of the standard library (`sqlite3`) was tried in place of this file, and was worse: it
takes 0.9 ms to read an example of 230 kB, more than decoding; a view of the map takes none.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import mmap
import os
import struct
import threading
import weakref
import zlib
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

import numpy as np

from estimator_lib import errors
from estimator_lib.data.caches.packed_examples import ALIGNMENT

fcntl: Any = None
with contextlib.suppress(ImportError):  # Windows does not have it
    fcntl = importlib.import_module('fcntl')

log = logging.getLogger('estimator_lib')

Key = Tuple[int, int]

# The number grows with each change of the layout: files of former versions are replaced. 19 bytes,
# which leave 45 of the header to the content.
_BEGIN = b'decoded examples 2\n'
_ENTRY = struct.Struct('<8sqqQI')
_MARK = b'example\n'


class _Place(NamedTuple):
    """Location of the bytes of an entry in the file.

    Attributes:
        offset: offset of the first byte.
        size: number of bytes.
        checksum: CRC-32 of key, size and bytes.
    """

    offset: int
    size: int
    checksum: int


class CacheFile:
    """One file of byte arrays by key; several threads may use it.

    Args:
        path: the path of the file; its folder is created.
        content: an identifier of the content, at most 45 ASCII characters. A file with another
            identifier is replaced by an empty one.
        max_bytes: limit of the size of the file; None: half of the free space of the disk.

    Raises:
        errors.UserError: the file cannot be written, or this system has no file locks.
    """

    def __init__(self, path: str, content: str, max_bytes: Optional[int]):
        if fcntl is None:
            raise errors.UserError(
                f'{path}: this system has no file locks, which cache: FILE needs; set cache: '
                'MEMORY.'
            )
        self._path = path
        self._header = (_BEGIN + content.encode()).ljust(ALIGNMENT, b'\0')
        self._lock = threading.Lock()
        self._places: Dict[Key, _Place] = {}
        self._checked: Set[Key] = set()  # checksums compared or computed by this object
        self._mapped = np.empty([0], np.uint8)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            self._file, self._writes = _open_locked(path)
            self._open()
            disk = os.statvfs(path)
        except OSError as error:
            raise errors.UserError(
                f'{path}: the cache of decoded examples cannot be written there '
                f'({error.strerror}); set cache_folder to a folder of a local disk, or cache: '
                'MEMORY.'
            ) from error
        self._closed = weakref.finalize(self, _release, self._file)
        free = disk.f_bavail * disk.f_frsize
        self._max_bytes = self._size + free // 2 if max_bytes is None else max_bytes

    def __len__(self) -> int:
        return len(self._places)

    @property
    def is_shared(self) -> bool:
        """True if another process writes the file, so that this one only reads it."""
        return not self._writes

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return self._size

    def get(self, key: Key) -> Optional[np.ndarray]:
        """Return the read-only bytes of a key, uint8 [n]; None if the key is not there."""
        place = self._places.get(key)
        if place is None:
            return None
        end = place.offset + place.size
        if end > self._mapped.size and not self._map(end):
            return None
        value = self._mapped[place.offset : end]
        if key not in self._checked:
            if _checksum(key, value) != place.checksum:
                log.warning('%s: an example is corrupt, and is decoded again', self._path)
                self._places.pop(key, None)
                return None
            self._checked.add(key)
        return value

    def put(self, key: Key, value: np.ndarray) -> bool:
        """Add the bytes of a key, uint8 [n]; return False if there is no room for them."""
        size = value.size
        padding = bytes(-size % ALIGNMENT)
        with self._lock:
            if key in self._places:
                return True
            if not self._writes or self._size + ALIGNMENT + size + len(padding) > self._max_bytes:
                return False
            place = _Place(self._size + ALIGNMENT, size, _checksum(key, value))
            entry = _ENTRY.pack(_MARK, *key, size, place.checksum).ljust(ALIGNMENT, b'\0')
            try:
                # The place is stored behind this: another thread never finds an entry without its
                # bytes.
                self._append([entry, value.data, padding])
            except OSError as error:
                self._writes = False
                log.warning('%s: no more examples are kept: %s', self._path, error.strerror)
                return False
            self._places[key] = place
            self._checked.add(key)
            return True

    def close(self) -> None:
        """Release the file. Returned arrays stay valid; keys are no longer found."""
        with self._lock:
            self._writes = False
            self._places.clear()
            self._closed()

    def _open(self) -> None:
        """Read the entries of the file, or replace a file of other content."""
        begin = os.pread(self._file, ALIGNMENT, 0)
        if begin != self._header:
            self._size = 0
            if self._writes:
                if begin:
                    log.info('%s: it has other content; replaced', self._path)
                self._replace()
            return
        end = os.fstat(self._file).st_size
        self._size = self._read_entries(end)
        if self._size < end and self._writes:
            log.info(
                '%s: it ends within an example; the %d before it are kept', self._path, len(self)
            )
            os.ftruncate(self._file, self._size)

    def _read_entries(self, end: int) -> int:
        """Read the locations of the entries; return the end of the last complete one."""
        offset = ALIGNMENT
        while offset + ALIGNMENT <= end:
            mark, first, second, size, checksum = _ENTRY.unpack(
                os.pread(self._file, ALIGNMENT, offset)[: _ENTRY.size]
            )
            following = offset + ALIGNMENT + size + -size % ALIGNMENT
            if mark != _MARK or following > end:
                break
            self._places[first, second] = _Place(offset + ALIGNMENT, size, checksum)
            offset = following
        return offset

    def _replace(self) -> None:
        """Replace the file by a new one, which is locked too."""
        # Not truncated in place: a process that has mapped the file would get SIGBUS.
        temporary = f'{self._path}.{os.getpid()}.tmp'
        new = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        fcntl.flock(new, fcntl.LOCK_EX)
        os.close(self._file)
        self._file = new
        self._append([self._header])
        os.rename(temporary, self._path)

    def _append(self, parts: List[bytes]) -> None:
        offset = self._size
        for part in parts:
            rest = memoryview(part)
            while rest.nbytes:
                # It may write less than it is given: on a nearly full disk, and beyond 2 GiB.
                written = os.pwrite(self._file, rest, offset)
                rest, offset = rest[written:], offset + written
        self._size = offset

    def _map(self, end: int) -> bool:
        """Map the file up to `end` into memory; return False where it is closed."""
        with self._lock:
            if self._closed.alive and end > self._mapped.size:
                whole = mmap.mmap(self._file, 0, access=mmap.ACCESS_READ)
                # Arrays of an earlier, shorter map keep that map alive.
                self._mapped = np.frombuffer(whole, np.uint8)
            return end <= self._mapped.size


def _checksum(key: Key, value: np.ndarray) -> int:
    """Return the CRC-32 of key, size and bytes; that of no bytes alone would be 0."""
    return zlib.crc32(value, zlib.crc32(struct.pack('<qqQ', *key, value.size)))


def _release(file: int) -> None:
    """Unlock and close a file; a memory map of it would keep the lock otherwise."""
    fcntl.flock(file, fcntl.LOCK_UN)
    os.close(file)


def _open_locked(path: str) -> Tuple[int, bool]:
    """Return an open file, and whether this process holds its lock (else another one does)."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            # flock, not lockf: a lock of POSIX ends when the process closes any descriptor of the
            # file.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return file, False
        if os.path.exists(path) and os.path.samestat(os.fstat(file), os.stat(path)):
            return file, True
        os.close(file)  # another process has just put a new file there
