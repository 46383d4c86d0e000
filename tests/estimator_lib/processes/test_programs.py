"""Guard of the programs, around programs of a few lines and around the project's own."""

import os
import pathlib
import resource
import signal
import subprocess
import sys

import pytest
import tensorflow as tf

from estimator_lib.processes import programs

ROOT = pathlib.Path(__file__).resolve().parents[3]
BEGIN = """
import sys, time
from estimator_lib import errors
from estimator_lib.processes import programs
with programs.guard():
"""


def start(body, *arguments, options=(), shell='', **keywords):
    """Start a program with a guard; `shell` is a line that ends with the program."""
    command = [sys.executable, *options, '-c', f'{BEGIN}    {body}', *arguments]
    if shell:
        command = ['bash', '-c', shell, '--', *command]
    pipes = {'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE}
    return subprocess.Popen(command, cwd=ROOT, **{**pipes, **keywords})


def run(body, *arguments, **options):
    """Status, standard output and standard error of a program."""
    with start(body, *arguments, **options) as process:
        out, err = process.communicate(timeout=60)
    return process.returncode, (out or b'').decode(), (err or b'').decode()


@pytest.mark.parametrize(
    'number, status', [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
def test_a_signal_is_one_line_and_its_status(number, status):
    with start("print('ready', flush=True); time.sleep(60)") as process:
        process.stdout.readline()
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
    assert process.returncode == status
    assert err.decode() == f'{number.name}: ending (Ctrl-C: at once)\n'


def test_two_interrupts_at_once_are_one():
    body = """
    try:
        print('ready', flush=True); time.sleep(60)
    finally:
        time.sleep(0.5); print('saved', flush=True)
"""
    with start(body) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, b'saved\n')
    assert b'told twice' not in err


def test_a_hang_up_that_is_ignored_stays_so():
    body = "print('ready', flush=True); time.sleep(0.5); print('done')"
    with start(body, shell='trap "" HUP; exec "$@"') as process:
        process.stdout.readline()
        process.send_signal(signal.SIGHUP)
        out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, b'done\n')


def test_an_error_that_the_end_causes_is_none():
    body = """
    try:
        print('ready', flush=True); time.sleep(60)
    except SystemExit:
        raise RuntimeError('the session is closed')
"""
    with start(body) as process:
        process.stdout.readline()
        process.terminate()
        _, err = process.communicate(timeout=30)
    assert process.returncode == 143
    assert b'Traceback' not in err


def test_a_program_of_the_project_is_guarded_while_tensorflow_is_imported(tmp_path):
    # In place of the first package that TensorFlow imports: it waits for the signal.
    # It says so on standard output, because the lines of standard error come after the import.
    waiting = "import time\nprint('ready', flush=True)\ntime.sleep(60)\n"
    (tmp_path / 'numpy.py').write_text(waiting)
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    with subprocess.Popen(
        [sys.executable, '-m', 'model_fns.convert_checkpoint', '--help'],
        cwd=ROOT,
        env={**os.environ, 'PYTHONPATH': path, 'PYTHONSAFEPATH': '1'},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == 'ready\n'
        process.send_signal(signal.SIGINT)
        said = list(process.stderr)
    assert process.returncode == 130
    # TensorFlow writes lines of its own, and misses the package.
    assert said.count('SIGINT: ending (Ctrl-C: at once)\n') == 1
    assert not any('Traceback' in line for line in said)


def test_an_error_of_the_user_is_one_sentence():
    assert run("raise errors.UserError('no such file')") == (2, '', 'error: no such file\n')


@pytest.mark.parametrize('unbuffered', ['', '1'])
def test_a_reader_that_has_ended_is_no_error(unbuffered):
    reader, writer = os.pipe()
    os.close(reader)
    body = "print('x' * 100000); print('more')"
    environment = {**os.environ, 'PYTHONUNBUFFERED': unbuffered}
    try:
        assert run(body, stdout=writer, env=environment) == (141, '', '')
    finally:
        os.close(writer)


@pytest.mark.parametrize('body', ["print('x')", "print('x' * 100000); print('more')"])
def test_a_full_device_is_one_sentence(body):
    with open('/dev/full', 'wb') as full:
        status, _, err = run(body, stdout=full)
    assert (status, err) == (2, 'error: No space left on device.\n')


def test_closed_streams_are_opened_to_nothing(tmp_path):
    path = tmp_path / 'data'
    body = (
        f"file = open({str(path)!r}, 'w'); print('log', file=sys.stderr); print('x'); file.close()"
    )
    assert run(body, shell='exec "$@" 0<&- 2>&-') == (0, 'x\n', '')
    assert path.read_bytes() == b''
    assert run(body, shell='exec "$@" >&-') == (0, '', 'log\n')


def test_a_limit_of_the_size_of_files_is_one_sentence(tmp_path):
    path = tmp_path / 'data'

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    body = f"with open({str(path)!r}, 'wb') as file: file.write(bytes(5000))"
    status, _, err = run(body, preexec_fn=limit)
    assert (status, err) == (2, 'error: File too large.\n')


def test_a_path_that_is_not_utf_8_is_one_sentence():
    status, _, err = run('pass', b'--images=/tmp/caf\xe9')
    assert status == 2
    assert err.startswith("error: --images: b'/tmp/caf\\xe9' is not UTF-8; expected ")
    assert err.count('\n') == 1
    assert run('pass', b'\xe9')[2].startswith("error: the command line: b'\\xe9' is not UTF-8")


def test_names_that_are_not_text_are_printed():
    assert run(r"print('caf\udce9')") == (0, 'caf\\udce9\n', '')


def test_a_python_without_docstrings_is_refused():
    status, _, err = run('pass', options=['-OO'])
    assert (status, err.count('\n')) == (2, 1)
    assert err.startswith('error: PYTHONOPTIMIZE=2 (-OO) removes docstrings')


def test_a_fault_of_the_program_keeps_its_traceback():
    status, _, err = run("raise FileNotFoundError(2, 'No such file')")
    assert status == 1 and 'Traceback' in err


def test_every_console_script_has_the_guard():
    import importlib
    import inspect
    import re

    setup = (ROOT / 'setup.py').read_text()
    scripts = re.findall(r"'[\w-]+=([\w.]+):main'", setup)
    assert len(scripts) == 6
    for name in scripts:
        main = importlib.import_module(name).main
        assert 'with programs.guard():' in inspect.getsource(main), name


def test_a_path_of_an_unknown_file_system_is_one_sentence(capsys):
    with pytest.raises(SystemExit) as ended, programs.guard():
        tf.io.gfile.exists('s3://bucket/ssd/model.ckpt')
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith(
        'error: s3://bucket/ssd/model.ckpt: TensorFlow has no file system s3:// '
    )
    assert said.count('\n') == 1
