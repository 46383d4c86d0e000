"""Files of records: finding them, counting their records, and locating their frames.

A TFRecord file is a chain of frames: the payload's length (8 bytes, little-endian), the length's
masked CRC-32C (4 bytes), the payload, the payload's masked CRC-32C (4 bytes). Most functions here
read only the 12-byte headers and skip the payloads. A data set in another format is one file here,
whose records are made when they are read.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import difflib
import gzip
import itertools
import logging
import os
import struct
import sys
import zlib
from typing import (
    TYPE_CHECKING,
    BinaryIO,
    Dict,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import tensorflow as tf

from estimator_lib import errors, texts
from estimator_lib.processes import path_names

if TYPE_CHECKING:
    from estimator_lib.data.file_examples import FileExamples

log = logging.getLogger('estimator_lib')

GZIP = 'GZIP'
WHOLE_FILE = -1  # in place of the index of a record: the file is the record
_HEADER_BYTES = 12
_FRAME_BYTES = 16  # size of a frame without its payload
# RFC 1952, section 2.3.1: two bytes of identification, and deflate as the method.
_GZIP_MAGIC = b'\x1f\x8b\x08'
_OPENING_THREADS = 16


class RecordFile(NamedTuple):
    """A TFRecord file, or the files of a data set in another format.

    Attributes:
        path: path of the file.
        compression: '' or `GZIP`, as `tf.data.TFRecordDataset` takes it.
        size: size on disk in bytes.
        examples: the examples of a data set in another format; None for a TFRecord file.
        suffix: serialized features that the reader adds to each record.
    """

    path: str
    compression: str
    size: int
    examples: Optional[FileExamples] = None
    suffix: bytes = b''

    def contents(self) -> Sequence[Tuple[str, int]]:
        """Return names and sizes in bytes of the files on disk, without their folder."""
        if self.examples is not None:
            return self.examples.contents()
        return [(os.path.basename(self.path), self.size)]

    def locate(self, index: int) -> Tuple[str, int]:
        """Return the path of a record's file, and the index there; -1: the file is the record."""
        if self.examples is not None:
            return self.examples.place(index), WHOLE_FILE
        return self.path, index


class Frame(NamedTuple):
    """Location of a record in the (uncompressed) file.

    Attributes:
        index: index of the record, from 0.
        offset: offset of its header, in bytes.
        length: length of its payload, in bytes.
    """

    index: int
    offset: int
    length: int

    @property
    def payload_offset(self) -> int:
        """Offset of the payload, in bytes."""
        return self.offset + _HEADER_BYTES

    @property
    def end(self) -> int:
        """Offset of the next header, in bytes."""
        return self.offset + self.length + _FRAME_BYTES


class FrameError(NamedTuple):
    """A break in the chain of frames before the end of the file.

    Attributes:
        index: index of the first record that cannot be found.
        offset: expected offset of its header, in bytes.
        problem: a description of the break.
    """

    index: int
    offset: int
    problem: str


class _BadFrame(Exception):
    pass


_counts: Dict[RecordFile, int] = {}  # of all files that this process has counted


def find_files(patterns: Iterable[str], field: str) -> List[RecordFile]:
    """Find the files that match, sorted by path, each once; skip empty ones with a warning.

    Args:
        patterns: paths or globs.
        field: the config field of the patterns, for messages.

    Raises:
        errors.DataError: a pattern is empty or matches no file, or all files are empty.
    """
    paths = set()
    for pattern in patterns:
        paths.update(_match(pattern, field))
    if not paths:
        raise errors.DataError(f'{field}: no path is given; expected at least one TFRecord file.')
    with concurrent.futures.ThreadPoolExecutor(_OPENING_THREADS) as pool:
        # The order of a glob depends on the file system; the seed alone is to decide what follows.
        files = list(pool.map(_inspect_file, sorted(paths)))
    empty = [file.path for file in files if _is_empty(file)]
    if len(empty) == len(files):
        raise errors.DataError(f'{field}: {_some(empty)} without a single record.')
    if empty:
        log.warning('%s: %s without a record, left out', field, _some(empty))
    return [file for file in files if file.path not in set(empty)]


