"""Files that `torch.save` wrote, read without torch.

Such a file is a pickle, which can run any code, and raw numbers beside it. The reader knows the few
names that a dict of tensors needs, and refuses each other name. Two containers exist: since torch
1.6 a zip archive, before it pickles one after the other, and the numbers behind them.
"""

from __future__ import annotations

import collections
import contextlib
import pickle
import struct
import zipfile
import zlib
from typing import (
    Any,
    BinaryIO,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Sequence,
    Tuple,
)

import numpy as np

from estimator_lib import errors

SUFFIXES = ('.pth', '.pt')

# The first pickle of a file from before torch 1.6.
# It is MAGIC_NUMBER of torch/serialization.py.
_MAGIC = 0x1950A86A20F9469CFC6C
# No BFloat16Storage: NumPy has no such type.
_TYPES = {
    'FloatStorage': np.dtype('<f4'),
    'DoubleStorage': np.dtype('<f8'),
    'HalfStorage': np.dtype('<f2'),
    'LongStorage': np.dtype('<i8'),
    'IntStorage': np.dtype('<i4'),
    'ByteStorage': np.dtype('u1'),
    'BoolStorage': np.dtype('?'),
}
# Keys that checkpoints of training programs hold the weights under.
_NESTED = ('model', 'state_dict', 'model_state_dict')


class _Storage(NamedTuple):
    """Numbers that tensors are parts of: their type, and their key in the file."""

    dtype: np.dtype
    key: str


class _Tensor(NamedTuple):
    """Part of a storage. Offset and strides count numbers."""

    storage: _Storage
    offset: int
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]


class _Slice:
    """Tensor that knows its shape, as `safetensors` has it."""

    def __init__(self, shape: Sequence[int]):
        self._shape = list(shape)

    def get_shape(self) -> List[int]:
        """Return the sizes of the axes."""
        return self._shape


class TorchFile:
    """Tensors of a file by name, with the methods of `safetensors.safe_open`.

    Args:
        path: for messages.
        tensors: by name.
        read: storage -> its numbers.
    """

    def __init__(
        self,
        path: str,
        tensors: Mapping[str, _Tensor],
        read: Callable[[_Storage], np.ndarray],
    ):
        self._path = path
        self._tensors = tensors
        self._read = read

    def keys(self) -> List[str]:
        """Return the names of all tensors."""
        return list(self._tensors)

    def get_slice(self, name: str) -> _Slice:
        """Return an object with the shape of a tensor."""
        return _Slice(self._tensors[name].shape)

    def get_tensor(self, name: str) -> np.ndarray:
        """Return the values of a tensor.

        Returns:
            An array of the shape and the type in the file; read-only.

        Raises:
            errors.CheckpointError: its numbers are not in the file, are fewer, or are corrupt.
        """
        tensor = self._tensors[name]
        with _refusing(self._path):
            numbers = self._read(tensor.storage)
        # `as_strided` checks no bounds: a false shape would read memory of the process.
        steps = [(size - 1) * step for size, step in zip(tensor.shape, tensor.strides)]
        is_empty = 0 in tensor.shape
        if min([tensor.offset, *tensor.shape, *tensor.strides, 0]) < 0 or (
            not is_empty and tensor.offset + sum(steps) >= len(numbers)
        ):
            raise errors.CheckpointError(
                f'{self._path} is truncated or corrupt: {name} of shape {list(tensor.shape)} has '
                f'{len(numbers)} numbers.'
            )
        if is_empty:
            return np.zeros(tensor.shape, tensor.storage.dtype)
        bytes_each = tensor.storage.dtype.itemsize
        return np.lib.stride_tricks.as_strided(
            numbers[tensor.offset :],
            tensor.shape,
            [step * bytes_each for step in tensor.strides],
            writeable=False,
        )


@contextlib.contextmanager
def _refusing(path: str) -> Iterator[None]:
    """Convert what corrupt files raise."""
    try:
        yield
    except (
        *(pickle.UnpicklingError, zipfile.BadZipFile, EOFError, KeyError, IndexError, TypeError),
        *(ValueError, AttributeError, OSError, OverflowError, struct.error, MemoryError),
        *(zlib.error, NotImplementedError, RuntimeError),  # of members of a zip archive
    ) as error:
        raise errors.CheckpointError(
            f'{path} cannot be read as weights of torch: {errors.first_line(error)}'
        ) from None


