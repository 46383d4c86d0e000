import subprocess
import sys

import pytest

from estimator_lib import environment


def test_this_environment_fits():
    environment.check()


@pytest.mark.parametrize('version', [(3, 8, 1), (3, 12, 0)])
def test_another_python_gets_one_sentence(monkeypatch, version):
    monkeypatch.setattr(sys, 'version_info', version)
    with pytest.raises(ImportError, match=r'needs Python 3\.9 to 3\.11, and this is Python 3\.'):
        environment.check()


def test_another_tensorflow_gets_one_sentence(monkeypatch):
    monkeypatch.setattr(environment, 'tensorflow_version', lambda: '2.16.1')
    with pytest.raises(ImportError, match=r'and this is TensorFlow 2\.16\.1: pip install'):
        environment.check()


def test_no_tensorflow_gets_one_sentence(monkeypatch):
    monkeypatch.setattr(environment, 'tensorflow_version', lambda: None)
    with pytest.raises(ImportError, match='there is none here'):
        environment.check()


def test_a_start_does_not_import_setuptools():
    # In a new process: this one has imported TensorFlow.
    code = (
        'import sys; from estimator_lib import environment\n'
        'finders = list(sys.meta_path)\n'
        'with environment.without_setuptools():\n'
        '    import distutils.sysconfig\n'
        "print('setuptools' in sys.modules, sys.meta_path == finders)"
    )
    done = subprocess.run([sys.executable, '-W', 'ignore', '-c', code], capture_output=True)
    assert done.stdout.split() == [b'False', b'True'], done.stderr


def test_a_container_has_less_memory_than_its_machine(monkeypatch, tmp_path):
    (tmp_path / 'limit').write_text('4096\n')
    (tmp_path / 'none').write_text('max\n')
    paths = tuple(str(tmp_path / name) for name in ('none', 'limit', 'missing'))
    monkeypatch.setattr(environment, '_MEMORY_LIMITS', paths)
    assert environment.memory_bytes() == 4096
