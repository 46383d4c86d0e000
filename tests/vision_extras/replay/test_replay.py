"""Steps of a run on a line, replayed: every number is known by hand."""

import csv
import json
import os

import numpy as np
import pytest

from estimator_lib import errors
from estimator_lib.analysis import files
from tests.vision_extras.replay import wrong_label_run as case
from vision_extras.replay import replay, report, spikes

STEP = 17  # the first record of its batch has the wrong label, in the second epoch


def content_of(model_dir):
    """Names and sizes of the files of a run, without those of replays."""
    return {entry.name: entry.stat().st_size for entry in os.scandir(model_dir) if entry.is_file()}


@pytest.fixture(scope='module')
def lines(run):
    before = content_of(run.model_dir)
    lines = replay.replay(run, STEP)
    assert content_of(run.model_dir) == before
    assert not [name for name in os.listdir(f'{run.model_dir}/replay') if 'repeated' in name]
    return lines


@pytest.fixture
def values(run, lines):
    with open(os.path.join(run.model_dir, 'replay', str(STEP), report.JSON_FILE)) as file:
        return json.load(file)


def test_losses_are_those_of_the_events_bit_for_bit(run, lines, values):
    assert 'equal to the events bit for bit (7 recorded steps compared)' in lines[0]
    assert values['is_exact'] and not values['differences']
    assert values['compared_steps'] == list(range(11, STEP + 1))
    assert values['checkpoint'] == 'model.ckpt-10'
    assert values['losses']['loss'] == run.recorded[STEP]['train/loss']
    assert values['learning_rate'] == pytest.approx(case.RATE)


def test_the_batch_has_places_and_losses_of_its_examples(run, values):
    slope, records = case.by_hand(STEP)[-1]
    assert records == [8, 9]
    assert values['losses']['loss'] == pytest.approx(case.loss_of(slope, records), rel=1e-5)
    folder = os.path.join(run.model_dir, 'replay', str(STEP))
    with open(os.path.join(folder, report.CSV_FILE), newline='') as file:
        rows = list(csv.DictReader(file))
    assert [int(row['record']) for row in rows] == records
    data = os.path.join(os.path.dirname(run.model_dir), 'points.tfrecord')
    assert {row['file'] for row in rows} == {data}
    expected = np.square(case.errors_of(slope, records))
    np.testing.assert_allclose([float(row['loss']) for row in rows], expected, rtol=1e-5)
    assert [row['source_id'] for row in rows] == ['1.080000', '1.090000']
    assert all(os.path.exists(os.path.join(folder, row['picture'])) for row in rows)
    assert values['examples'][0]['loss/squared'] == pytest.approx(expected[0], rel=1e-5)


def test_spikes_list_the_wrong_label_first(run):
    folder = files.analysis_folder(run.model_dir, '30')
    os.makedirs(folder)
    with open(os.path.join(folder, files.ERRORS_FILE), 'w') as file:
        file.write('image,file\n1.080000,a\n1.080000,a\n1.010000,a\n')
    lines = replay.replay_spikes(run)
    # Three epochs of 12 steps begin in 32 steps; the fifth batch of each has the record.
    assert lines[0] == '3 unusual of 32 recorded steps'
    assert sum('equal to the events bit for bit' in line for line in lines) == 3
    with open(os.path.join(run.model_dir, 'replay', spikes.CSV_FILE), newline='') as file:
        rows = list(csv.DictReader(file))
    assert sorted({int(row['step']) for row in rows}) == [5, 17, 29]
    for row in rows[::2]:
        assert row['source_id'] == '1.080000' and int(row['record']) == case.WRONG
        assert float(row['loss']) > 2000 and int(row['errors']) == 2
    assert any('2 lines in errors.csv' in line for line in lines)


def test_a_step_that_cannot_be_repeated_does_not_hide_the_others(run, monkeypatch):
    def refuse(run, step):
        raise errors.UserError(f'--step={step}: the machines changed.')

    monkeypatch.setattr(replay, 'replay_step', refuse)
    lines = replay.replay_spikes(run)
    refused = [line for line in lines if 'not replayed' in line]
    expected = {f'  not replayed: --step={step}: the machines changed.' for step in (5, 17, 29)}
    assert set(refused) == expected

    def miss(run, step):
        raise errors.DataError('the data has changed')

    monkeypatch.setattr(replay, 'replay_step', miss)
    with pytest.raises(errors.DataError):
        replay.replay_spikes(run)


def test_too_few_steps_in_the_events(run, tmp_path):
    with pytest.raises(errors.UserError, match='losses of 0 steps; expected more than 3'):
        replay.replay_spikes(case.read(tmp_path, run.config))
