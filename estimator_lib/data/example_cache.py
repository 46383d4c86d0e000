"""Decoded examples that are kept for the passes that follow.

An example is found by the bytes of its record: whichever pass, process, file or order it comes in,
a record decodes to the same, so what is kept changes neither examples nor positions, and a record
that has changed is another one. What has no room is decoded at each pass.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import threading
import weakref
from typing import Any, Callable, ClassVar, Dict, List, Optional, Union

import numpy as np
import tensorflow as tf

from estimator_lib import environment, errors
from estimator_lib.data import graph_digests
from estimator_lib.data.cache_files import CacheFile, Key
from estimator_lib.data.packed_examples import Layout
from estimator_lib.task_interfaces.tensors import Example
from protos import input_reader_pb2

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')

FOLDER = 'decoded_examples'  # in model_dir
_MEMORY_SHARE = 4  # of the machine's memory one part of so many is taken, where nothing is said
_HASHES = 2**63 - 1
_ENTRY_BYTES = 256  # what Python needs of an entry beside its bytes

_Reader = input_reader_pb2.InputReader


@dataclasses.dataclass(frozen=True)
class CachePlan:
    """What a reader says of its cache.

    Attributes:
        in_file: whether examples are kept in a file, else in memory.
        max_bytes: of what is kept; None: see `cache_max_megabytes`.
        folder: of the file; empty: `FOLDER` of the model_dir.
    """

    in_file: bool
    max_bytes: Optional[int] = None
    folder: str = ''

    def file_folder(self, model_dir: Optional[str]) -> str:
        """Where the file is.

        Raises:
            errors.ConfigError: there is no such place on a disk of this machine.
        """
        folder = self.folder or (os.path.join(model_dir, FOLDER) if model_dir else '')
        if not folder or '://' in folder:
            where = f'{folder} is not on one' if folder else 'there is no model_dir'
            raise errors.ConfigError(
                f'cache: FILE needs a folder of a local disk, and {where}; set cache_folder, or '
                'cache: MEMORY.'
            )
        return folder


def plan_cache(reader: input_reader_pb2.InputReader) -> Optional[CachePlan]:
    """What a reader says; None: no decoded examples are kept."""
    if reader.cache not in (_Reader.MEMORY, _Reader.FILE):
        return None
    max_bytes = reader.cache_max_megabytes * 2**20 or None
    return CachePlan(reader.cache == _Reader.FILE, max_bytes, reader.cache_folder)


class MemoryStore:
    """Byte arrays by their keys, in memory. It may be called from several threads.

    Args:
        max_bytes: of all; None: as long as all stores of the process together have less than a
            part of the machine's memory.
    """

    is_shared = False
    _stores: ClassVar[weakref.WeakSet] = weakref.WeakSet()
    _lock: ClassVar[threading.Lock] = threading.Lock()  # of all stores

    def __init__(self, max_bytes: Optional[int] = None):
        self._max_bytes = max_bytes
        self._max_bytes_of_process = environment.memory_bytes() // _MEMORY_SHARE
        self._values: Dict[Key, np.ndarray] = {}
        self.size = 0
        with self._lock:
            self._stores.add(self)

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Key) -> Optional[np.ndarray]:
        """Return the bytes of a key, uint8 [n], not to be written to; None: there are none."""
        return self._values.get(key)

    def put(self, key: Key, value: np.ndarray) -> bool:
        """Add the bytes of a key; False where there is no room for them."""
        with self._lock:
            if key in self._values:
                return True
            if not self._has_room(value.size + _ENTRY_BYTES):
                return False
            self._values[key] = value
            self.size += value.size + _ENTRY_BYTES
            return True

    def _has_room(self, size: int) -> bool:
        if self._max_bytes is not None:
            return self.size + size <= self._max_bytes
        taken = sum(store.size for store in self._stores)
        return taken + size <= self._max_bytes_of_process


class ExampleCache:
    """Decodes records, and keeps what came of them.

    Args:
        decode: from a record, a string scalar, to an example; a function of the record alone.
        open_store: from the graph of `decode` to a `MemoryStore` or a `CacheFile`.
        count: how many records there are; None: not known.
    """

    def __init__(
        self,
        decode: Callable[[tf.Tensor], Example],
        open_store: Callable[[tf1.GraphDef], Union[MemoryStore, CacheFile]],
        count: Callable[[], Optional[int]] = lambda: None,
    ):
        self._decode = decode
        self._count = count
        with tf.Graph().as_default() as graph:
            example = decode(tf1.placeholder(tf.string, []))
            self._structure = example
            self._specs = [tf.TensorSpec.from_tensor(one) for one in tf.nest.flatten(example)]
        self._layout = Layout(self._specs)
        self._nothing = [_nothing(spec) for spec in self._specs]
        self._store = open_store(graph.as_graph_def())
        self._lock = threading.Lock()
        self._has_room = True

    def decode(self, record: tf.Tensor) -> Example:
        """The example of a record, a string scalar: kept from an earlier pass, or decoded."""
        key = [tf.strings.to_hash_bucket_fast(record, _HASHES), tf.strings.length(record)]
        found, *kept = tf.numpy_function(
            self._find, key, [tf.bool, *(spec.dtype for spec in self._specs)]
        )

        def take() -> List[tf.Tensor]:
            return [tf.ensure_shape(one, spec.shape) for one, spec in zip(kept, self._specs)]

        def decode() -> List[tf.Tensor]:
            example = tf.nest.flatten(self._decode(record))
            with tf.control_dependencies([tf.numpy_function(self._keep, key + example, tf.bool)]):
                return [tf.identity(one) for one in example]

        example = tf.cond(found, take, decode)
        return tf.nest.pack_sequence_as(self._structure, example)

    def _find(self, digest: np.int64, length: np.int32) -> List[Any]:
        packed = self._store.get((int(digest), int(length)))
        if packed is None:
            return [np.False_, *self._nothing]
        return [np.True_, *self._layout.unpack(packed)]

    def _keep(self, digest: np.int64, length: np.int32, *example: np.ndarray) -> np.bool_:
        if self._has_room:
            kept = self._store.put((int(digest), int(length)), self._layout.pack(example))
            if not kept:
                self._say_full()
        return np.True_

    def _say_full(self) -> None:
        with self._lock:
            if not self._has_room:
                return
            self._has_room = False
        if self._store.is_shared:  # which was said when it was opened
            return
        total = self._count()
        log.info(
            'the cache of decoded examples is full (%d MiB): it keeps %d%s; the others are decoded '
            'at each pass (cache_max_megabytes)',
            self._store.size // 2**20,
            len(self._store),
            '' if total is None else f' of {total} examples',
        )


def _nothing(spec: tf.TensorSpec) -> np.ndarray:
    """Return an array of a type and number of dimensions, with as little in it as can be."""
    shape = [0] * spec.shape.rank
    if spec.dtype == tf.string:
        return np.full(shape, b'', object)
    return np.zeros(shape, spec.dtype.as_numpy_dtype)


def digest_of_decoding(graph_def: tf1.GraphDef) -> str:
    """Return the digest of how records are decoded, for the file that keeps the examples.

    Args:
        graph_def: the graph of `decode`.

    Raises:
        errors.ConfigError: a later run could not tell that the decoding has changed.
    """
    try:
        return graph_digests.digest(graph_def)
    except errors.ConfigError as error:
        raise errors.ConfigError(
            f'cache: FILE keeps decoded examples for later runs, but in their decoding {error}; '
            'set cache: MEMORY.'
        ) from None


def open_file(plan: CachePlan, folder: str, name: str, digest: str) -> CacheFile:
    """Open the file of a reader, with a line in the log.

    Args:
        plan: how much it may hold.
        folder: where it is.
        name: of the reader.
        digest: of how its records are decoded.

    Raises:
        errors.UserError: it cannot be written.
    """
    file = CacheFile(os.path.join(folder, f'{name}.examples'), digest, plan.max_bytes)
    log.info(
        '%s: %d decoded examples, %d MiB%s',
        os.path.join(folder, f'{name}.examples'),
        len(file),
        file.size // 2**20,
        '; another reader adds to it, so that this one keeps no more' if file.is_shared else '',
    )
    return file
