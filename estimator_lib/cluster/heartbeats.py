"""Signs of life: each task of a job writes a heartbeat, and reads those of the others.

A heartbeat is a small file in `model_dir/cluster`, which its task replaces every few seconds. The
reader does not compare the clocks of two machines: a task is alive when its file changes.
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
# A shared file system gets at most about this many heartbeats a second.
MOST_PER_SECOND = 50.0
# Beats that a task may miss before it is said to be silent.
MISSED = 5
LEAST_SILENT_SECONDS = 15.0


def beat_seconds(num_tasks: int) -> float:
    """Return the seconds between two heartbeats of one task."""
    return max(LEAST_SECONDS, num_tasks / MOST_PER_SECOND)


def silent_seconds(num_tasks: int) -> float:
    """Return the seconds without a heartbeat after which a task counts as silent."""
    return max(LEAST_SILENT_SECONDS, MISSED * beat_seconds(num_tasks))


class Heart:
    """The heartbeat of this task.

    Args:
        folder: the folder of the heartbeats.
        name: the name of this task, as `worker:1`.
    """

    def __init__(self, folder: str, name: str):
        self.name = name
        self.identity = uuid.uuid4().hex  # differs for each start of the task
        self._path = heartbeat_path(folder, name)
        # The main thread tells a new activity while the supervisor's thread sends beats.
        self._lock = threading.Lock()
        self._content: Dict[str, Any] = {
            'task': name,
            'identity': self.identity,
            'host': socket.gethostname(),
            'pid': os.getpid(),
            'state': STARTING,
            'step': None,
            # The number changes the file even where the clock stands or is set back.
            'beat': 0,
        }

    @property
    def state(self) -> str:
        """The current activity of this task: `STARTING`, `TRAINING` and so on."""
        return self._content['state']

    def note_step(self, step: int) -> None:
        """Note the global step for the next heartbeat."""
        self._content['step'] = step

    def tell(self, state: str, **more: Any) -> None:
        """Write the new activity of this task at once."""
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
        folder: the folder of the heartbeats.
        names: the names of the tasks to watch.
        silent_after: seconds without a heartbeat after which a task counts as silent.
    """

    def __init__(self, folder: str, names: Sequence[str], silent_after: float):
        self.names: List[str] = list(names)
        self.silent_after = silent_after
        self._paths = {name: heartbeat_path(folder, name) for name in names}
        # Files of an earlier run: only a change after this moment is a sign of life.
        self._seen = {name: job_state.read_state(path) for name, path in self._paths.items()}
        # Not the wall clock: a correction of it would make all tasks silent at once.
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
        """Return the seconds since the last heartbeat of a task, or since this watch began."""
        return time.monotonic() - self._changed[name]

    def is_alive(self, name: str) -> bool:
        """Return whether a task has sent a heartbeat since this watch began, and is not silent."""
        return self._alive[name] and self.silence(name) < self.silent_after

    def was_alive(self, name: str) -> bool:
        """Return whether a task has sent a heartbeat since this watch began."""
        return self._alive[name]

    def last(self, name: str) -> Mapping[str, Any]:
        """Return the last heartbeat of a task, of this or an earlier run; empty if none."""
        return self._seen[name] or {}

    def state(self, name: str) -> Optional[str]:
        """Return the activity of a task that is alive or has ended since this watch began."""
        if not self._alive[name]:
            return None
        state = self.last(name).get('state')
        return state if state == ENDED or self.is_alive(name) else None


def heartbeat_path(folder: str, name: str) -> str:
    """Return the path of a task's heartbeat file."""
    # A colon is not allowed in names of some shared file systems.
    return os.path.join(folder, f'heartbeat_{name.replace(":", "_")}.json')
