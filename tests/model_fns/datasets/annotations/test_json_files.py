import pytest

from estimator_lib import errors
from model_fns.datasets.annotations import json_files


def read(tmp_path, text):
    path = tmp_path / 'file.json'
    path.write_text(text)
    return json_files.read(str(path), ['shapes'], 'a list of shapes')


def test_the_content_of_a_file(tmp_path):
    assert read(tmp_path, '{"shapes": [1], "more": 2}') == {'shapes': [1], 'more': 2}


@pytest.mark.parametrize(
    ('text', 'said'),
    [
        ('{', 'file.json is not JSON: '),
        ('[' * 100_000, 'file.json is not JSON: '),
        ('[]', 'file.json has no "shapes"; expected a list of shapes.'),
        ('{"shapes": {}}', 'has no "shapes"'),
    ],
    ids=['cut', 'deep', 'list', 'object'],
)
def test_malformed_files_are_refused(tmp_path, text, said):
    with pytest.raises(errors.DataError, match=said):
        read(tmp_path, text)
