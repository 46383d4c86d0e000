"""Steps that are repeated in a folder that is deleted afterwards."""

import os
import pathlib

import pytest

from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.cluster import run_lock
from tests.vision_extras.replay import wrong_label_run as case
from vision_extras.replay import repeating


def test_the_state_before_a_step(run):
    with repeating.state_before(run, 13) as (checkpoint, start, repeated):
        slope = checkpoint_files.open_checkpoint(checkpoint).get_tensor('slope')
        assert slope == pytest.approx(case.by_hand(13)[-1][0], rel=1e-5)
        assert start.endswith('model.ckpt-10')
        for step in (11, 12, 13):
            assert repeated[step]['train/loss'] == run.recorded[step]['train/loss']
        folder = os.path.dirname(checkpoint)
    assert not os.path.exists(folder)


def test_what_a_killed_replay_has_left_is_removed(run):
    """A replay that still runs holds the lock of its folder."""
    killed, running = (pathlib.Path(run.model_dir, 'replay', f'repeated-{i}') for i in range(2))
    for folder in (killed, running):
        folder.mkdir(parents=True)
    with run_lock.held(str(running)), repeating.state_before(run, 12):
        assert not killed.exists() and running.exists()
    running.rmdir()


def test_a_loss_that_is_not_finite_is_repeated_too(tmp_path, monkeypatch):
    monkeypatch.setattr(case, 'LABEL', 1e30)
    config = case.create_config(tmp_path)
    config.train_config.checkpoints.save_every_n_steps = 2
    with pytest.raises(repeating.non_finite.NonFiniteLossError, match='step 5'):
        case.training.train_and_evaluate(
            case.MislabeledLine(), config, str(tmp_path / 'run'), evaluate=False
        )
    run = case.read(tmp_path, config)
    with repeating.state_before(run, 5) as (_, _, repeated):
        assert repeated[5]['train/loss'] == float('inf')
        assert run.recorded[5]['train/loss'] == float('inf')
