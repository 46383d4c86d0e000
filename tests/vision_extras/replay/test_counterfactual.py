"""A run without the record with the wrong label, beside the run with it."""

import json
import os

import numpy as np
import pytest

from estimator_lib import errors
from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.run_records.training_events import TrainingEvents
from tests.vision_extras.replay import wrong_label_run as case
from vision_extras.replay import counterfactual

STEP = 17  # its batch has the record, in the second epoch
NAME = '1.080000'


def losses_in(folder):
    steps = TrainingEvents(folder).read_steps()
    return {step: values['train/loss'] for step, values in steps.items()}


def test_the_spike_is_gone_and_the_run_continues(run):
    lines = counterfactual.continue_without(run, STEP, [NAME], 20)
    folder = lines[0].rpartition(': ')[2]
    losses = losses_in(folder)
    assert sorted(losses) == [17, 18, 19, 20]
    rows = case.by_hand(30, without_from=STEP)
    for step, loss in losses.items():
        assert loss == pytest.approx(case.loss_of(*rows[step - 1]), rel=1e-4)
    before = losses_in(run.model_dir)
    assert before[STEP] > 1000 and losses[STEP] < 20
    with open(os.path.join(folder, counterfactual.JSON_FILE)) as file:
        written = json.load(file)
    first = {'step': STEP, 'with': before[STEP], 'without': losses[STEP]}
    assert written['losses'][0] == first and written['without'] == [NAME]
    assert f'step {STEP}: loss' in lines[1]
    assert checkpoint_files.latest_step(folder) == 20
    assert {'pipeline.config', 'run.json'} <= set(os.listdir(folder))

    # A later end continues the same folder, beyond the next epoch's place of the record.
    assert counterfactual.continue_without(run, STEP, [NAME], 30)[0].endswith(folder)
    losses = losses_in(folder)
    found = [losses[step] for step in range(STEP, 31)]
    expected = [case.loss_of(*row) for row in rows[STEP - 1 :]]
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert checkpoint_files.latest_step(run.model_dir) == case.STEPS


def test_a_place_in_a_file_is_a_name_too(run):
    lines = counterfactual.continue_without(run, STEP, [f'points.tfrecord:{case.WRONG}'], STEP)
    assert losses_in(lines[0].rpartition(': ')[2])[STEP] < 20


@pytest.mark.parametrize(
    'names, until, message',
    [
        (['1.080001'], 20, "no training record has this source id.*; did you mean '1.080000'"),
        (['points.tfrecord:24'], 20, 'has 24 records; expected an index from 0 to 23'),
        ([f'points.tfrecord:{index}' for index in range(24)], 20, 'all 24 records'),
        ([NAME], 16, '--until=16 is before --step=17'),
    ],
)
def test_what_cannot_be_left_out(run, names, until, message):
    with pytest.raises(errors.UserError, match=message):
        counterfactual.continue_without(run, STEP, names, until)
