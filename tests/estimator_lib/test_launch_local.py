"""The launcher's command line."""

import errno
import sys

import pytest

from estimator_lib import launch_local


@pytest.mark.parametrize(
    'arguments, message',
    [
        (['--num_workers=1'], 'after --'),
        (['--num_workers=x', '--', '--model_dir=d'], "'x' is not a number"),
        (['--no-chief', '--num_ps=1', '--', '--model_dir=d'], 'need a chief'),
        (['--no-chief', '--num_workers=0', '--', '--model_dir=d'], 'nobody trains'),
        (['--network=none', '--', '--model_dir=d'], "'none'"),
        (
            ['--', '--model_dir=gs://b/d'],
            'gs://b/d is not on this machine; expected --network=host',
        ),
    ],
)
def test_command_lines_that_make_no_cluster(arguments, message, capsys):
    with pytest.raises(SystemExit) as caught:
        launch_local.main(arguments)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


@pytest.fixture
def calls(monkeypatch):
    """What was done, in its order; nothing is."""
    calls = []

    def run(addresses, command, *, restart, arguments):
        assert command[0] == sys.executable and command[-len(arguments) - 1] == 'run_train_eval'
        command = command[-len(arguments) :]
        calls.append(({role: len(tasks) for role, tasks in addresses.items()}, command, restart))
        return 7

    monkeypatch.setattr(launch_local, 'run', run)
    monkeypatch.setattr(launch_local.local_network, 'isolate', lambda: calls.append('isolated'))
    return calls


def launch(*arguments):
    with pytest.raises(SystemExit) as caught:
        launch_local.main(arguments)
    assert caught.value.code == 7


def test_the_front_door_runs_as_every_task_that_is_asked_for(calls):
    launch('--num_workers=2', '--num_ps=3', '--evaluator', '--restart=4', '--', '--x=d', '--', 'x')
    assert calls == [
        'isolated',
        (
            {'chief': 1, 'worker': 2, 'ps': 3, 'evaluator': 1},
            ['--x=d', '--', 'x'],
            4,
        ),
    ]


def test_the_network_of_the_host_is_taken_when_asked_for(calls, capsys):
    launch('--network=host', '--', '--model_dir=gs://b/d')
    assert len(calls) == 1 and calls[0] != 'isolated'
    assert capsys.readouterr().err == ''


def test_a_kernel_that_allows_no_isolation_is_warned_about_in_one_line(calls, monkeypatch, capsys):
    def refuse():
        raise PermissionError(errno.EPERM, 'Operation not permitted')

    monkeypatch.setattr(launch_local.local_network, 'isolate', refuse)
    launch('--', '--model_dir=d')
    assert len(calls) == 1
    warning = capsys.readouterr().err
    assert warning.startswith('warning: whoever reaches this machine can run code in the tasks')
    assert 'Operation not permitted' in warning and warning.count('\n') == 1
