"""Child processes: what lies in the working folder does not run."""

import os
import pathlib
import subprocess
import sys

import pytest

from estimator_lib import errors
from estimator_lib.processes import child_processes

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """A working folder with modules that leave a mark when they run."""
    monkeypatch.chdir(tmp_path)
    for name in ('numpy', 'tensorflow', 'run_train_eval', 'socket', 'sitecustomize'):
        (tmp_path / f'{name}.py').write_text("open('ran', 'w').close()\n")
    return tmp_path


def test_a_child_does_not_look_into_the_working_folder(hostile, monkeypatch):
    monkeypatch.setattr(sys, 'path', ['', *sys.path])  # as of an interpreter or `python -c`
    command = child_processes.command('estimator_lib.export.exported_file')
    ended = subprocess.run(command, capture_output=True, text=True)
    assert 'expected 1, got 0' in ended.stderr  # the module has begun
    assert not (hostile / 'ran').exists()


def test_a_task_of_a_local_cluster_does_not_look_into_the_working_folder(hostile):
    # As the console script `launch-local` begins, whose folder is that of the script.
    code = (
        'import sys; sys.path.pop(0); from estimator_lib import launch_local; launch_local.main()'
    )
    flags = ['--num_workers=0', '--network=host', '--', '--help']
    environment = {**os.environ, 'PYTHONPATH': str(ROOT)}
    ended = subprocess.run(
        [sys.executable, '-c', code, *flags], capture_output=True, text=True, env=environment
    )
    assert ended.returncode == 0, ended.stderr
    assert 'chief:0 | Front door' in ended.stderr
    assert not (hostile / 'ran').exists()


def test_arguments_and_the_name_of_the_program_arrive():
    command = child_processes.command('estimator_lib.launch_local', '--help')
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0 and '--num_ps' in ended.stdout


def run_instead(monkeypatch, code):
    """Run other code in place of a module."""
    command = [sys.executable, '-c', code]
    monkeypatch.setattr(child_processes, 'command', lambda *arguments: command)
    child_processes.run('module', subject='--from: a.pb', seconds=30.0)


def test_the_lines_and_the_status_of_a_child_are_those_of_the_program(monkeypatch, capfd):
    with pytest.raises(SystemExit) as caught:
        run_instead(monkeypatch, 'import sys; print(1); print(2, file=sys.stderr); sys.exit(2)')
    assert caught.value.code == 2
    assert capfd.readouterr() == ('1\n', '2\n')


def test_a_library_that_ends_the_child_is_one_sentence(monkeypatch, capfd):
    line = '2026-01-01 00:00:00.1: F tensorflow/core/tensor.cc:844] Check failed: dtype'
    code = f'import os, sys; print({line!r}, file=sys.stderr, flush=True); os.abort()'
    with pytest.raises(errors.UserError) as caught:
        run_instead(monkeypatch, code)
    assert str(caught.value) == (
        '--from: a.pb is damaged: it ends the process that reads it (Check failed: dtype).'
    )
    assert capfd.readouterr().err == ''


def test_a_child_that_does_not_end_is_killed(monkeypatch):
    monkeypatch.setattr(
        child_processes,
        'command',
        lambda *arguments: [sys.executable, '-c', 'import time; time.sleep(60)'],
    )
    with pytest.raises(errors.UserError, match=r'--from: a\.pb takes more than 0\.5 s\.'):
        child_processes.run('module', subject='--from: a.pb', seconds=0.5)
