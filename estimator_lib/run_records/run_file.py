"""`run.json`: what each start of a run ran, where, on which data, and how it ended."""

from __future__ import annotations

import datetime
import hashlib
import os
import platform
import shlex
import socket
import subprocess
import sys
import time
from typing import Any, Dict, List, Mapping, Optional

import tensorflow as tf

from estimator_lib import distribution, environment, errors
from estimator_lib.checkpoints import checkpoint_files, evaluated, state_files
from estimator_lib.config import loading
from estimator_lib.data import inputs
from estimator_lib.processes import process_identity
from protos import input_reader_pb2, pipeline_pb2

RUN_FILE = 'run.json'
NUMBER = 'number'  # in an entry: 1 for the first start of the run
DISTRIBUTION = 'distribution'  # in an entry: mode, names of the workers, number of replicas
RUNNING, FINISHED, PREEMPTED, FAILED, KILLED = (
    'running',
    'finished',
    'preempted',
    'failed',
    'killed',
)

Readers = Mapping[str, input_reader_pb2.InputReader]

_STARTS, _STATUS = 'starts', 'status'
# The types of the values of an entry that this program reads; each may be null.
_KINDS = {
    **dict.fromkeys(('started', 'ended', _STATUS, 'command', 'host'), str),
    **dict.fromkeys(('process_start', 'process_machine'), str),
    **dict.fromkeys((NUMBER, 'first_step', 'last_step', 'process_id', 'peak_memory_bytes'), int),
    **dict.fromkeys((DISTRIBUTION, 'config', 'data', 'versions', 'machine'), dict),
}
# A job that crashes and is started again for days must not grow the file without limit.
_MOST_STARTS = 100
_COUNTED_BYTES = 100 << 20  # the headers of so much data are read in less than a second
_GIT_SECONDS = 5.0
_CPU_INFO = '/proc/cpuinfo'


class RunFile:
    """The entry of this start in `model_dir/run.json`, which has the last 100 starts.

    Args:
        model_dir: the folder of the run.
        config: the config of the run.
        readers: the input readers by name: `train`, and those of the evaluation sets.
        plan: the plan of the run.
    """

    def __init__(
        self,
        model_dir: str,
        config: pipeline_pb2.TrainEvalPipelineConfig,
        readers: Readers,
        plan: distribution.Plan,
    ):
        self._model_dir = model_dir
        self._path = os.path.join(model_dir, RUN_FILE)
        self._config = config
        self._readers = readers
        self._plan = plan
        self._entry: Dict[str, Any] = {}
        self._begun = 0.0
        self._knows_first_step = False

    @property
    def has_begun(self) -> bool:
        """True after `begin`."""
        return bool(self._entry)

    def begin(self) -> None:
        """Add the entry, with what is known at the start.

        An earlier entry that is still `running` is of a process that was killed: the folder has one
        training at a time.
        """
        self._begun = time.monotonic()
        earlier = self._read_earlier()
        self._entry = {
            NUMBER: 1 + max(map(_number, earlier), default=0),
            'started': _now(),
            'ended': None,
            'seconds': None,
            _STATUS: RUNNING,
            'first_step': checkpoint_files.latest_step(self._model_dir),
            'last_step': None,
            'peak_memory_bytes': None,
            'command': shlex.join(sys.argv),
            'host': socket.gethostname(),
            'process_id': os.getpid(),
            'process_start': process_identity.start_time(os.getpid()),
            'process_machine': process_identity.machine(),
            'versions': environment.version_numbers(),
            'git': _read_git(),
            'machine': _describe_machine(),
            DISTRIBUTION: {
                'mode': self._plan.mode.name,
                'workers': list(self._plan.cluster.workers if self._plan.cluster else ()),
                'replicas': self._plan.num_replicas,
            },
            'seed': self._config.train_config.random_seed,
            'config': {
                'file': loading.PIPELINE_CONFIG_NAME,
                'sha256': loading.hash_config(self._config).hexdigest(),
            },
            'data': {name: describe_data(reader) for name, reader in self._readers.items()},
        }
        for entry in earlier:
            if entry.get(_STATUS) == RUNNING:
                entry[_STATUS] = KILLED
        self._write([*earlier, self._entry])

    def _read_earlier(self) -> List[Dict[str, Any]]:
        """Read the entries of earlier starts; set a damaged file aside, and begin a new one."""
        try:
            content = state_files.read_json(self._path)
            problem = '' if content is None else _find_problem(content.get(_STARTS))
        except errors.DataError as error:
            problem = str(error)
        if problem and not tf.io.gfile.isdir(self._path):
            state_files.set_aside(self._path, problem)
        return read_starts(self._path)

    def note_first_step(self, step: int) -> None:
        """Correct the step at which this start began, until it is known from a session."""
        if self._knows_first_step:
            return
        self._knows_first_step = True
        if step != self._entry['first_step']:
            self._update({'first_step': step})

    def end(self, status: str) -> None:
        """Complete the entry with time, memory and the last step.

        Args:
            status: `FINISHED`, `PREEMPTED` or `FAILED`.
        """
        self._update(
            {
                'ended': _now(),
                'seconds': round(time.monotonic() - self._begun, 3),
                _STATUS: status,
                'last_step': checkpoint_files.latest_step(self._model_dir),
                'peak_memory_bytes': environment.peak_memory_bytes(),
            }
        )

    def _update(self, values: Mapping[str, Any]) -> None:
        """Set values of the entry; that of another run that has taken the folder over stays."""
        self._entry.update(values)
        starts = read_starts(self._path)
        others = [entry for entry in starts if not _is_same_start(entry, self._entry)]
        # By number, because clocks of machines differ, and may be set back.
        self._write(sorted([*others, self._entry], key=_number))

    def _write(self, starts: List[Dict[str, Any]]) -> None:
        text = evaluated.to_json({_STARTS: starts[-_MOST_STARTS:]})
        checkpoint_files.write_atomically(self._path, text)


