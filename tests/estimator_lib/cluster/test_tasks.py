"""Tasks of a cluster: counts of a command line, and `TF_CONFIG`."""

import json

import pytest

from estimator_lib.cluster import tasks


def parse(*arguments):
    return tasks.LaunchParser('launch', 'Launches.').parse(arguments)


def test_counts_and_arguments_of_a_command_line():
    launch = parse('--workers=2', '--ps=3', '--evaluator', '--', '--model_dir=d', '--', 'x')
    assert launch.counts == {'chief': 1, 'worker': 2, 'ps': 3, 'evaluator': 1}
    assert launch.arguments == ['--model_dir=d', '--', 'x']
    assert parse('--num_workers=0', '--num_ps=0', '--', 'x').counts == {'chief': 1}
    assert parse('--no-chief', '--workers=2', '--', 'x').counts == {'worker': 2}


@pytest.mark.parametrize('text', ['-1', 'x', '', '1.5', '²'])
def test_a_count_is_a_number(text, capsys):
    with pytest.raises(SystemExit) as caught:
        parse(f'--workers={text}', '--', 'x')
    assert caught.value.code == 2
    assert f'{text!r} is not a number of 0 or more' in capsys.readouterr().err


def test_tf_config_of_a_task():
    made = json.loads(tasks.tf_config({'chief': ['h:1'], 'ps': ['h:2']}, 'ps', 0))
    assert made == {
        'cluster': {'chief': ['h:1'], 'ps': ['h:2']},
        'task': {'type': 'ps', 'index': 0},
    }
