"""Steps of a run on a line, replayed: every number is known by hand."""

import csv
import dataclasses
import json
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.replay import past_run, replay, report
from tests.estimator_lib import line_task
from tests.estimator_lib.replay import wrong_label_run as case

STEP = 17  # the first record of its batch has the wrong label, in the second epoch


@pytest.fixture(scope='module')
def run(tmp_path_factory):
    return case.train(tmp_path_factory.mktemp('line'))


@pytest.fixture(scope='module')
def lines(run):
    config, model_dir = run
    return replay.replay(case.MislabeledLine(), config, model_dir, STEP)


def content_of(model_dir):
    """Names and sizes of the files of a run, without those of replays."""
    return {entry.name: entry.stat().st_size for entry in os.scandir(model_dir) if entry.is_file()}


@pytest.fixture(scope='module')
def values(run, lines):
    with open(os.path.join(run[1], 'replay', str(STEP), report.JSON_FILE)) as file:
        return json.load(file)


def test_losses_are_those_of_the_events_bit_for_bit(run, lines, values):
    assert 'equal to the events bit for bit (7 recorded steps compared)' in lines[0]
    assert values['is_exact'] and not values['differences']
    assert values['compared_steps'] == list(range(11, STEP + 1))
    assert values['checkpoint'] == 'model.ckpt-10'
    recorded = past_run.read(run[1], run[0]).recorded[STEP]
    assert values['losses']['loss'] == recorded['train/loss']
    assert values['learning_rate'] == pytest.approx(case.RATE)


def test_the_batch_has_places_and_losses_of_its_examples(run, values):
    slope, records = case.by_hand(STEP)[-1]
    assert records == [8, 9]
    assert values['losses']['loss'] == pytest.approx(case.loss_of(slope, records), rel=1e-5)
    with open(os.path.join(run[1], 'replay', str(STEP), report.CSV_FILE), newline='') as file:
        rows = list(csv.DictReader(file))
    assert [int(row['record']) for row in rows] == records
    assert {row['file'] for row in rows} == {
        os.path.join(os.path.dirname(run[1]), 'points.tfrecord')
    }
    expected = np.square(case.errors_of(slope, records))
    np.testing.assert_allclose([float(row['loss']) for row in rows], expected, rtol=1e-5)
    assert [row['source_id'] for row in rows] == ['1.080000', '1.090000']
    for row in rows:
        assert os.path.exists(os.path.join(run[1], 'replay', str(STEP), row['picture']))
    assert values['examples'][0]['loss/squared'] == pytest.approx(expected[0], rel=1e-5)


def test_gradients_and_activations(values):
    slope, records = case.by_hand(STEP)[-1]
    x = np.array([case.POINTS[record] for record in records])
    norm = abs(np.mean(2.0 * case.errors_of(slope, records) * x))
    assert values['gradient_norm'] == pytest.approx(norm, rel=1e-5)
    assert values['gradient_norms'] == {'slope': values['gradient_norm']}
    largest = sorted(values['largest_activations'].values())
    np.testing.assert_allclose(largest, sorted([max(x), slope * max(x)]), rtol=1e-5)


def test_the_folder_of_the_run_does_not_change(run, lines):
    config, model_dir = run
    before = content_of(model_dir)
    lines = replay.replay(case.MislabeledLine(), config, model_dir, 1)
    assert 'bit for bit (1 recorded step compared)' in lines[0]
    assert content_of(model_dir) == before
    assert sorted(os.listdir(os.path.join(model_dir, 'replay'))) == ['1', str(STEP)]


def test_a_difference_is_printed(run, lines):
    config, model_dir = run
    before = past_run.read(model_dir, config)
    recorded = {**before.recorded, 12: {**before.recorded[12], 'train/loss': 0.5}}
    changed = dataclasses.replace(before, recorded=recorded)
    replayed, _ = replay.replay_step(case.MislabeledLine(), changed, 13)
    told = report.lines(replayed)
    assert 'not all losses of 3 recorded steps are those of the events' in told[0]
    loss = before.recorded[12]['train/loss']
    assert told[1].strip().startswith(f'step 12 loss: {loss!r}, in the events 0.5 (difference')


