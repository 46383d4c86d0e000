"""Folders with loops of links, files that are none, names that are no text."""

import os

import pytest

from estimator_lib import errors, texts
from model_fns.datasets.files import folder_files


def test_folders_come_once_whatever_links_lead_to_them(tmp_path):
    inside, outside = tmp_path / 'inside', tmp_path / 'outside'
    for folder in (inside / 'z', outside):
        folder.mkdir(parents=True)
        (folder / 'a.png').write_text('')
    (inside / 'a').symlink_to(inside / 'z')
    (inside / 'up').symlink_to(inside)
    (inside / 'z' / 'up').symlink_to(tmp_path)
    (inside / 'other').symlink_to(outside)
    (inside / 'other2').symlink_to(outside)
    found = list(folder_files.walk(str(inside)))
    assert [(os.path.relpath(path, inside), names) for path, names in found] == [
        ('.', []),
        ('z', ['a.png']),
        ('other', ['a.png']),
        ('z/up', []),
    ]


@pytest.mark.parametrize(
    'content, message',
    [
        (None, 'it cannot be read: it is a folder'),
        (b'\xff', r'is not text of UTF-8: .* byte 0xff in position 0'),
    ],
)
def test_files_that_are_no_text(tmp_path, content, message):
    path = tmp_path / 'a.txt'
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(errors.DataError, match=f'a.txt.* {message}'):
        folder_files.read_text(str(path))
    with pytest.raises(errors.DataError, match=r'b.txt: there is no such file'):
        folder_files.read_text(str(tmp_path / 'b.txt'))


def test_a_byte_order_mark_is_no_text(tmp_path):
    (tmp_path / 'a').write_bytes(b'\xef\xbb\xbfcat')
    assert folder_files.read_text(str(tmp_path / 'a')) == 'cat'


def test_names_that_are_no_text(tmp_path):
    name = os.fsdecode(b'caf\xe9')
    (tmp_path / name).write_bytes(b'coffee')
    assert texts.encodable(name) == r'caf\udce9'
    assert folder_files.read_bytes(str(tmp_path / name)) == b'coffee'
    with pytest.raises(errors.DataError, match='is not UTF-8; rename the file'):
        folder_files.list_names(str(tmp_path))
    with pytest.raises(errors.DataError, match='there is no such folder'):
        folder_files.list_names(str(tmp_path / 'none'))
