"""The parsing of `TF_CONFIG`: the cluster, and this process's task in it."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import json
import os
import re
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from estimator_lib import errors, tf_estimator

_ADDRESS = re.compile(r'[^\s/]+:([0-9]{1,5})')  # any host, and IPv6 addresses in brackets
CHIEF_ROLES = ('chief', 'master')
ROLES = ('chief', 'master', 'worker', 'ps', 'evaluator')


@dataclasses.dataclass(frozen=True)
class Cluster:
    """A cluster of which this process is a task.

    Attributes:
        addresses: `host:port` of every task, by role.
        role: role of this process: `chief`, `worker`, `ps` or `evaluator`; `master` in place of
            `chief` only where a program's own `RunConfig` calls it so.
        index: index of this process among the tasks of its role.
    """

    addresses: Mapping[str, Tuple[str, ...]]
    role: str
    index: int

    @property
    def is_chief(self) -> bool:
        """True if this task writes the checkpoints."""
        if any(role in self.addresses for role in CHIEF_ROLES):
            return self.role in CHIEF_ROLES
        return self.role == 'worker' and self.index == 0

    @property
    def name(self) -> str:
        """The name of this task, as `worker:1`."""
        return f'{self.role}:{self.index}'

    @property
    def workers(self) -> Tuple[str, ...]:
        """The names of all tasks that train, the chief's first."""
        return tuple(
            f'{role}:{index}'
            for role in (*CHIEF_ROLES, 'worker')
            for index in range(len(self.addresses.get(role, ())))
        )


def read_tf_config(environment: Optional[Mapping[str, str]] = None) -> Optional[Cluster]:
    """Return the cluster that `TF_CONFIG` describes.

    Args:
        environment: environment variables; None for those of the process.

    Returns:
        The cluster, whose chief is `chief` also where `TF_CONFIG` has its old name, `master`: the
        strategies of TensorFlow do not know that one. None when `TF_CONFIG` is not set, is empty,
        or names no cluster: one machine.

    Raises:
        errors.ClusterError: the value is not a valid cluster; the message shows it, and the
            expected form.
    """
    text = (os.environ if environment is None else environment).get('TF_CONFIG', '').strip()
    if not text:
        return None
    parsed = _parse(text)
    addresses = _addresses(parsed.get('cluster') or {})
    if not addresses:
        if parsed.get('task'):
            raise errors.ClusterError(
                f'TF_CONFIG names a task, {json.dumps(parsed["task"])}, but no cluster; expected '
                '"cluster": {"chief": ["host:port"], ...}.'
            )
        return None
    role, index = _task(parsed.get('task'))
    _check_chief(addresses)
    addresses = {_canonical(name): tasks for name, tasks in addresses.items()}
    role = _canonical(role)
    _check_unique(addresses)
    _check_task(addresses, role, index)
    return Cluster(addresses, role, index)


@contextlib.contextmanager
def environment(cluster: Optional[Cluster]) -> Iterator[None]:
    """Set `TF_CONFIG` in the block, which TensorFlow reads when it creates a `RunConfig`.

    Args:
        cluster: the cluster to describe; None for one machine, without `TF_CONFIG`.
    """
    before = os.environ.pop('TF_CONFIG', None)
    if cluster is not None:
        os.environ['TF_CONFIG'] = json.dumps(
            {
                'cluster': {role: list(tasks) for role, tasks in cluster.addresses.items()},
                'task': {'type': cluster.role, 'index': cluster.index},
            }
        )
    try:
        yield
    finally:
        os.environ.pop('TF_CONFIG', None)
        if before is not None:
            os.environ['TF_CONFIG'] = before


def cluster_from_run_config(run_config: tf_estimator.RunConfig) -> Optional[Cluster]:
    """Return the cluster that an Estimator's config describes; None for one machine."""
    addresses = {
        role: tuple(tasks) for role, tasks in run_config.cluster_spec.as_dict().items() if tasks
    }
    if not addresses:
        return None
    return Cluster(addresses, run_config.task_type, run_config.task_id or 0)


def _parse(text: str) -> Dict[str, Any]:
    try:
        parsed = json.loads(text)
        json.dumps(parsed)  # messages do the same
    except json.JSONDecodeError as error:
        near = text[max(0, error.pos - 20) : error.pos + 20]
        raise errors.ClusterError(
            f'TF_CONFIG is not JSON: {error.msg} at character {error.pos}, near {near!r}.'
        ) from None
    except (ValueError, RecursionError) as error:  # a very long number, or deep nesting
        raise errors.ClusterError(
            f'TF_CONFIG, {text[:40]!r}..., cannot be read: {errors.first_line(error)}.'
        ) from None
    if not isinstance(parsed, dict):
        raise errors.ClusterError(
            f'TF_CONFIG is {text[:80]!r}; expected a JSON object with "cluster" and "task".'
        )
    _check_keys('TF_CONFIG', parsed, ('cluster', 'task'))
    return parsed


def _check_keys(where: str, parsed: Mapping[str, Any], expected: Sequence[str]) -> None:
    """Refuse a misspelt key; unknown keys are allowed, as other programs read them."""
    missing = [key for key in expected if key not in parsed]
    for key in parsed:
        near = difflib.get_close_matches(key.lower(), missing, cutoff=0.8)
        if near:
            raise errors.ClusterError(f'{where} has the key {key!r}; did you mean {near[0]!r}?')


