"""Evaluations of a toy task whose numbers are known."""

import csv
import json

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors, training
from estimator_lib.checkpoints import checkpoint_files, evaluated
from estimator_lib.evaluation import evaluating, evaluators
from tests.estimator_lib import line_task
from tests.estimator_lib.analysis.analyzed_line import AnalyzedLine
from tests.estimator_lib.line_task import Line


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    """A config, and the folder of a run of two steps."""
    folder = tmp_path_factory.mktemp('trained')
    config = line_task.create_config(folder)
    config.train_config.num_steps = 2
    training.train_and_evaluate(Line(), config, str(folder / 'run'), evaluate=False)
    return config, folder / 'run'


class Exporter:
    """Notes what it is told."""

    def __init__(self):
        self.told = []

    def export(self, *arguments):
        self.told.append(arguments)


class Stopping:
    def update(self, step, metrics):
        return step == 2 and metrics['error'] > 0


def test_all_sets_are_evaluated_once_and_what_follows_goes_by_the_first(trained, tmp_path):
    config, run = trained
    estimator = training.create_estimator(Line(), config, str(tmp_path))
    sets = evaluators.evaluation_sets(Line(), config)
    exporter = Exporter()
    evaluator = evaluating.Evaluator(Line(), config, estimator, sets, [exporter], Stopping())
    checkpoint = checkpoint_files.latest_checkpoint(str(run))
    assert evaluator.evaluate(checkpoint)
    metrics = evaluator.last_metrics
    assert list(metrics) == ['0', 'again'] and metrics['0'] == metrics['again']
    assert metrics['0']['error'] == pytest.approx(line_task.error_after(2), rel=1e-4)
    # The same checkpoint again is not another evaluation.
    evaluator._evaluate_set = None
    assert evaluator.evaluate(checkpoint, is_final=True)
    told = (2, checkpoint, metrics['0'])
    assert exporter.told == [(*told, False), (*told, True)]
    written = json.loads((tmp_path / evaluated.METRICS_FILE).read_text())
    assert written == {'global_step': 2, **metrics}
    (events,) = (tmp_path / 'eval_again').glob('events*')
    assert {
        value.tag: value.simple_value
        for event in tf.compat.v1.train.summary_iterator(str(events))
        for value in event.summary.value
    } == pytest.approx({**metrics['0'], 'learning_rate': 0.05})


def test_a_record_that_cannot_be_read_is_named(trained, tmp_path):
    config, run = trained
    path = tmp_path / 'short.tfrecord'
    line_task.write_points(path)
    path.write_bytes(path.read_bytes()[:-3])
    changed = type(config)()
    changed.CopyFrom(config)
    del changed.eval_input_reader[1:]
    changed.eval_input_reader[0].tf_record_input_reader.input_path[:] = [str(path)]
    with pytest.raises(errors.DataError, match='short.tfrecord'):
        training.evaluate(Line(), changed, str(tmp_path), str(run))


class Huge(Line):
    """A task each of whose examples takes 32 EiB.

    For what has no address at all TensorFlow does not wait until others give memory back, which it
    does for ten seconds otherwise.
    """

    def prepare(self, example, mode):
        example, labels = super().prepare(example, mode)
        count = tf.cast(labels['y'] * 0.0, tf.int64) + 2**62
        added = tf.reduce_sum(tf.random.uniform([count], dtype=tf.float64))
        return example, {'y': labels['y'] + tf.cast(added, tf.float32)}


def test_no_record_is_blamed_for_memory_that_runs_out(trained, tmp_path):
    config, run = trained
    with pytest.raises(errors.UserError) as caught:
        training.evaluate(Huge(), config, str(tmp_path), str(run))
    assert not isinstance(caught.value, errors.DataError)
    message = str(caught.value)
    assert message.startswith('out of memory (') and 'shape[4611686018427387904]' in message
    size = config.eval_config.batch_size
    assert f'lower eval_config.batch_size ({size} here) or the size of the images' in message
    with pytest.raises(errors.UserError, match='lower train_config.batch_size'):
        training.train_and_evaluate(Huge(), config, str(tmp_path / 'run'), evaluate=False)


def test_an_error_that_is_about_no_record_stays_as_it_is(trained):
    config, _ = trained
    (one, _) = evaluators.evaluation_sets(Line(), config)
    error = tf.errors.ResourceExhaustedError(None, None, 'No space left on device')
    with pytest.raises(tf.errors.ResourceExhaustedError), evaluating.explained(one.input_fn):
        raise error


