"""Folders of runs that are deleted, moved, and made again at the same path."""

import shutil

import pytest

from estimator_lib import errors
from estimator_lib.checkpoints import run_folder


@pytest.fixture
def path(tmp_path):
    path = tmp_path / 'run'
    path.mkdir()
    return path


def delete(path):
    shutil.rmtree(path)


def move(path):
    path.rename(path.with_name('moved'))


def replace(path):
    """Replace a folder by a new one, like a writer of checkpoints after a deletion."""
    path.rmdir()
    path.mkdir()


def replace_by_file(path):
    path.rmdir()
    path.write_text('')


def move_and_link(path):
    path.symlink_to(path.rename(path.with_name('moved')))


@pytest.mark.parametrize('change', [delete, move, replace, replace_by_file])
def test_a_folder_is_gone(path, change):
    folder = run_folder.RunFolder(str(path))
    assert not folder.is_gone
    change(path)
    assert folder.is_gone


def test_a_folder_that_is_reached_another_way_is_there(path):
    folder = run_folder.RunFolder(str(path))
    move_and_link(path)
    assert not folder.is_gone


def test_a_folder_of_another_number_with_the_lock_of_the_run_is_the_same(path):
    """Change the inode number, like some network file systems."""
    folder = run_folder.RunFolder(str(path))
    replace(path)
    (path / 'run.lock').write_text('')
    assert not folder.is_gone


def test_a_folder_that_was_not_there_is_not_gone(tmp_path):
    assert not run_folder.RunFolder(str(tmp_path / 'none')).is_gone
    assert not run_folder.RunFolder('gs://bucket/run').is_gone


def test_an_error_is_explained_by_the_folder_that_is_gone(path):
    with pytest.raises(errors.UserError) as caught, run_folder.explained_removal(str(path)):
        path.rmdir()
        raise KeyError('x')
    assert str(caught.value) == (
        f'the folder {path} is gone: it was deleted or moved while this run used it; restore it to '
        'continue from its last checkpoint, or start the run again.'
    )
    path.mkdir()
    with pytest.raises(KeyError), run_folder.explained_removal(str(path)):
        raise KeyError('x')
