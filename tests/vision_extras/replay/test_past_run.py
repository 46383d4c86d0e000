"""Runs that are read, and steps that cannot be repeated: one sentence each."""

import json
import os
import shutil

import pytest

from estimator_lib import errors
from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.run_records import run_file
from tests.estimator_lib import line_task
from tests.vision_extras.replay import wrong_label_run as case
from vision_extras.replay import past_run

STEP = 17


def test_the_nearest_checkpoint_before_a_step(run):
    assert run.last_step == case.STEPS and sorted(run.recorded) == list(range(1, 33))
    nearest = {1: 0, 10: 0, 11: 10, 20: 10, 32: 30}
    for step, expected in nearest.items():
        prefix = run.checkpoint_before(step)
        assert os.path.basename(prefix) == f'model.ckpt-{expected}'
        run.check(step, prefix)


def test_a_copied_checkpoint_is_the_latest_one(run, tmp_path):
    past_run.copy_checkpoint(run.checkpoint_before(STEP), str(tmp_path / 'new'))
    assert checkpoint_files.latest_step(str(tmp_path / 'new')) == 10


@pytest.mark.parametrize('step', [0, 33, 5000])
def test_a_step_that_the_run_has_not_made(run, step):
    with pytest.raises(errors.UserError, match=f'--step={step}: .* has made 32 steps; expected'):
        run.checkpoint_before(step)


@pytest.fixture
def copied(run, tmp_path):
    """The config of a copy of the run in `tmp_path`."""
    return case.copy(run, tmp_path)


def refused(folder, config, step=STEP):
    run = case.read(folder, config)
    with pytest.raises(errors.UserError) as caught:
        run.check(step, run.checkpoint_before(step))
    return str(caught.value)


def test_a_pruned_step(copied, tmp_path):
    for path in [*tmp_path.glob('run/model.ckpt-0.*'), *tmp_path.glob('run/model.ckpt-10.*')]:
        path.unlink()
    message = refused(tmp_path, copied, 20)
    assert message.endswith('the earliest one left is of step 20; expected 21 to 32.')


def test_only_the_last_checkpoint_is_left(copied, tmp_path):
    for path in tmp_path.glob('run/model.ckpt-*'):
        if not path.name.startswith('model.ckpt-32.'):
            path.unlink()
    assert refused(tmp_path, copied, 20).endswith('is of step 32; no step can be repeated.')
    assert refused(tmp_path, copied, 40).endswith('has made 32 steps; no step can be repeated.')


def test_a_folder_whose_name_is_a_pattern(copied, tmp_path):
    (tmp_path / 'run').rename(tmp_path / 'run [1]')
    run = past_run.read(case.MislabeledLine(), copied, str(tmp_path / 'run [1]'))
    past_run.copy_checkpoint(run.checkpoint_before(STEP), str(tmp_path / 'new'))
    assert checkpoint_files.latest_step(str(tmp_path / 'new')) == 10


def test_missing_records(copied, tmp_path):
    (tmp_path / 'points.tfrecord').unlink()
    assert 'points.tfrecord' in refused(tmp_path, copied)


def test_changed_data(copied, tmp_path):
    line_task.write_points(tmp_path / 'points.tfrecord', case.POINTS[:20])
    message = refused(tmp_path, copied)
    assert 'the training data has changed since the run: it had 1 files' in message
    assert '24 records' in message and '20 records' in message


def test_unknown_data_and_another_config_are_warnings(copied, tmp_path, caplog):
    copied.train_config.random_seed = 9
    run = case.read(tmp_path, copied)
    run.check(STEP, run.checkpoint_before(STEP))
    assert 'the config is not that of the run at step 17' in caplog.text
    (tmp_path / 'run' / run_file.RUN_FILE).unlink()
    run.check(STEP, run.checkpoint_before(STEP))
    assert 'has no start of this run before step 17' in caplog.text


def test_a_folder_without_checkpoints(copied, tmp_path):
    shutil.rmtree(tmp_path / 'run')
    assert 'has no checkpoint; expected the folder of a run' in refused(tmp_path, copied)


def test_a_task_of_a_cluster(run, monkeypatch):
    monkeypatch.setenv('TF_CONFIG', '{"cluster": {"chief": ["a:1"]}, "task": {"type": "chief"}}')
    with pytest.raises(errors.UserError, match='TF_CONFIG is set'):
        run.check(STEP, run.checkpoint_before(STEP))


def test_the_checkpoint_of_a_cluster_of_an_earlier_version(copied, tmp_path, monkeypatch):
    path = tmp_path / 'run' / run_file.RUN_FILE
    content = json.loads(path.read_text())
    assert content['starts'][0].pop('distribution')['mode'] == 'ONE_DEVICE'
    path.write_text(json.dumps(content))
    names = ['slope', 'input_reader/chief_0/position', 'input_reader/worker_0/position']
    shapes = {name: [] for name in names}
    monkeypatch.setattr(checkpoint_files, 'checkpoint_shapes', lambda prefix: shapes)
    message = refused(tmp_path, copied)
    assert 'of a cluster, whose 2 processes each read their own examples (chief_0, wo' in message
    assert 'run.json does not say in which mode' in message
