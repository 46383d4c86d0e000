"""The page and the lines of a comparison."""

import re

import pytest

from estimator_lib.task_interfaces.analysis import Analysis, Analyzer
from tests.vision_extras.compare import fake_runs
from vision_extras.compare import compare, runs

pytest.importorskip('matplotlib')


@pytest.fixture(name='folder')
def _folder(tmp_path):
    """The runs a and b, whose accuracies are 0.5 and 1, with numbers per image."""
    for name, right in fake_runs.RIGHT.items():
        fake_runs.write_metrics(tmp_path / name, sum(right) / len(right))
        fake_runs.write_results(tmp_path / name, [0.25, sum(right) / len(right)])
        fake_runs.write_examples(tmp_path / name, right)
    return tmp_path


def compared(folder, names=('a', 'b'), configs=None):
    configs = configs or [fake_runs.config(steps=10 * index) for index in range(1, len(names) + 1)]
    paths = [str(folder / name) for name in names]
    found = runs.read_runs(paths, configs, [fake_runs.Task()] * len(names))
    made = compare.compare(found, str(folder / 'out'))
    return [*made.lines, made.page], (folder / 'out' / 'compare.html').read_text()


def tables(page):
    """Rows of cells, by the heading of the table."""
    page = page.replace('<wbr>', '')
    pieces = re.findall(r'<h3>(.*?)</h3>.*?<tbody>(.*?)</tbody>', page, re.DOTALL)
    return {
        title: [re.findall(r'<td[^>]*>(.*?)</td>', row) for row in body.split('</tr>')[:-1]]
        for title, body in pieces
    }


def test_metrics_have_differences_and_intervals(folder):
    lines, page = compared(folder)
    (row,) = tables(page)['Metrics']
    assert row[:4] == ['accuracy', '0.5', '1', '0.5']
    # Two of four images become right: a sample of four has none to four of them.
    assert (float(row[4]), float(row[5])) == (0.0, 1.0)
    assert tables(page)['Classes'] == [['accuracy/cat', '0.25', '0.5', '0.25', '–', '–']]
    assert lines == [
        'evaluation set 0: a (step 10), b (step 10)',
        '  accuracy: 0.5, 1 (+0.5, 95 % +0 to +1)',
        f'comparison: {folder}/out/compare.html',
    ]


def test_the_page_is_the_same_again_and_needs_no_network(folder):
    _, first = compared(folder)
    _, second = compared(folder)
    assert first == second
    assert 'http' not in re.sub(r'xmlns(:\w+)?="http[^"]*"', '', first)


def test_curves_are_of_all_runs(folder):
    _, page = compared(folder)
    assert 'aria-label="eval_0/accuracy"' in page and 'aria-label="train/loss"' in page
    assert page.count('<svg') == 2


def test_fields_that_differ(folder):
    _, page = compared(folder)
    assert tables(page)['Fields that differ'] == [['train_config.num_steps', '10', '20']]
    _, page = compared(folder, configs=[fake_runs.config()] * 2)
    assert 'The configs are equal.' in page


def test_copies_in_the_folders_of_runs_are_no_difference(folder):
    configs = [fake_runs.config() for _ in 'ab']
    for name, config in zip('ab', configs):
        config.train_input_reader.label_map_path = str(folder / name / 'label_map.pbtxt')
    _, page = compared(folder, configs=configs)
    assert 'The configs are equal.' in page


def test_differences_of_configs_by_hand():
    rows = compare.config_differences(
        [{'a': 1.0, 'b.c': True, 'd': 'x'}, {'a': 1.0, 'd': 'y'}, {'a': 1.0, 'd': 'x'}]
    )
    assert rows == [['b.c', 'true', None, None], ['d', 'x', 'y', 'x']]


def test_three_runs_are_compared_with_the_first(folder):
    fake_runs.write_metrics(folder / 'c', 0.25)
    lines, page = compared(folder, ('b', 'a', 'c'))
    (row,) = tables(page)['Metrics']
    assert row[:4] == ['accuracy', '1', '0.5', '-0.5'] and row[6:] == ['0.25', '-0.75', '–', '–']
    note = 'No intervals for c: c has no numbers per image of step 10, which --mode=evaluate'
    assert note in page and any(note in line for line in lines)


def test_other_images_have_no_intervals(folder):
    fake_runs.write_metrics(folder / 'c', 0.25)
    fake_runs.write_examples(folder / 'c', [1, 0, 0, 0], [b'w', b'x', b'y', b'z'])
    lines, page = compared(folder, ('a', 'c'))
    (row,) = tables(page)['Metrics']
    assert row == ['accuracy', '0.5', '0.25', '-0.25', '–', '–']
    assert '  No intervals for c: a was evaluated on other images.' in lines


def test_metrics_of_the_images_that_were_not_reported_are_shown(folder, monkeypatch):
    def renamed(examples):
        resampler = fake_runs.create_resampler(examples)
        return lambda weights: {'precision': resampler(weights)['accuracy']}

    monkeypatch.setattr(fake_runs.Task, 'analysis', Analysis(Analyzer, renamed))
    _, page = compared(folder)
    rows = {row[0]: row[1:] for row in tables(page)['Metrics']}
    assert rows['accuracy'] == ['0.5', '1', '0.5', '–', '–']
    assert rows['precision'][:3] == ['0.5', '1', '0.5'] and rows['precision'][4] != '–'


def test_metrics_that_one_run_lacks_have_dashes(folder):
    fake_runs.write_metrics(folder / 'c', 0.25, extra=0.125)
    lines, page = compared(folder, ('a', 'c'))
    rows = {row[0]: row[1:] for row in tables(page)['Metrics']}
    assert rows['extra'] == ['–', '0.125', '–', '–', '–']
    assert '  extra: -, 0.125' in lines
    lines, page = compared(folder, ('c', 'a', 'b'))
    rows = {row[0]: row[1:] for row in tables(page)['Metrics']}
    assert rows['extra'] == ['0.125', *'––––', *'––––']
    assert '  extra: 0.125, -, -' in lines


def test_each_common_set_has_a_section(folder):
    for name in ('a', 'b'):
        fake_runs.write_metrics(folder / name, 0.5, sets=('0', 'far'))
    _, page = compared(folder)
    assert {'Metrics on 0', 'Metrics on far', 'Classes on far'} <= set(tables(page))
