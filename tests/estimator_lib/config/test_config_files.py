"""Files of configs; `test_loading` has what is wrong with them."""

import subprocess
import sys

import pytest

from estimator_lib import errors
from estimator_lib.config import config_files


def test_a_file_is_read_as_it_was_written(tmp_path):
    path = str(tmp_path / 'a' / 'b.config')
    assert not config_files.exists(path)
    config_files.write_text('model {\n}\n', path)
    assert config_files.exists(path)
    assert config_files.read_text(path) == 'model {\n}\n'
    assert [one.name for one in (tmp_path / 'a').iterdir()] == ['b.config']


def test_line_ends_and_a_byte_order_mark_are_plain(tmp_path):
    (tmp_path / 'a').write_bytes(b'\xef\xbb\xbfmodel {\r\n}\r')
    assert config_files.read_text(str(tmp_path / 'a')) == 'model {\n}\n'


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / 'file').write_text('x')
    with pytest.raises(errors.ConfigError, match='file/a.config: cannot be written: '):
        config_files.write_text('x', str(tmp_path / 'file' / 'a.config'))


def test_configs_are_known_without_tensorflow():
    code = 'import sys, model_fns; print("tensorflow" in sys.modules)'
    run = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == 'False'
