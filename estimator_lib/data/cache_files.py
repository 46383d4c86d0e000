"""A file of byte arrays by their keys, to which one process adds and which others read.

The file begins with 64 bytes that say what is in it; each entry has 64 bytes with its key, its size
and its checksum, and then its bytes, from a multiple of 64 on. It only ever grows, and it is never
changed in place, so that what was mapped into memory stays as it is: where it holds something else
a new file takes its name.
"""

from __future__ import annotations

import contextlib
import logging
import mmap
import os
import struct
import threading
import weakref
import zlib
from typing import Dict, List, NamedTuple, Optional, Set, Tuple

import numpy as np

from estimator_lib import errors
from estimator_lib.data.packed_examples import ALIGNMENT

fcntl = None
with contextlib.suppress(ImportError):  # which Windows does not have
    import fcntl

log = logging.getLogger('estimator_lib')

Key = Tuple[int, int]

_BEGIN = b'decoded examples 1\n'
_ENTRY = struct.Struct('<8sqqQI')
_MARK = b'example\n'


class _Place(NamedTuple):
    """Where the bytes of an entry are in the file.

    Attributes:
        offset: of the first one.
        size: how many.
        checksum: CRC-32 of them.
    """

    offset: int
    size: int
    checksum: int


class CacheFile:
    """See the module. It may be called from several threads.

    Args:
        path: of the file; its folder is made.
        content: what is in it, at most 45 ASCII characters: a file that has something else in it is
            made anew.
        max_bytes: that the file may have; None: half of what the disk has left.

    Raises:
        errors.UserError: the file cannot be written, or not be locked on this system.
    """

    def __init__(self, path: str, content: str, max_bytes: Optional[int]):
        if fcntl is None:
            raise errors.UserError(
                f'{path}: this system cannot lock files as cache: FILE needs it; set cache: MEMORY.'
            )
        self._path = path
        self._header = (_BEGIN + content.encode()).ljust(ALIGNMENT, b'\0')
        self._lock = threading.Lock()
        self._places: Dict[Key, _Place] = {}
        self._checked: Set[Key] = set()  # whose checksums were compared, or made, here
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
        """Whether another process adds to the file, so that this one does not."""
        return not self._writes

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._size

    def get(self, key: Key) -> Optional[np.ndarray]:
        """Return the bytes of a key, uint8 [n], not to be written to; None: there are none."""
        place = self._places.get(key)
        if place is None:
            return None
        end = place.offset + place.size
        if end > self._mapped.size and not self._map(end):
            return None
        found = self._mapped[place.offset : end]
        if key not in self._checked:
            if zlib.crc32(found) != place.checksum:
                log.warning('%s: an example is corrupt, and is decoded anew', self._path)
                self._places.pop(key, None)
                return None
            self._checked.add(key)
        return found

    def put(self, key: Key, value: np.ndarray) -> bool:
        """Add the bytes of a key; False where there is no room for them."""
        size = value.size
        padding = bytes(-size % ALIGNMENT)
        with self._lock:
            if key in self._places:
                return True
            if not self._writes or self._size + ALIGNMENT + size + len(padding) > self._max_bytes:
                return False
            place = _Place(self._size + ALIGNMENT, size, zlib.crc32(value))
            entry = _ENTRY.pack(_MARK, *key, size, place.checksum).ljust(ALIGNMENT, b'\0')
            try:
                self._append([entry, value.data, padding])
            except OSError as error:
                self._writes = False
                log.warning('%s: no more examples are kept: %s', self._path, error.strerror)
                return False
            self._places[key] = place
            self._checked.add(key)
            return True

    def close(self) -> None:
        """Give the file up; what `get` returned stays, and what was not mapped is not found."""
        with self._lock:
            self._writes = False
            self._places.clear()
            self._closed()

    def _open(self) -> None:
        """Read what is in the file, or make it anew."""
        begin = os.pread(self._file, ALIGNMENT, 0)
        if begin != self._header:
            self._size = 0
            if self._writes:
                if begin:
                    log.info('%s: it has something else in it; made anew', self._path)
                self._replace()
            return
        end = os.fstat(self._file).st_size
        self._size = self._read_entries(end)
        if self._size < end and self._writes:
            log.info(
                '%s: it ends within an example; the %d before that stay', self._path, len(self)
            )
            os.ftruncate(self._file, self._size)

    def _read_entries(self, end: int) -> int:
        """Find the entries; where the last whole one ends."""
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
        """Put a new file, which is locked, in the place of the present one."""
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
                written = os.pwrite(self._file, rest, offset)
                rest, offset = rest[written:], offset + written
        self._size = offset

    def _map(self, end: int) -> bool:
        """Maps all of the file, whose bytes up to `end` are needed; False where it is closed."""
        with self._lock:
            if self._closed.alive and end > self._mapped.size:
                whole = mmap.mmap(self._file, 0, access=mmap.ACCESS_READ)
                self._mapped = np.frombuffer(whole, np.uint8)
            return end <= self._mapped.size


def _release(file: int) -> None:
    """Unlock and close a file; what maps it would keep the lock."""
    fcntl.flock(file, fcntl.LOCK_UN)
    os.close(file)


def _open_locked(path: str) -> Tuple[int, bool]:
    """Return a file, and whether it is locked by this process: else another one has the lock."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return file, False
        if os.path.exists(path) and os.path.samestat(os.fstat(file), os.stat(path)):
            return file, True
        os.close(file)  # another process has just put a new file there
