"""Predictions as JSON, as a table and as COCO's results."""

import json

import numpy as np
import pytest

from estimator_lib import errors
from estimator_lib.commands import prediction_files
from estimator_lib.commands.prediction_files import Entry

ENTRIES = [
    Entry('b', 2, (4, 6), {'n': np.int64(3)}, [{'class': 'x, y', 'score': 0.5}], [{'score': 1.0}]),
    Entry('a', 10, (5, 7), {'t': b'caf\xc3\xa9'}, [{'class': 'z', 'id': 1}], [{'score': 0.5}] * 2),
]


def written(tmp_path, output_format):
    files = prediction_files.PredictionFiles(str(tmp_path / 'new' / 'out'), output_format)
    for entry in ENTRIES:
        files.add(entry)
    files.write()
    return tmp_path / 'new' / 'out'


def test_json_has_values_by_name(tmp_path):
    out = written(tmp_path, 'json')
    names = sorted(path.name for path in out.iterdir())
    assert names == ['predictions.html', 'predictions.json']
    text = (out / 'predictions.json').read_text(encoding='utf-8')
    assert json.loads(text) == {'a': {'t': 'café'}, 'b': {'n': 3}}
    assert text.index('"a"') < text.index('"b"')


def test_a_table_has_a_row_a_finding(tmp_path):
    out = written(tmp_path, 'csv')
    assert (out / 'predictions.csv').read_text() == (
        'image,class,id,score\na,z,1,\nb,"x, y",,0.5\n'
    )


def test_coco_has_results_and_the_numbers_of_images(tmp_path):
    out = written(tmp_path, 'coco')
    assert json.loads((out / 'predictions.json').read_text()) == [
        {'image_id': 2, 'score': 1.0},
        {'image_id': 10, 'score': 0.5},
        {'image_id': 10, 'score': 0.5},
    ]
    assert json.loads((out / 'images.json').read_text()) == {
        'images': [
            {'id': 2, 'file_name': 'b', 'height': 4, 'width': 6},
            {'id': 10, 'file_name': 'a', 'height': 5, 'width': 7},
        ]
    }


def test_a_folder_that_is_none_is_refused(tmp_path):
    (tmp_path / 'file').write_text('text')
    with pytest.raises(errors.UserError, match='file is a file; expected a folder'):
        prediction_files.PredictionFiles(str(tmp_path / 'file'))
    with pytest.raises(errors.UserError, match='--output_dir: .*below'):
        prediction_files.PredictionFiles(str(tmp_path / 'file' / 'below'))


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    files = prediction_files.PredictionFiles(str(tmp_path))
    (tmp_path / 'a.png').mkdir()
    with pytest.raises(errors.UserError, match=r'--output_dir: .*a\.png'):
        files.write_file('a.png', b'1')


def test_a_table_has_no_formulas_and_no_control_characters(tmp_path):
    files = prediction_files.PredictionFiles(str(tmp_path), 'csv')
    row = {'class': '=cmd|calc', 'score': -0.5, 'x': '\x1b[31m'}
    files.add(Entry('@a.png', 1, (4, 6), rows=[row]))
    files.write()
    assert (tmp_path / 'predictions.csv').read_text() == (
        "image,class,score,x\n'@a.png,'=cmd|calc,-0.5,\\x1b[31m\n"
    )
