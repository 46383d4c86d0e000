"""Steps of runs of each task, replayed."""

import pathlib

import numpy as np
import pytest

from estimator_lib import config as config_lib
from estimator_lib import training
from model_fns import build_task
from tests.system.test_loops import CASES, LOOPS, Runs
from vision_extras.replay import past_run, replay, report

pytestmark = pytest.mark.usefixtures('shallow_networks')


@pytest.mark.parametrize('name', sorted(CASES))
def test_a_replayed_step_equals_the_run_bit_for_bit(tmp_path, name):
    runs = Runs(tmp_path, name)
    for loop in LOOPS if name == 'classification' else LOOPS[:1]:
        model_dir = runs.whole(loop)
        config = config_lib.load_pipeline_config(f'{model_dir}/pipeline.config')
        run = past_run.read(build_task(config, 'replay'), config, model_dir, training)
        replayed, folder = replay.replay_step(run, 2)
        assert replayed.compared() == [1, 2] and replayed.differences() == []
        losses_alone = [report.total_loss(each) for each in replayed.ranked()]
        assert len(losses_alone) == 4 and min(losses_alone) > 0
        found = replayed.diagnosis.losses
        loss = replayed.repeated[2][report.TOTAL]
        assert found['total_loss'] == pytest.approx(loss, rel=1e-4)
        if name == 'classification':  # a mean over the examples
            total = sum(found[key] for key in run.task.loss_names() if key in found)
            assert np.mean(losses_alone) == pytest.approx(total, rel=1e-4)
        assert pathlib.Path(folder, report.SHEET_FILE).exists()