def test_micro_batches_have_means(tmp_path):
    config, model_dir = case.train(tmp_path, accumulate_steps=2, num_steps=6)
    replayed, _ = replay.replay_step(case.MislabeledLine(), past_run.read(model_dir, config), 5)
    slope, records = case.by_hand(5)[-1]
    assert not replayed.differences() and len(replayed.compared()) == 5
    assert replayed.diagnosis.losses['total_loss'] == pytest.approx(
        case.loss_of(slope, records), rel=1e-5
    )
    assert [each.record for each in replayed.ranked()] == [8, 9]


class WholeBatch(case.MislabeledLine):
    """A task with a prediction that has no row for each example."""

    def predict(self, features, mode, labels=None):
        return {**super().predict(features, mode, labels), 'weights': tf.ones([3])}


def test_without_losses_of_single_examples_those_of_the_batch_remain(run):
    config, model_dir = run
    replayed, _ = replay.replay_step(WholeBatch(), past_run.read(model_dir, config), 11)
    assert not replayed.ranked()
    assert [each.record for each in replayed.diagnosis.examples] == [20, 21]
    assert any('defines no losses of single examples' in line for line in report.lines(replayed))


@pytest.mark.parametrize('step', [0, 33, 5000])
def test_a_step_that_the_run_has_not_made(run, step):
    with pytest.raises(errors.UserError, match=f'--step={step}: .* has made 32 steps; expected'):
        replay.replay(case.MislabeledLine(), *run, step)


@pytest.fixture
def copied(run, tmp_path):
    """A copy of the run with data of its own."""
    shutil.copytree(run[1], tmp_path / 'run', ignore=shutil.ignore_patterns('replay'))
    config = case.create_config(tmp_path)
    return config, tmp_path


def refused(copied, step=STEP):
    config, folder = copied
    with pytest.raises(errors.UserError) as caught:
        replay.replay(case.MislabeledLine(), config, str(folder / 'run'), step)
    assert not list(folder.glob('run/replay/repeated*'))
    return str(caught.value)


def test_a_pruned_step(copied):
    for path in copied[1].glob('run/model.ckpt-0.*'):
        path.unlink()
    for path in copied[1].glob('run/model.ckpt-10.*'):
        path.unlink()
    assert refused(copied, 20).endswith('the earliest one left is of step 20; expected 21 to 32.')


def test_missing_records(copied):
    (copied[1] / 'points.tfrecord').unlink()
    assert 'points.tfrecord' in refused(copied)


def test_changed_data(copied):
    line_task.write_points(copied[1] / 'points.tfrecord', case.POINTS[:20])
    message = refused(copied)
    assert 'the training data has changed since the run: it had 1 files' in message
    assert '24 records' in message and '20 records' in message


def test_a_folder_without_checkpoints(copied):
    shutil.rmtree(copied[1] / 'run')
    assert 'has no checkpoint; expected the folder of a run' in refused(copied)


def test_a_task_of_a_cluster(copied, monkeypatch):
    monkeypatch.setenv('TF_CONFIG', '{"cluster": {"chief": ["a:1"]}, "task": {"type": "chief"}}')
    assert 'TF_CONFIG is set' in refused(copied)


def test_the_checkpoint_of_a_cluster(copied, monkeypatch):
    shapes = {'slope': [], 'input_reader/chief_0/position': [2, 3]}
    shapes['input_reader/worker_0/position'] = [2, 3]
    monkeypatch.setattr(past_run.checkpoint_files, 'checkpoint_shapes', lambda prefix: shapes)
    assert 'is of a cluster, whose 2 processes each read their own examples' in refused(copied)
