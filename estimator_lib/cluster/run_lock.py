"""The lock of a training run: a folder has one run at a time, and others are refused.

The lock is a file that names its owner, who replaces the file every few seconds. A new run takes
the lock of a dead owner: on the same machine when the owner's process is gone, on another machine
when the file does not change for some seconds. The file system only needs exclusive creation of
files and renaming.
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

from estimator_lib import errors, tf_estimator
from estimator_lib.checkpoints import checkpoint_files, run_folder
from estimator_lib.checkpoints.run_folder import LOCK_FILE
from estimator_lib.cluster import heartbeats, job_state, waiting
from estimator_lib.processes import preemption, process_identity

log = logging.getLogger('estimator_lib')

_USER_ERROR_STATUS = 2


_lost: Dict[str, str] = {}  # by folder that this process has lost: the error message


def require(model_dir: str) -> None:
    """End a run that has lost the lock of its folder.

    Raises:
        errors.UserError: it has; the message has the process id and host of the other run, or says
            that the folder is gone.
    """
    if model_dir in _lost:
        raise errors.UserError(_lost[model_dir])


class LockHook(tf_estimator.SessionRunHook):
    """Hook that ends a run whose folder another run has taken over.

    Args:
        model_dir: the folder.
    """

    sees_each_step = True  # it fetches nothing, so calls may have several steps

    def __init__(self, model_dir: str):
        self._model_dir = model_dir

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Check the lock of the folder."""
        del run_context, run_values
        require(self._model_dir)


@contextlib.contextmanager
def held(model_dir: str) -> Iterator[None]:
    """Hold the lock of a folder while the block runs.

    A process that loses it all the same, because it was stopped for so long that another machine
    took it for dead, ends: two runs would overwrite each other's checkpoints. So does one whose
    folder is deleted or moved, which also explains any error inside. Where the process is a user's
    program, without a `preemption_guard`, `require` ends the run.

    Args:
        model_dir: the folder, which exists and can be written to.

    Raises:
        errors.UserError: another run holds it (the message has its process id and host), or in the
            end the folder is gone.
    """
    lock = _Lock(model_dir)
    lock.take()
    # The same process may train in the folder again.
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
        # Without the machine's boot and namespace, an equal process id of another container would
        # look like the owner.
        self._content: Dict[str, Any] = {
            'host': socket.gethostname(),
            'pid': os.getpid(),
            'started': process_identity.start_time(os.getpid()),
            'machine': process_identity.machine(),
            'since': time.strftime('%Y-%m-%d %H:%M:%S'),
            'token': uuid.uuid4().hex,
        }

    def take(self) -> None:
        """Take the lock, even from an owner that has died.

        Raises:
            errors.UserError: another run that is alive holds the lock.
        """
        while not self._create(self._path):
            text = _read(self._path)
            if text is None:  # released just now
                continue
            owner = _parse_owner(text)
            if self._is_alive(owner, text):
                raise errors.UserError(
                    f'model_dir {self._model_dir}: another run trains there, process '
                    f'{owner.get("pid")} on host {owner.get("host")}, since {owner.get("since")}; '
                    'expected: that run ends first, or another model_dir.'
                )
            if self._replace_dead(text):
                log.info('%s: its owner has died; this run takes the lock', self._path)
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
        owner = _parse_owner(text or '')
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
        """Check that the folder of the run still exists.

        Raises:
            errors.UserError: the folder was removed during the run.
        """
        if self._folder.is_gone:
            raise run_folder.removal_error(self._model_dir)

    def release(self) -> None:
        """Remove the lock file if this process owns it."""
        if self._is_own(_parse_owner(_read(self._path) or '')):
            _remove(self._path)

    def _is_own(self, owner: Dict[str, Any]) -> bool:
        return owner.get('token') == self._content['token']

    def _create(self, path: str) -> bool:
        """Create the file exclusively; return whether it is this process's now."""
        text = json.dumps(self._content)
        if '://' in path:  # remote file systems have no exclusive creation
            if tf.io.gfile.exists(path):
                return False
            checkpoint_files.write_atomically(path, text)
            # Two processes may both have written; the one whose text stays has the lock.
            return _read(path) == text
        try:
            # Exclusive creation is one operation of the file system: of two processes one gets an
            # error.
            with open(path, 'x') as file:
                file.write(text)
        except FileExistsError:
            return False
        return True

    def _is_alive(self, owner: Dict[str, Any], text: str) -> bool:
        """Return whether the owner runs; wait for a change of the lock of another machine."""
        if owner.get('machine') == self._content['machine']:
            return process_identity.is_running(owner['pid'], owner.get('started'))
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
            # The owner renews it every 2 s. Another token means that another run has taken the
            # lock.
            if now != text:
                return bool(owner) and _parse_owner(now or '').get('token') == owner.get('token')
        return False

    def _replace_dead(self, text: str) -> bool:
        """Replace a dead owner's lock, and return whether this process did.

        Several runs may find the same lock dead. The one that creates a claim file, named by a hash
        of the lock's text, replaces the lock.

        Args:
            text: the content of the dead lock; a lock that has changed since is not replaced.
        """
        claim = f'{self._path}.{hashlib.sha256(text.encode()).hexdigest()[:32]}'
        deadline = time.monotonic() + heartbeats.LEAST_SILENT_SECONDS
        while not self._create(claim):
            if _read(self._path) != text:
                return False
            if time.monotonic() >= deadline:  # the run that created the claim was killed
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
    """Read a file; return '' if it cannot be read and None if it does not exist."""
    try:
        with tf.io.gfile.GFile(path, 'rb') as file:
            return file.read().decode(errors='replace')
    except tf.errors.NotFoundError:
        return None
    except tf.errors.OpError:
        return ''


def _parse_owner(text: str) -> Dict[str, Any]:
    """Parse the owner out of the text of a lock; return {} for a malformed text."""
    try:
        owner = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return owner if isinstance(owner, dict) and isinstance(owner.get('pid'), int) else {}
