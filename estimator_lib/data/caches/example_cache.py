"""A cache of decoded examples for later passes over the data.

The key of an example is a hash of its record. A record decodes to the same example in every pass,
process, file or order, so the cache changes neither examples nor positions. A changed record has
another key. Examples for which there is no room are decoded in each pass.
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
from estimator_lib.data.caches import graph_digests
from estimator_lib.data.caches.cache_files import CacheFile, Key
from estimator_lib.data.caches.packed_examples import Layout
from estimator_lib.task_interfaces.tensors import Example
from protos import input_reader_pb2

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')

FOLDER = 'decoded_examples'  # in model_dir
_MEMORY_SHARE = 4  # without a limit in the config: 1 / 4 of the machine's memory
# The most buckets that the op takes: an int64.
_HASHES = 2**63 - 1
_ENTRY_BYTES = 256  # Python's overhead of an entry

_Reader = input_reader_pb2.InputReader


@dataclasses.dataclass(frozen=True)
class CachePlan:
    """Cache settings of a reader.

    Attributes:
        in_file: True to keep examples in a file, False in memory.
        max_bytes: limit of the cache; None: the default of `cache_max_megabytes`.
        folder: the folder of the file; empty: `FOLDER` in the model_dir.
    """

    in_file: bool
    max_bytes: Optional[int] = None
    folder: str = ''

    def file_folder(self, model_dir: Optional[str]) -> str:
        """Return the folder of the cache file.

        Raises:
            errors.ConfigError: the folder is not on a disk of this machine.
        """
        folder = self.folder or (os.path.join(model_dir, FOLDER) if model_dir else '')
        if not folder or '://' in folder:
            problem = f'{folder} is not on one' if folder else 'there is no model_dir'
            raise errors.ConfigError(
                f'cache: FILE needs a folder of a local disk, and {problem}; set cache_folder, or '
                'cache: MEMORY.'
            )
        return folder


def plan_cache(reader: input_reader_pb2.InputReader) -> Optional[CachePlan]:
    """Read the cache settings of a reader; return None if it caches no decoded examples."""
    if reader.cache not in (_Reader.MEMORY, _Reader.FILE):
        return None
    max_bytes = reader.cache_max_megabytes * 2**20 or None
    return CachePlan(reader.cache == _Reader.FILE, max_bytes, reader.cache_folder)


class MemoryStore:
    """Byte arrays by their keys, in memory; several threads may use it.

    Args:
        max_bytes: limit of the store; None: all stores of the process together may take a quarter
            of the machine's memory.
    """

    is_shared = False
    _stores: ClassVar[weakref.WeakSet] = weakref.WeakSet()
    _lock: ClassVar[threading.Lock] = threading.Lock()  # shared by all stores

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
        """Return the read-only bytes of a key, uint8 [n]; None if the key is not there."""
        return self._values.get(key)

    def put(self, key: Key, value: np.ndarray) -> bool:
        """Add the bytes of a key; return False if there is no room for them."""
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
    """Decoder of records that keeps the decoded examples.

    Args:
        decode: maps a record, a string scalar, to an example; depends on the record alone.
        open_store: called with the graph of `decode`; returns a `MemoryStore` or a `CacheFile`.
        count: returns the number of records; None if it is not known.
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
            self._specs = [tf.TensorSpec.from_tensor(part) for part in tf.nest.flatten(example)]
        self._layout = Layout(self._specs)
        # A miss returns arrays too: a Python function in a graph has outputs of fixed types.
        self._nothing = [_empty_array(spec) for spec in self._specs]
        self._store = open_store(graph.as_graph_def())
        self._lock = threading.Lock()
        self._has_room = True

    def decode(self, record: tf.Tensor) -> Example:
        """Return the example of a record, a string scalar: from the cache, or decoded."""
        # By its documentation this hash never changes, so a file serves later releases. The length
        # makes a collision still less likely.
        key = [tf.strings.to_hash_bucket_fast(record, _HASHES), tf.strings.length(record)]
        is_cached, *cached = tf.numpy_function(
            self._find, key, [tf.bool, *(spec.dtype for spec in self._specs)]
        )

        def take() -> List[tf.Tensor]:
            return [tf.ensure_shape(part, spec.shape) for part, spec in zip(cached, self._specs)]

        def decode() -> List[tf.Tensor]:
            example = tf.nest.flatten(self._decode(record))
            with tf.control_dependencies([tf.numpy_function(self._keep, key + example, tf.bool)]):
                return [tf.identity(part) for part in example]

        example = tf.cond(is_cached, take, decode)
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
        if self._store.is_shared:  # logged when the store was opened
            return
        total = self._count()
        log.info(
            'the cache of decoded examples is full (%d MiB): it keeps %d%s; the others are decoded '
            'at each pass (cache_max_megabytes)',
            self._store.size // 2**20,
            len(self._store),
            '' if total is None else f' of {total} examples',
        )


def _empty_array(spec: tf.TensorSpec) -> np.ndarray:
    """Build an array of a spec's type and rank with as few elements as possible."""
    shape = [0] * spec.shape.rank
    if spec.dtype == tf.string:
        return np.full(shape, b'', object)
    return np.zeros(shape, spec.dtype.as_numpy_dtype)


def digest_of_decoding(graph_def: tf1.GraphDef) -> str:
    """Compute the digest of the decoding graph, which identifies the content of a cache file.

    Args:
        graph_def: the graph of `decode`.

    Raises:
        errors.ConfigError: the graph calls Python, so a digest would miss changes of the code.
    """
    try:
        return graph_digests.digest(graph_def)
    except errors.ConfigError as error:
        raise errors.ConfigError(
            f'cache: FILE keeps decoded examples for later runs, but in their decoding {error}; '
            'set cache: MEMORY.'
        ) from None


def open_file(plan: CachePlan, folder: str, name: str, digest: str) -> CacheFile:
    """Open the cache file of a reader, and log its size.

    Args:
        plan: the cache settings of the reader.
        folder: the folder of the file.
        name: the name of the reader.
        digest: the digest of the decoding and of the records.

    Raises:
        errors.UserError: the file cannot be written.
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
