"""Counts and boxes of ids, beside `np.unique` and masks."""

import numpy as np
import pytest

from model_fns.structures import id_maps


@pytest.mark.parametrize('block', [1, 40, 1 << 22])
def test_counts_and_boxes(monkeypatch, block):
    monkeypatch.setattr(id_maps, '_BLOCK_PIXELS', block)
    random = np.random.RandomState(0)
    ids = np.zeros([13, 17], np.uint16)
    for number in (1, 2, 4, 300):
        top, left = random.randint(0, 10, 2)
        ids[top : top + 3, left : left + 6][random.rand(3, 6)[: 13 - top] < 0.7] = number
    counts, boxes = id_maps.count_pixels(ids), id_maps.enclosing_boxes(ids)
    assert len(counts) == len(boxes) == 301
    for number in range(301):
        rows, columns = np.nonzero(ids == number)
        assert counts[number] == len(rows)
        if len(rows):
            expected = [rows.min(), columns.min(), rows.max() + 1, columns.max() + 1]
            assert boxes[number].tolist() == expected


def test_an_empty_map():
    assert id_maps.count_pixels(np.zeros([0, 3], int)).tolist() == [0]
