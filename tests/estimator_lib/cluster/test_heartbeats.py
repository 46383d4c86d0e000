"""Heartbeats: who is alive, without comparing clocks."""

import pytest

from estimator_lib.cluster import heartbeats
from tests.estimator_lib.clocks import Clock


@pytest.fixture
def clock(monkeypatch):
    made = Clock(100.0)
    monkeypatch.setattr(heartbeats, 'time', made)
    return made


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path)


def test_a_task_is_alive_while_it_beats(folder, clock):
    watch = heartbeats.Watch(folder, ['worker:0'], silent_after=15.0)
    heart = heartbeats.Heart(folder, 'worker:0')
    assert not watch.is_alive('worker:0')
    for _ in range(10):
        clock.now += 5
        heart.beat()
        watch.look()
        assert watch.is_alive('worker:0')
    clock.now += 16
    watch.look()
    assert not watch.is_alive('worker:0') and watch.was_alive('worker:0')
    assert watch.silence('worker:0') == 16


def test_a_heartbeat_of_an_earlier_run_is_no_sign_of_life(folder, clock):
    heartbeats.Heart(folder, 'chief:0').tell(heartbeats.TRAINING, step=7)
    watch = heartbeats.Watch(folder, ['chief:0'], silent_after=15.0)
    clock.now += 1
    watch.look()
    assert not watch.was_alive('chief:0') and watch.state('chief:0') is None
    assert watch.last('chief:0')['step'] == 7


def test_the_state_is_told_at_once_and_the_step_with_the_next_beat(folder, clock):
    watch = heartbeats.Watch(folder, ['chief:0'], silent_after=15.0)
    heart = heartbeats.Heart(folder, 'chief:0')
    heart.tell(heartbeats.TRAINING, step=1)
    watch.look()
    assert watch.state('chief:0') == heartbeats.TRAINING
    heart.note_step(9)
    watch.look()
    assert watch.last('chief:0')['step'] == 1
    heart.beat()
    watch.look()
    assert watch.last('chief:0')['step'] == 9


def test_a_silent_task_has_no_state_but_one_that_has_ended_has(folder, clock):
    watch = heartbeats.Watch(folder, ['a:0', 'b:0'], silent_after=15.0)
    heartbeats.Heart(folder, 'a:0').tell(heartbeats.TRAINING)
    heartbeats.Heart(folder, 'b:0').tell(heartbeats.ENDED, status=0)
    watch.look()
    clock.now += 20
    assert watch.state('a:0') is None
    assert watch.state('b:0') == heartbeats.ENDED


def test_each_start_has_an_identity_of_its_own(folder):
    one, other = (heartbeats.Heart(folder, 'worker:0') for _ in range(2))
    assert one.identity != other.identity


@pytest.mark.parametrize('tasks, seconds', [(2, 2.0), (100, 2.0), (512, 10.24)])
def test_large_jobs_do_not_flood_the_file_system(tasks, seconds):
    assert heartbeats.beat_seconds(tasks) == pytest.approx(seconds)
    assert tasks / heartbeats.beat_seconds(tasks) <= heartbeats.MOST_PER_SECOND
    assert heartbeats.silent_seconds(tasks) >= 4 * heartbeats.beat_seconds(tasks)
