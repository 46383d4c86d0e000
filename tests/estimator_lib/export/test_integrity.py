"""Files for devices that are not what they were, or whose interpreter ends its process."""

import hashlib
import json
import os
import signal

import pytest

from estimator_lib import errors
from estimator_lib.export import integrity


@pytest.fixture
def path(tmp_path):
    path = tmp_path / 'model.tflite'
    path.write_bytes(b'content')
    return path


def test_size_and_digest(path):
    digest = hashlib.sha256(b'content').hexdigest()
    assert integrity.describe(str(path)) == {'bytes': 7, 'sha256': digest}


@pytest.mark.parametrize('key', ['bytes', 'sha256'])
def test_what_was_exported_is_compared(path, key):
    about = path.with_name('export.json')
    about.write_text(json.dumps(integrity.describe(str(path))))
    integrity.check(str(path), ends_process=True)
    about.write_text(json.dumps({**integrity.describe(str(path)), key: 'x'}))
    with pytest.raises(errors.UserError, match=f"is not what was exported: {key} is .* says 'x'"):
        integrity.check(str(path), ends_process=True)


def test_a_file_that_ends_its_process_is_refused(path, monkeypatch):
    # Which corrupt bytes do so depends on the interpreter: here all do.
    monkeypatch.setattr(
        integrity, '_PROGRAM', f'import os; os.kill(os.getpid(), {signal.SIGSEGV:d})'
    )
    with pytest.raises(errors.UserError, match=r'ends the process that runs it \(SIGSEGV\)'):
        integrity.check(str(path), ends_process=True)
    integrity.check(str(path), ends_process=False)
    assert os.listdir(path.parent) == ['model.tflite']


def test_what_the_other_process_refuses_is_not_loaded_here(path):
    """An interpreter that raises an error there may end this process."""
    with pytest.raises(errors.UserError, match=r'model\.tflite cannot be run by TFLite: '):
        integrity.check(str(path), ends_process=True)


def test_another_error_of_that_process_is_named(path, monkeypatch):
    monkeypatch.setattr(integrity, '_PROGRAM', 'raise KeyError("x")')
    with pytest.raises(errors.UserError, match=r"model\.tflite cannot be run: KeyError: 'x'\.$"):
        integrity.check(str(path), ends_process=True)


def test_a_file_that_never_ends_is_refused(path, monkeypatch):
    monkeypatch.setattr(integrity, '_MOST_SECONDS', 0.01)
    with pytest.raises(errors.UserError, match='one image takes more than'):
        integrity.check(str(path), ends_process=True)
