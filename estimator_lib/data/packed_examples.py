"""Decoded examples as bytes, from which their arrays are had again without copying."""

from __future__ import annotations

from typing import List, Sequence

import numpy as np
import tensorflow as tf

# TensorFlow takes an array over as it is where it begins at a multiple of this.
ALIGNMENT = 64


class Layout:
    """How the arrays of an example lie in one array of bytes.

    First the sides of all arrays, int64, and the lengths of all strings; then the numbers of each
    array, or the bytes of its strings, each from a multiple of `ALIGNMENT` on.

    Args:
        specs: of the arrays: types, and numbers of dimensions, which are known.
    """

    def __init__(self, specs: Sequence[tf.TensorSpec]):
        self._fields = [
            (None if spec.dtype == tf.string else spec.dtype.as_numpy_dtype, spec.shape.rank)
            for spec in specs
        ]
        self._num_sides = sum(rank for _, rank in self._fields)

    def pack(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """The arrays of an example, as uint8 [n], which begins at a multiple of `ALIGNMENT`."""
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
        """Return the arrays of an example; those of numbers lie in `packed`."""
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
    """uint8 [size] of any values, which begins at a multiple of `ALIGNMENT`."""
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
