"""The files and lines of a replayed step, given its numbers."""

import csv
import json
import math

import numpy as np

from tests.estimator_lib.line_task import Line
from vision_extras.replay import report
from vision_extras.replay.diagnosis import Diagnosis, Example


def create_replay(recorded, losses=({'a': 1.0, 'b': 2.0}, {'a': math.nan, 'b': 0.0})):
    examples = [
        Example(name, 'x.tfrecord', index, {}, {'y': np.float32(3)}, each)
        for index, (name, each) in enumerate(zip('pq', losses))
    ]
    norms = {'head': 3.0, 'body': 4.0}
    diagnosed = Diagnosis(examples, {'total_loss': 1.5}, norms, 5.0, [('head', 9.0)])
    repeated = {
        6: {'train/loss': 0.25, 'learning_rate': 0.1, 'train/accuracy': 1.0},
        7: {'train/loss': 1.5, 'train/Loss/a': 0.5, 'learning_rate': 0.1},
    }
    return report.Replay(7, 'run/model.ckpt-5', recorded, repeated, diagnosed)


def test_equal_losses(tmp_path):
    recorded = {7: {'train/loss': 1.5, 'train/Loss/a': 0.5}, 3: {'train/loss': 8.0}}
    replay = create_replay(recorded)
    assert replay.differences() == [] and replay.compared() == [7]
    lines = report.lines(replay)
    assert lines == [
        'step 7, from run/model.ckpt-5: loss 1.5, equal to the events bit for bit (1 recorded '
        'step compared)',
        '  loss nan alone: q (x.tfrecord:1)',
        '  loss 3 alone: p (x.tfrecord:0)',
        '  gradient norm 5: body 4, head 3',
    ]
    report.write(replay, Line(), str(tmp_path / 'new'))
    values = json.loads((tmp_path / 'new' / report.JSON_FILE).read_text())
    assert values['is_exact'] and values['losses'] == {'loss': 1.5, 'Loss/a': 0.5}
    assert values['learning_rate'] == 0.1 and values['gradient_norms']['head'] == 3.0
    assert values['examples'][1]['loss'] is None and values['examples'][0]['loss'] == 3.0
    with open(tmp_path / 'new' / report.CSV_FILE, newline='') as file:
        first, _ = csv.DictReader(file)
    assert first['source_id'] == 'p' and first['loss/b'] == '2.0' and first['picture'] == ''
    assert not (tmp_path / 'new' / report.SHEET_FILE).exists()


def test_differences_are_printed():
    replay = create_replay({6: {'train/loss': 0.5, 'learning_rate': 9.0}, 7: {'train/loss': 1.5}})
    expected = {'step': 6, 'name': 'train/loss', 'recorded': 0.5, 'repeated': 0.25}
    assert replay.differences() == [expected]
    lines = report.lines(replay)
    assert 'not all losses of 2 recorded steps are those of the events' in lines[0]
    assert lines[1] == '  step 6 loss: 0.25, in the events 0.5 (difference -0.25)'


def test_nothing_to_compare_and_no_losses_of_single_examples():
    lines = report.lines(create_replay({}, losses=({}, {})))
    assert lines[0].endswith('loss 1.5, which the events do not have: nothing to compare')
    assert 'defines no losses of single examples' in lines[1]