def count_records(files: Sequence[RecordFile]) -> int:
    """Count the records of the files by their headers; GZIP files are read as a whole.

    Raises:
        errors.DataError: a file is corrupt; the message has the file and the record.
    """
    with concurrent.futures.ThreadPoolExecutor(_OPENING_THREADS) as pool:
        counts = list(pool.map(_count, files))
    _counts.update(zip(files, counts))
    return sum(counts)


def known_count(files: Sequence[RecordFile]) -> Optional[int]:
    """Return the number of records if this process has counted the files; else None.

    Data sets in another format than TFRecord know their number.
    """
    counts = [_counts.get(file) if file.examples is None else len(file.examples) for file in files]
    return None if None in counts else sum(counts)


def list_frames(file: RecordFile, start: int = 0) -> Tuple[List[Frame], Optional[FrameError]]:
    """List the frames of a TFRecord file by their headers, and the error that breaks their chain.

    Payloads are not read, so their CRCs may still be wrong. The error is a truncated header or
    payload, or a wrong CRC of a length; None where the chain ends with the file.

    Args:
        file: the file.
        start: offset of the first header, in bytes; its frame has the index 0.

    Raises:
        OSError: the file cannot be opened.
    """
    frames: List[Frame] = []
    offset = start
    with _open(file) as stream:
        try:
            stream.seek(start)
            while header := stream.read(_HEADER_BYTES):
                length = _payload_length(header, offset)
                following = offset + length + _FRAME_BYTES
                end = file.size
                if file.compression:
                    # A corrupt length may be more than `seek` takes: OverflowError.
                    stream.seek(min(following, sys.maxsize))
                    end = stream.tell()
                if following > end:
                    raise _BadFrame(f'truncated: {following - end} bytes of the record are missing')
                stream.seek(following)
                frames.append(Frame(len(frames), offset, length))
                offset = following
        except _BadFrame as error:
            return frames, FrameError(len(frames), offset, str(error))
        except (EOFError, OSError, zlib.error) as error:
            problem = f'the GZIP stream is corrupt: {error}'
            return frames, FrameError(len(frames), offset, problem)
    return frames, None


def first_records(files: Iterable[RecordFile], most: int) -> List[bytes]:
    """Return the first `most` payloads of `usable_records`."""
    return list(itertools.islice(usable_records(files), most))


def usable_records(files: Iterable[RecordFile]) -> Iterator[bytes]:
    """Yield the payloads of records without TensorFlow, whose devices must not start yet.

    Reading of a TFRecord file stops at its first corrupt frame, whose length may exceed the memory.
    Training reports the frame later.

    Args:
        files: the files, in order.
    """
    for file in files:
        payloads = _payloads(file) if file.examples is None else _usable_examples(file.examples)
        for payload in payloads:
            yield payload + file.suffix


def _payloads(file: RecordFile) -> Iterator[bytes]:
    unreadable = (_BadFrame, EOFError, OSError, zlib.error, tf.errors.OpError)
    with contextlib.suppress(*unreadable, MemoryError, OverflowError), _open(file) as stream:
        while header := stream.read(_HEADER_BYTES):
            length = _payload_length(header, 0)
            # The bytes of a compressed file are not counted, so there MemoryError ends the reading.
            if not file.compression and length > file.size:
                return
            payload = stream.read(length)
            if len(payload) < length:
                return
            yield payload
            stream.read(_FRAME_BYTES - _HEADER_BYTES)


def _usable_examples(examples: FileExamples) -> Iterator[bytes]:
    for index in range(len(examples)):
        with contextlib.suppress(errors.DataError):
            yield examples.read(index)


