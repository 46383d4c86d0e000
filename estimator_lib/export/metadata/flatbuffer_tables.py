"""Encoder of flatbuffers whose tables are Python values, for schemas without generated code."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Sequence, Union

import flatbuffers
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
            prepend(position, value.item(), 0)
        else:
            builder.PrependUOffsetTRelativeSlot(position, offsets[position], 0)
    return int(builder.EndObject())
