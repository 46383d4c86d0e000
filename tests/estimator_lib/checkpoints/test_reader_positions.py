"""Positions of a checkpoint's readers, by hand."""

import pathlib

import numpy as np
import pytest

from estimator_lib import errors
from estimator_lib.checkpoints import reader_positions
from tests.estimator_lib.tiny_task import save

SHAPE = [3, 3]  # two sources


def names(*readers):
    return [f'input_reader/{reader}/position' for reader in readers]


@pytest.fixture
def prefix(tmp_path):
    """A checkpoint of two workers: each has drawn four examples, and one has skipped one."""
    first = [[1, 9, 55], [0, 3, 66], [4, 1, 0]]
    second = [[2, 1, 55], [0, -3, 66], [4, 0, 0]]  # has not drawn from the second source yet
    values = dict(zip(names('worker_0', 'worker_1'), np.array([first, second], np.int64)))
    return save(tmp_path / 'model.ckpt-2', {'weights': np.zeros([2], np.float32), **values})


def test_others_go_on_from_the_furthest_position(prefix):
    moved = reader_positions.moved_positions(prefix, names('chief_0'), SHAPE)
    assert {name: value.tolist() for name, value in moved.items()} == {
        'input_reader/chief_0/position': [[2, -2, 55], [0, -4, 66], [8, 1, 0]]
    }


def test_more_readers_share_the_totals(prefix):
    moved = reader_positions.moved_positions(
        prefix, names('chief_0', 'worker_0', 'worker_1'), SHAPE
    )
    assert [value[-1].tolist() for value in moved.values()] == [[3, 1, 0], [3, 0, 0], [2, 0, 0]]
    assert {tuple(value[:-1].ravel()) for value in moved.values()} == {(2, -2, 55, 0, -4, 66)}


def test_the_same_readers_and_those_of_other_sources_keep_theirs(prefix, tmp_path):
    same = names('worker_1', 'worker_0')
    assert reader_positions.moved_positions(prefix, same, SHAPE) == {}
    assert reader_positions.moved_positions(prefix, names('chief_0'), [2, 3]) == {}
    other = save(tmp_path / 'model.ckpt-9', {'weights': np.zeros([2], np.float32)})
    assert reader_positions.moved_positions(other, names('chief_0'), SHAPE) == {}


def test_an_index_of_all_readers_is_negative():
    assert [reader_positions.joint_index(index) for index in (0, 4, -1, -5)] == [-1, -5, 0, 4]


def test_a_corrupt_checkpoint(prefix):
    (path,) = pathlib.Path(prefix).parent.glob('model.ckpt-2.data*')
    path.write_bytes(b'')
    with pytest.raises(errors.CheckpointError):
        reader_positions.moved_positions(prefix, names('chief_0'), SHAPE)
