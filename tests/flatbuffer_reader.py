"""Reader of flatbuffers by the format's own rules, without the library that writes them.

A table begins with the distance back to its vtable. The vtable has the sizes of itself and of the
table, then the place of each field in the table, 0 for a field that is not there. Strings, vectors
and tables are referred to by the distance from the reference.
"""

import struct


class Table:
    """A table in a buffer."""

    def __init__(self, buffer, position):
        self._buffer, self._position = buffer, position
        self._vtable = position - self._number('<i', position)

    def number(self, field, kind, default=0):
        """A number of a kind of `struct`."""
        place = self._place(field)
        return self._number(kind, place) if place else default

    def text(self, field):
        """A string; None where there is none."""
        place = self._place(field)
        return self._text(place) if place else None

    def table(self, field):
        """A table; None where there is none."""
        place = self._place(field)
        return Table(self._buffer, self._target(place)) if place else None

    def numbers(self, field, kind):
        """A vector of numbers, as a list."""
        start, count = self._vector(field)
        size = struct.calcsize(kind)
        return [self._number(kind, start + size * row) for row in range(count)]

    def texts(self, field):
        """A vector of strings, as a list."""
        start, count = self._vector(field)
        return [self._text(start + 4 * row) for row in range(count)]

    def tables(self, field):
        """A vector of tables, as a list."""
        start, count = self._vector(field)
        return [Table(self._buffer, self._target(start + 4 * row)) for row in range(count)]

    def bytes(self, field):
        """A vector of bytes."""
        start, count = self._vector(field)
        return self._buffer[start : start + count]

    def _number(self, kind, place):
        return struct.unpack_from(kind, self._buffer, place)[0]

    def _target(self, place):
        return place + self._number('<I', place)

    def _text(self, place):
        start = self._target(place)
        length = self._number('<I', start)
        return self._buffer[start + 4 : start + 4 + length].decode()

    def _vector(self, field):
        place = self._place(field)
        if not place:
            return 0, 0
        start = self._target(place)
        return start + 4, self._number('<I', start)

    def _place(self, field):
        """Where a field is in the buffer; 0: nowhere."""
        if 4 + 2 * field >= self._number('<H', self._vtable):
            return 0
        offset = self._number('<H', self._vtable + 4 + 2 * field)
        return self._position + offset if offset else 0


def root(buffer):
    """The root table, and the identifier of the file."""
    return Table(buffer, struct.unpack_from('<I', buffer)[0]), buffer[4:8]
