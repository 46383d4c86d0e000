"""Files that recoveries are measured on."""

import pathlib
import shutil

import pytest

from benchmarks import recovery


@pytest.mark.parametrize(
    'names, files, frozen',
    [
        ((), ['a.tflite', 'b.pb', 'old.pb', 'older.pb'], ['old.pb', 'older.pb']),
        (('b.pb', 'older.pb'), ['b.pb', 'older.pb'], ['older.pb']),
        (('a.tflite',), ['a.tflite'], []),
    ],
)
def test_only_the_named_graphs_are_frozen(tmp_path, monkeypatch, names, files, frozen):
    folder, target = tmp_path / 'foreign', tmp_path / 'frozen'
    (folder / 'meta_graphs').mkdir(parents=True)
    target.mkdir()
    for name in ('b.pb', 'a.tflite', 'README.md', 'meta_graphs/old.meta.gz'):
        (folder / name).write_text(name)
    shutil.copy(folder / 'meta_graphs/old.meta.gz', folder / 'meta_graphs/older.meta.gz')

    def run(command, check):
        assert check
        pathlib.Path(command[-1]).write_text('graph')

    monkeypatch.setattr(recovery.subprocess, 'run', run)
    found = [path.name for path in recovery.files(folder, target, names)]
    assert found == files
    assert sorted(path.name for path in target.iterdir()) == frozen
