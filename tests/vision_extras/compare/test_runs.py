"""Runs that are read to be compared, and those that cannot be."""

import numpy as np
import pytest

from estimator_lib import errors
from tests.estimator_lib.run_records.test_training_events import event, write
from tests.vision_extras.compare import fake_runs
from vision_extras.compare import runs


def read(*folders, tasks=None):
    count = len(folders)
    tasks = tasks or [fake_runs.Task()] * count
    return runs.read_runs([str(each) for each in folders], [fake_runs.config()] * count, tasks)


@pytest.fixture(name='first')
def _first(tmp_path):
    fake_runs.write_metrics(tmp_path / 'a', 0.5)
    return tmp_path / 'a'


def test_metrics_are_those_of_the_last_evaluation(first, tmp_path):
    fake_runs.write_results(first, [0.25, 0.5])
    fake_runs.write_results(tmp_path / 'b', [0.75, 1.0, float('nan')])
    one, two = read(first, tmp_path / 'b')
    assert (one.name, one.step, one.metrics['0']['accuracy']) == ('a', 10, 0.5)
    assert one.table.curve('eval_0/accuracy') == ([10, 20], [0.25, 0.5])
    # Without metrics.json; the last line of the table has no metric.
    assert (two.name, two.step, two.metrics) == ('b', 20, {'0': {'accuracy': 1.0}})


def test_curves_have_all_reported_steps_of_training(first, tmp_path):
    fake_runs.write_results(first, [0.25, 0.5])
    fake_runs.write_metrics(tmp_path / 'b', 0.5)
    write(first, 1, *(event(step, loss=float(step)) for step in (1, 2, 3)))
    one, two = read(first, tmp_path / 'b')
    assert one.curve('train/loss') == ([1, 2, 3], [1.0, 2.0, 3.0])
    assert one.curve('eval_0/accuracy') == ([10, 20], [0.25, 0.5])
    assert two.curve('train/loss') == ([], [])


def test_a_run_that_has_not_finished_is_compared_with_a_warning(first, tmp_path, caplog):
    fake_runs.write_metrics(tmp_path / 'b', 0.5)
    entry = '{"number": 1, "status": "%s", "process_id": 7, "host": "a", "started": "2026"}'
    for folder, status in ((first, 'finished'), (tmp_path / 'b', 'killed')):
        (folder / 'run.json').write_text(f'{{"starts": [{entry % status}]}}')
    read(first, tmp_path / 'b')
    assert caplog.messages == [
        f'{tmp_path / "b"}: its last start (process 7 on host a, since 2026) was killed, or its '
        'machine has failed'
    ]


def test_names_are_as_long_as_needed():
    assert runs.short_names(['runs/a', 'runs/b/']) == ['a', 'b']
    assert runs.short_names(['x/1/run', 'x/2/run', 'y/1/other']) == ['1/run', '2/run', '1/other']
    assert runs.short_names(['run', 'x/run']) == ['run', 'x/run']


def test_examples_are_of_the_evaluated_step_and_set(first, tmp_path):
    fake_runs.write_metrics(tmp_path / 'b', 0.5, sets=('0', 'far'))
    fake_runs.write_examples(tmp_path / 'b', [1, 0])
    fake_runs.write_examples(tmp_path / 'b', [1, 1, 1], name='10_far')
    fake_runs.write_examples(first, [1], name='9')
    one, two = read(first, tmp_path / 'b')
    assert one.resampler('0') is None
    for set_name, count, accuracy in (('0', 2, 0.5), ('far', 3, 1.0)):
        names, resample = two.resampler(set_name)
        assert len(names) == count
        assert resample(np.ones(count)) == {'accuracy': accuracy}
    two.task.analysis = None
    assert two.resampler('0') is None


@pytest.mark.parametrize('is_there', [True, False])
def test_a_run_without_evaluations_is_refused(first, tmp_path, is_there):
    if is_there:
        (tmp_path / 'b').mkdir()
        (tmp_path / 'b' / 'results.csv').write_text('step,eval_0/accuracy\n10,\n')
    with pytest.raises(errors.UserError) as caught:
        read(first, tmp_path / 'b')
    reason = '' if is_there else ': there is no such folder'
    assert str(caught.value) == (
        f'{tmp_path}/b has no evaluation{reason}; expected metrics.json or results.csv in it, '
        f'which --mode=evaluate --model_dir={tmp_path}/b writes.'
    )


def test_runs_of_other_classes_are_refused(first, tmp_path):
    fake_runs.write_metrics(tmp_path / 'b', 0.5)
    tasks = [fake_runs.Task(), fake_runs.Task(('cat', 'horse'))]
    with pytest.raises(errors.UserError) as caught:
        read(first, tmp_path / 'b', tasks=tasks)
    assert str(caught.value) == (
        f'{first} has the classes cat, dog, and {tmp_path}/b has cat, horse; expected runs with '
        'the same classes in the same order.'
    )


def test_runs_of_other_tasks_are_refused(first, tmp_path):
    fake_runs.write_metrics(tmp_path / 'b', 0.5)
    other = fake_runs.Task()
    other.name = 'other'
    with pytest.raises(errors.UserError, match='a is a run of fake, and .*b one of other'):
        read(first, tmp_path / 'b', tasks=[fake_runs.Task(), other])


def test_runs_without_a_common_set_are_refused(first, tmp_path):
    fake_runs.write_metrics(tmp_path / 'b', 0.5, sets=('far', 'near'))
    with pytest.raises(errors.UserError, match='on 0, and .*b on far, near; expected an eval'):
        read(first, tmp_path / 'b')
