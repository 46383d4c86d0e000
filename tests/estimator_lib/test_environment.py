import os
import pathlib
import platform
import subprocess
import sys
import types

import pytest

from estimator_lib import environment
from tests.memory import resident_bytes

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def test_this_environment_fits():
    environment.check()


@pytest.fixture
def versions(monkeypatch):
    """Returns a function that pretends versions of Python and of distributions."""

    def pretend(python=(3, 11, 2), **distributions):
        monkeypatch.setattr(sys, 'version_info', python)
        installed = {
            'tensorflow': '2.15.1',
            'tensorflow-estimator': '2.15.0',
            'protobuf': '4.25.8',
            **{name.replace('_', '-'): version for name, version in distributions.items()},
        }
        monkeypatch.setattr(environment, '_distribution_version', installed.get)

    return pretend


def check_says(sentence):
    with pytest.raises(ImportError) as caught:
        environment.check()
    assert str(caught.value) == sentence


@pytest.mark.parametrize(('version', 'text'), [((3, 8, 1), '3.8'), ((3, 14, 0), '3.14')])
def test_another_python_gets_one_sentence(versions, version, text):
    versions(version)
    check_says(
        f'This project needs Python 3.9 to 3.13, and this is Python {text}: '
        'TensorFlow 2.15 to 2.21 have no builds for it.'
    )


@pytest.mark.parametrize(
    ('python', 'tensorflow', 'best'),
    [
        ((3, 11, 1), '2.14.1', '2.15'),
        ((3, 11, 1), '2.22.0', '2.15'),
        ((3, 13, 0), '2.22.0-rc1', '2.21'),
        ((3, 12, 0), '1.15.5', '2.21'),
    ],
)
def test_another_tensorflow_gets_one_sentence(versions, python, tensorflow, best):
    versions(python, tensorflow=tensorflow)
    check_says(
        f'This project needs TensorFlow 2.15 to 2.21, and this is TensorFlow {tensorflow}: '
        f'pip install "tensorflow=={best}.*".'
    )


@pytest.mark.parametrize('minor', range(15, 22))
def test_every_supported_tensorflow(versions, minor):
    versions((3, 10, 4), tensorflow=f'2.{minor}.0', protobuf='6.31.0')
    environment.check()


@pytest.mark.parametrize('version', ['2.14.0', '2.16.0'])
def test_another_estimator_gets_one_sentence(versions, version):
    versions(tensorflow_estimator=version)
    check_says(
        'This project needs tensorflow-estimator 2.15, whatever TensorFlow is installed, and this '
        f'is {version}: pip install "tensorflow-estimator==2.15.*".'
    )


def test_tensorflow_2_20_with_protobuf_7_gets_one_sentence(versions):
    versions((3, 13, 0), tensorflow='2.20.0', protobuf='7.36.2')
    check_says(
        'TensorFlow 2.20.0 does not work with protobuf 7, and this is protobuf 7.36.2: '
        'pip install "protobuf<7".'
    )
    versions((3, 13, 0), tensorflow='2.20.0', protobuf='6.33.1')
    environment.check()
    versions((3, 13, 0), tensorflow='2.21.0', protobuf='7.36.2')
    environment.check()


def test_no_tensorflow_gets_one_sentence(monkeypatch):
    monkeypatch.setattr(environment, 'tensorflow_version', lambda: None)
    with pytest.raises(ImportError, match='there is none here'):
        environment.check()


