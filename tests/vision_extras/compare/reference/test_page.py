"""The page of a comparison."""

import numpy as np

from tests.vision_extras.compare.reference.test_differences import METRICS, side
from vision_extras.compare.reference import differences, page


def compared(**changes):
    sides = side(), side(**changes)
    stages = differences.list_stages(*sides, METRICS)
    about = {'package': 'models/research/<a>', 'tensorflow': '1.15.5', 'python': '3.6.9'}
    return page.Compared(*sides, METRICS, stages, about, ['Dropout is off.'])


def test_the_page_has_both_sides(tmp_path):
    path = page.write(compared(losses=np.array([0, 0.5, 0.25])), str(tmp_path), 'my.config')
    text = (tmp_path / page.PAGE).read_text()
    assert path == str(tmp_path / page.PAGE)
    for title in ('Summary', 'Losses', 'Gradients of step 1', 'Detections', 'Metrics'):
        assert f'>{title}</' in text, title
    for shown in ('6.5', '-0.25', 'models/research/&lt;a&gt;', '1.15.5', 'Dropout is off.'):
        assert shown in text, shown


def test_lines_say_where_a_difference_begins():
    lines = page.lines(compared(losses=np.array([0, 0.5, 0.25])))
    assert '  losses of later steps: 0.0769 (total_loss)' in lines  # 0.5 of 6.5
    assert lines[-1] == (
        'the difference begins with the losses of later steps: total_loss (total loss: from step 2)'
    )
    assert page.lines(compared())[-1] == 'both sides agree: no difference is above 0.001'


def test_without_training_there_are_no_losses(tmp_path):
    sides = [{name: side()[name] for name in ('variables', 'detections')} for _ in range(2)]
    stages = differences.list_stages(*sides, METRICS)
    about = dict.fromkeys(('package', 'tensorflow', 'python'), '')
    page.write(page.Compared(*sides, METRICS, stages, about, []), str(tmp_path), 'my.config')
    assert '>Losses</' not in (tmp_path / page.PAGE).read_text()