def read_starts(path: str) -> List[Dict[str, Any]]:
    """Read the valid entries of a file, the oldest first; none if it is missing or corrupt.

    An entry that is still `running` and whose process of this machine is gone becomes `killed`: a
    process that gets SIGKILL cannot write that itself.
    """
    starts = state_files.read_state(path).get(_STARTS)
    entries = starts if isinstance(starts, list) else []
    entries = [entry for entry in entries if not _find_problem([entry])]
    # Those of earlier versions have no number, and stand in the order in which they began.
    return [
        {NUMBER: number, **entry, **({_STATUS: KILLED} if _is_gone(entry) else {})}
        for number, entry in enumerate(entries, 1)
    ]


def describe_last_start(model_dir: str) -> str:
    """Return the end of the last start of a run in a few words; '' for one that has finished."""
    starts = read_starts(os.path.join(model_dir, RUN_FILE))
    status = starts[-1].get(_STATUS) if starts else None
    if status in (None, FINISHED):
        return ''
    texts = {RUNNING: 'is still running', KILLED: 'was killed, or its machine has failed'}
    text = texts.get(status, f'has ended as {status}')
    place = f'process {starts[-1].get("process_id")} on host {starts[-1].get("host")}'
    return f'its last start ({place}, since {starts[-1].get("started")}) {text}'


def _is_gone(entry: Mapping[str, Any]) -> bool:
    """Return True where the process of a running start is known not to run any more."""
    pid, started = entry.get('process_id'), entry.get('process_start')
    is_here = entry.get('process_machine') == process_identity.machine()
    if entry.get(_STATUS) != RUNNING or not is_here or pid is None or started is None:
        return False
    return not process_identity.is_running(pid, started)


def has_finished(model_dir: str, config: pipeline_pb2.TrainEvalPipelineConfig) -> bool:
    """Return True if the last start of a run had this config and has finished.

    Args:
        model_dir: the folder of the run.
        config: the config of the run, after overrides.
    """
    starts = read_starts(os.path.join(model_dir, RUN_FILE))
    if not starts or starts[-1].get(_STATUS) != FINISHED:
        return False
    recorded = starts[-1].get('config') or {}
    return recorded.get('sha256') == loading.hash_config(config).hexdigest()


def _find_problem(starts: Any) -> str:
    """Return a sentence about values of the wrong type in the entries; '' where there is none."""
    if not isinstance(starts, list) or not all(isinstance(entry, dict) for entry in starts):
        return f'{RUN_FILE} has no list of starts.'
    for number, entry in enumerate(starts, 1):
        for name, kind in _KINDS.items():
            value = entry.get(name)
            if value is not None and not isinstance(value, kind):
                return f'{RUN_FILE}, start {number}: {name} is {value!r:.40}.'
    return ''


def _number(entry: Mapping[str, Any]) -> int:
    number = entry.get(NUMBER)
    return number if isinstance(number, int) else 0


def _is_same_start(entry: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(entry.get(name) == other[name] for name in ('started', 'host', 'process_id'))


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec='milliseconds')


def _read_git() -> Optional[Dict[str, Any]]:
    """Return the commit of the code, and whether files differ from it; None without git.

    Git reads only the package's own folder: the settings of a repository name programs that git
    runs, and the working folder may be a stranger's. An installed package has no commit.
    """
    folder = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if not os.path.exists(os.path.join(folder, '.git')):
        return None
    commit = _run_git(folder, 'rev-parse', 'HEAD')
    if not commit:
        return None
    changes = _run_git(folder, 'status', '--porcelain', '--untracked-files=no')
    return {'commit': commit, 'has_changes': None if changes is None else bool(changes)}


def _run_git(folder: str, *arguments: str) -> Optional[str]:
    try:
        done = subprocess.run(
            ['git', '-C', folder, *arguments],
            capture_output=True,
            text=True,
            timeout=_GIT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _describe_machine() -> Dict[str, Any]:
    return {
        'system': platform.platform(),
        'cpu': _cpu_name(),
        'cpu_cores': os.cpu_count(),
        'memory_bytes': environment.memory_bytes(),
        'gpus': [
            tf.config.experimental.get_device_details(device).get('device_name', device.name)
            for device in tf.config.list_physical_devices('GPU')
        ],
    }


def _cpu_name() -> str:
    try:
        with open(_CPU_INFO) as file:
            names = [line.partition(':')[2].strip() for line in file if 'model name' in line]
    except OSError:
        names = []
    return names[0] if names else platform.processor()


def describe_data(reader: input_reader_pb2.InputReader) -> Optional[Dict[str, Any]]:
    """Return number, size, records and fingerprint of the files of a reader; None for others.

    The fingerprint is of names and sizes, so that a copy in another folder has the same one.
    """
    try:
        files = inputs.input_files(reader)
        names = sorted(content for file in files for content in file.contents())
        size = sum(file.size for file in files)
        # Records that the start of the run has counted are not read again.
        count = inputs.known_count(files)
        is_plain = not any(file.compression or '://' in file.path for file in files)
        if count is None and is_plain and size <= _COUNTED_BYTES:
            count = inputs.count_records(files)
    except errors.UserError:
        return None
    return {
        'files': len(names),
        'bytes': size,
        'records': count,
        'sha256': hashlib.sha256(repr(names).encode()).hexdigest(),
    }
