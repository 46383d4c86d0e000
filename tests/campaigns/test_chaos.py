"""The report of a campaign of faults."""

import collections
import json

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
