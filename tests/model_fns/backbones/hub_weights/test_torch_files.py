"""Files of torch, written here without torch: the same pickles in both containers."""

import collections
import io
import pickle
import struct
import sys
import types
import zipfile

import numpy as np
import pytest

from estimator_lib import errors
from model_fns.backbones.hub_weights import torch_files

TYPES = {'f4': 'FloatStorage', 'f2': 'HalfStorage', 'i8': 'LongStorage'}


class Storage:
    def __init__(self, key, values):
        self.key, self.values = key, values


class Tensor:
    def __init__(self, storage, offset, shape, strides):
        self.parts = (storage, offset, shape, strides, False, collections.OrderedDict())

    def __reduce__(self):
        return sys.modules['torch._utils']._rebuild_tensor_v2, self.parts


class Pickler(pickle.Pickler):
    def persistent_id(self, value):
        if not isinstance(value, Storage):
            return None
        kind = getattr(sys.modules['torch'], TYPES[value.values.dtype.str[1:]])
        return ('storage', kind, value.key, 'cpu', value.values.size, *self.more)


@pytest.fixture
def torch(monkeypatch):
    """Modules with the names that pickles of torch hold."""
    module, utilities = types.ModuleType('torch'), types.ModuleType('torch._utils')
    for name in TYPES.values():
        setattr(module, name, type(name, (), {'__module__': 'torch'}))

    def _rebuild_tensor_v2():
        raise AssertionError

    _rebuild_tensor_v2.__module__ = 'torch._utils'
    _rebuild_tensor_v2.__qualname__ = '_rebuild_tensor_v2'
    utilities._rebuild_tensor_v2 = _rebuild_tensor_v2
    monkeypatch.setitem(sys.modules, 'torch', module)
    monkeypatch.setitem(sys.modules, 'torch._utils', utilities)


def pickled(value, more=()):
    file = io.BytesIO()
    pickler = Pickler(file, protocol=2)
    pickler.more = more
    pickler.dump(value)
    return file.getvalue()


def write_zip(path, value, storages):
    with zipfile.ZipFile(path, 'w') as archive:
        archive.writestr('weights/data.pkl', pickled(value))
        for storage in storages:
            archive.writestr(f'weights/data/{storage.key}', storage.values.tobytes())


def write_old(path, value, storages):
    parts = [
        *(pickled(each) for each in (torch_files._MAGIC, 1001, {'little_endian': True})),
        pickled(value, more=(None,)),
        pickled([storage.key for storage in storages]),
        *(struct.pack('<q', each.values.size) + each.values.tobytes() for each in storages),
    ]
    path.write_bytes(b''.join(parts))


@pytest.mark.parametrize('write', [write_zip, write_old])
def test_tensors_are_parts_of_storages(tmp_path, torch, write):
    first = Storage('0', np.arange(12, dtype=np.float32))
    second = Storage('1', np.array([5, 6], np.int64))
    third = Storage('2', np.array([1.5], np.float16))
    values = collections.OrderedDict(
        whole=Tensor(first, 0, (3, 4), (4, 1)),
        column=Tensor(first, 1, (3,), (4,)),  # every fourth number from the second
        turned=Tensor(first, 4, (2, 2), (1, 4)),
        counter=Tensor(second, 1, (), ()),
        half=Tensor(third, 0, (1,), (1,)),
        empty=Tensor(third, 0, (0, 3), (3, 1)),
    )
    path = tmp_path / 'a.pth'
    write(path, {'epoch': 3, 'model': values}, [first, second, third])
    file = torch_files.open_file(str(path))
    assert list(file.keys()) == list(values)
    assert file.get_slice('whole').get_shape() == [3, 4]
    assert file.get_tensor('whole').tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert file.get_tensor('column').tolist() == [1, 5, 9]
    assert file.get_tensor('turned').tolist() == [[4, 8], [5, 9]]
    assert file.get_tensor('counter').tolist() == 6
    assert file.get_tensor('half').tolist() == [1.5]
    assert file.get_tensor('empty').shape == (0, 3)


