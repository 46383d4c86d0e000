"""What a task finds out about its job and the other tasks."""

import socket

import pytest

from estimator_lib import errors
from estimator_lib.cluster import heartbeats, job_state, supervision
from estimator_lib.cluster.job import Job
from estimator_lib.distribution.tf_config import Cluster
from protos import train_pb2


def listening():
    server = socket.socket()
    server.bind(('127.0.0.1', 0))
    server.listen()
    return server, f'127.0.0.1:{server.getsockname()[1]}'


def job(folder, addresses, role, index=0, **fields):
    config = train_pb2.TrainConfig(num_steps=10, **fields)
    config.cluster.wait_timeout_seconds = 60
    cluster = Cluster({name: tuple(tasks) for name, tasks in addresses.items()}, role, index)
    return Job(cluster, config, str(folder), job_state.JobState(str(folder), config))


SERVERS = {'chief': ['a:1'], 'worker': ['b:1', 'b:2'], 'ps': ['c:1', 'c:2'], 'evaluator': ['d:1']}
PEERS = {'chief': ['a:1'], 'worker': ['b:1', 'b:2']}


@pytest.mark.parametrize(
    'addresses, role, fields, needed',
    [
        (SERVERS, 'chief', {}, ['ps:0', 'ps:1']),
        (
            SERVERS,
            'chief',
            {'sync_replicas': True},
            ['ps:0', 'ps:1', 'worker:0', 'worker:1'],
        ),
        (
            SERVERS,
            'chief',
            {'sync_replicas': True, 'replicas_to_aggregate': 2},
            ['ps:0', 'ps:1'],
        ),
        (SERVERS, 'worker', {}, ['chief:0', 'ps:0', 'ps:1']),
        (SERVERS, 'ps', {}, ['chief:0']),
        (SERVERS, 'evaluator', {}, ['chief:0']),
        (PEERS, 'worker', {}, ['chief:0', 'worker:1']),
        (PEERS, 'evaluator', {}, ['chief:0']),
    ],
)
def test_whom_a_task_needs(tmp_path, addresses, role, fields, needed):
    assert job(tmp_path, addresses, role, **fields).needed == needed


def test_the_evaluator_is_watched_even_when_it_is_not_listed(tmp_path):
    assert 'evaluator:0' in job(tmp_path, PEERS, 'chief').others


class Clock:
    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now

    def time(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(heartbeats, 'time', made)
    return made


def test_the_failure_of_another_task_is_a_cluster_error(tmp_path, clock):
    made = job(tmp_path, SERVERS, 'ps')
    supervisor = supervision.Supervisor(made)
    supervisor._judge(clock.now)
    supervisor.raise_verdict()
    job(tmp_path, SERVERS, 'worker').state.write_failed('worker:0', 'no records', 'x')
    supervisor._judge(clock.now)
    with pytest.raises(errors.ClusterError, match='the job has failed: worker:0: no records'):
        supervisor.raise_verdict()


def test_a_needed_task_that_is_silent_for_too_long(tmp_path, clock):
    supervisor = supervision.Supervisor(job(tmp_path, SERVERS, 'worker'))
    supervisor.heart.tell(heartbeats.TRAINING)
    clock.now += 59
    supervisor._judge(clock.now)
    assert supervisor.verdict is None
    clock.now += 2
    supervisor._judge(clock.now)
    assert supervisor.verdict.status == 2
    assert 'worker:0 cannot go on without chief:0' in supervisor.verdict.message


def test_a_silent_task_is_reported_and_so_is_its_return(tmp_path, clock, caplog):
    caplog.set_level('INFO', 'estimator_lib')
    supervisor = supervision.Supervisor(job(tmp_path, SERVERS, 'chief'))
    heart = heartbeats.Heart(supervisor._job.state.folder, 'worker:1')
    heart.tell(heartbeats.TRAINING, step=7)
    supervisor.watch.look()
    clock.now += 20
    supervisor._report_silence(clock.now)
    supervisor._report_silence(clock.now + 5)
    assert [record.message for record in caplog.records] == [
        'worker:1 has not answered for 20 s (it was at step 7)'
    ]
    heart.beat()
    supervisor.watch.look()
    supervisor._report_silence(clock.now)
    assert caplog.records[-1].message == 'worker:1 answers again'


@pytest.fixture
def peers(tmp_path, clock):
    """A worker of an all-reduce job that has begun, its supervisor, and its peer's heart."""
    server, address = listening()
    addresses = {'chief': ['127.0.0.1:1'], 'worker': [address]}
    supervisor = supervision.Supervisor(job(tmp_path, addresses, 'chief'))
    heart = heartbeats.Heart(supervisor._job.state.folder, 'worker:0')
    heart.tell(heartbeats.TRAINING)
    supervisor.watch.look()
    supervisor.members = {'chief:0': supervisor.heart.identity, 'worker:0': heart.identity}
    supervisor.heart.tell(heartbeats.TRAINING)
    with server:
        yield supervisor, heart, server


def test_a_peer_that_works_is_no_reason_to_end(peers, clock):
    supervisor, _, _ = peers
    supervisor._judge(clock.now)
    assert supervisor.verdict is None


def test_a_peer_that_was_started_again_is_lost(peers, clock):
    supervisor, _, _ = peers
    heartbeats.Heart(supervisor._job.state.folder, 'worker:0').beat()
    supervisor.watch.look()
    supervisor._judge(clock.now)
    with pytest.raises(job_state.PeerLost, match='worker:0 has been started again'):
        supervisor.raise_verdict()


def test_a_peer_that_has_failed_is_lost_and_one_that_is_done_is_not(peers, clock):
    supervisor, heart, server = peers
    heart.tell(heartbeats.ENDED, status=0)
    supervisor.watch.look()
    server.close()
    supervisor._judge(clock.now)
    supervisor._judge(clock.now + 30)
    assert supervisor.verdict is None
    heart.tell(heartbeats.ENDED, status=1)
    supervisor.watch.look()
    supervisor._judge(clock.now)
    with pytest.raises(job_state.PeerLost, match='worker:0 has ended with status 1'):
        supervisor.raise_verdict()


def test_a_peer_whose_process_is_gone_is_lost_within_seconds(peers, clock):
    supervisor, _, server = peers
    server.close()
    supervisor._judge(clock.now)
    assert supervisor.verdict is None
    supervisor._judge(clock.now + 5)
    with pytest.raises(job_state.PeerLost, match='takes no connections'):
        supervisor.raise_verdict()