def version_without_site_packages(folder):
    """Return what a process prints as the version that finds TensorFlow in this folder alone."""
    code = (
        f'import sys; sys.path[:0] = [{str(folder)!r}, {str(ROOT)!r}]\n'
        'from estimator_lib import environment\n'
        "print(environment.tensorflow_version(), 'tensorflow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, '-S', '-c', code], capture_output=True, text=True)
    return done.stdout.split() or done.stderr


def write_module(folder, text):
    for name in ('tensorflow', 'tensorflow_estimator'):
        (folder / name).mkdir()
        (folder / name / '__init__.py').touch()
    (folder / 'tensorflow' / '__init__.py').write_text(text)


def test_the_build_of_a_vendor_is_found_by_its_module(tmp_path):
    write_module(tmp_path, 'raise RuntimeError("imported")')
    described = tmp_path / 'vendor_build-2.15.7.dist-info'
    described.mkdir()
    (described / 'METADATA').write_text('Name: vendor-build\nVersion: 2.15.7+vendor\n')
    (described / 'top_level.txt').write_text('tensorflow\nthird_party\n')
    assert version_without_site_packages(tmp_path) == ['2.15.7+vendor', 'False']


def test_a_build_without_metadata_is_asked_for_its_version(tmp_path):
    write_module(tmp_path, "__version__ = '2.15.9'")
    assert version_without_site_packages(tmp_path) == ['2.15.9', 'True']


def test_without_the_module_there_is_no_version(tmp_path):
    assert 'there is none here' in version_without_site_packages(tmp_path)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason='Python 3.12 has no distutils of its own')
def test_a_start_does_not_import_setuptools():
    # In a new process: this one has imported TensorFlow.
    code = (
        'import sys; from estimator_lib import environment\n'
        'finders = list(sys.meta_path)\n'
        'with environment.bypass_setuptools():\n'
        '    import distutils.sysconfig\n'
        "print('setuptools' in sys.modules, sys.meta_path == finders)"
    )
    done = subprocess.run([sys.executable, '-W', 'ignore', '-c', code], capture_output=True)
    assert done.stdout.split() == [b'False', b'True'], done.stderr


def test_versions_of_what_computes(versions):
    versions((3, 10, 4), tensorflow='2.16.2', protobuf='6.31.0', numpy=None)
    found = environment.version_numbers()
    assert (found['tensorflow'], found['protobuf']) == ('2.16.2', '6.31.0')
    assert found['numpy'] is None and found['python']


@pytest.mark.parametrize(
    'file, groups',
    [
        ('memory.max', '0::/\n'),
        ('memory.max', None),
        ('job_7/memory.max', '0::/job_7/step_0\n'),
        ('memory/memory.limit_in_bytes', '9:cpu:/job_7\n4:memory:/\n'),
        ('memory/job_7/step_0/memory.limit_in_bytes', '4:hugetlb,memory:/job_7/step_0\n0::/\n'),
    ],
)
def test_a_container_or_job_has_less_memory_than_its_machine(monkeypatch, tmp_path, file, groups):
    own = tmp_path / 'own'
    if groups is not None:
        own.write_text(groups)
    monkeypatch.setattr(environment, '_CONTROL_GROUPS', str(tmp_path))
    monkeypatch.setattr(environment, '_OWN_GROUPS', str(own))
    of_machine = environment.memory_bytes()
    assert of_machine > 4096
    limit = tmp_path / file
    limit.parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / 'memory.max').write_text('max\n')
    limit.write_text('4096\n')
    assert environment.memory_bytes() == 4096


@pytest.mark.skipif(sys.platform == 'win32', reason='Windows has neither of the numbers')
def test_the_peak_of_the_memory_is_without_that_of_the_parent(monkeypatch, tmp_path):
    import resource

    usage = types.SimpleNamespace(ru_maxrss=8)
    monkeypatch.setattr(resource, 'getrusage', {resource.RUSAGE_SELF: usage}.get)
    status = tmp_path / 'status'
    monkeypatch.setattr(environment, '_PROCESS', str(status))
    assert environment.peak_memory_bytes() == (8 if sys.platform == 'darwin' else 8192)
    status.write_text('VmPeak:\t  9 kB\nVmHWM:\t     3 kB\n')
    assert environment.peak_memory_bytes() == 3072


