"""results.csv through restarts, kills and files of others."""

import csv
import datetime
import logging
import math
import threading
import time

import pytest
import tensorflow as tf

from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.errors import UserError
from estimator_lib.run_records import results
from estimator_lib.run_records.results import Results
from tests.estimator_lib.run_records.test_training_events import event, write


def lines(folder, *columns):
    """The cells of all lines."""
    with open(folder / 'results.csv', newline='') as file:
        return [tuple(row[column] for column in columns) for row in csv.DictReader(file)]


def add(folder, step, **metrics):
    """Add the line of an evaluation on the set `val`, as a process that starts for it."""
    Results(str(folder)).add(str(folder / f'model.ckpt-{step}'), step, {'val': metrics})


def test_a_line_has_what_training_recorded_since_the_line_before(tmp_path):
    write(
        tmp_path,
        1,
        *(event(step, loss=float(step), learning_rate=step / 4) for step in range(1, 7)),
    )
    add(tmp_path, 2, a=0.5)
    add(tmp_path, 6, a=0.75)
    assert lines(tmp_path, 'step', 'train/loss', 'learning_rate', 'eval_val/a') == [
        ('2', '1.5', '0.5', '0.5'),
        ('6', '4.5', '1.5', '0.75'),
    ]
    for (text,) in lines(tmp_path, 'time'):
        at = datetime.datetime.strptime(text, '%Y-%m-%dT%H:%M:%SZ')
        seconds = time.time() - at.replace(tzinfo=datetime.timezone.utc).timestamp()
        assert -2 < seconds < 600


def test_events_beside_the_checkpoint_come_first(tmp_path):
    """The evaluation of another folder's checkpoint, and of a copy in a folder without events."""
    own, other, copies = tmp_path / 'own', tmp_path / 'other', tmp_path / 'own' / 'best'
    for folder, loss in ((own, 1.0), (other, 2.0), (copies, None)):
        folder.mkdir()
        if loss is not None:
            write(folder, 1, event(3, loss=loss))
    for folder, loss in ((own, '1.0'), (other, '2.0'), (copies, '1.0')):
        Results(str(own)).add(str(folder / 'model.ckpt-3'), 3, {})
        assert lines(own, 'train/loss') == [(loss,)]


def test_an_evaluation_that_is_repeated_replaces_its_line(tmp_path):
    for step, value in ((10, 0.1), (30, 0.3), (20, 0.2), (30, 0.4)):
        add(tmp_path, step, a=value)
    assert lines(tmp_path, 'step', 'eval_val/a') == [('10', '0.1'), ('20', '0.2'), ('30', '0.4')]


def test_several_sets_and_metrics_that_come_later(tmp_path):
    add(tmp_path, 1, a=0.5)
    both = {'val': {'a': 0.25, 'b': math.nan}, 'far': {'a': math.inf}}
    Results(str(tmp_path)).add('model.ckpt-2', 2, both)
    assert lines(tmp_path, 'step', 'eval_val/a', 'eval_val/b', 'eval_far/a') == [
        ('1', '0.5', '', ''),
        ('2', '0.25', 'nan', 'inf'),
    ]


@pytest.mark.parametrize('moment', ['before', 'after'])
def test_a_kill_at_any_time_leaves_the_old_table_or_the_new_one(tmp_path, monkeypatch, moment):
    """Every write of the file ends with a rename; the process is killed around it."""
    add(tmp_path, 1, a=0.1)
    rename = tf.io.gfile.rename

    def killed(*arguments, **options):
        if moment == 'after':
            rename(*arguments, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_files.tf.io.gfile, 'rename', killed)
        with pytest.raises(KeyboardInterrupt):
            add(tmp_path, 2, a=0.2)
    expected = [('1', '0.1'), ('2', '0.2')]
    assert lines(tmp_path, 'step', 'eval_val/a') == expected[: 1 if moment == 'before' else 2]
    add(tmp_path, 2, a=0.2)  # the next start makes the interrupted evaluation again
    assert lines(tmp_path, 'step', 'eval_val/a') == expected


def test_two_evaluations_at_the_same_moment_leave_two_lines(tmp_path, monkeypatch):
    read = results.results_table.read

    def read_slowly(path):
        table = read(path)
        time.sleep(0.05)  # the other one could read the same table now
        return table

    monkeypatch.setattr(results.results_table, 'read', read_slowly)
    threads = [threading.Thread(target=add, args=(tmp_path, step)) for step in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lines(tmp_path, 'step') == [('1',), ('2',)]


def test_a_malformed_file_is_kept_and_a_new_table_begins(tmp_path, caplog):
    (tmp_path / 'results.csv').write_text('step,a\n1\n')
    (tmp_path / 'results.1.csv').write_text('an older one')
    caplog.set_level(logging.WARNING, logger='estimator_lib')
    Results(str(tmp_path)).forget_after(5)
    add(tmp_path, 7, a=0.5)
    assert lines(tmp_path, 'step', 'eval_val/a') == [('7', '0.5')]
    assert (tmp_path / 'results.1.csv').read_text() == 'an older one'
    assert (tmp_path / 'results.2.csv').read_text() == 'step,a\n1\n'
    (said,) = caplog.messages
    assert said == (
        f'{tmp_path}/results.csv, line 2: it has 1 cells; expected 2. '
        f'The file is {tmp_path}/results.2.csv now, and a new one begins.'
    )


def test_a_folder_of_this_name_is_an_error(tmp_path):
    (tmp_path / 'results.csv').mkdir()
    with pytest.raises(UserError, match='results.csv'):
        add(tmp_path, 1, a=0.5)


def test_steps_of_an_earlier_run_go_to_a_copy(tmp_path):
    for step in (10, 20, 30):
        add(tmp_path, step, a=step / 100)
    whole = (tmp_path / 'results.csv').read_text()
    Results(str(tmp_path)).forget_after(20)
    assert lines(tmp_path, 'step') == [('10',), ('20',)]
    assert (tmp_path / 'results.1.csv').read_text() == whole
    Results(str(tmp_path)).forget_after(20)
    assert not (tmp_path / 'results.2.csv').exists()


def test_a_drawing_that_fails_is_a_warning(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(results.curves, 'draw', lambda *_: 1 / 0)
    Results(str(tmp_path)).draw()
    assert f'{tmp_path}/results.png: it cannot be drawn: ZeroDivisionError' in caplog.text


def test_curves_are_drawn_once_a_minute(tmp_path, monkeypatch):
    now, drawn = [0.0], []
    monkeypatch.setattr(results.time, 'monotonic', lambda: now[0])
    monkeypatch.setattr(results.curves, 'draw', lambda table, *_: drawn.append(now[0]))
    of_run = Results(str(tmp_path))
    for now[0] in (1.0, 59.0, 60.0, 119.0, 121.0):
        of_run.draw_if_due()
    of_run.draw()
    assert drawn == [60.0, 121.0, 121.0]


def test_epochs_where_the_examples_are_counted(tmp_path):
    Results(str(tmp_path), steps_per_epoch=2.5).add(str(tmp_path / 'model.ckpt-4'), 4, {})
    assert lines(tmp_path, 'step', 'epoch') == [('4', '1.6')]
