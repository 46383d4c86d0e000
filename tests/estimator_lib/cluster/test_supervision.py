"""What a task finds out about its job and the other tasks."""

import pytest

from estimator_lib import errors
from estimator_lib.cluster import heartbeats, job_state, supervision
from estimator_lib.processes import preemption
from tests.estimator_lib.clocks import Clock
from tests.estimator_lib.cluster.jobs import SERVERS, job, listening


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


def test_a_folder_that_is_gone_is_an_error(tmp_path, clock):
    folder = tmp_path / 'run'
    supervisor = supervision.Supervisor(job(folder, SERVERS, 'evaluator'))
    supervisor._judge(clock.now)
    supervisor.raise_verdict()
    folder.rename(tmp_path / 'moved')
    supervisor._judge(clock.now)
    with pytest.raises(errors.ClusterError, match=f'^the folder {folder} is gone'):
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
    assert 'worker:0 cannot continue without chief:0' in supervisor.verdict.message


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


def test_only_a_process_that_was_left_to_it_is_ended(tmp_path, clock, caplog, monkeypatch):
    left = []
    monkeypatch.setattr(job_state, 'leave_now', lambda *arguments: left.append(arguments))
    supervisor = supervision.Supervisor(job(tmp_path, SERVERS, 'worker'))
    job(tmp_path, SERVERS, 'chief').state.write_failed('chief:0', 'no records', 'x')
    supervisor._judge(clock.now)
    for second in range(40):
        supervisor._enforce(clock.now + second)
    assert not left
    (said,) = [record.message for record in caplog.records if 'has to end' in record.message]
    assert 'worker:0 has to end, but its training step does not return: the job has failed' in said
    with preemption.preemption_guard():
        supervisor._enforce(clock.now + 41)
    assert left == [(2, 'the job has failed: chief:0: no records')]
