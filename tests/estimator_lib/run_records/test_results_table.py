"""The table of evaluations as a file."""

import math

import pytest

from estimator_lib import errors
from estimator_lib.run_records import results, results_table
from estimator_lib.run_records.results_table import Table, format_cell


def row(step, **cells):
    return {'step': str(step), 'time': 'now', **cells}


def test_lines_are_sorted_and_a_step_has_one(tmp_path):
    path = str(tmp_path / 'results.csv')
    table = Table()
    for step, value in ((20, '1.0'), (10, '2.0'), (20, '3.0')):
        table = table.with_row(row(step, **{'eval_0/a': value}))
    results_table.write(path, table)
    assert (tmp_path / 'results.csv').read_text() == (
        'step,time,examples_per_second,learning_rate,eval_0/a\n10,now,,,2.0\n20,now,,,3.0\n'
    )
    assert results_table.read(path) == Table(
        ('step', 'time', 'examples_per_second', 'learning_rate', 'eval_0/a'),
        {
            step: row(step, examples_per_second='', learning_rate='', **{'eval_0/a': value})
            for step, value in ((10, '2.0'), (20, '3.0'))
        },
    )


def test_columns_that_come_later_stand_at_the_end_but_for_those_of_training(tmp_path):
    path = str(tmp_path / 'results.csv')
    table = Table().with_row(row(1, **{'eval_0/b': '1', 'train/loss': '2'}))
    table = table.with_row(row(2, **{'eval_0/a': '3', 'train/a': '4', 'my, notes': '"fine"'}))
    results_table.write(path, table)
    assert (tmp_path / 'results.csv').read_text().splitlines() == [
        'step,time,examples_per_second,learning_rate,train/a,train/loss,eval_0/b,eval_0/a,'
        '"my, notes"',
        '1,now,,,,2,1,,',
        '2,now,,,4,,,3,"""fine"""',
    ]
    again = results_table.read(path).rows
    assert again[2]['my, notes'] == '"fine"' and again[1]['eval_0/a'] == ''


def test_steps_of_a_table():
    table = Table()
    for step in (5, 30, 10):
        table = table.with_row(row(step))
    assert [table.last_step_before(step) for step in (5, 6, 10, 11, 99)] == [0, 5, 5, 10, 30]
    assert sorted(table.cut_after(10).rows) == [5, 10]


@pytest.mark.parametrize('value', [0.1, 1 / 3, 1e-30, -2.0, math.inf, -math.inf])
def test_a_cell_has_all_digits(value):
    assert float(format_cell(value)) == value


def test_a_curve_leaves_out_what_is_no_finite_number():
    table = Table()
    cells = {1: '0.5', 2: format_cell(math.nan), 3: '', 4: 'inf', 5: 'text', 6: '-2'}
    for step, cell in cells.items():
        table = table.with_row(row(step, a=cell))
    assert cells[2] == 'nan'
    assert table.with_row(row(7)).curve('a') == ([1, 6], [0.5, -2.0])


@pytest.mark.parametrize('content', [None, b'', b'\n'])
def test_no_file_and_an_empty_file_are_an_empty_table(tmp_path, content):
    if content is not None:
        (tmp_path / 'results.csv').write_bytes(content)
    assert results_table.read(str(tmp_path / 'results.csv')) == Table()


def test_a_file_that_a_spreadsheet_has_saved_can_be_read(tmp_path):
    (tmp_path / 'results.csv').write_bytes(b'\xef\xbb\xbfstep,eval_0/a\r\n3,0.5\r\n\r\n')
    table = results_table.read(str(tmp_path / 'results.csv'))
    assert table == Table(('step', 'eval_0/a'), {3: {'step': '3', 'eval_0/a': '0.5'}})


@pytest.mark.parametrize(
    ('content', 'message'),
    [
        (
            b'time,a\n1,2\n',
            'line 1: the columns are time, a; expected different names, one of them',
        ),
        (b'step,a,a\n1,2,3\n', 'line 1: the columns are step, a, a'),
        (b'step;a\n1;2\n', 'line 1: the columns are step;a'),
        (b'step,a\n1,2\n3\n', r'line 3: it has 1 cells; expected 2\.'),
        (b'step,a\n1,2\n\nx,2\n', r"line 4: the step is 'x'; expected an integer\."),
        (b'step,a\n-1,2\n', "the step is '-1'"),
        (b'step,a\n' + b'9' * 5000 + b',2\n', "the step is '9{39}; expected an integer"),
        (b'step,a\n1,"2\n', 'is not a CSV file: unexpected end of data'),
        (b'\x89PNG\r\n\xff', 'is not a CSV file'),
    ],
)
def test_a_malformed_table_is_named_in_one_sentence(tmp_path, content, message):
    path = tmp_path / 'results.csv'
    path.write_bytes(content)
    with pytest.raises(errors.DataError, match=message) as caught:
        results_table.read(str(path))
    assert str(path) in str(caught.value) and '\n' not in str(caught.value)


def memories(*values):
    table = Table()
    for index, value in enumerate(values):
        table = table.with_row(row(10 * index, memory_mib=format_cell(value)))
    return table


def test_memory_that_grows_over_20_evaluations_in_a_row_is_a_warning():
    growing = [100.0 + index for index in range(21)]
    said = results.find_growth(memories(300.0, *growing))
    assert 'from 100 MiB at step 10 to 120 MiB at step 210' in said
    assert results.find_growth(memories(*growing[:20])) is None  # 19 times
    assert results.find_growth(memories(*growing, 120.0)) is None
    assert results.find_growth(memories(*growing[:10], 90.0, *growing[10:])) is None  # a restart
    assert results.find_growth(Table()) is None
