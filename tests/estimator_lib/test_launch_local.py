"""The launcher's command line."""

import sys

import pytest

from estimator_lib import launch_local


@pytest.mark.parametrize(
    'arguments, message',
    [
        (['--num_workers=1'], 'behind --'),
        (['--num_workers=x', '--', '--model_dir=d'], "'x' is not a number"),
        (['--no-chief', '--num_ps=1', '--', '--model_dir=d'], 'need a chief'),
        (['--no-chief', '--num_workers=0', '--', '--model_dir=d'], 'nobody trains'),
    ],
)
def test_command_lines_that_make_no_cluster(arguments, message, capsys):
    with pytest.raises(SystemExit) as caught:
        launch_local.main(arguments)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_the_front_door_runs_as_every_task_that_is_asked_for(monkeypatch):
    calls = []

    def run(addresses, command, *, restart):
        calls.append(({role: len(tasks) for role, tasks in addresses.items()}, command, restart))
        return 7

    monkeypatch.setattr(launch_local, 'run', run)
    own = ['--num_workers=2', '--num_ps=3', '--evaluator', '--restart=4']
    with pytest.raises(SystemExit) as caught:
        launch_local.main([*own, '--', '--model_dir=d', '--', 'x'])
    assert caught.value.code == 7
    assert calls == [
        (
            {'chief': 1, 'worker': 2, 'ps': 3, 'evaluator': 1},
            [sys.executable, '-m', 'run_train_eval', '--model_dir=d', '--', 'x'],
            4,
        )
    ]
