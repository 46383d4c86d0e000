"""Images that training and evaluation share, whose metrics say too much.

Equal files have an equal SHA-256. Nearly equal pictures, like frames of a video or a file that was
saved again, have difference hashes that differ in few bits, and nearly equal thumbnails.
"""

from __future__ import annotations

import hashlib
import io
import itertools
from typing import Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf
from PIL import Image

from estimator_lib import errors
from estimator_lib.data import records
from estimator_lib.data.record_sources import input_files, named_readers
from protos import pipeline_pb2

# Different frames of a scene differ by more bits. Pictures with little texture differ by few, so
# that their thumbnails decide.
_MOST_BITS = 6
_MOST_DIFFERENCE = 8.0  # mean of a pixel of the thumbnails, of 255
_ENCODED = 'image/encoded'  # key of a record
_SIDE = 16  # of a thumbnail
# Records of each reader that are compared at the start of a run, which should not wait long.
_FIRST = 300
_MOST_BYTES = 256 << 20
_PAIRS = 1 << 22  # pairs of hashes in memory
_BITS = np.array([bin(value).count('1') for value in range(256)], np.uint8)


class Fingerprint(NamedTuple):
    """What tells whether two images are equal.

    Attributes:
        name: of the image; '' where the record has none.
        digest: SHA-256 of the encoded image.
        hash: difference hash of 64 bits; 0 where the image cannot be decoded.
        thumbnail: uint8 [16, 16], gray; None where the image cannot be decoded.
    """

    name: str
    digest: bytes
    hash: int = 0
    thumbnail: Optional[np.ndarray] = None


def fingerprint(serialized: bytes) -> Optional[Fingerprint]:
    """Return the fingerprint of a record; None where it has no image."""
    try:
        features = tf.train.Example.FromString(serialized).features.feature
    except Exception:  # each protobuf runtime has its own DecodeError
        return None
    encoded = b''.join(features[_ENCODED].bytes_list.value[:1])
    if not encoded:
        return None
    names = [features[f'image/{key}'].bytes_list.value for key in ('source_id', 'filename')]
    name = next((values[0].decode(errors='replace') for values in names if values), '')
    digest = hashlib.sha256(encoded).digest()
    try:
        with Image.open(io.BytesIO(encoded)) as image:
            image.draft('L', (8 * _SIDE, 8 * _SIDE))  # a JPEG is decoded at about this size
            gray = image.convert('L')
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return Fingerprint(name, digest)
    thumbnail = np.asarray(gray.resize((_SIDE, _SIDE), Image.Resampling.BOX))
    return Fingerprint(name, digest, difference_hash(gray), thumbnail)


def difference_hash(gray: Image.Image) -> int:
    """Compute whether each of 8 x 8 cells is darker than the next one in its row, as 64 bits.

    N. Krawetz, "Kind of Like That" (2013). The cells are means of 8 rows of 9 parts. A picture that
    becomes brighter to the right has the hash 2^64 - 1, one that becomes darker 0.

    Args:
        gray: any image of one channel of 8 bits.
    """
    cells = np.asarray(gray.resize((9, 8), Image.Resampling.BOX), np.int16)
    return int.from_bytes(np.packbits(cells[:, :-1] < cells[:, 1:]).tobytes(), 'big')


def find_shared(
    training: Sequence[Fingerprint], evaluation: Sequence[Fingerprint]
) -> List[Tuple[int, int]]:
    """Return (evaluation, training) indices of each evaluation image that training nearly has."""
    if not training:
        return []
    # Reversed, so that of equal training images the first one is named.
    by_digest = {each.digest: index for index, each in reversed(list(enumerate(training)))}
    ours, theirs = _hash_bytes(training), _hash_bytes(evaluation)
    step = max(1, _PAIRS // len(training))
    shared = []
    for start in range(0, len(evaluation), step):
        bits = _BITS[theirs[start : start + step, np.newaxis] ^ ours].sum(axis=-1)
        for index, row in enumerate(bits, start):
            own = evaluation[index]
            match = by_digest.get(own.digest)
            for other in np.flatnonzero(row <= _MOST_BITS) if match is None else ():
                if _is_near(own.thumbnail, training[other].thumbnail):
                    match = int(other)
                    break
            if match is not None:
                shared.append((index, match))
    return shared


def compare(fingerprints: Mapping[str, Sequence[Fingerprint]]) -> List[str]:
    """Return a warning for each evaluation that shares images with training.

    Args:
        fingerprints: by the names of readers, as `named_readers` has them; those of training first.
    """
    (_, training), *evaluations = fingerprints.items()
    warnings = []
    for title, evaluation in evaluations:
        shared = find_shared(training, evaluation)
        if not shared:
            continue
        own, other = shared[0]
        is_equal = evaluation[own].digest == training[other].digest
        warnings.append(
            f'{title}: {len(shared)} of {len(evaluation)} evaluation images are nearly equal to '
            f'training images, e.g. {_name(evaluation, own)} '
            f'{"equals" if is_equal else "is like"} {_name(training, other)}: metrics are better '
            'than on new images; expected splits by groups (--group of convert-records, '
            'options.group of readers)'
        )
    return warnings


def _name(images: Sequence[Fingerprint], index: int) -> str:
    return images[index].name or f'image {index + 1}'


def find_warnings(config: pipeline_pb2.TrainEvalPipelineConfig) -> List[str]:
    """Compare the first images of training and of each evaluation, of files on this machine."""
    fingerprints = {}
    for name, reader in named_readers(config):
        try:
            files = input_files(reader)
        except errors.UserError:  # the run itself reports it
            return []
        if any('://' in file.path for file in files):
            return []
        fingerprints[name] = list(_first(files))
    return compare(fingerprints)


def _first(files: Sequence[records.RecordFile]) -> Iterator[Fingerprint]:
    """Yield the fingerprints of the first records, up to a number of records and of bytes."""
    read = 0
    for record in itertools.islice(records.usable_records(files), _FIRST):
        read += len(record)
        if read > _MOST_BYTES:
            return
        described = fingerprint(record)
        if described is not None:
            yield described


def _hash_bytes(images: Sequence[Fingerprint]) -> np.ndarray:
    """Return the hashes as uint8 [n, 8]."""
    return np.array([each.hash for each in images], '>u8').reshape(-1, 1).view(np.uint8)


def _is_near(first: Optional[np.ndarray], second: Optional[np.ndarray]) -> bool:
    if first is None or second is None:
        return False
    # As int: differences of uint8 would wrap around.
    return bool(np.abs(first.astype(int) - second.astype(int)).mean() <= _MOST_DIFFERENCE)
