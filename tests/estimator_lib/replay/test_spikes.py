"""Unusual steps: of series by hand, and of a run with a wrong label."""

import csv
import math
import os

import pytest

from estimator_lib import errors
from estimator_lib.analysis import files
from estimator_lib.replay import spikes
from estimator_lib.replay.report import TOTAL
from estimator_lib.run_records.training_events import GRADIENT_NORM
from tests.estimator_lib.replay import wrong_label_run as case


def recorded(values, column=TOTAL):
    return {10 * number: {column: value} for number, value in enumerate(values, start=1)}


# It falls, with a ripple of 0.1.
FALLING = [3.0 / number + 0.1 * (number % 2) for number in range(1, 31)]


def test_a_falling_loss_has_no_spikes():
    assert spikes.find_spikes(recorded(FALLING)) == []


def test_the_largest_step_comes_first():
    values = [*FALLING]
    values[14], values[24] = 6.0, 1.5
    found = spikes.find_spikes(recorded(values))
    assert [spike.step for spike in found] == [150, 250]
    # The medians of the ten values before and after: of the steps 5 to 14 it is the larger one.
    before = sorted(FALLING[4:14])
    assert found[0].usual == pytest.approx((before[4] + before[5]) / 2)
    assert spikes.find_spikes(recorded(values), most=1) == found[:1]


def test_a_value_that_is_not_finite_comes_before_all():
    values = [*FALLING]
    values[10], values[20] = 9.0, math.nan
    first, second = spikes.find_spikes(recorded(values))
    assert (first.step, second.step) == (210, 110)
    assert math.isnan(first.value) and first.score == math.inf


def test_gradients_count_too():
    values = [1.0] * 20
    values[12] = 2.0
    series = recorded([1.0] * 20)
    for step, each in recorded(values, GRADIENT_NORM).items():
        series[step].update(each)
    (spike,) = spikes.find_spikes(series)
    assert (spike.step, spike.column, spike.usual) == (130, GRADIENT_NORM, 1.0)


@pytest.fixture(scope='module')
def run(tmp_path_factory):
    return case.train(tmp_path_factory.mktemp('line'))


def test_the_wrong_label_is_listed_first(run):
    config, model_dir = run
    folder = files.analysis_folder(model_dir, '30')
    os.makedirs(folder)
    with open(os.path.join(folder, files.ERRORS_FILE), 'w') as file:
        file.write('image,file\n1.080000,a\n1.080000,a\n1.010000,a\n')
    lines = spikes.replay_spikes(case.MislabeledLine(), config, model_dir)
    # Three epochs of 12 steps begin in 32 steps; the fifth batch of each has the record.
    assert lines[0] == '3 unusual of 32 recorded steps'
    assert sum('equal to the events bit for bit' in line for line in lines) == 3
    with open(os.path.join(model_dir, 'replay', spikes.CSV_FILE), newline='') as file:
        rows = list(csv.DictReader(file))
    assert sorted({int(row['step']) for row in rows}) == [5, 17, 29]
    for row in rows[::2]:
        assert row['source_id'] == '1.080000' and int(row['record']) == case.WRONG
        assert float(row['loss']) > 2000 and int(row['errors']) == 2
    assert any('2 lines in errors.csv' in line for line in lines)


def test_too_few_steps_in_the_events(run, tmp_path):
    config, _ = run
    with pytest.raises(errors.UserError, match='losses of 0 steps; expected more than 3'):
        spikes.replay_spikes(case.MislabeledLine(), config, str(tmp_path))
