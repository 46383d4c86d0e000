"""Numbers of examples, written and read."""

import numpy as np
import pytest

from estimator_lib import errors
from estimator_lib.analysis import example_files


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / 'examples.npz'
    names = [b'a.jpg', 'größer.jpg'.encode(), b'']
    content = example_files.to_bytes(names, {'right': np.array([1, 0, 1], np.int8)})
    path.write_bytes(content)
    examples = example_files.read(str(path))
    assert list(examples.names) == names
    assert list(examples.arrays) == ['right'] and examples.arrays['right'].dtype == np.int8
    np.testing.assert_array_equal(examples.arrays['right'], [1, 0, 1])


def test_no_file_is_none(tmp_path):
    assert example_files.read(str(tmp_path / 'examples.npz')) is None


@pytest.mark.parametrize('length', [0, 40, 200])
def test_a_truncated_file_is_named(tmp_path, length):
    path = tmp_path / 'examples.npz'
    path.write_bytes(example_files.to_bytes([b'a'], {'right': np.ones(1)})[:length])
    with pytest.raises(errors.DataError, match='examples.npz cannot be read'):
        example_files.read(str(path))
