"""Signs of life: each task of a job writes one, and looks at those of others.

A heartbeat is a small file in `model_dir/cluster`, which its task replaces every few seconds. Who
looks does not compare clocks of two machines: a task is alive when its file changes.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from typing import Any, Dict, List, Mapping, Optional, Sequence

from estimator_lib.cluster import job_state

# What a task does.
STARTING = 'starting'
WAITING = 'waiting'  # for others
TRAINING = 'training'
SERVING = 'serving'  # variables
EVALUATING = 'evaluating'
ENDED = 'ended'

LEAST_SECONDS = 2.0
# A shared file system gets at most about so many heartbeats a second.
MOST_PER_SECOND = 50.0
# Beats that a task may miss before it is said to be silent.
MISSED = 5
LEAST_SILENT_SECONDS = 15.0


def beat_seconds(num_tasks: int) -> float:
    """Return seconds between two heartbeats of one task."""
    return max(LEAST_SECONDS, num_tasks / MOST_PER_SECOND)


def silent_seconds(num_tasks: int) -> float:
    """Without a heartbeat for this long, a task is said to be silent."""
    return max(LEAST_SILENT_SECONDS, MISSED * beat_seconds(num_tasks))


class Heart:
    """This task's heartbeat.

    Args:
        folder: of the heartbeats.
        name: of this task, `worker:1`.
    """

    def __init__(self, folder: str, name: str):
        self.name = name
        self.identity = uuid.uuid4().hex  # of this start of the task
        self._path = path_of(folder, name)
        self._lock = threading.Lock()
        self._content: Dict[str, Any] = {
            'task': name,
            'identity': self.identity,
            'host': socket.gethostname(),
            'pid': os.getpid(),
            'state': STARTING,
            'step': None,
            'beat': 0,
        }

    @property
    def state(self) -> str:
        """What this task does."""
        return self._content['state']

    def at_step(self, step: int) -> None:
        """Take note of the global step; the next beat tells it."""
        self._content['step'] = step

    def tell(self, state: str, **more: Any) -> None:
        """Say at once what this task does now."""
        self._content.update(state=state, **more)
        self.beat()

    def beat(self) -> None:
        """Write the heartbeat."""
        with self._lock:
            self._content['beat'] += 1
            self._content['time'] = time.time()
            job_state.write_state(self._path, dict(self._content))


class Watch:
    """The heartbeats of other tasks.

    Args:
        folder: of the heartbeats.
        names: of the tasks to look at.
        silent_after: seconds.
    """

    def __init__(self, folder: str, names: Sequence[str], silent_after: float):
        self.names: List[str] = list(names)
        self.silent_after = silent_after
        self._paths = {name: path_of(folder, name) for name in names}
        self._seen = {name: job_state.read_state(path) for name, path in self._paths.items()}
        now = time.monotonic()
        self._changed = dict.fromkeys(names, now)
        self._alive = dict.fromkeys(names, False)

    def look(self) -> None:
        """Read the heartbeats."""
        for name, path in self._paths.items():
            beat = job_state.read_state(path)
            if beat is not None and beat != self._seen[name]:
                self._seen[name] = beat
                self._changed[name] = time.monotonic()
                self._alive[name] = True

    def silence(self, name: str) -> float:
        """Seconds since a task's last heartbeat; since this watch began when there was none."""
        return time.monotonic() - self._changed[name]

    def is_alive(self, name: str) -> bool:
        """Return whether a task has been heard of since this watch began, and is not silent."""
        return self._alive[name] and self.silence(name) < self.silent_after

    def was_alive(self, name: str) -> bool:
        """Return whether a task has been heard of since this watch began."""
        return self._alive[name]

    def last(self, name: str) -> Mapping[str, Any]:
        """What a task's heartbeat says, of this run or an earlier one; empty: there is none."""
        return self._seen[name] or {}

    def state(self, name: str) -> Optional[str]:
        """What a task does that is alive, or has ended since this watch began."""
        if not self._alive[name]:
            return None
        state = self.last(name).get('state')
        return state if state == ENDED or self.is_alive(name) else None


def path_of(folder: str, name: str) -> str:
    """Return the file of a task's heartbeat."""
    return os.path.join(folder, f'heartbeat_{name.replace(":", "_")}.json')
