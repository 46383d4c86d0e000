"""All workers of an all-reduce job begin together: each is a thread with its supervisor."""

import json
import threading
import time

import pytest

from estimator_lib import errors
from estimator_lib.cluster import heartbeats, rendezvous, supervision
from tests.estimator_lib.cluster.jobs import PEERS, job

ROLES = [('chief', 0), ('worker', 0), ('worker', 1)]


class Task:
    """A task that joins in a thread of its own, and whose beats are quick."""

    def __init__(self, folder, role, index):
        self.job = job(folder, PEERS, role, index)
        self.supervisor = supervision.Supervisor(self.job)
        self.joined = self.error = None
        self.thread = threading.Thread(target=self.join, daemon=True)

    def join(self):
        try:
            self.joined = rendezvous.join(self.job, self.supervisor)
        except errors.ClusterError as error:
            self.error = error


@pytest.fixture
def start(tmp_path, monkeypatch):
    monkeypatch.setattr(supervision, 'LOOK_SECONDS', 0.05)
    monkeypatch.setattr(heartbeats, 'LEAST_SECONDS', 0.1)
    started = []

    def start(role, index):
        task = Task(tmp_path, role, index)
        task.supervisor.start()
        task.thread.start()
        started.append(task)
        return task

    yield start
    for task in started:
        task.supervisor.stop(0)


def test_all_begin_when_the_last_one_has_come(start, tmp_path):
    tasks = [start(*role) for role in ROLES[:2]]
    time.sleep(1.0)
    assert all(task.thread.is_alive() for task in tasks)
    tasks.append(start(*ROLES[2]))
    for task in tasks:
        task.thread.join(30)
    assert [task.joined for task in tasks] == [True] * 3
    identities = {task.job.name: task.supervisor.heart.identity for task in tasks}
    assert [task.supervisor.members for task in tasks] == [identities] * 3
    path = tmp_path / 'cluster' / rendezvous.MEMBERS_FILE
    assert json.loads(path.read_text()) == {'members': identities}


def test_who_comes_to_a_finished_job_does_not_wait(start, tmp_path, monkeypatch):
    task = Task(tmp_path, 'worker', 0)
    monkeypatch.setattr(type(task.job.state), 'finished', lambda self: 10)
    task.join()
    assert task.joined is False and task.supervisor.members == {}


def test_the_chief_names_who_has_not_come(tmp_path, monkeypatch):
    task = Task(tmp_path, 'chief', 0)
    monkeypatch.setattr(type(task.job), 'wait_timeout_seconds', 0.0)
    task.join()
    assert 'chief:0 has waited 0 s for worker:0, worker:1 to be ready' in str(task.error)
