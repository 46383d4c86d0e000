"""Parts of a campaign of faults that need no cluster."""

import collections
import json
import random
import signal
from unittest import mock

import pytest

from tests.campaigns import chaos


def test_a_report_is_lines_and_json():
    report = chaos.Report(
        jobs=2,
        finished=1,
        faults=collections.Counter({'kill ps': 2, 'stop worker': 1}),
        moments=collections.Counter({'saving': 3}),
        steps_lost=[0, 7],
        checkpoints=5,
        problems=['a job stood still'],
    )
    assert report.lines() == [
        'faults injected      3 (2 kill ps, 1 stop worker; 3 saving)',
        'jobs finished        1 of 2',
        'steps lost at most   7',
        'checkpoints damaged  0 of 5',
        'problem: a job stood still',
    ]
    figures = json.loads(json.dumps(report.figures()))
    assert figures['faults'] == {'kill ps': 2, 'stop worker': 1}
    assert figures['steps_lost'] == [0, 7] and figures['damaged'] == []


@pytest.mark.parametrize(
    ('reported', 'last_step', 'problems'),
    [
        (['evaluator:0'], 0, []),
        ([], 400, []),  # those who would have said so have finished
        ([], 0, ['evaluator:0 was stopped, and nobody said so']),
    ],
)
def test_a_stopped_task_is_noticed_while_others_train(reported, last_step, problems, monkeypatch):
    monkeypatch.setattr(chaos, '_STOPPED_SECONDS', 0.1)
    job = mock.Mock(reported=[], is_over=False)
    job.cluster.tasks = []
    job.last_step.return_value = last_step
    job.poll.return_value = None
    task = mock.Mock()
    task.name = 'evaluator:0'
    task.send.side_effect = lambda number: job.reported.extend(reported)
    struck = chaos.Struck(job, random.Random(0), print)
    struck._stop(task)
    assert struck.problems == problems
    assert task.send.mock_calls == [mock.call(signal.SIGSTOP), mock.call(signal.SIGCONT)]