@pytest.mark.parametrize(
    ('script', 'command'),
    [
        ('run_train_eval.py', 'python run_train_eval.py'),
        ('/src/run_train_eval.py', 'python /src/run_train_eval.py'),
        ('/venv/bin/run-train-eval', 'run-train-eval'),
        ('C:\\venv\\run-train-eval.exe', 'run-train-eval'),
    ],
)
def test_the_front_door_is_called_as_it_was_started(script, command, monkeypatch):
    monkeypatch.setattr(sys, 'argv', [script, '--mode=train'])
    assert environment.front_door_command() == command


def test_instruction_sets_are_those_that_linux_lists(tmp_path):
    path = tmp_path / 'cpuinfo'
    path.write_text('processor\t: 0\nmodel name\t: any\nflags\t\t: fpu avx avx2\nbugs\t\t: \n')
    assert environment.cpu_flags(str(path)) == {'fpu', 'avx', 'avx2'}
    assert environment.cpu_flags(str(tmp_path / 'missing')) == set()


@pytest.fixture
def kernels(monkeypatch):
    """Returns a function that chooses kernels where neither TensorFlow nor a choice is present."""

    def choose(flags, value=None, imported=()):
        monkeypatch.setattr(environment, 'cpu_flags', lambda: frozenset(flags.split()))
        monkeypatch.setattr(sys, 'modules', dict.fromkeys(imported))
        monkeypatch.delenv(environment.KERNELS, raising=False)
        if value is not None:
            monkeypatch.setenv(environment.KERNELS, value)
        environment.choose_kernels()
        return os.environ.get(environment.KERNELS)

    return choose


@pytest.mark.parametrize(
    ('flags', 'value', 'expected', 'line'),
    [
        ('sse2 avx2', None, '1', "oneDNN's, the fastest on this processor (AVX2)"),
        ('avx2 avx512_vnni', None, '1', "oneDNN's, the fastest on this processor (AVX-512 VNNI)"),
        ('sse2 avx', None, None, "TensorFlow's choice; nothing was measured on this kind of"),
        ('', None, None, "TensorFlow's choice; nothing was measured on this kind of"),
        ('avx2', '0', '0', "TensorFlow's own, as TF_ENABLE_ONEDNN_OPTS=0 says"),
        ('avx', '1', '1', "oneDNN's, as TF_ENABLE_ONEDNN_OPTS=1 says"),
    ],
)
def test_kernels_are_those_of_the_processor_or_of_the_user(kernels, flags, value, expected, line):
    assert kernels(flags, value) == expected
    assert environment.describe_kernels().startswith(f'kernels: {line}')


def test_a_program_that_imported_tensorflow_first_gets_a_hint(kernels, monkeypatch, caplog):
    for runs_onednn, warnings in ((True, 0), (False, 1)):
        monkeypatch.setattr(environment, '_runs_onednn', lambda runs=runs_onednn: runs)
        assert kernels('avx2', imported=['tensorflow']) is None
        assert len(caplog.messages) == warnings
    assert 'import estimator_lib first, or set TF_ENABLE_ONEDNN_OPTS=1' in caplog.text


def test_tensorflow_runs_the_kernels_that_are_chosen():
    if environment.find_processor() is None:
        pytest.skip('nothing was measured on this kind of processor')
    environ = {name: text for name, text in os.environ.items() if name != environment.KERNELS}
    code = """
import estimator_lib, tensorflow
assert estimator_lib.environment._runs_onednn(), 'TensorFlow runs its own kernels'
"""
    subprocess.run([sys.executable, '-c', code], cwd=ROOT, env=environ, check=True)


def test_memory_between_blocks_in_use_is_released():
    if platform.libc_ver()[0] != 'glibc':
        pytest.skip('only glibc releases it')
    blocks = [bytes(60_000) + bytes([index % 256]) for index in range(1000)]
    last = blocks.pop()
    del blocks
    before = resident_bytes()
    environment.release_free_memory()
    assert resident_bytes() < before - 20_000_000
    assert last
