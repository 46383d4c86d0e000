"""One run in a folder at a time: with processes that hold the lock, die, or seem to."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from estimator_lib import errors
from estimator_lib.cluster import heartbeats, run_lock
from estimator_lib.processes import process_identity
from tests.conftest import ROOT

pytestmark = pytest.mark.usefixtures('forked_processes')

# Seconds of silence after which an owner of another machine is taken for dead, in tests about
# owners that are known to be dead or alive at once: no busy machine is so slow.
FOR_EVER = 60.0
# And where it is known that nobody has the lock.
SOON = 0.2


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(heartbeats, 'LEAST_SECONDS', 0.2)
    monkeypatch.setattr(heartbeats, 'LEAST_SILENT_SECONDS', 1.5)
    monkeypatch.setattr(run_lock.waiting, 'POLL_SECONDS', 0.02)


def lock_of(folder):
    return json.loads((folder / 'run.lock').read_text())


def leave_lock(folder, **changes):
    """The lock of a run of this machine that has been killed, with changes."""
    process = subprocess.Popen(['true'])
    process.wait()
    with run_lock.held(str(folder)):
        content = {**lock_of(folder), 'pid': process.pid, 'token': 'of another', **changes}
    (folder / 'run.lock').write_text(json.dumps(content))
    return content


OWNER = textwrap.dedent("""
    import sys, time
    from estimator_lib.cluster import heartbeats, run_lock
    from estimator_lib.processes import preemption
    heartbeats.LEAST_SECONDS = 0.2
    with preemption.preemption_guard(), run_lock.held(sys.argv[1]):
        print('held', flush=True)
        input()
