"""The Pythons that `make` chooses, among programs that pretend versions."""

import pathlib
import shlex
import shutil
import subprocess
import sys

import pytest

TOOLS = pathlib.Path(__file__).resolve().parent.parent / 'tools'


@pytest.fixture
def machine(tmp_path):
    """A function that adds a program with the version of a Python to a folder."""
    (tmp_path / 'bin').mkdir()
    (tmp_path / 'bin' / 'sh').symlink_to(shutil.which('sh'))

    def add(name, version):
        program = tmp_path / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(
            f'#!{shutil.which("sh")}\n[ "$1" = -c ] || exit 1\ncode=$2; shift 2\n'
            f'exec {shlex.quote(sys.executable)} -c '
            f'"import sys; sys.version_info = {version}; $code" "$@"\n'
        )
        program.chmod(0o755)
        return str(program)

    return add


def run(folder, script, *arguments, python=''):
    """Run a script where only the programs of the folder are found."""
    return subprocess.run(
        [shutil.which('sh'), str(TOOLS / script), *map(str, arguments)],
        env={'PATH': str(folder / 'bin'), 'HOME': str(folder), 'PYTHON': python},
        capture_output=True,
        text=True,
    )


def test_the_newest_is_chosen(machine, tmp_path):
    machine('bin/python3', (3, 11, 2))
    machine('bin/python3.12', (3, 12, 1))
    machine('bin/python3.14', (3, 14, 0))
    assert run(tmp_path, 'find_python.sh').stdout == 'python3.12\n'
    newest = machine('.pyenv/versions/3.13.0/bin/python', (3, 13, 0))
    assert run(tmp_path, 'find_python.sh').stdout == f'{newest}\n'
    assert run(tmp_path, 'find_python.sh', '3.11', '3.10').stdout == 'python3\n'


def test_a_machine_with_one_python_has_that(machine, tmp_path):
    machine('bin/python3', (3, 11, 2))
    assert run(tmp_path, 'find_python.sh').stdout == 'python3\n'


def test_a_machine_without_a_python_is_told_so(machine, tmp_path):
    machine('bin/python3', (3, 14, 0))
    machine('bin/python3.8', (3, 8, 18))
    done = run(tmp_path, 'find_python.sh')
    assert done.returncode == 2 and not done.stdout
    assert done.stderr == (
        'No Python of 3.13 3.12 3.11 3.10 3.9 with venv was found (TensorFlow has no builds for '
        'others); install one, or name it: make PYTHON=/path/to/python ...\n'
    )


@pytest.mark.parametrize('version', [(3, 14, 0), (3, 8, 18), None])
def test_a_named_python_that_does_not_fit_is_refused(machine, tmp_path, version):
    machine('bin/python3', (3, 13, 0))
    if version:
        machine('bin/other', version)
    for script in ('find_python.sh', 'create_environment.sh'):
        arguments = [tmp_path / 'venv'] if script.startswith('create') else []
        done = run(tmp_path, script, *arguments, python='other')
        assert done.returncode == 2 and not done.stdout
        assert done.stderr == (
            'PYTHON=other does not fit; expected one of Python 3.13 3.12 3.11 3.10 3.9 with venv.\n'
        )
    assert not (tmp_path / 'venv').exists()


def test_an_environment_keeps_its_python(machine, tmp_path):
    machine('bin/old', (3, 11, 2))
    present = machine('venv/bin/python', (3, 11, 7))
    for python in ('', 'old', present):
        done = run(tmp_path, 'create_environment.sh', tmp_path / 'venv', python=python)
        assert done.returncode == 0 and not done.stderr


def test_another_python_than_that_of_the_environment_is_refused(machine, tmp_path):
    machine('bin/python3.13', (3, 13, 0))
    machine('venv/bin/python', (3, 11, 7))
    folder = tmp_path / 'venv'
    done = run(tmp_path, 'create_environment.sh', folder, python='python3.13')
    assert done.returncode == 2
    assert done.stderr == (
        f'{folder} has Python 3.11, and PYTHON=python3.13 is 3.13: remove {folder}, or name '
        'another folder: make VENV=.venv-3.13 PYTHON=python3.13 ...\n'
    )


@pytest.mark.skipif(not shutil.which('make'), reason='make is not here')
@pytest.mark.parametrize(
    ('present', 'venv', 'missing'),
    [
        ((3, 11, 7), '.venv-newest', '3.13 3.12'),
        ((3, 12, 1), '.venv-2.15', '3.11 3.10 3.9'),
    ],
)
def test_the_other_tensorflow_is_tested_where_a_python_for_it_is(
    present, venv, missing, machine, tmp_path
):
    folder = tmp_path / 'venv'
    machine('venv/bin/python', present)
    machine('bin/python3', present)

    def make():
        return subprocess.run(
            [shutil.which('make'), '--dry-run', f'VENV={folder}', 'test-other'],
            env={'PATH': str(tmp_path / 'bin'), 'HOME': str(tmp_path)},
            cwd=TOOLS.parent,
            capture_output=True,
            text=True,
        ).stdout

    said = f'skipped: the other TensorFlow needs one of Python {missing} with venv; none is here.\n'
    assert make().endswith(said)
    machine('bin/python', (3, int(missing.split()[-1][2:]), 0))
    assert f'{venv}/bin/python -m pytest' in make()
