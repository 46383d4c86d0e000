"""Forked processes beside processes with a start of their own."""

import functools
import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from tests import processes

PROBE = """
import os, random, signal, sys
import numpy
print({
    'arguments': sys.argv,
    'name': __name__,
    'path': os.path.realpath(sys.path[0]) if sys.path[0] else '',
    'paths': sys.path[1:],
    'folder': os.getcwd(),
    'environment': {**os.environ},
    'input': sys.stdin.read(),
    'mask': os.umask(0),
    'parent': os.getppid(),
    'leads': os.getsid(0) == os.getpid(),
    'group': os.getpgid(0) == os.getpgid(os.getppid()),
    'handlers': [str(signal.getsignal(number)) for number in range(1, 32)],
    'blocked': sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    'files': len(os.listdir('/proc/self/fd')),
    'buffered': hasattr(sys.stdout.buffer, 'raw'),
    'settings': [sys.stdout.encoding, sys.stdout.errors, sys.stdout.line_buffering],
    'main': sys.modules['__main__'].__dict__ is globals(),
    'drawn': [random.random(), numpy.random.rand()],
    'imported': 'tensorflow' in before,
})
"""
# What a fork must have, and a start must not.
BEGINNING = 'import sys; before = set(sys.modules)\n'


@pytest.fixture(scope='module')
def forked_popen(fork_server):
    if not fork_server.usable:
        pytest.skip('no processes are forked on this system')
    return processes.make_popen(fork_server)


def probe(popen, arguments, text='', **options):
    """What the probe finds in a child of this process."""
    pipes = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE, 'text': True}
    with popen([sys.executable, *arguments], **pipes, **options) as process:
        found = eval(process.communicate(text)[0])
    assert process.returncode == 0
    assert found['parent'] == os.getpid()
    return found


@pytest.fixture
def program(tmp_path):
    """The probe as a module that is a script too."""
    path = tmp_path / 'probe_of_processes.py'
    path.write_text(BEGINNING + PROBE)
    return path


@pytest.mark.parametrize(
    ('kind', 'options'),
    [
        ('script', {}),
        ('script', {'start_new_session': True, 'env': {'PYTHONUNBUFFERED': '1', 'A': 'b=c'}}),
        ('module', {'preexec_fn': functools.partial(os.nice, 0), 'text_of_input': 'said\n'}),
        ('module', {'env': {'PYTHONPATH': os.pathsep.join([os.sep, 'beside', os.sep])}}),
        ('code', {}),
    ],
    ids=['plain', 'session', 'function', 'paths', 'code'],
)
def test_a_forked_process_finds_what_a_started_one_does(kind, options, program, forked_popen):
    # Variables of now: modules change them when they are imported, such as cv2.
    options = {**options, 'env': {**os.environ, **options.get('env', {})}}
    arguments = {
        'script': [program.name],
        'module': ['-m', program.stem],
        'code': ['-c', BEGINNING + PROBE],
    }[kind]
    arguments = [*arguments, 'one', '--two=3']
    text = options.pop('text_of_input', '')
    forked, started = (
        probe(popen, arguments, text, cwd=program.parent, **options)
        for popen in (forked_popen, subprocess.Popen)
    )
    assert forked.pop('imported') and not started.pop('imported')
    assert not set(forked.pop('drawn')) & set(started.pop('drawn'))
    assert forked == started


def test_no_two_draw_the_same(forked_popen):
    first, second = (probe(forked_popen, ['-c', BEGINNING + PROBE]) for _ in range(2))
    assert not set(first['drawn']) & set(second['drawn'])