def masked_crc(data: bytes) -> int:
    """Compute the checksum of a frame: CRC-32C, rotated right by 15 bits, plus a constant."""
    # A loop of Python suffices: only lengths of 8 bytes come here. TensorFlow's reader checks the
    # payloads.
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    # kMaskDelta of TensorFlow's crc32c.h. Stored CRCs are masked, because the CRC of data that hold
    # CRCs themselves is problematic.
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _crc_table() -> List[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            # Castagnoli's polynomial 0x1EDC6F41 with its bits reversed.
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_CRC_TABLE = _crc_table()


def _payload_length(header: bytes, offset: int) -> int:
    if len(header) < _HEADER_BYTES:
        raise _BadFrame(f'truncated: {len(header)} of {_HEADER_BYTES} header bytes are there')
    length, crc = struct.unpack('<QI', header)
    if crc != masked_crc(header[:8]):
        kind = "the CRC of the record's length is wrong" if offset else 'not a TFRecord file'
        raise _BadFrame(f'{kind} (at byte {offset})')
    return length


def _open(file: RecordFile) -> BinaryIO:
    # Short reads at many offsets are fastest without a buffer; GFile is for remote paths.
    stream = tf.io.gfile.GFile(file.path, 'rb') if '://' in file.path else None
    if stream is None:
        stream = open(file.path, 'rb', buffering=-1 if file.compression else 0)  # noqa: SIM115
    return gzip.GzipFile(fileobj=stream, mode='rb') if file.compression else stream


def _count(file: RecordFile) -> int:
    if file.examples is not None:
        return len(file.examples)
    frames, error = list_frames(file)
    if error is not None:
        raise errors.DataError(f'{file.path}, record {error.index}: {error.problem}.')
    return len(frames)


def _inspect_file(path: str) -> RecordFile:
    return RecordFile(path, _compression(path), tf.io.gfile.stat(path).length)


def _compression(path: str) -> str:
    if '://' in path:  # opening every remote file would take long, so the name decides
        return GZIP if path.endswith('.gz') else ''
    with open(path, 'rb') as stream:
        start = stream.read(_HEADER_BYTES)
    # A record of 559,903 bytes (0x088b1f) begins with the same three bytes, but with a valid CRC.
    return GZIP if start.startswith(_GZIP_MAGIC) and not _is_header(start) else ''


def is_record_file(path: str) -> bool:
    """Return whether a file begins as a TFRecord file does, compressed or not."""
    try:
        with _open(_inspect_file(path)) as stream:
            return _is_header(stream.read(_HEADER_BYTES))
    except (EOFError, OSError, zlib.error, tf.errors.OpError):
        return False


def _is_header(start: bytes) -> bool:
    """Return whether bytes are the header of a frame."""
    return len(start) == _HEADER_BYTES and start[8:] == struct.pack('<I', masked_crc(start[:8]))


def _is_empty(file: RecordFile) -> bool:
    """Return whether a file has no record at all."""
    # In practice no GZIP header is longer than 1024 bytes.
    return file.size <= 1024 and list_frames(file) == ([], None)


def _match(pattern: str, field: str) -> List[str]:
    """Return the files that a pattern matches."""
    if not pattern.strip():
        raise errors.DataError(f'{field}: the path is empty; expected a TFRecord file or a glob.')
    if errors.PLACEHOLDER in pattern:
        raise errors.DataError(
            f'{field}: {pattern!r} is still the placeholder of a published config; put the path '
            'of your TFRecord files there.'
        )
    try:
        # The name of an existing file may contain glob characters.
        paths = [pattern] if tf.io.gfile.exists(pattern) else path_names.match(pattern)
    except tf.errors.OpError:
        paths = []
    paths = [path for path in paths if not tf.io.gfile.isdir(path)]
    if not paths:
        place = f'{pattern!r}{errors.relative_to(pattern)}'
        raise errors.DataError(f'{field}: no file matches {place}; {_describe_folder(pattern)}')
    return paths


def _describe_folder(pattern: str) -> str:
    """Describe the folder of a mistyped path, with similar names of files in it."""
    if tf.io.gfile.isdir(pattern):
        return f'it is a folder; expected files, as in {os.path.join(pattern, "*.tfrecord")!r}.'
    folder, name = os.path.split(pattern)
    missing = ''
    while folder and not tf.io.gfile.isdir(folder) and os.path.dirname(folder) != folder:
        folder, name = os.path.split(folder)
        missing = f'there is no folder {os.path.join(folder, name)!r}; '
    folder = folder or '.'
    try:
        entries = sorted(path_names.list_names(folder))
    except tf.errors.OpError:
        entries = []
    if not entries:
        return f'{missing}the folder {folder!r} is empty or cannot be listed.'
    near = difflib.get_close_matches(name, entries, n=3, cutoff=0.4) or entries[:3]
    return f'{missing}the folder {folder!r} has {", ".join(repr(entry) for entry in near)}' + (
        f' and {len(entries) - len(near)} more.' if len(entries) > len(near) else '.'
    )


def _some(paths: Sequence[str]) -> str:
    return f'{texts.counted(len(paths), "file")} ({errors.shortened(paths, 3)})'