@pytest.mark.parametrize(
    'offset, shape, strides', [(10, (3,), (1,)), (-1, (2,), (1,)), (0, (2,), (-1,))]
)
def test_tensors_outside_of_their_storage_are_refused(tmp_path, torch, offset, shape, strides):
    storage = Storage('0', np.arange(12, dtype=np.float32))
    path = tmp_path / 'a.pth'
    write_zip(path, {'a': Tensor(storage, offset, shape, strides)}, [storage])
    with pytest.raises(errors.CheckpointError, match='truncated or corrupt: a of shape'):
        torch_files.open_file(str(path)).get_tensor('a')


@pytest.mark.parametrize('content', [None, bytes(10), 'damaged'])
def test_storages_that_cannot_be_read_are_refused(tmp_path, torch, content):
    storage = Storage('0', np.arange(12, dtype=np.float32))
    path = tmp_path / 'a.pth'
    write_zip(path, {'a': Tensor(storage, 0, (12,), (1,))}, [])
    if content == 'damaged':
        with zipfile.ZipFile(path, 'a') as archive:
            archive.writestr('weights/data/0', storage.values.tobytes())
        path.write_bytes(path.read_bytes().replace(storage.values.tobytes(), bytes(48)))
    elif content is not None:  # no whole number of float32
        with zipfile.ZipFile(path, 'a') as archive:
            archive.writestr('weights/data/0', content)
    file = torch_files.open_file(str(path))
    with pytest.raises(errors.CheckpointError, match='a.pth cannot be read as weights of torch'):
        file.get_tensor('a')


def test_numbers_of_an_unknown_type_are_named(tmp_path, torch, monkeypatch):
    monkeypatch.setitem(TYPES, 'u2', 'BFloat16Storage')
    kind = type('BFloat16Storage', (), {'__module__': 'torch'})
    monkeypatch.setattr(sys.modules['torch'], 'BFloat16Storage', kind, raising=False)
    storage = Storage('0', np.arange(2, dtype=np.uint16))
    write_zip(tmp_path / 'a.pth', {'a': Tensor(storage, 0, (2,), (1,))}, [storage])
    said = 'torch.BFloat16Storage, numbers of an unknown type; expected one of FloatStorage'
    with pytest.raises(errors.CheckpointError, match=said):
        torch_files.open_file(str(tmp_path / 'a.pth'))


class Code:
    def __reduce__(self):
        return print, ('never',)


@pytest.mark.parametrize('write', [write_zip, write_old])
def test_code_is_refused_and_never_run(tmp_path, torch, write, capsys):
    path = tmp_path / 'a.pth'
    write(path, {'a': Code()}, [])
    with pytest.raises(errors.CheckpointError, match='it holds (builtins|__builtin__).print; exp'):
        torch_files.open_file(str(path))
    assert capsys.readouterr().out == ''


@pytest.mark.parametrize(
    'content, message',
    [
        (b'', 'Ran out of input'),
        (b'not a pickle', 'cannot be read as weights of torch'),
        (pickled(torch_files._MAGIC)[:-3], 'cannot be read'),
        (pickled(7), 'does not begin as a file of torch.save'),
    ],
)
def test_other_files_are_refused(tmp_path, content, message):
    path = tmp_path / 'a.pth'
    path.write_bytes(content)
    with pytest.raises(errors.CheckpointError, match=message):
        torch_files.open_file(str(path))


def test_a_file_without_tensors_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / 'a.pth', 'w') as archive:
        archive.writestr('a/data.pkl', pickled({'epoch': 3}))
    with pytest.raises(errors.CheckpointError, match='has no tensors by name'):
        torch_files.open_file(str(tmp_path / 'a.pth'))
    with zipfile.ZipFile(tmp_path / 'b.pth', 'w') as archive:
        archive.writestr('a/b', 'c')
    with pytest.raises(errors.CheckpointError, match='cannot be read as weights of torch'):
        torch_files.open_file(str(tmp_path / 'b.pth'))
