import errno
import os

import numpy as np
import pytest

from estimator_lib import errors
from estimator_lib.data.caches import cache_files
from estimator_lib.data.caches.cache_files import CacheFile

ENTRY = 64 + 128  # of 100 bytes


def value(number, size=100):
    return np.full([size], number, np.uint8)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / 'folder' / 'some.examples')


def filled(path, count=3, content='these', max_bytes=10**6):
    file = CacheFile(path, content, max_bytes)
    assert all(file.put((number, -number), value(number)) for number in range(count))
    return file


def numbers(file, count=3):
    found = [file.get((number, -number)) for number in range(count)]
    assert all(one is None or (len(set(one.tolist())) == 1 and one.size == 100) for one in found)
    return [None if one is None else int(one[0]) for one in found]


def test_entries_stay_for_later_processes(path):
    file = filled(path)
    assert numbers(file) == [0, 1, 2]
    taken = file.get((1, -1))
    assert taken.ctypes.data % 64 == 0 and not taken.flags.writeable
    file.put((7, 7), value(7))  # behind what was mapped
    assert file.get((7, 7))[0] == 7 and file.get((7, 8)) is None
    file.close()
    again = CacheFile(path, 'these', 10**6)
    assert len(again) == 4 and again.size == os.path.getsize(path) == 64 + 4 * ENTRY
    assert numbers(again) == [0, 1, 2] and taken[0] == 1
    assert again.put((1, -1), value(9)) and again.get((1, -1))[0] == 1  # the first one stays


def test_it_is_bounded(path):
    file = filled(path, 3, max_bytes=64 + 3 * ENTRY)
    assert not file.put((8, 8), value(8))
    file.close()
    assert os.path.getsize(path) == 64 + 3 * ENTRY
    assert numbers(filled(path, 0, max_bytes=10), 3) == [0, 1, 2]
    some = filled(path + '2', max_bytes=None)
    assert some._max_bytes > 10**6


def test_one_process_adds_and_others_read(path):
    first = filled(path, 2)
    second = CacheFile(path, 'these', 10**6)
    assert (first.is_shared, second.is_shared) == (False, True)
    assert numbers(second, 2) == [0, 1]
    assert not second.put((5, 5), value(5))
    other = CacheFile(path, 'other', 10**6)  # which may not replace it now
    assert other.is_shared and len(other) == 0
    assert first.put((2, -2), value(2)) and numbers(first) == [0, 1, 2]


def test_something_else_is_replaced_and_what_is_mapped_stays(path, caplog):
    caplog.set_level('INFO', 'estimator_lib')
    file = filled(path)
    taken = file.get((2, -2))
    file.close()
    new = CacheFile(path, 'changed', 10**6)
    assert f'{path}: it has other content; replaced' in caplog.text
    assert len(new) == 0 and not new.is_shared and taken[0] == 2
    new.put((1, -1), value(5))
    new.close()
    assert numbers(CacheFile(path, 'changed', 10**6), 2) == [None, 5]
    with open(path + '.foreign', 'w') as foreign:
        foreign.write('a note')
    assert numbers(filled(path + '.foreign')) == [0, 1, 2]
    names = sorted(os.listdir(os.path.dirname(path)))
    assert names == ['some.examples', 'some.examples.foreign']  # nothing temporary stays


@pytest.mark.parametrize('lost', [1, 50, 128, 129, 190])
def test_a_truncated_file_keeps_what_is_whole(path, lost, caplog):
    caplog.set_level('INFO', 'estimator_lib')
    filled(path).close()
    os.truncate(path, 64 + 3 * ENTRY - lost)
    file = CacheFile(path, 'these', 10**6)
    assert f'{path}: it ends within an example; the 2 before it are kept' in caplog.text
    assert numbers(file) == [0, 1, None]
    file.put((2, -2), value(2))
    file.close()
    assert numbers(CacheFile(path, 'these', 10**6)) == [0, 1, 2]


def test_corrupt_bytes_are_not_given(path, caplog):
    filled(path).close()
    with open(path, 'r+b') as file:
        file.seek(64 + ENTRY + 64 + 99)
        file.write(b'?')
    again = CacheFile(path, 'these', 10**6)
    assert numbers(again) == [0, None, 2] and 'an example is corrupt' in caplog.text
    again.put((1, -1), value(1))
    assert numbers(again) == [0, 1, 2]


def test_a_full_disk_ends_the_keeping_alone(path, monkeypatch, caplog):
    file = filled(path, 2)

    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(cache_files.os, 'pwrite', full)
    assert not file.put((2, -2), value(2))
    assert 'no more examples are kept: No space left on device' in caplog.text
    assert numbers(file) == [0, 1, None]


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(errors.UserError, match='file/x: the cache of .* set cache_folder'):
        CacheFile(str(tmp_path / 'file' / 'x'), 'these', None)


def test_a_system_without_locks_is_told(path, monkeypatch):
    monkeypatch.setattr(cache_files, 'fcntl', None)
    with pytest.raises(errors.UserError, match='has no file locks, which cache: FILE needs; set'):
        CacheFile(path, 'these', None)


def test_an_entry_whose_size_and_checksum_are_zeros_is_corrupt(tmp_path):
    path = tmp_path / 'zeros.examples'
    file = cache_files.CacheFile(str(path), 'digest', None)
    assert file.put((3, 4), np.arange(5, dtype=np.uint8))
    file.close()
    content = bytearray(path.read_bytes())
    content[64 + 24 : 64 + 36] = bytes(12)
    path.write_bytes(content)
    assert cache_files.CacheFile(str(path), 'digest', None).get((3, 4)) is None
