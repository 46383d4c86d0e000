"""Predictions over time as files: few of them, evenly over the run."""

import numpy as np
import pytest

from estimator_lib.drawing import sheets

PICTURES = [np.full([4, 4, 3], value, np.uint8) for value in range(8)]


@pytest.mark.parametrize(
    ('steps', 'removed'),
    [
        ([], []),
        ([5, 1, 3], []),
        ([1, 2, 3, 9], [2]),  # 3 - 1 is less than 9 - 2
        ([10, 20, 30, 40, 50], [20, 40]),  # after 20, 50 - 30 is less than 40 - 10
    ],
)
def test_the_steps_that_go_by_hand(steps, removed):
    assert sheets.thin(steps, 3) == removed


def test_a_long_run_keeps_few_sheets_from_its_start_to_its_end(tmp_path):
    for step in range(100, 4100, 100):
        sheets.write(str(tmp_path), step, PICTURES)
    steps = sorted(int(path.stem) for path in tmp_path.iterdir())
    assert len(steps) == 12 and steps[0] == 100 and steps[-1] == 4000
    assert max(np.diff(steps)) <= 4 * 4000 / 12


def test_a_sheet_twice_and_files_of_others(tmp_path):
    sheets.write(str(tmp_path), 50, PICTURES)
    (tmp_path / 'mine.txt').write_text('')
    sheets.write(str(tmp_path), 20, PICTURES)
    sheets.write(str(tmp_path), 20, PICTURES)
    assert sorted(path.name for path in tmp_path.iterdir()) == ['20.png', '50.png', 'mine.txt']
    sheets.write(str(tmp_path / 'none'), 20, [])
    assert not (tmp_path / 'none').exists()


def test_a_failure_is_a_warning(tmp_path, caplog):
    (tmp_path / 'file').write_text('')
    sheets.write(str(tmp_path / 'file'), 20, PICTURES)
    assert 'cannot be drawn' in caplog.text
