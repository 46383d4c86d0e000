"""Folders of exports: names, order, and that they appear when they are complete."""

import os

import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.export import export_folders
from protos import export_pb2


def fake_export(folder, *names):
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / 'saved_model.pb').write_text('')


def write_file(folder):
    os.makedirs(folder)
    with open(os.path.join(folder, 'saved_model.pb'), 'w') as file:
        file.write('model')


@pytest.mark.parametrize(
    ('fields', 'expected'),
    [
        ({}, ['final']),
        ({'final': {'enabled': False}}, []),
        ({'latest': {}, 'best': {'metric': 'loss'}}, ['best', 'latest', 'final']),
    ],
)
def test_exports_that_a_config_asks_for(fields, expected):
    assert export_folders.enabled_policies(export_pb2.ExportConfig(**fields)) == expected


def test_folder_of_a_run():
    assert export_folders.run_folder('run', export_folders.BEST) == 'run/export/best'


def test_the_latest_export(tmp_path):
    assert export_folders.latest_export(str(tmp_path / 'none')) is None
    fake_export(tmp_path, 'best/99', 'latest/101', 'latest/temp-102', 'final/100', 'other')
    fake_export(tmp_path, 'latest/10²')  # digits to Python, but no number
    assert export_folders.latest_export(str(tmp_path)) == str(tmp_path / 'latest' / '101')
    assert export_folders.latest_export(str(tmp_path / 'final')) == str(tmp_path / 'final' / '100')
    (tmp_path / 'final' / '103').mkdir()  # not complete
    assert export_folders.latest_export(str(tmp_path / 'final')) == str(tmp_path / 'final' / '100')


def test_a_clock_that_goes_back_keeps_the_order_of_exports(tmp_path, monkeypatch):
    for name in ('latest/300', 'best/250', 'other/900'):
        (tmp_path / name).mkdir(parents=True)

    def written(name):
        path = export_folders.write_whole(str(tmp_path / name), write_file)
        return os.path.relpath(path, tmp_path)

    monkeypatch.setattr(export_folders.time, 'time', lambda: 200.0)
    assert [written('best'), written('mine')] == ['best/301', 'mine/200']
    monkeypatch.setattr(export_folders.time, 'time', lambda: 400.0)
    assert written('best') == 'best/400'


def test_an_incomplete_export_keeps_its_folder(tmp_path, monkeypatch):
    (tmp_path / 'temp-200').mkdir()
    (tmp_path / 'temp-200' / 'part').write_text('')
    monkeypatch.setattr(export_folders.time, 'time', lambda: 200.0)
    path = export_folders.write_whole(str(tmp_path), write_file)
    assert os.path.basename(path) == '201' and os.listdir(path) == ['saved_model.pb']
    assert os.listdir(tmp_path / 'temp-200') == ['part']


def test_a_folder_that_cannot_be_written_to(tmp_path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(errors.UserError, match='the export to .*file failed'):
        export_folders.write_whole(str(tmp_path / 'file'), write_file)


@pytest.mark.parametrize('error', [OSError('the disk is full'), KeyboardInterrupt()])
def test_a_failed_export_leaves_nothing(tmp_path, monkeypatch, error):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(tf.io.gfile, 'rename', fail)
    with pytest.raises((errors.UserError, KeyboardInterrupt)) as caught:
        export_folders.write_whole(str(tmp_path), write_file)
    assert str(error) in str(caught.value)
    assert os.listdir(tmp_path) == []


def test_a_copy_has_all_files(tmp_path):
    write_file(tmp_path / 'one')
    (tmp_path / 'one' / 'assets.extra').mkdir()
    (tmp_path / 'one' / 'assets.extra' / 'labels.txt').write_text('left\n')
    path = export_folders.copy_export(str(tmp_path / 'one'), str(tmp_path / 'copies'))
    assert sorted(os.listdir(path)) == ['assets.extra', 'saved_model.pb']
    with open(os.path.join(path, 'assets.extra', 'labels.txt')) as file:
        assert file.read() == 'left\n'
    assert os.listdir(tmp_path / 'copies') == [os.path.basename(path)]


@pytest.mark.parametrize(('count', 'left'), [(0, 3), (2, 2), (5, 3)])
def test_the_newest_stay(tmp_path, count, left):
    fake_export(tmp_path, '9', '10', '11')
    export_folders.keep_newest(str(tmp_path), count)
    expected = [str(tmp_path / name) for name in ('9', '10', '11')[-left:]]
    assert export_folders.list_exports(str(tmp_path)) == expected
