"""Flatbuffers whose tables are Python values, for schemas without generated code."""

from __future__ import annotations

from typing import Any, List, Mapping, NamedTuple, Sequence, Union

import flatbuffers
import flatbuffers.encode
import flatbuffers.packer
import flatbuffers.table
import numpy as np

Referred = Union[str, np.ndarray, 'Table', Sequence['Table']]
Value = Union[np.generic, Referred]


class Table(NamedTuple):
    """Table of a flatbuffer.

    Attributes:
        fields: by their positions in the table of the schema, from 0; a union takes two, the first
            of which is its kind. The type of a number is that of NumPy: `np.int8` for an enum of
            bytes, `np.uint8` for the kind of a union. An array is a vector of numbers, a sequence
            a vector of tables.
    """

    fields: Mapping[int, Value]


def encode(root: Table, identifier: bytes) -> bytes:
    """Return a flatbuffer.

    Args:
        root: its root table.
        identifier: of the file, 4 bytes.
    """
    builder = flatbuffers.Builder(1024)
    builder.Finish(_write(builder, root), file_identifier=identifier)
    return bytes(builder.Output())


def _write(builder: flatbuffers.Builder, value: Referred) -> int:
    """Write what is referred to by an offset, and return the offset."""
    if isinstance(value, str):
        return int(builder.CreateString(value))
    if isinstance(value, np.ndarray):
        return int(builder.CreateNumpyVector(value))
    if isinstance(value, Table):
        return _write_table(builder, value)
    offsets = [_write(builder, table) for table in value]
    builder.StartVector(4, len(offsets), 4)
    # A flatbuffer is built from its end: the last element comes first.
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def _write_table(builder: flatbuffers.Builder, table: Table) -> int:
    # Tables cannot be nested while they are written: the values come first.
    offsets = {
        position: _write(builder, value)
        for position, value in table.fields.items()
        if not isinstance(value, np.generic)
    }
    builder.StartObject(max(table.fields, default=-1) + 1)
    for position, value in table.fields.items():
        if isinstance(value, np.generic):
            prepend = getattr(builder, f'Prepend{value.dtype.name.capitalize()}Slot')
            # A number that equals its default, here 0, is left out; readers fill it in.
            prepend(position, value.item(), 0)
        else:
            builder.PrependUOffsetTRelativeSlot(position, offsets[position], 0)
    return int(builder.EndObject())


class Decoded:
    """Table of a flatbuffer that is read.

    Args:
        table: of the library, which knows no schema.
    """

    def __init__(self, table: flatbuffers.table.Table):
        self._table = table

    def number(self, position: int, dtype: Any) -> Any:
        """Return the number at a position in the table of the schema; 0 where it is left out."""
        place = self._place(position)
        if not place:
            return dtype(0)
        return np.frombuffer(self._table.Bytes, dtype, 1, self._table.Pos + place)[0]

    def numbers(self, position: int, dtype: Any) -> Sequence[Any]:
        """Return the vector of numbers at a position; empty where it is left out."""
        place = self._place(position)
        if not place:
            return []
        start, count = self._table.Vector(place), self._table.VectorLen(place)
        return np.frombuffer(self._table.Bytes, dtype, count, start).tolist()

    def table(self, position: int) -> Decoded:
        """Return the table at a position, which must be there."""
        start = self._table.Pos + self._place(position)
        return Decoded(flatbuffers.table.Table(self._table.Bytes, self._table.Indirect(start)))

    def tables(self, position: int) -> List[Decoded]:
        """Return the vector of tables at a position; empty where it is left out."""
        place = self._place(position)
        if not place:
            return []
        start = self._table.Vector(place)
        places = (start + 4 * index for index in range(self._table.VectorLen(place)))
        content = self._table.Bytes
        return [
            Decoded(flatbuffers.table.Table(content, self._table.Indirect(each))) for each in places
        ]

    def _place(self, position: int) -> int:
        # A vtable has two sizes of 2 bytes, its own and the table's, and then 2 bytes for each
        # field.
        return int(self._table.Offset(4 + 2 * position))


def decode(content: bytes) -> Decoded:
    """Return the root table of a flatbuffer."""
    root = flatbuffers.encode.Get(flatbuffers.packer.uoffset, content, 0)
    return Decoded(flatbuffers.table.Table(content, root))
