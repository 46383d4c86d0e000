import pytest

from estimator_lib import errors
from estimator_lib.export import formats


def test_writers_by_name_and_by_the_end_of_a_file():
    for name, writer in formats.WRITERS.items():
        assert formats.writer(name) is writer
        assert formats.writer_of_file(f'some/where/{writer.file_name}') is writer
    assert formats.writer('tflite').file_name == 'model.tflite'


def test_an_unknown_format():
    with pytest.raises(errors.UserError, match=r"tflit: unknown; did you mean 'tflite'"):
        formats.writer('tflit')
    with pytest.raises(
        errors.UserError, match=r'model\.pt: .* expected one that ends with .*\.tflite'
    ):
        formats.writer_of_file('model.pt')
