"""The curves of a run as a picture."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from estimator_lib.run_records import curves
from estimator_lib.run_records.results_table import Table


def table(**cells):
    """A table with the cells of steps 10, 20 and 30 by column; `__` in a name is a slash."""
    found = Table()
    for index, step in enumerate((10, 20, 30)):
        row = {name.replace('__', '/'): values[index] for name, values in cells.items()}
        found = found.with_row({'step': str(step), **row})
    return found


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """Draw a table; return the curves by title of the panel and label."""
    panels = {}

    def note(figure, file, **_):
        for axes in figure.axes:
            lines = {
                line.get_label(): (list(line.get_xdata()), list(line.get_ydata()))
                for line in axes.get_lines()
            }
            panels[axes.get_title()] = lines

    monkeypatch.setattr(Figure, 'savefig', note)

    def draw(of_what, metrics, training=None):
        curves.draw(of_what, str(tmp_path / 'a.png'), metrics, training or {})
        return panels

    return draw


def test_losses_and_main_metrics_over_steps(drawn):
    of_run = table(
        learning_rate=('0.1', '0.2', '0.1'),
        train__loss=('3.0', '2.0', 'nan'),
        eval_0__loss=('4.0', '', '1.0'),
        eval_0__Loss__box=('9', '9', '9'),
        eval_0__recall=('0.1', '0.2', '0.3'),
        eval_0__precision=('0.3', '0.4', '0.5'),
        eval_far__recall=('', '', '0.7'),
        eval_far__precision=('', '', 'nan'),
    )
    assert drawn(of_run, ['absent', 'precision', 'recall']) == {
        'losses': {
            'train/loss': ([10, 20], [3.0, 2.0]),
            'eval_0/loss': ([10, 30], [4.0, 1.0]),
        },
        'metrics': {
            'eval_0/precision': ([10, 20, 30], [0.3, 0.4, 0.5]),
            'eval_0/recall': ([10, 20, 30], [0.1, 0.2, 0.3]),
            'eval_far/recall': ([30], [0.7]),
        },
        'learning rate': {'learning_rate': ([10, 20, 30], [0.1, 0.2, 0.1])},
    }


def test_training_has_a_point_at_each_reported_step(drawn):
    of_run = table(train__loss=('3.0', '2.0', '1.0'), learning_rate=('0.1', '0.2', '0.1'))
    training = {'train/loss': ([1, 5, 10], [4.0, 3.5, 3.0]), 'learning_rate': ([], [])}
    found = drawn(of_run, [], training)
    assert found['losses'] == {'train/loss': ([1, 5, 10], [4.0, 3.5, 3.0])}
    assert found['learning rate'] == {'learning_rate': ([10, 20, 30], [0.1, 0.2, 0.1])}


@pytest.mark.parametrize('name', ['$x_$', '$a$ $\\q$', '_x'])
def test_names_are_literal(tmp_path, name):
    curves.draw(table(**{f'eval_0__{name}': ('3', '2', '1')}), str(tmp_path / 'a.png'), [name])
    assert (tmp_path / 'a.png').exists()


def test_a_hundred_classes_do_not_hide_the_main_metrics(drawn):
    names = [f'class_{index}' for index in range(100)]
    of_run = table(**{f'eval_0__{name}': ('0', '1', '0') for name in names})
    assert len(drawn(of_run, names)['metrics']) == 6


def test_the_picture_can_be_opened_and_is_not_blank(tmp_path):
    for name, of_run in (('a.png', table(eval_0__loss=('3', '2', '1'))), ('empty.png', Table())):
        curves.draw(of_run, str(tmp_path / name), ['loss'])
        picture = np.asarray(Image.open(tmp_path / name).convert('L'))
        assert picture.shape == (550, 1500)
        assert 0.001 < np.mean(picture < 128) < 0.2
    assert sorted(path.name for path in tmp_path.iterdir()) == ['a.png', 'empty.png']