def test_finish_metrics_keeps_losses_and_leaves_arrays_to_the_task():
    values = {'error': 1.0, 'loss': 2.0, 'global_step': 5, 'Loss/squared': 3.0, 'table': np.eye(2)}
    assert evaluating.finish_metrics(Line(), values) == {
        'error': 1.0,
        'loss': 2.0,
        'Loss/squared': 3.0,
    }


def create_evaluator(config, folder, analyze_from, task=None):
    task = task or AnalyzedLine()
    estimator = training.create_estimator(task, config, str(folder), trains=False)
    sets = evaluators.evaluation_sets(task, config)
    return evaluating.Evaluator(task, config, estimator, sets, analyze_from=analyze_from)


def analyses(folder):
    return sorted(path.name for path in (folder / 'analysis').glob('*'))


def test_each_set_is_analyzed_from_a_step_on(trained, tmp_path):
    config, run = trained
    create_evaluator(config, tmp_path, 3).evaluate(str(run / 'model.ckpt-2'))
    assert analyses(tmp_path) == []
    create_evaluator(config, tmp_path, 2).evaluate(str(run / 'model.ckpt-2'))
    assert analyses(tmp_path) == ['2', '2_again']
    with open(tmp_path / 'analysis/2/errors.csv', newline='') as file:
        rows = list(csv.DictReader(file))
    assert [row['image'] for row in rows if row['error'] == 'early'] == [
        f'{x:.6f}' for x in (1, 2, 3, 4)
    ]
    places = {(row['image'], row['record'], row['file'].rpartition('/')[2]) for row in rows}
    assert ('3.000000', '2', 'points.tfrecord') in places and len(places) == 4
    # The farthest point is the worst of those with most errors.
    pictures = sorted(path.name for path in (tmp_path / 'analysis/2/worst').iterdir())
    assert pictures == ['001_4.jpg', '002_2.jpg', '003_3.jpg', '004_1.jpg']


def test_the_last_evaluation_is_analyzed_even_if_it_was_made_before(trained, tmp_path):
    config, run = trained
    evaluator = create_evaluator(config, tmp_path, float('inf'))
    evaluator.evaluate(str(run / 'model.ckpt-2'))
    assert analyses(tmp_path) == []
    metrics = evaluator.last_metrics
    evaluator.evaluate(str(run / 'model.ckpt-2'), is_final=True)
    assert analyses(tmp_path) == ['2', '2_again'] and evaluator.last_metrics == metrics
    # And once only.
    evaluator._evaluate_set = None
    evaluator.evaluate(str(run / 'model.ckpt-2'), is_final=True)


def test_a_renamed_checkpoint_has_one_step_in_all_files(trained, tmp_path):
    # Its name says 9, and the variable in it 2.
    config, run = trained
    for file in run.glob('model.ckpt-2.*'):
        (tmp_path / file.name.replace('-2.', '-9.')).write_bytes(file.read_bytes())
    create_evaluator(config, tmp_path, 0).evaluate(str(tmp_path / 'model.ckpt-9'))
    assert analyses(tmp_path) == ['9', '9_again']
    assert json.loads((tmp_path / evaluated.METRICS_FILE).read_text())['global_step'] == 9
    assert '\n9,' in (tmp_path / 'results.csv').read_text()


def test_a_task_without_analysis_is_not_evaluated_again(trained, tmp_path):
    config, run = trained
    evaluator = create_evaluator(config, tmp_path, 0, Line())
    evaluator.evaluate(str(run / 'model.ckpt-2'))
    evaluator._evaluate_set = None
    evaluator.evaluate(str(run / 'model.ckpt-2'), is_final=True)
    assert analyses(tmp_path) == []


@pytest.mark.parametrize('analyze', [True, False])
def test_a_run_is_analyzed_at_its_end_alone(tmp_path, analyze):
    config = line_task.create_config(tmp_path)
    config.eval_config.analyze = analyze
    training.train_and_evaluate(AnalyzedLine(), config, str(tmp_path / 'run'))
    assert analyses(tmp_path / 'run') == (['6', '6_again'] if analyze else [])


def test_a_single_evaluation_is_analyzed_on_request(trained, tmp_path):
    config, run = trained
    training.evaluate(AnalyzedLine(), config, str(tmp_path), str(run))
    assert analyses(tmp_path) == []
    training.evaluate(AnalyzedLine(), config, str(tmp_path), str(run), analyze=True)
    assert analyses(tmp_path) == ['2', '2_again']
