import importlib.util
import json

import pytest
import tensorflow as tf

from estimator_lib import errors
from tests.model_fns.datasets.converted import run
from vision_extras.beam import runs


def test_without_the_extra_one_sentence_says_what_to_install(monkeypatch, tmp_path, capsys):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        'find_spec',
        lambda name, *rest: None if name == 'apache_beam' else find(name, *rest),
    )
    (tmp_path / 'photos' / 'cat').mkdir(parents=True)
    flags = [
        '--from=folders',
        f'--images={tmp_path / "photos"}',
        f'--label_map={tmp_path / "map.pbtxt"}',
        f'--output_prefix={tmp_path / "train"}',
    ]
    assert run(*flags, '--runner=DirectRunner') == 2
    assert capsys.readouterr().err == (
        'error: --runner: Apache Beam is not installed; expected: pip install '
        "'vision-model-fns[beam]'\n"
    )
    assert run(*flags, '--runner_options=--x') == 2
    assert 'expected --runner too' in capsys.readouterr().err


def test_a_path_of_python_is_no_runner():
    with pytest.raises(errors.UserError, match="--runner='os.system': expected one of Beam"):
        runs.parse_runner('os.system')


@pytest.mark.parametrize(
    ('options', 'expected'),
    [
        ('--name="a b', 'No closing quotation'),
        ('--runner=X', 'is named by --runner'),
        ('--help', 'runs nothing'),
    ],
)
def test_options_that_are_none(monkeypatch, options, expected):
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: object())
    with pytest.raises(errors.UserError, match=expected):
        runs.parse_runner('DirectRunner', options)


def test_options_are_read_as_a_shell_does(monkeypatch):
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: object())
    runner = runs.parse_runner('DirectRunner', '--runner_mode=1 --name="a b"')
    assert runner == ('DirectRunner', ['--runner_mode=1', '--name=a b'])
    assert runs.parse_runner('X').options == []


def test_files_wait_under_other_names(tmp_path):
    paths = [str(tmp_path / 'a.tfrecord'), str(tmp_path / 'b.json')]
    staged = runs.Staged(paths)
    assert runs.read_json(paths[1]) == []
    for _ in range(2):  # work that is done again
        runs.write_records(paths[0], [b'1', b'22'])
        runs.write_json(paths[1], [1, 'two'])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        '.a.tfrecord.staged',
        '.b.json.staged',
    ]
    assert runs.read_json(paths[1]) == [1, 'two']
    staged.publish()
    assert sorted(path.name for path in tmp_path.iterdir()) == ['a.tfrecord', 'b.json']
    assert list(tf.compat.v1.io.tf_record_iterator(paths[0])) == [b'1', b'22']
    assert json.loads((tmp_path / 'b.json').read_text()) == [1, 'two']
    runs.write_json(paths[1], [])
    staged.clear()
    staged.clear()
    assert sorted(path.name for path in tmp_path.iterdir()) == ['a.tfrecord', 'b.json']