def test_devices_of_no_two_are_the_same(forked_popen):
    """TensorFlow tells by this number that a task has been started again."""
    code = (
        'import tensorflow as tf\n'
        'print([one.incarnation for one in tf.compat.v1.Session().list_devices()])'
    )
    runs = [
        forked_popen([sys.executable, '-c', code], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    first, second = (json.loads(run.communicate()[0]) for run in runs)
    assert first and not set(first) & set(second)


ENDINGS = {
    'returns': 'pass',
    'status': 'import sys; sys.exit(3)',
    'sentence': 'import sys; sys.exit("a sentence")',
    'error': 'raise KeyError("name")',
    'killed': 'import os; os.kill(os.getpid(), 9)',
    'interrupted': 'import os, time; os.kill(os.getpid(), 2); time.sleep(60)',
    'at once': 'import os; print("unseen", end=""); os._exit(7)',
    'at exit': """
        import atexit, threading, time
        atexit.register(print, 'at exit')
        threading.Thread(target=lambda: (time.sleep(0.2), print('thread'))).start()
        print('main')
    """,
    'output': 'import os, sys; print("out"); print("err", file=sys.stderr); os.write(2, b"low")',
}


@pytest.mark.parametrize('code', ENDINGS.values(), ids=ENDINGS)
def test_a_forked_process_ends_as_a_started_one(code, forked_popen):
    command = [sys.executable, '-c', textwrap.dedent(code)]
    ends = []
    for popen in (forked_popen, subprocess.Popen):
        with popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            out, err = process.communicate()
        # The frames differ, and are no part of what a program says.
        ends.append((process.returncode, out, err.splitlines()[-1:], 'Traceback' in err))
    assert ends[0] == ends[1]


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_it_gets_signals_and_its_caller_its_status(number, forked_popen):
    code = 'import time; print("here", flush=True); time.sleep(60)'
    process = forked_popen([sys.executable, '-c', code], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b'here\n' and process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.send_signal(number)
    assert process.wait() == -number
    process.stdout.close()


def test_both_streams_may_go_to_one_file(forked_popen, tmp_path):
    code = 'import sys; print("out", flush=True); print("err", file=sys.stderr)'
    with (tmp_path / 'log').open('w') as file:
        forked_popen([sys.executable, '-c', code], stdout=file, stderr=subprocess.STDOUT).wait()
    assert (tmp_path / 'log').read_text() == 'out\nerr\n'


def test_a_program_that_is_not_there_is_left_to_python(forked_popen):
    with forked_popen([sys.executable, 'nowhere.py'], stderr=subprocess.PIPE) as process:
        assert b"can't open file" in process.communicate()[1]
    assert process.returncode == 2


@pytest.mark.parametrize(
    'arguments,options',
    [
        ([], {'env': {**os.environ, 'TF_ENABLE_ONEDNN_OPTS': '0'}}),
        ([], {'env': {**os.environ, 'PYTHONHASHSEED': '3'}}),
        ([], {'preexec_fn': lambda: None}),
        (['-W', 'ignore'], {}),
    ],
    ids=['oneDNN', 'hashes', 'function of a function', 'option of Python'],
)
def test_what_the_server_cannot_do_alike_has_its_own_start(arguments, options, forked_popen):
    found = probe(forked_popen, [*arguments, '-c', BEGINNING + PROBE], **options)
    assert not found['imported']
    assert probe(forked_popen, ['-c', BEGINNING + PROBE])['imported']


def test_a_level_of_the_log_that_a_library_has_set_changes_nothing(forked_popen, monkeypatch):
    monkeypatch.setenv('TF_CPP_MIN_LOG_LEVEL', '1')
    assert probe(forked_popen, ['-c', BEGINNING + PROBE])['imported']


def test_this_process_adopts_no_orphans_in_between(forked_popen):
    probe(forked_popen, ['-c', BEGINNING + PROBE])
    code = """
        import os, sys, time
        parent = os.getpid()
        if os.fork():
            sys.exit()
        while os.getppid() == parent:
            time.sleep(0.01)
        print(os.getppid())
    """
    command = [sys.executable, '-S', '-c', textwrap.dedent(code)]
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert int(out) != os.getpid()


def test_on_other_systems_all_have_their_own_start(monkeypatch):
    monkeypatch.setattr(sys, 'platform', 'darwin')
    server = processes.Server()
    popen = processes.make_popen(server)
    assert not probe(popen, ['-c', BEGINNING + PROBE])['imported']
    server.close()


def test_forked_processes_never_overwrite_each_others_events(tmp_path, forked_popen):
    """Their files would have one name each second."""
    code = f"""
import tensorflow as tf
with tf.Graph().as_default():
    tf.compat.v1.summary.FileWriterCache.get({str(tmp_path)!r}).close()
"""
    for _ in range(5):
        assert forked_popen([sys.executable, '-c', code]).wait() == 0
    assert len(list(tmp_path.glob('events.out.tfevents.*'))) == 5
