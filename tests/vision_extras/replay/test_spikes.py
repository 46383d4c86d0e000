"""Unusual steps of series by hand."""

import math

import pytest

from estimator_lib.analysis import files
from estimator_lib.run_records.training_events import GRADIENT_NORM
from vision_extras.replay import spikes
from vision_extras.replay.report import TOTAL


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


def test_errors_of_the_newest_analysis_of_each_set(tmp_path):
    """Step 1000 is after step 900, and a file has no step."""
    analyses = {'900': 'aab', '1000': 'acé', '900_night': 'd', '1000_night': 'dd', 'model': 'aaaa'}
    for name, images in analyses.items():
        folder = tmp_path / files.FOLDER / name
        folder.mkdir(parents=True)
        text = ''.join(f'{image},x\n' for image in ['image', *images])
        (folder / files.ERRORS_FILE).write_text(text, encoding='utf-8')
    assert spikes.count_errors(str(tmp_path)) == {'a': 1, 'c': 1, 'é': 1, 'd': 2}
