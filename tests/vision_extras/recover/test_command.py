"""Command line of the recovery."""

import pytest

from estimator_lib import errors
from vision_extras.recover import command
from vision_extras.recover import recover_config as program


def test_flags_are_required():
    with pytest.raises(errors.UserError, match='--from'):
        command.parse([])


def test_error_is_one_sentence_and_status_two(tmp_path, capfd, monkeypatch):
    monkeypatch.setenv('TF_CPP_MIN_LOG_LEVEL', '3')
    path = tmp_path / 'a.tflite'
    path.write_bytes(b'\x1c\x00\x00\x00TFL3')
    with pytest.raises(SystemExit) as caught:
        program.main([f'--from={path}', f'--output_dir={tmp_path}/out'])
    assert caught.value.code == 2
    error = capfd.readouterr().err
    assert error.startswith('error: --from:') and error.count('\n') == 1


def test_placeholder_is_refused():
    with pytest.raises(errors.UserError, match='is a placeholder'):
        command.parse(['--from=PATH_TO_BE_CONFIGURED/a.pb', '--output_dir=x'])
