"""Names that are not UTF-8, in folders that are listed and in patterns; folders of a user."""

import os

import pytest

from estimator_lib import errors
from estimator_lib.processes import path_names


@pytest.fixture
def folder(tmp_path):
    (tmp_path / 'a.png').write_bytes(b'')
    (tmp_path / 'sub').mkdir()
    with open(os.path.join(os.fsencode(tmp_path), b'caf\xe9.png'), 'wb'):
        pass
    return str(tmp_path)


def test_such_names_are_left_out_of_a_listing(folder, monkeypatch):
    assert sorted(path_names.list_names(folder)) == ['a.png', 'sub']
    assert path_names.list_names(f'{folder}/sub') == []
    assert path_names.list_names(f'{folder}/missing') == []
    monkeypatch.chdir(folder)
    assert sorted(path_names.list_names('')) == ['a.png', 'sub']


def test_such_a_match_is_one_sentence(folder):
    assert path_names.match(f'{folder}/a*') == [f'{folder}/a.png']
    with pytest.raises(errors.DataError, match=r"\*\.png: the name b'.*caf\\xe9.png' is not UTF-8"):
        path_names.match(f'{folder}/*.png')


def test_a_user_without_home(monkeypatch, tmp_path):
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    assert path_names.cache_folder('x') == str(tmp_path / 'x')
    monkeypatch.delenv('XDG_CACHE_HOME')
    monkeypatch.setattr(os.path, 'expanduser', lambda path: path)  # no home, and no such user
    with pytest.raises(errors.UserError, match='has no home folder .*; set the environment'):
        path_names.cache_folder('x')


def test_a_misspelled_run_beside_such_a_folder(tmp_path, monkeypatch):
    from model_fns.cli import flag_configs

    (tmp_path / 'run').mkdir()
    (tmp_path / 'run' / 'pipeline.config').write_text('')
    os.mkdir(os.path.join(os.fsencode(tmp_path), b'caf\xe9'))
    assert flag_configs._sibling(str(tmp_path / 'runn')) == str(tmp_path / 'run')
