"""Suggestions on the length of a run, by hand-made curves."""

import pytest

from estimator_lib.commands import advice
from estimator_lib.run_records import results
from tests.estimator_lib import line_task
from tests.estimator_lib.line_task import Line

STEPS = [100, 200, 300, 400, 500, 600]


@pytest.mark.parametrize(
    ('values', 'higher', 'begins'),
    [
        ([0.1, 0.3, 0.4, 0.5, 0.52, 0.55], True, 'more steps: mAP still gets better, from 0.5 to'),
        ([0.1, 0.3, 0.4, 0.5, 0.51, 0.51], True, ''),  # a rise by 2 %
        (
            [0.1, 0.3, 0.6, 0.5, 0.52, 0.5],
            True,
            'fewer steps, or more images and augmentation: mAP',
        ),
        ([0.1, 0.3, 0.6, 0.5, 0.52, 0.57], True, ''),  # a fall by 5 %
        (
            [3.0, 2.0, 1.5, 1.4, 1.3, 1.2],
            False,
            'more steps: mAP still gets better, from 1.4 to 1.2',
        ),
        ([3.0, 1.0, 1.5, 1.4, 1.3, 1.2], False, 'fewer steps'),
        ([0.0, 0.0, 0.0, 0.0, 0.0, 0.0], True, ''),
    ],
)
def test_the_trend_decides_about_the_length(values, higher, begins):
    found = advice.advise_on_curve((STEPS, values), 'mAP', higher)
    assert len(found) == bool(begins)
    assert ''.join(found).startswith(begins)


def test_the_best_step_is_named():
    (text,) = advice.advise_on_curve((STEPS, [0.1, 0.6, 0.5, 0.4, 0.3, 0.3]), 'mAP')
    assert text.endswith('mAP was best at step 200 (0.6), and is 0.3 now')


def test_few_evaluations_show_no_trend():
    assert advice.advise_on_curve(([1, 2, 3], [0.1, 0.2, 0.9]), 'mAP') == []
    assert advice.advise_on_curve(([], []), 'mAP') == []
    # All evaluations are late, as those after a restart.
    assert advice.advise_on_curve(([97, 98, 99, 100], [0.1, 0.2, 0.3, 0.4]), 'mAP') == []


def test_a_run_is_read_from_its_table(tmp_path):
    config = line_task.create_config(tmp_path)
    name = Line().metric_names()[0]
    table = results.Results(str(tmp_path))
    for step, value in zip(STEPS, [9.0, 8.0, 7.0, 6.0, 3.0, 2.0]):
        table.add(str(tmp_path / f'model.ckpt-{step}'), step, {'0': {name: value}})
    found = advice.find_advice(Line(), config, str(tmp_path), {'0': {name: 2.0}})
    assert [text.partition(':')[0] for text in found] == ['more steps'], name
    assert advice.find_advice(Line(), config, str(tmp_path), {}) == []
    (tmp_path / 'results.csv').write_text('no table')
    assert advice.find_advice(Line(), config, str(tmp_path), {'0': {name: 2.0}}) == []
