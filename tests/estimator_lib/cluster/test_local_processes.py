"""Addresses and `TF_CONFIG`s of a local cluster; its processes, without a console."""

import signal
import sys
import time

import pytest

from estimator_lib.cluster import local_processes


def test_addresses_of_all_roles_are_free_and_not_of_outgoing_connections():
    made = local_processes.build_addresses(num_workers=2, num_ps=3, evaluator=True)
    assert {role: len(tasks) for role, tasks in made.items()} == {
        'chief': 1,
        'worker': 2,
        'ps': 3,
        'evaluator': 1,
    }
    all_of_them = [address for tasks in made.values() for address in tasks]
    assert len(set(all_of_them)) == 7
    with open('/proc/sys/net/ipv4/ip_local_port_range') as file:
        least = int(file.read().split()[0])
    assert all(int(address.split(':')[1]) < least for address in all_of_them)


def test_a_cluster_of_workers_alone():
    assert set(local_processes.build_addresses(num_workers=2, num_ps=0, chief=False)) == {'worker'}


def sleeping(restart=0, **counts):
    """A cluster whose tasks say that they are there, and sleep."""
    ports = iter(range(1000, 2000))
    addresses = {role: [f'h:{next(ports)}' for _ in range(n)] for role, n in counts.items()}
    lines = []
    code = "import time; print('ready', flush=True); time.sleep(600)"
    cluster = local_processes.LocalCluster(
        addresses,
        [sys.executable, '-c', code],
        lambda name, line: lines.append((name, line)),
        restart,
    )
    return cluster, lines


def wait_until(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_killed_task_gets_a_new_process_and_stop_ends_all():
    cluster, lines = sleeping(restart=1, chief=1, ps=1)
    assert [task.role for task in cluster.tasks] == ['chief', 'ps']
    cluster.start()
    wait_until(lambda: sorted(lines) == [('chief:0', 'ready'), ('ps:0', 'ready')])
    chief = cluster.task('chief:0')
    first = chief.pid
    chief.send(signal.SIGKILL)
    wait_until(lambda: cluster.poll() is None and chief.restarts == 1)
    assert chief.pid != first
    assert ('chief:0', '[ended with status 137; started again]') in lines
    chief.send(signal.SIGKILL)
    wait_until(lambda: chief.poll() is not None)
    assert cluster.poll() == ('chief:0', 137)
    assert [task.name for task in cluster.running] == ['ps:0']
    cluster.stop()
    assert cluster.ended == {'chief:0': 137, 'ps:0': 143} and cluster.running == []


def test_an_unknown_task():
    with pytest.raises(StopIteration):
        sleeping(chief=1)[0].task('worker:0')
