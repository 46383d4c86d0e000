"""Child processes: what lies in the working folder does not run."""

import os
import pathlib
import subprocess
import sys

import pytest

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
    command = child_processes.command('estimator_lib.benchmarking.timing')
    ended = subprocess.run(command, capture_output=True, text=True)
    assert 'not enough values to unpack' in ended.stderr  # the module has begun
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
    command = child_processes.command('estimator_lib.commands.launch_jobset', '--help')
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0 and '--image' in ended.stdout
