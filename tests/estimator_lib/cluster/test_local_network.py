"""Tasks in a network of their own, with small programs in place of the front door."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time

import pytest

from estimator_lib.cluster import local_network, local_processes
from tests.conftest import ROOT

# Listens as TensorFlow's servers do, at all interfaces; the worker is a peer of it.
TASK = textwrap.dedent("""
    import json, os, socket, sys, time
    config = json.loads(os.environ['TF_CONFIG'])
    port = int(config['cluster']['chief'][0].rpartition(':')[2])
    if config['task']['type'] == 'chief':
        server = socket.create_server(('0.0.0.0', port))
        print('pid', os.getpid(), 'listens', flush=True)
        while True:
            server.accept()[0].close()
    for _ in range(2400):
        try:
            socket.create_connection(('127.0.0.1', port), timeout=5).close()
            print('reached', flush=True)
            break
        except OSError:
            time.sleep(0.05)
    time.sleep(600)
""")
LAUNCHER = textwrap.dedent("""
    import sys
    from estimator_lib.cluster import local_console, local_network
    if {isolated}:
        local_network.isolate()
    command = [sys.executable, '-c', {task!r}]
    sys.exit(local_console.run({addresses!r}, command, stream=sys.stdout))
""")
# Anybody, in a user namespace. PR_SET_DUMPABLE (4): as of a program that this user has started.
WITHOUT_ROOT = textwrap.dedent("""
    import ctypes, os, socket
    from estimator_lib.cluster import local_network
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    ctypes.CDLL(None).prctl(4, 1)
    local_network.isolate()
    with socket.create_server(('0.0.0.0', 0)) as server, socket.socket() as client:
        port = server.getsockname()[1]
        client.connect(('127.0.0.1', port))
        print(os.geteuid(), os.getegid(), port, flush=True)
        input()
""")


def allows_namespaces(*flags):
    """Whether the kernel does, by the word of another program."""
    try:
        return subprocess.run(['unshare', *flags, 'true'], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


needs_namespaces = pytest.mark.skipif(
    not allows_namespaces(*(['-n'] if os.geteuid() == 0 else ['-r', '-n'])),
    reason='the kernel allows no network namespaces',
)


class Launcher:
    def __init__(self, isolated):
        self.addresses = local_processes.build_addresses(num_workers=1, num_ps=0)
        self.port = int(self.addresses['chief'][0].rpartition(':')[2])
        code = LAUNCHER.format(isolated=isolated, task=TASK, addresses=self.addresses)
        self.process = subprocess.Popen(
            [sys.executable, '-c', code], stdout=subprocess.PIPE, text=True, cwd=ROOT
        )

    def __enter__(self):
        """Wait until the worker has reached the chief."""
        lines = []
        self.chief_pid, reached = None, False
        for line in self.process.stdout:
            lines.append(line)
            # A worker may reach the chief, and say so, before the chief has written its line.
            if '| pid' in line:
                self.chief_pid = int(line.split('pid')[1].split()[0])
            reached = reached or '| reached' in line
            if self.chief_pid and reached:
                break
        assert self.chief_pid and reached, lines
        return self

    def __exit__(self, *args):
        self.process.terminate()
        self.process.stdout.read()
        self.process.wait()


def reachable(host, port):
    try:
        socket.create_connection((host, port), timeout=5).close()
        return True
    except ConnectionRefusedError:
        return False


def own_hosts():
    """The loopback, and the address of this machine that others see, where it has one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(('192.0.2.1', 9))  # nothing is sent
        except OSError:
            return ['127.0.0.1']
        return ['127.0.0.1', probe.getsockname()[0]]


def test_a_port_on_the_hosts_network_is_reached_from_outside_of_the_cluster():
    with Launcher(isolated=False) as launcher:
        assert [reachable(host, launcher.port) for host in own_hosts()] == [True] * len(own_hosts())


@needs_namespaces
def test_an_isolated_port_is_reached_by_its_cluster_alone():
    with Launcher(isolated=True) as launcher:
        assert not any(reachable(host, launcher.port) for host in own_hosts())
        launcher.process.send_signal(signal.SIGTERM)
        launcher.process.stdout.read()
        assert launcher.process.wait() == 143


@needs_namespaces
def test_isolated_tasks_end_with_a_launcher_that_is_killed():
    with Launcher(isolated=True) as launcher:
        launcher.process.kill()
        launcher.process.wait()
        deadline = time.monotonic() + 120
        while _runs(launcher.chief_pid):
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.mark.skipif(
    os.geteuid() != 0 or not allows_namespaces('-r', '-n'),
    reason='not root, or the kernel allows no user namespaces',
)
def test_without_root_it_takes_a_user_namespace_and_stays_the_same_user():
    with subprocess.Popen(
        [sys.executable, '-c', WITHOUT_ROOT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        user, group, port = process.stdout.readline().split()
        assert (user, group) == ('65534', '65534')
        assert not any(reachable(host, int(port)) for host in own_hosts())
        process.communicate('\n')
    assert process.returncode == 0


def _runs(pid):
    try:
        with open(f'/proc/{pid}/stat') as file:
            return file.read().rpartition(')')[2].split()[0] != 'Z'
    except FileNotFoundError:
        return False


def test_a_kernel_that_refuses_is_an_error_and_nothing_has_changed(monkeypatch):
    def refuse():
        raise PermissionError(1, 'Operation not permitted')

    monkeypatch.setattr(local_network, '_enter', refuse)
    before = os.readlink('/proc/self/ns/net')
    with pytest.raises(PermissionError, match='Operation not permitted'):
        local_network.isolate()
    assert os.readlink('/proc/self/ns/net') == before


def test_paths_of_other_machines_are_found_on_the_command_line_and_in_configs(tmp_path):
    config = tmp_path / 'pipeline.config'
    config.write_text("# see https://example.org\ninput_path: 'file:///data'  # or gs://no/where\n")
    found = local_network.remote_path
    assert found([f'--pipeline_config_path={config}', '--set=a.b=1', 'builtin:x']) is None
    assert found(['--model_dir', 'gs://bucket/run']) == 'gs://bucket/run'
    assert found(["--set=eval.path='s3://b/x'"]) == 's3://b/x'
    config.write_text("# one\ninput_path: 'gs://bucket/a-*'\n")
    assert found([f'--pipeline_config_path={config}']) == 'gs://bucket/a-*'
    assert found(['--pipeline_config_path', str(config)]) == 'gs://bucket/a-*'
    assert found([f'--model_dir={tmp_path}']) == 'gs://bucket/a-*'