""")


@pytest.fixture
def owner(tmp_path):
    """A process that holds the lock of `tmp_path` until it gets a line."""
    with subprocess.Popen(
        [sys.executable, '-c', OWNER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        assert process.stdout.readline() == 'held\n'
        yield process
        process.kill()


def refused(folder):
    with pytest.raises(errors.UserError) as caught, run_lock.held(str(folder)):
        pass
    return str(caught.value)


def test_the_lock_names_who_holds_it_and_is_gone_afterwards(tmp_path):
    with run_lock.held(str(tmp_path)):
        content = lock_of(tmp_path)
        assert content['pid'] == os.getpid()
        assert content['host'] == os.uname().nodename
    assert list(tmp_path.iterdir()) == []


def test_it_is_gone_after_an_error(tmp_path):
    with pytest.raises(KeyError), run_lock.held(str(tmp_path)):
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_a_second_run_is_refused_until_the_first_has_ended_or_is_killed(
    tmp_path, owner, monkeypatch
):
    message = refused(tmp_path)
    assert message.startswith(
        f'model_dir {tmp_path}: another run trains there, process {owner.pid} on host '
        f'{os.uname().nodename}, since '
    )
    monkeypatch.setattr(heartbeats, 'LEAST_SILENT_SECONDS', FOR_EVER)
    owner.send_signal(signal.SIGSTOP)  # a process that is stopped has not ended
    assert refused(tmp_path) == message
    owner.send_signal(signal.SIGKILL)
    while lock_of(tmp_path)['token'] and not _is_zombie(owner.pid):
        time.sleep(0.02)
    started = time.monotonic()
    with run_lock.held(str(tmp_path)):  # not even its parent knows by now
        assert lock_of(tmp_path)['pid'] == os.getpid()
        assert time.monotonic() - started < FOR_EVER
    assert list(tmp_path.iterdir()) == []


def _is_zombie(pid):
    with open(f'/proc/{pid}/stat') as file:
        return file.read().rpartition(')')[2].split()[0] == 'Z'


@pytest.mark.parametrize('changes', [{}, {'pid': os.getpid()}, {'pid': 2**70}])
def test_an_owner_is_dead_whose_id_is_of_nobody_or_of_another_process(
    tmp_path, changes, monkeypatch
):
    monkeypatch.setattr(heartbeats, 'LEAST_SILENT_SECONDS', FOR_EVER)
    leave_lock(tmp_path, started='1', **changes)
    started = time.monotonic()
    with run_lock.held(str(tmp_path)):
        assert time.monotonic() - started < FOR_EVER


def test_the_lock_of_another_machine_is_taken_over_when_it_does_not_change(tmp_path, monkeypatch):
    monkeypatch.setattr(heartbeats, 'LEAST_SILENT_SECONDS', SOON)
    leave_lock(tmp_path, machine='another')
    started = time.monotonic()
    with run_lock.held(str(tmp_path)):
        assert time.monotonic() - started >= SOON
        assert lock_of(tmp_path)['pid'] == os.getpid()


@pytest.mark.parametrize('leftover', ['', '{"pid": ', '[1]', '"x"', '\xff', '{"pid": "x"}'])
def test_what_is_no_lock_is_taken_over_when_it_does_not_change(tmp_path, leftover, monkeypatch):
    monkeypatch.setattr(heartbeats, 'LEAST_SILENT_SECONDS', SOON)
    (tmp_path / 'run.lock').write_text(leftover, encoding='latin-1')
    with run_lock.held(str(tmp_path)):
        assert lock_of(tmp_path)['pid'] == os.getpid()
    assert list(tmp_path.iterdir()) == []


def test_a_run_of_another_machine_is_alive_when_its_lock_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(heartbeats, 'LEAST_SILENT_SECONDS', FOR_EVER)
    with run_lock.held(str(tmp_path)):  # replaces it every 0.2 s
        monkeypatch.setattr(process_identity, 'machine', lambda: 'another')
        started = time.monotonic()
        assert f'process {os.getpid()} on host' in refused(tmp_path)
        assert time.monotonic() - started < FOR_EVER


@pytest.mark.parametrize('attempt', range(5))
def test_of_many_that_find_a_dead_owner_one_succeeds(tmp_path, attempt):
    leave_lock(tmp_path, started='1')
    barrier, done, outcomes = threading.Barrier(8), threading.Event(), []

    def run():
        barrier.wait()
        try:
            with run_lock.held(str(tmp_path)):
                outcomes.append('held')
                done.wait()
        except errors.UserError:
            outcomes.append('refused')
        if len(outcomes) == 8:
            done.set()

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    while len(outcomes) < 8:
        time.sleep(0.02)
    done.set()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ['held'] + 7 * ['refused']


def test_a_run_that_was_killed_while_it_took_a_lock_over_is_not_in_the_way(tmp_path):
    text = json.dumps(leave_lock(tmp_path, started='1'))
    claim = tmp_path / f'run.lock.{hashlib.sha256(text.encode()).hexdigest()[:32]}'
    claim.write_text('')
    with run_lock.held(str(tmp_path)):
        assert lock_of(tmp_path)['pid'] == os.getpid()
    assert list(tmp_path.iterdir()) == []


def test_who_has_lost_the_lock_ends_with_a_sentence(tmp_path, owner):
    content = {**lock_of(tmp_path), 'token': 'of another', 'pid': 12, 'host': 'far'}
    (tmp_path / 'run.lock').write_text(json.dumps(content))
    assert owner.wait(timeout=60) == 2
    assert owner.stderr.read().splitlines()[-1] == (
        f'error: model_dir {tmp_path}: this run was silent for so long that process 12 on host far '
        'has taken its place.'
    )
    assert lock_of(tmp_path) == content  # which is not its own to remove


@pytest.mark.parametrize('is_made_again', [False, True])
def test_who_has_lost_the_folder_ends_with_a_sentence(tmp_path, owner, is_made_again):
    tmp_path.rename(tmp_path.with_name(f'{tmp_path.name}-moved'))
    if is_made_again:
        tmp_path.mkdir()
    assert owner.wait(timeout=60) == 2
    assert (
        owner.stderr.read()
        .splitlines()[-1]
        .startswith(
            f'error: the folder {tmp_path} is gone: it was deleted or moved while this run used it'
        )
    )


def test_a_run_that_ends_in_another_folder_than_it_began_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(heartbeats, 'LEAST_SECONDS', FOR_EVER)
    folder = tmp_path / 'run'
    folder.mkdir()
    with pytest.raises(errors.UserError, match='is gone'), run_lock.held(str(folder)):
        folder.rename(tmp_path / 'moved')
        folder.mkdir()
    assert list(folder.iterdir()) == []


def test_a_program_of_a_user_that_has_lost_the_lock_goes_on_and_its_run_ends(tmp_path):
    hook = run_lock.LockHook(str(tmp_path))
    with run_lock.held(str(tmp_path)):
        hook.after_run(None, None)
        content = {**lock_of(tmp_path), 'token': 'of another', 'pid': 12, 'host': 'far'}
        (tmp_path / 'run.lock').write_text(json.dumps(content))
        deadline = time.monotonic() + FOR_EVER
        with pytest.raises(errors.UserError, match='process 12 on host far has taken its place'):
            while time.monotonic() < deadline:
                hook.after_run(None, None)
                time.sleep(0.02)
    assert lock_of(tmp_path) == content
    (tmp_path / 'run.lock').unlink()
    with run_lock.held(str(tmp_path)):
        hook.after_run(None, None)
