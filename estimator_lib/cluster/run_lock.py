"""One training run in a folder at a time: it holds a lock there, and others are refused.

The lock is a file that says who holds it. One whose process runs no more is taken over at once by a
run of the same machine; that of another machine, where it has not changed for some seconds: its
owner replaces it all the time. This takes no more of a file system than that a file which is there
is not created again, and that files can be renamed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import socket
import threading
import time
import uuid
from typing import Any, Dict, Iterator, Optional

import tensorflow as tf

from estimator_lib import errors
from estimator_lib.checkpoints import checkpoint_files, run_folder
from estimator_lib.checkpoints.run_folder import LOCK_FILE
from estimator_lib.cluster import heartbeats, job_state, waiting
from estimator_lib.hooks import preemption

log = logging.getLogger('estimator_lib')

_USER_ERROR_STATUS = 2


_lost: Dict[str, str] = {}  # why this process has a folder no more, by the folder


def require(model_dir: str) -> None:
    """End a run that has lost the lock of its folder.

    Raises:
        errors.UserError: it has; the message has the process id and host of the other run, or says
            that the folder is gone.
    """
    if model_dir in _lost:
        raise errors.UserError(_lost[model_dir])


@contextlib.contextmanager
def held(model_dir: str) -> Iterator[None]:
    """Inside, this process holds the lock of a folder.

    A process that loses it all the same, because it was stopped for so long that another machine
    took it for dead, ends: two runs would overwrite each other's checkpoints. So does one whose
    folder is deleted or moved, which also explains any error inside. Where the process is a user's
    program, without a `preemption_guard`, `require` ends the run.

    Args:
        model_dir: the folder; it is there, and can be written to.

    Raises:
        errors.UserError: another run holds it (the message has its process id and host), or in the
            end the folder is gone.
    """
    lock = _Lock(model_dir)
    lock.take()
    _lost.pop(model_dir, None)
    stopped = threading.Event()
    thread = threading.Thread(target=lock.keep, args=(stopped,), name='run lock', daemon=True)
    thread.start()
    try:
        with run_folder.explained_removal(model_dir):
            yield
        # A short run may end before the thread has looked.
        lock.require_folder()
    finally:
        stopped.set()
        thread.join()
        lock.release()


class _Lock:
    """The lock of a folder, as this process sees it."""

    def __init__(self, model_dir: str):
        self._model_dir = model_dir
        self._path = os.path.join(model_dir, LOCK_FILE)
        self._folder = run_folder.RunFolder(model_dir)
        self._content: Dict[str, Any] = {
            'host': socket.gethostname(),
            'pid': os.getpid(),
            'started': _start_of(os.getpid()),
            'machine': _machine(),
            'since': time.strftime('%Y-%m-%d %H:%M:%S'),
            'token': uuid.uuid4().hex,
        }

    def take(self) -> None:
        """Take the lock, also that of an owner that has died."""
        while not self._create(self._path):
            text = _read(self._path)
            if text is None:  # released just now
                continue
            owner = _parsed(text)
            if self._is_alive(owner, text):
                raise errors.UserError(
                    f'model_dir {self._model_dir}: another run trains there, process '
                    f'{owner.get("pid")} on host {owner.get("host")}, since {owner.get("since")}; '
                    'expected: it ends first, or another model_dir.'
                )
            if self._take_over(text):
                log.info('%s: the run that held it has died; this one has it now', self._path)
                return

    def keep(self, stopped: threading.Event) -> None:
        """Replace the lock every few seconds, until another run has it or the folder is gone."""
        while not stopped.wait(heartbeats.LEAST_SECONDS):
            loss = self._renew()
            if loss:
                _lost[self._model_dir] = loss
                if preemption.owns_process():
                    job_state.leave_now(_USER_ERROR_STATUS, loss)
                return

    def _renew(self) -> str:
        """Replace the lock; return why the run has lost it, and empty text where it has not."""
        is_same, text = self._folder.is_same, _read(self._path)
        owner = _parsed(text or '')
        if owner and not self._is_own(owner):
            return (
                f'model_dir {self._model_dir}: this run was silent for so long that process '
                f'{owner.get("pid")} on host {owner.get("host")} has taken its place.'
            )
        is_gone = not is_same and text is None
        if not is_gone:
            self._content['time'] = time.time()
            job_state.write_state(self._path, self._content)
            # In a folder that was replaced right then, the lock would tell later looks that all is
            # well.
            is_gone = is_same and not self._folder.is_same
        return str(run_folder.removal_error(self._model_dir)) if is_gone else ''

    def require_folder(self) -> None:
        """Raise `errors.UserError` where the folder is gone."""
        if self._folder.is_gone:
            raise run_folder.removal_error(self._model_dir)

    def release(self) -> None:
        """Give the lock up."""
        if self._is_own(_parsed(_read(self._path) or '')):
            _remove(self._path)

    def _is_own(self, owner: Dict[str, Any]) -> bool:
        return owner.get('token') == self._content['token']

    def _create(self, path: str) -> bool:
        """Return whether a file was not there, and is this process's now."""
        text = json.dumps(self._content)
        if '://' in path:  # where no file is created exclusively
            if tf.io.gfile.exists(path):
                return False
            checkpoint_files.write_atomically(path, text)
            return _read(path) == text
        try:
            with open(path, 'x') as file:
                file.write(text)
        except FileExistsError:
            return False
        return True

    def _is_alive(self, owner: Dict[str, Any], text: str) -> bool:
        """Whether the owner of a lock runs; waits where only a change of the lock can show it."""
        if owner.get('machine') == self._content['machine']:
            return _runs(owner)
        log.info(
            '%s: the lock of process %s on host %s; waiting up to %g s for a sign of life',
            self._path,
            owner.get('pid'),
            owner.get('host'),
            heartbeats.LEAST_SILENT_SECONDS,
        )
        deadline = time.monotonic() + heartbeats.LEAST_SILENT_SECONDS
        while time.monotonic() < deadline:
            time.sleep(waiting.POLL_SECONDS)
            now = _read(self._path)
            if now != text:
                return bool(owner) and _parsed(now or '').get('token') == owner.get('token')
        return False

    def _take_over(self, text: str) -> bool:
        """Replace the lock, if it is still the one that was looked at.

        Of several runs that want to, the one does that creates a second file, named by the lock's
        text: what is replaced is what all of them found dead.
        """
        claim = f'{self._path}.{hashlib.sha256(text.encode()).hexdigest()[:32]}'
        deadline = time.monotonic() + heartbeats.LEAST_SILENT_SECONDS
        while not self._create(claim):
            if _read(self._path) != text:
                return False
            if time.monotonic() >= deadline:  # whoever created it was killed right then
                _remove(claim)
            time.sleep(waiting.POLL_SECONDS)
        try:
            if _read(self._path) != text:
                return False
            checkpoint_files.write_atomically(self._path, json.dumps(self._content))
            return True
        finally:
            _remove(claim)


