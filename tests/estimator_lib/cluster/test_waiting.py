"""Waiting that says for whom, and ends."""

import logging
import socket

import pytest

from estimator_lib import errors
from estimator_lib.cluster import waiting
from tests.estimator_lib.clocks import Clock


@pytest.fixture
def clock(monkeypatch):
    made = Clock(100.0)
    monkeypatch.setattr(waiting, 'time', made)
    return made


def wait(missing, seconds=600.0, **options):
    return waiting.wait_for(
        missing, who='worker:1', until='to listen', timeout_seconds=seconds, **options
    )


def test_nobody_missing_takes_no_time(clock):
    assert wait(lambda: [])
    assert clock.now == 100.0


def test_says_for_whom_after_5_s_and_every_30_s(clock, caplog):
    caplog.set_level(logging.INFO, 'estimator_lib')
    assert wait(lambda: ['ps:0'] if clock.now < 195 else [])
    said = [record.message for record in caplog.records]
    assert [line.split(':')[-1].split(' s')[0].strip() for line in said[:-1]] == [
        '5',
        '30',
        '60',
        '90',
    ]
    assert said[0] == 'worker:1 waits for ps:0 to listen: 5 s (gives up after 600 s)'
    assert said[-1] == 'worker:1 has waited 95 s; now it continues'


def test_gives_up_with_the_names_of_those_missing(clock):
    with pytest.raises(errors.ClusterError, match=r'has waited 60 s for ps:0, ps:1 to listen'):
        wait(lambda: ['ps:0', 'ps:1'], seconds=60)
    assert 160 <= clock.now < 161


def test_many_missing_are_counted(clock):
    with pytest.raises(errors.ClusterError, match=r'worker:7 and 56 more to listen'):
        wait(lambda: [f'worker:{index}' for index in range(64)], seconds=60)


def test_a_finished_job_is_not_waited_for(clock):
    assert not wait(lambda: ['ps:0'], give_up=lambda: clock.now > 110)


def test_who_listens():
    with socket.socket() as server:
        server.bind(('127.0.0.1', 0))
        address = f'127.0.0.1:{server.getsockname()[1]}'
        assert not waiting.is_listening(address)
        server.listen()
        assert waiting.is_listening(address)
    assert not waiting.is_listening(address)