def open_file(path: str) -> TorchFile:
    """Open a file.

    Raises:
        errors.CheckpointError: the file is corrupt, holds other objects than tensors, or names
            code.
    """
    with _refusing(path), open(path, 'rb') as file:
        is_zip = zipfile.is_zipfile(file)
        # `is_zipfile` has moved to the end of the file, where a zip archive has its directory.
        file.seek(0)
        values, read = _open_zip(path) if is_zip else _open_pickles(file)
    for key in _NESTED:
        if isinstance(values, dict) and isinstance(values.get(key), dict):
            values = values[key]
    tensors = values if isinstance(values, dict) else {}
    tensors = {str(name): value for name, value in tensors.items() if isinstance(value, _Tensor)}
    if not tensors:
        raise errors.CheckpointError(
            f'{path} has no tensors by name; expected a state dict, as torch.save(model.'
            'state_dict(), ...) writes it.'
        )
    return TorchFile(path, tensors, read)


def _rebuild_tensor(
    storage: _Storage, offset: int, shape: Sequence[int], strides: Sequence[int], *_: Any
) -> _Tensor:
    if not isinstance(storage, _Storage):
        raise pickle.UnpicklingError(f'a tensor without numbers, of a {type(storage).__name__}')
    return _Tensor(storage, int(offset), tuple(map(int, shape)), tuple(map(int, strides)))


def _rebuild_parameter(tensor: _Tensor, *_: Any) -> _Tensor:
    return tensor


_NAMES: Dict[Tuple[str, str], Any] = {
    ('collections', 'OrderedDict'): collections.OrderedDict,
    ('torch._utils', '_rebuild_tensor_v2'): _rebuild_tensor,
    ('torch._utils', '_rebuild_tensor'): _rebuild_tensor,
    ('torch._utils', '_rebuild_parameter'): _rebuild_parameter,
    **{('torch', name): dtype for name, dtype in _TYPES.items()},
}


class _Unpickler(pickle.Unpickler):
    """Unpickler of tensors, which finds no other names."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the object of a known name.

        Raises:
            pickle.UnpicklingError: the name is of code that no state dict needs, or of numbers of
                an unknown type.
        """
        if module == 'torch' and name.endswith('Storage') and name not in _TYPES:
            raise pickle.UnpicklingError(
                f'it holds {module}.{name}, numbers of an unknown type; expected one of '
                f'{", ".join(_TYPES)}'
            )
        # The only way of a pickle to code: its other instructions call what this returns.
        if (module, name) not in _NAMES:
            raise pickle.UnpicklingError(
                f'it holds {module}.{name}; expected tensors only, as a state dict has them'
            )
        return _NAMES[module, name]

    def persistent_load(self, pid: Any) -> _Storage:
        """Return the storage that an id names.

        Raises:
            pickle.UnpicklingError: the id is not of a storage of a known type.
        """
        # Device and number of values follow, which the numbers themselves tell.
        kind, dtype, key = pid[:3]
        if kind != 'storage' or not isinstance(dtype, np.dtype):
            raise pickle.UnpicklingError(f'it holds a {kind!r} of an unknown type')
        return _Storage(dtype, str(key))


_Opened = Tuple[Any, Callable[[_Storage], np.ndarray]]


def _open_zip(path: str) -> _Opened:
    """Read the names and shapes of a zip archive; its numbers are read when they are asked for."""
    archive = zipfile.ZipFile(path)  # open until the weights are forgotten: its index is long
    # The root is the name that the file had when it was saved. None or two: ValueError.
    (index,) = (name for name in archive.namelist() if name.endswith('/data.pkl'))
    with archive.open(index) as pickled:
        values = _Unpickler(pickled).load()
    root = index[: -len('data.pkl')]

    def read(storage: _Storage) -> np.ndarray:
        return np.frombuffer(archive.read(f'{root}data/{storage.key}'), storage.dtype)

    return values, read


def _open_pickles(file: BinaryIO) -> _Opened:
    """Read a file from before torch 1.6: names, shapes, and where each storage begins."""
    first = _Unpickler(file).load()
    if first != _MAGIC:
        raise pickle.UnpicklingError(
            f'it begins with {first!r:.40}, so it does not begin as a file of torch.save'
        )
    _Unpickler(file).load()  # version
    _Unpickler(file).load()  # sizes of numbers of the machine
    types: Dict[str, np.dtype] = {}

    class Unpickler(_Unpickler):
        def persistent_load(self, pid: Any) -> _Storage:
            storage = super().persistent_load(pid)
            types[storage.key] = storage.dtype
            return storage

    values = Unpickler(file).load()
    numbers: Dict[str, np.ndarray] = {}
    for key in _Unpickler(file).load():
        # Little endian on every machine: torch swaps the bytes where it must.
        (count,) = struct.unpack('<q', file.read(8))
        dtype = types[str(key)]
        numbers[str(key)] = np.frombuffer(file.read(count * dtype.itemsize), dtype)
    return values, lambda storage: numbers[storage.key]
