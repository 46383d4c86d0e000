"""Flatbuffers, read back by the rules of the format."""

import numpy as np

from estimator_lib.export.metadata import flatbuffer_tables
from estimator_lib.export.metadata.flatbuffer_tables import Table
from tests import flatbuffer_reader


def read(table):
    found, identifier = flatbuffer_reader.root(flatbuffer_tables.encode(table, b'ABCD'))
    assert identifier == b'ABCD'
    return found


def test_numbers_have_their_types():
    values = {0: np.int8(-3), 1: np.uint8(200), 3: np.uint32(1 << 31), 4: np.int32(-7)}
    found = read(Table(values))
    numbers = [found.number(*each) for each in ((0, '<b'), (1, '<B'), (3, '<I'), (4, '<i'))]
    assert numbers == [-3, 200, 1 << 31, -7]
    assert found.number(2, '<i', default=None) is None


def test_texts_and_vectors():
    found = read(Table({0: 'größer', 2: np.array([0.5, -2.0], np.float32)}))
    assert found.text(0) == 'größer' and found.text(1) is None
    assert found.numbers(2, '<f') == [0.5, -2.0] and found.numbers(3, '<f') == []


def test_tables_in_tables():
    inner = Table({0: 'inner', 1: np.array([3, 1], np.uint32)})
    found = read(Table({1: [inner, Table({}), Table({0: 'last'})], 2: inner}))
    assert [one.text(0) for one in found.tables(1)] == ['inner', None, 'last']
    assert found.table(2).numbers(1, '<I') == [3, 1]
    assert found.table(0) is None and found.tables(0) == []
