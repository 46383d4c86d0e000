"""Files that the interpreter of TFLite cannot load, and its messages."""

import os

import pytest

from estimator_lib import errors
from estimator_lib.export.devices import tflite_interpreter


@pytest.mark.parametrize('content', [None, b'no model'])
def test_file_that_cannot_be_loaded_is_refused(tmp_path, content):
    path = tmp_path / 'model.tflite'
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(errors.UserError, match='model.tflite cannot be run by TFLite: '):
        tflite_interpreter.load(str(path))


def test_standard_error_is_empty_in_a_quiet_block(capfd):
    with tflite_interpreter.quiet():
        os.write(2, b'from C++')
    os.write(2, b'later')
    assert capfd.readouterr().err == 'later'