def _remove(path: str) -> None:
    with contextlib.suppress(tf.errors.OpError):
        tf.io.gfile.remove(path)


def _read(path: str) -> Optional[str]:
    """What is in a file, '' where it cannot be read; None when it is not there."""
    try:
        with tf.io.gfile.GFile(path, 'rb') as file:
            return file.read().decode(errors='replace')
    except tf.errors.NotFoundError:
        return None
    except tf.errors.OpError:
        return ''


def _parsed(text: str) -> Dict[str, Any]:
    """Who a lock says that holds it; nothing where it is not whole."""
    try:
        owner = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return owner if isinstance(owner, dict) and isinstance(owner.get('pid'), int) else {}


def _machine() -> str:
    """Return the same in two processes that can see each other by their ids, and in no others."""
    try:
        with open('/proc/sys/kernel/random/boot_id') as file:
            boot = file.read().strip()
        return f'{socket.gethostname()} {boot} {os.readlink("/proc/self/ns/pid")}'
    except OSError:
        return uuid.uuid4().hex  # not Linux: nobody is known to be on this machine


def _runs(owner: Dict[str, Any]) -> bool:
    """Return whether an owner's process runs, and is not another one that has got its id."""
    try:
        os.kill(owner['pid'], 0)
    except PermissionError:  # another user's, which /proc may not show
        return _start_of(owner['pid']) in (owner.get('started'), None)
    except (ProcessLookupError, OverflowError):
        return False
    return _start_of(owner['pid']) == owner.get('started')


def _start_of(pid: int) -> Optional[str]:
    """When a process started, in clock ticks since the boot; None for one that runs no more."""
    try:
        with open(f'/proc/{pid}/stat') as file:
            fields = file.read().rpartition(')')[2].split()
    except OSError:
        return None
    return None if fields[0] in ('Z', 'X') else fields[19]
