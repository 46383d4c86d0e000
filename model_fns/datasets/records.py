"""TFRecord files of `tf.train.Example`: the keys that every task shares, and shards on disk."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
from typing import Dict, Iterable, Iterator, List, Mapping, Union

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.processes import preemption
from model_fns.structures import images

tf1 = tf.compat.v1

# Ends after which the same command continues.
STOPS = (preemption.Preempted, KeyboardInterrupt)

Value = Union[bytes, str, int, float, np.ndarray, List[bytes], List[str]]
Features = Dict[str, Value]


def image_features(
    encoded: bytes, header: images.ImageHeader, filename: str, source_id: str
) -> Features:
    """Return the features that every record has for its image.

    Args:
        encoded: the bytes of the image file.
        header: its format and size.
        filename: of the image.
        source_id: name of the image in messages and results, unique in a data set.
    """
    return {
        'image/encoded': encoded,
        'image/format': header.format,
        'image/height': header.height,
        'image/width': header.width,
        'image/filename': filename,
        'image/source_id': source_id,
        'image/key/sha256': hashlib.sha256(encoded).hexdigest(),
    }


def serialize(features: Mapping[str, Value]) -> bytes:
    """Serialize features as a `tf.train.Example`.

    Args:
        features: values by key: one value, a list of bytes or text, or an array of one dimension of
            integers or floats. The type of an empty array counts, an empty list has none.
    """
    feature = {key: _feature(key, value) for key, value in features.items()}
    example = tf.train.Example(features=tf.train.Features(feature=feature))
    # Deterministic: equal examples give equal bytes, in any order of the keys.
    return example.SerializeToString(deterministic=True)


def _feature(key: str, value: Value) -> tf.train.Feature:
    if isinstance(value, (bytes, str)):
        value = [value]
    if isinstance(value, list):
        encoded = [item.encode() if isinstance(item, str) else item for item in value]
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=encoded) if value else None)
    numbers = np.atleast_1d(value)
    if numbers.dtype.kind in 'iub':
        # The protobuf of newer versions of TensorFlow refuses booleans.
        integers = [int(number) for number in numbers]
        return tf.train.Feature(int64_list=tf.train.Int64List(value=integers))
    if numbers.dtype.kind == 'f':
        return tf.train.Feature(float_list=tf.train.FloatList(value=numbers.tolist()))
    raise ValueError(f'{key}: a value of type {numbers.dtype} cannot be part of an example.')


class ShardWriter:
    """Writer of examples to shards, alternating; the files get their names when all are complete.

    A context manager. Shard i of n of `DIR/train` is `DIR/train-0000i-of-0000n.tfrecord`.

    Args:
        prefix: folder and beginning of the file names; missing folders are created.
        num_shards: number of files.
        keeps: whether what is written before a signal stays for `read_kept` of the next start.

    Raises:
        errors.DataError: there are shards of the same prefix in another number, which the same
            pattern would read together with the new ones; or the folder cannot be written to.
    """

    def __init__(self, prefix: str, num_shards: int, keeps: bool = False):
        if num_shards < 1:
            raise ValueError(f'num_shards must be at least 1, got {num_shards}.')
        self._paths = [shard_path(prefix, shard, num_shards) for shard in range(num_shards)]
        self._prefix = prefix
        self._keeps = keeps
        self._writers: List[tf.io.TFRecordWriter] = []
        self.num_written = 0

    def __enter__(self) -> ShardWriter:
        prepare_folder(self._prefix, len(self._paths))
        try:
            for path in self._paths:
                self._writers.append(tf.io.TFRecordWriter(self._temporary(path)))
        except tf.errors.OpError as error:
            self._discard()
            raise _unwritable(self._prefix, error) from error
        return self

    def write(self, serialized: bytes) -> None:
        """Append an example to the next shard.

        Raises:
            errors.DataError: the disk is full, or refuses it for another reason.
        """
        try:
            self._writers[self.num_written % len(self._writers)].write(serialized)
        except tf.errors.OpError as error:
            raise _unwritable(self._prefix, error) from error
        self.num_written += 1

    @property
    def has_kept(self) -> bool:
        """True where an earlier start has left its files."""
        return self._keeps and all(map(tf.io.gfile.exists, map(self._partial, self._paths)))

    def read_kept(self) -> Iterator[bytes]:
        """Yield the examples that an earlier start has written before a signal, in their order."""
        shards = [tf1.io.tf_record_iterator(self._partial(path)) for path in self._paths]
        with contextlib.suppress(StopIteration, tf.errors.OpError):
            # Records alternate between shards, so the first shard that ends is the end of them.
            for shard in itertools.cycle(shards):
                yield next(shard)

    def _keep(self) -> None:
        """Close the files, and leave them for the next start."""
        with contextlib.suppress(tf.errors.OpError):
            for writer in self._writers:
                writer.close()
            for path in self._paths:
                tf.io.gfile.rename(self._temporary(path), self._partial(path), overwrite=True)

    @staticmethod
    def _partial(path: str) -> str:
        folder, name = os.path.split(path)
        return os.path.join(folder, f'.{name}.partial')

    def __exit__(self, error_type, error, traceback) -> None:
        if self._keeps and error_type is not None and issubclass(error_type, STOPS):
            self._keep()
            return
        if error_type is not None:
            self._discard()
            return
        try:
            for writer in self._writers:
                writer.close()  # Writes what is still in memory.
        except tf.errors.OpError as full:
            self._discard()
            raise _unwritable(self._prefix, full) from full
        for path in self._paths:
            tf.io.gfile.rename(self._temporary(path), path, overwrite=True)
        self._remove(map(self._partial, self._paths))

    def _discard(self) -> None:
        """Remove the files of a conversion that failed."""
        for writer in self._writers:
            with contextlib.suppress(tf.errors.OpError):  # a full disk
                writer.close()
        self._remove(map(self._temporary, self._paths))
        self._remove(map(self._partial, self._paths))

    @staticmethod
    def _remove(paths: Iterable[str]) -> None:
        for path in paths:
            if tf.io.gfile.exists(path):
                tf.io.gfile.remove(path)

    @staticmethod
    def _temporary(path: str) -> str:
        folder, name = os.path.split(path)
        # With the process: two conversions at once must not write one file.
        return os.path.join(folder, f'.{name}.{os.getpid()}')


def shard_path(prefix: str, shard: int, num_shards: int) -> str:
    """Return the path of a shard, counted from 0."""
    return f'{prefix}-{shard:05d}-of-{num_shards:05d}.tfrecord'


def shard_pattern(prefix: str) -> str:
    """Return the glob that matches the shards of a prefix, for any number of shards."""
    return f'{prefix}-?????-of-?????.tfrecord'


def prepare_folder(prefix: str, num_shards: int) -> None:
    """Create the folder of a prefix, and check that it has no other shards of that prefix.

    Raises:
        errors.DataError: there are shards of the same prefix in another number, or there can be no
            such folder.
    """
    paths = {shard_path(prefix, shard, num_shards) for shard in range(num_shards)}
    try:
        # A pattern of a config does not tell 2 old shards from 4 new ones: both would be read.
        others = sorted(set(tf.io.gfile.glob(shard_pattern(prefix))) - paths)
        tf.io.gfile.makedirs(os.path.dirname(prefix) or '.')
    except tf.errors.OpError as error:
        raise _unwritable(prefix, error) from error
    if others:
        raise errors.DataError(
            f'{others[0]}: this shard of an earlier conversion would be read together with the '
            f'{num_shards} new ones; remove the {len(others)} old files or choose another prefix.'
        )


def _unwritable(prefix: str, error: tf.errors.OpError) -> errors.DataError:
    reason = errors.first_line(error).rstrip('.')
    return errors.DataError(f'{prefix}: the records cannot be written there: {reason}.')
