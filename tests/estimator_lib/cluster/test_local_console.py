"""A local cluster in the foreground, with small programs in place of the front door."""

import io
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from estimator_lib.cluster import local_console, local_processes


def program(text):
    head = """
        import json, os, signal, sys, time
        task = json.loads(os.environ['TF_CONFIG'])['task']
        role, index = task['type'], task['index']
    """
    return [sys.executable, '-c', textwrap.dedent(head) + textwrap.dedent(text)]


def addresses(**counts):
    ports = iter(range(1000, 2000))
    return {role: [f'h:{next(ports)}' for _ in range(count)] for role, count in counts.items()}


def run(text, restart=0, **counts):
    stream = io.StringIO()
    status = local_console.run(addresses(**counts), program(text), restart=restart, stream=stream)
    return status, stream.getvalue().splitlines()


def test_lines_have_their_task_in_front_and_all_end_with_0():
    status, lines = run("print(f'I am {role} {index}')", chief=1, worker=2)
    assert status == 0
    assert sorted(line for line in lines if '| I am' in line) == [
        'chief:0  | I am chief 0',
        'worker:0 | I am worker 0',
        'worker:1 | I am worker 1',
    ]


def test_only_the_chief_shows_progress():
    status, lines = run("print('12:00:00 step 10/50  loss 1', flush=True)", chief=1, worker=1)
    assert status == 0
    assert [line for line in lines if '| 12:00:00 step' in line] == [
        'chief:0  | 12:00:00 step 10/50  loss 1'
    ]


def test_worker_0_is_the_chief_where_there_is_no_other():
    _, lines = run("print('step 10/50  loss 1', flush=True)", worker=2)
    assert [line for line in lines if '| step 10/50' in line] == ['worker:0 | step 10/50  loss 1']


def test_the_failure_of_one_ends_all_with_its_status():
    started = time.monotonic()
    text = "time.sleep(600 if role != 'worker' else 0); sys.exit(7)"
    status, lines = run(text, chief=1, worker=1)
    assert status == 7
    assert time.monotonic() - started < 300  # not when the chief's sleep is over
    assert 'launcher | worker:0 has ended with status 7: all end' in lines


def test_a_killed_task_is_started_again_as_often_as_allowed(tmp_path):
    text = f"""
        with open({str(tmp_path / 'starts')!r}, 'a') as file:
            file.write('x')
        if os.path.getsize({str(tmp_path / 'starts')!r}) < 3:
            os.kill(os.getpid(), signal.SIGKILL)
    """
    status, lines = run(text, restart=2, chief=1)
    assert status == 0
    assert sum('ended with status 137; started again' in line for line in lines) == 2


def test_a_task_that_fails_by_itself_is_not_started_again():
    status, lines = run('sys.exit(2)', restart=5, chief=1)
    assert status == 2
    assert not any('started again' in line for line in lines)


def test_a_task_that_is_killed_too_often_has_failed():
    status, lines = run('os.kill(os.getpid(), signal.SIGKILL)', restart=1, chief=1)
    assert status == 137
    assert 'launcher | chief:0 has ended with status 137: all end' in lines


SLEEPER = """
    def end(number, frame):
        print('told', flush=True)
        time.sleep(0.5 if role != 'ps' else 0)
        print('ends', flush=True)
        os._exit(143)
    signal.signal(signal.SIGTERM, end)
    print('ready', flush=True)
    while True:
        time.sleep(0.05)
"""


@pytest.mark.parametrize('number, status', [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_reaches_the_workers_first_and_the_servers_last(tmp_path, number, status):
    code = (
        'import sys\n'
        'from estimator_lib.cluster import local_console\n'
        f'sys.exit(local_console.run({addresses(chief=1, worker=1, ps=1)!r}, '
        f'{program(SLEEPER)!r}))'
    )
    launcher = subprocess.Popen([sys.executable, '-c', code], stderr=subprocess.PIPE, text=True)
    lines = []
    for line in launcher.stderr:
        lines.append(line.strip())
        if sum('| ready' in one for one in lines) == 3:
            launcher.send_signal(number)
            break
    lines += [line.strip() for line in launcher.stderr]
    assert launcher.wait() == status
    told = lines.index('ps:0     | told')
    assert {'chief:0  | ends', 'worker:0 | ends'} <= set(lines[:told])


def test_who_does_not_end_is_killed(monkeypatch, tmp_path):
    monkeypatch.setattr(local_processes, 'WORKERS_SECONDS', 1.0)
    text = f"""
        deaf = {str(tmp_path / 'deaf')!r}
        if role == 'worker':
            while not os.path.exists(deaf):
                time.sleep(0.05)
            sys.exit(3)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        open(deaf, 'w').close()
        time.sleep(600)
    """
    status, lines = run(text, chief=1, worker=1)
    assert status == 3
    assert any('chief:0  | [killed: it has not ended within 1 s]' in line for line in lines)


def test_tasks_end_with_a_launcher_that_is_killed(tmp_path):
    code = (
        'from estimator_lib.cluster import local_console\n'
        f'local_console.run({addresses(chief=1)!r}, '
        f'{program("print(os.getpid(), flush=True); time.sleep(600)")!r})'
    )
    launcher = subprocess.Popen([sys.executable, '-c', code], stderr=subprocess.PIPE, text=True)
    for line in launcher.stderr:
        if line.startswith('chief:0 | '):
            pid = int(line.split('|')[1])
            break
    launcher.kill()
    launcher.wait()
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and _runs(pid):
        time.sleep(0.1)
    assert not _runs(pid)


def _runs(pid):
    try:
        with open(f'/proc/{pid}/stat') as file:
            return file.read().rpartition(')')[2].split()[0] != 'Z'
    except FileNotFoundError:
        return False


def test_progress_is_one_line_that_changes_on_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

        def fileno(self):
            return 0

    monkeypatch.setattr(os, 'get_terminal_size', lambda fd: os.terminal_size((80, 24)))
    terminal = Terminal()
    console = local_console.Console('chief:0', 8, terminal)
    for line in ('step 1/9  loss 3', 'a warning', 'step 2/9  loss 2'):
        console.put('chief:0', line)
    console.show()
    console.close()
    shown = terminal.getvalue()
    assert shown.count('\n') == 2  # the warning's, and the last one
    assert shown.index('step 1/9') < shown.index('a warning') < shown.rindex('step 2/9')
