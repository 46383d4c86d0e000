"""Decoded examples as bytes; unpacking them copies no arrays of numbers."""

from __future__ import annotations

from typing import List, Sequence

import numpy as np
import tensorflow as tf

# TensorFlow uses an array without a copy if it begins at a multiple of this.
# `EIGEN_MAX_ALIGN_BYTES` of TensorFlow's builds, and its `kAllocatorAlignment`.
ALIGNMENT = 64


class Layout:
    """Layout of the arrays of an example in one array of bytes.

    First come the shapes of all arrays and the lengths of all strings, int64. Then come the numbers
    or string bytes of each array, each beginning at a multiple of `ALIGNMENT`.

    Args:
        specs: the types and the (known) ranks of the arrays.
    """

    def __init__(self, specs: Sequence[tf.TensorSpec]):
        self._fields = [
            (None if spec.dtype == tf.string else spec.dtype.as_numpy_dtype, spec.shape.rank)
            for spec in specs
        ]
        self._num_sides = sum(rank for _, rank in self._fields)

    def pack(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Pack the arrays of an example into uint8 [n], aligned to `ALIGNMENT`."""
        numbers: List[int] = []
        parts: List[np.ndarray] = []
        lengths: List[int] = []
        for array, (dtype, _) in zip(arrays, self._fields):
            array = np.asarray(array)
            numbers += array.shape
            if dtype is None:
                strings = [bytes(each) for each in array.ravel()]
                lengths += map(len, strings)
                parts.append(np.frombuffer(b''.join(strings), np.uint8))
            else:
                parts.append(np.ascontiguousarray(array, dtype).reshape(-1).view(np.uint8))
        parts.insert(0, np.array(numbers + lengths, np.int64).view(np.uint8))
        packed = aligned_bytes(sum(_padded(part.size) for part in parts))
        offset = 0
        for part in parts:
            packed[offset : offset + part.size] = part
            packed[offset + part.size : offset + _padded(part.size)] = 0
            offset += _padded(part.size)
        return packed

    def unpack(self, packed: np.ndarray) -> List[np.ndarray]:
        """Unpack the arrays of an example; arrays of numbers are views of `packed`."""
        sides = packed[: 8 * self._num_sides].view(np.int64).tolist()
        shapes, taken, num_strings = [], 0, 0
        for dtype, rank in self._fields:
            shapes.append(sides[taken : taken + rank])
            taken += rank
            if dtype is None:
                num_strings += _product(shapes[-1])
        start, end = 8 * self._num_sides, 8 * (self._num_sides + num_strings)
        lengths = packed[start:end].view(np.int64).tolist()
        offset, arrays = _padded(end), []
        for (dtype, _), shape in zip(self._fields, shapes):
            count = _product(shape)
            if dtype is None:
                strings = np.empty([count], object)
                size = 0
                for index in range(count):
                    length = lengths.pop(0)
                    begin = offset + size
                    strings[index] = packed[begin : begin + length].tobytes()
                    size += length
                arrays.append(strings.reshape(shape))
            else:
                arrays.append(np.ndarray(shape, dtype, packed.data, offset))
                size = arrays[-1].nbytes
            offset += _padded(size)
        return arrays


def aligned_bytes(size: int) -> np.ndarray:
    """Allocate uint8 [size] that begins at a multiple of `ALIGNMENT`, not initialized."""
    whole = np.empty([size + ALIGNMENT], np.uint8)
    start = -whole.ctypes.data % ALIGNMENT
    return whole[start : start + size]


def _padded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _product(shape: Sequence[int]) -> int:
    product = 1
    for side in shape:
        product *= side
    return product
