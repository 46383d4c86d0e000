"""Evaluations that follow each other in one graph and session, beside the Estimator's own."""

import gc

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors, training
from estimator_lib.checkpoints import checkpoint_files
from estimator_lib.evaluation import evaluating, evaluation_session, evaluators
from estimator_lib.graphs import evaluation
from tests.estimator_lib import line_task
from tests.estimator_lib.line_task import Line
from tests.estimator_lib.tiny_task import Presented


class Drawn(Presented, Line):
    """Draws a picture as bright as the point's x."""

    graphs = 0

    def predict(self, features, mode, labels=None):
        Drawn.graphs += 1
        return super().predict(features, mode, labels)

    def draw(self, features, outputs, labels=None, shown=None):
        return np.full([2, 2, 3], int(features['image'][0, 0, 0]), np.uint8)


@pytest.fixture(scope='module', name='run')
def _run(tmp_path_factory):
    """A config with moving averages and pictures, and the folder of its checkpoints 2, 4 and 6."""
    folder = tmp_path_factory.mktemp('run')
    config = line_task.create_config(folder)
    config.train_config.optimizer.use_moving_average = True
    config.train_config.optimizer.moving_average_decay = 0.5
    config.train_config.checkpoints.keep_max = 0
    config.eval_config.use_moving_averages = True
    config.eval_config.num_visualizations = 2
    training.train_and_evaluate(Line(), config, str(folder / 'run'), evaluate=False)
    return config, folder / 'run'


def _average_after(steps):
    """The average of the slope, by hand."""
    average = 0.0
    for step in range(1, steps + 1):
        average += 0.5 * (line_task.slope_after(step) - average)
    return average


def test_each_checkpoint_gets_the_numbers_of_a_fresh_graph(run, tmp_path):
    config, folder = run
    estimator = training.create_estimator(Drawn(), config, str(tmp_path))
    input_fn = evaluators.evaluation_sets(Drawn(), config)[0].input_fn
    build = evaluation.create_evaluation_fn(Drawn(), config)
    kept = evaluation_session.EvaluationSession(build, input_fn, estimator.config)
    for step in (4, 2, 6, 2):
        path = str(folder / f'model.ckpt-{step}')
        values = kept.evaluate(path)
        expected = estimator.evaluate(input_fn, checkpoint_path=path)
        # `tf.estimator` averages over batches, which hold three points and one.
        expected['loss'] = values['loss']
        assert values == expected
        slope = _average_after(step)
        assert values['error'] == pytest.approx(2.5 * abs(slope - 3.0), rel=1e-4)
        squared = np.mean((slope - 3.0) ** 2 * np.array([1.0, 4.0, 9.0, 16.0]))
        assert values['loss'] == values['Loss/total_loss'] == pytest.approx(squared, rel=1e-4)
        assert values['global_step'] == step


def test_an_evaluator_builds_one_graph_for_each_set_and_draws_each_time(run, tmp_path):
    config, folder = run
    Drawn.graphs = 0
    estimator = training.create_estimator(Drawn(), config, str(tmp_path))
    sets = evaluators.evaluation_sets(Drawn(), config)
    evaluator = evaluating.Evaluator(Drawn(), config, estimator, sets)
    for step in (2, 4, 6):
        evaluator.evaluate(str(folder / f'model.ckpt-{step}'))
    assert Drawn.graphs == 2  # the sets '0' and 'again'
    (path,) = (tmp_path / 'eval_again').glob('events*')
    drawn, errors_written = [], []
    for event in tf.compat.v1.train.summary_iterator(str(path)):
        for value in event.summary.value:
            if value.tag == 'error':
                errors_written.append(event.step)
            if value.HasField('image'):
                pixel = tf.io.decode_png(value.image.encoded_image_string)[0, 0, 0]
                drawn.append((event.step, value.tag, int(pixel)))
    assert errors_written == [2, 4, 6]
    names = ('examples/0', 1), ('examples/1', 2)
    assert drawn == [(step, *name) for step in (2, 4, 6) for name in names]


def test_nothing_grows_over_twenty_evaluations(run, tmp_path, request):
    config, folder = run
    estimator = training.create_estimator(Drawn(), config, str(tmp_path))
    input_fn = evaluators.evaluation_sets(Drawn(), config)[0].input_fn
    build = evaluation.create_evaluation_fn(Drawn(), config)
    kept = evaluation_session.EvaluationSession(build, input_fn, estimator.config)
    graph = kept._session.graph
    # Only objects of these evaluations are counted and collected, not those of other tests.
    gc.freeze()
    request.addfinalizer(gc.unfreeze)
    objects = []
    for _ in range(20):
        kept.evaluate(str(folder / 'model.ckpt-2'))
        gc.collect()
        objects.append(len(gc.get_objects()))
    assert graph.finalized
    assert abs(objects[-1] - objects[4]) < 100


def test_after_an_error_the_next_evaluation_begins_anew(run, tmp_path):
    config, folder = run
    changed = type(config)()
    changed.CopyFrom(config)
    del changed.eval_input_reader[1:]
    records = tmp_path / 'points.tfrecord'
    changed.eval_input_reader[0].tf_record_input_reader.input_path[:] = [str(records)]
    line_task.write_points(records)
    whole = records.read_bytes()
    estimator = training.create_estimator(Line(), changed, str(tmp_path))
    sets = evaluators.evaluation_sets(Line(), changed)
    evaluator = evaluating.Evaluator(Line(), changed, estimator, sets)
    evaluator.evaluate(str(folder / 'model.ckpt-2'))
    records.write_bytes(whole[:-3])
    with pytest.raises(errors.DataError, match='points.tfrecord'):
        evaluator.evaluate(str(folder / 'model.ckpt-4'))
    records.write_bytes(whole)
    evaluator.evaluate(checkpoint_files.resolve_checkpoint(str(folder)))
    error = 2.5 * abs(_average_after(6) - 3.0)
    assert evaluator.last_metrics['0']['error'] == pytest.approx(error, rel=1e-4)