def _addresses(cluster: Any) -> Dict[str, Tuple[str, ...]]:
    if not isinstance(cluster, dict):
        raise errors.ClusterError(
            f'TF_CONFIG: "cluster" is {json.dumps(cluster)}; expected an object of address lists, '
            '{"chief": ["host:port"], "worker": ["host:port", ...]}.'
        )
    addresses = {}
    for role, tasks in cluster.items():
        if role not in ROLES:
            raise errors.ClusterError(
                f'TF_CONFIG: unknown role {role!r} in "cluster"{errors.did_you_mean(role, ROLES)}'
            )
        if isinstance(tasks, dict):
            tasks = _dense(role, tasks)
        if not isinstance(tasks, list):
            raise errors.ClusterError(
                f'TF_CONFIG: the addresses of {role!r} are {json.dumps(tasks)}; expected a list of '
                '"host:port".'
            )
        for address in tasks:
            _check_address(role, address)
        if tasks:
            addresses[role] = tuple(tasks)
    return addresses


def _dense(role: str, tasks: Mapping[str, Any]) -> List[Any]:
    """Convert the sparse form of addresses, {"0": "host:port", ...}, to a list."""
    wanted = [str(index) for index in range(len(tasks))]
    if set(tasks) != set(wanted):
        raise errors.ClusterError(
            f'TF_CONFIG: the indices of {role!r} are {", ".join(map(repr, tasks))}; expected '
            f'"0" to "{len(tasks) - 1}", one for each task: every task has to know all others.'
        )
    return [tasks[index] for index in wanted]


def _check_address(role: str, address: Any) -> None:
    port = _ADDRESS.fullmatch(address) if isinstance(address, str) else None
    if port is None or not 0 < int(port.group(1)) < 65536:
        raise errors.ClusterError(
            f'TF_CONFIG: {json.dumps(address)}, an address of {role!r}, is not "host:port", with '
            'neither a scheme nor a space.'
        )


def _canonical(role: str) -> str:
    return 'chief' if role in CHIEF_ROLES else role


def _task(task: Any) -> Tuple[str, int]:
    if not isinstance(task, dict) or 'type' not in task:
        raise errors.ClusterError(
            f'TF_CONFIG: "task" is {json.dumps(task)}; expected '
            '{"type": "worker", "index": 0}: which task of the cluster this process is.'
        )
    _check_keys('TF_CONFIG: "task"', task, ('type', 'index'))
    role, index = task['type'], task.get('index', 0)
    if role not in ROLES:
        raise errors.ClusterError(
            f'TF_CONFIG: unknown role {role!r} in "task"{errors.did_you_mean(str(role), ROLES)}'
        )
    if isinstance(index, str) and re.fullmatch('[0-9]{1,9}', index):
        index = int(index)
    if not isinstance(index, int) or isinstance(index, bool) or index < 0:
        raise errors.ClusterError(
            f'TF_CONFIG: the index of "task" is {json.dumps(index)}; expected 0, 1, 2, ...'
        )
    return role, index


def _check_chief(addresses: Mapping[str, Tuple[str, ...]]) -> None:
    chiefs = [address for role in CHIEF_ROLES for address in addresses.get(role, ())]
    if len(chiefs) > 1:
        raise errors.ClusterError(
            f'TF_CONFIG: {len(chiefs)} chiefs ({", ".join(chiefs)}); a cluster has exactly one '
            '"chief" (or, in its old name, "master").'
        )
    needs_chief = 'ps' in addresses or 'worker' not in addresses
    if not chiefs and needs_chief:
        raise errors.ClusterError(
            f'TF_CONFIG: no chief among {", ".join(addresses) or "no tasks"}; add "chief": '
            '["host:port"] to "cluster". Only a cluster of '
            'nothing but workers (collective all-reduce) does without: its worker 0 is the chief.'
        )


def _check_unique(addresses: Mapping[str, Tuple[str, ...]]) -> None:
    seen: Dict[str, str] = {}
    for role, tasks in addresses.items():
        for index, address in enumerate(tasks):
            name = f'{role}:{index}'
            if address in seen:
                raise errors.ClusterError(
                    f'TF_CONFIG: {seen[address]} and {name} have the same address, {address}; '
                    'each task needs its own port.'
                )
            seen[address] = name


def _check_task(addresses: Mapping[str, Tuple[str, ...]], role: str, index: int) -> None:
    tasks: List[str] = list(addresses.get(role, ()))
    # Some schedulers leave the evaluator out of the cluster, as no task talks to it.
    if role == 'evaluator' and not tasks:
        return
    if not tasks:
        raise errors.ClusterError(
            f'TF_CONFIG: this process is {role}:{index}, but the cluster has no {role!r}; it has '
            f'{", ".join(sorted(addresses))}.'
        )
    if index >= len(tasks):
        raise errors.ClusterError(
            f'TF_CONFIG: this process is {role}:{index}, but the cluster has {len(tasks)} tasks of '
            f'that role, 0 to {len(tasks) - 1}.'
        )
