"""Who the other tasks of a job are, and which of them a task needs."""

import pytest

from tests.estimator_lib.cluster.jobs import PEERS, SERVERS, job, listening


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


def test_roles(tmp_path):
    worker = job(tmp_path, SERVERS, 'worker', 1)
    assert (worker.name, worker.role, worker.trains) == ('worker:1', 'worker', True)
    assert worker.workers == ['chief:0', 'worker:0', 'worker:1'] and worker.chief == 'chief:0'
    assert worker.servers == ['ps:0', 'ps:1'] and not worker.is_all_reduce
    assert worker.others == ['chief:0', 'worker:0', 'ps:0', 'ps:1', 'evaluator:0']
    assert worker.address('worker:1') == 'b:2' and worker.wait_timeout_seconds == 60.0
    assert not job(tmp_path, SERVERS, 'ps').trains
    assert not job(tmp_path, SERVERS, 'evaluator').trains
    assert job(tmp_path, PEERS, 'chief').is_all_reduce
    assert not job(tmp_path, {'chief': ['a:1'], 'evaluator': ['b:1']}, 'chief').is_all_reduce


def test_who_takes_no_connections(tmp_path):
    first, second = listening(), listening()
    second[0].close()
    with first[0]:
        made = job(tmp_path, {'chief': ['a:1'], 'ps': [first[1], second[1]]}, 'chief')
        assert made.unreachable(made.servers) == [f'ps:1 ({second[1]})']
