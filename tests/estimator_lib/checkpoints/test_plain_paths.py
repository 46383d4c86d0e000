"""Folders whose names have the characters of patterns."""

import os
import pathlib

import pytest

from estimator_lib import errors
from estimator_lib.checkpoints import plain_paths
from estimator_lib.checkpoints.plain_paths import plain_path


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    (tmp_path / 'tmp').mkdir()
    monkeypatch.setattr(plain_paths.tempfile, 'tempdir', str(tmp_path / 'tmp'))


@pytest.mark.parametrize(
    'path, expected',
    [
        ('', ''),
        ('/a/b', '/a/b'),
        ('/a//b/./c/', '/a/b/c'),
        ('model', 'model'),
        ('gs://bucket//run[1]', 'gs://bucket//run[1]'),
        ('/nowhere/[a]/b', '/nowhere/[a]/b'),
    ],
)
def test_other_paths_lead_where_they_did(path, expected):
    assert plain_path(path) == expected


@pytest.mark.parametrize('name', ['[a]', 'x*', '?', 'a\\b'])
def test_a_link_stands_for_a_folder_with_such_a_name(tmp_path, name):
    (tmp_path / name / 'run').mkdir(parents=True)
    (tmp_path / name / 'run' / 'file').write_text('text')
    plain = plain_path(f'{tmp_path}/{name}//run/file')
    assert pathlib.Path(plain).read_text() == 'text'
    assert plain.startswith(str(tmp_path / 'tmp')) and not set(plain) & set('[]*?\\')
    assert plain_path(f'{tmp_path}/{name}/run') == os.path.dirname(plain)  # the same again


def test_two_such_folders_have_two_links(tmp_path):
    (tmp_path / 'a' / '[x]').mkdir(parents=True)
    (tmp_path / 'b' / '[x]').mkdir(parents=True)
    links = {plain_path(str(tmp_path / name / '[x]')) for name in 'ab'}
    assert {os.path.realpath(link) for link in links} == {
        str(tmp_path / 'a' / '[x]'),
        str(tmp_path / 'b' / '[x]'),
    }


def test_a_folder_that_is_not_there_is_made_when_asked_for(tmp_path):
    assert plain_path(str(tmp_path / '[new]')) == str(tmp_path / '[new]')
    plain = plain_path(str(tmp_path / '[new]' / 'run'), create=True)
    assert (tmp_path / '[new]').is_dir() and os.path.basename(plain) == 'run'
    (tmp_path / 'file').write_text('')
    assert plain_path(str(tmp_path / 'file' / '[x]'), create=True) == f'{tmp_path}/file/[x]'


def test_links_that_another_user_may_change_are_not_followed(tmp_path):
    (tmp_path / '[a]').mkdir()
    (tmp_path / 'theirs').mkdir()
    (tmp_path / 'tmp' / f'model_dirs-{os.getuid()}').symlink_to(tmp_path / 'theirs')
    with pytest.raises(errors.UserError, match='belongs to another user'):
        plain_path(str(tmp_path / '[a]'))
